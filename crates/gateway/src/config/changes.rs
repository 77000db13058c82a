//! What differs between the configuration of a running gateway and another one that it is to have.

use super::types::{
    AddressTranslation, BondedSettings, GatewayConfig, GatewayPath, LocalSite, MeasurementConfig, Plane, RemotePeer,
    RemoteSite, SessionsConfig,
};
use kumade_daemon::config_changes::{list_changes, named_changes, show_option, value_changes};
use kumade_multipath::PathPolicy;
use kumade_units::Rate;
use thiserror::Error;

/// A setting that a running gateway keeps.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key} cannot change while the gateway runs, since {reason}: restart it for that")]
pub struct FixedSetting {
    /// Which setting, as it stands in the file.
    pub key: &'static str,
    /// Why.
    pub reason: &'static str,
}

impl FixedSetting {
    /// That of the gateway's own key in the bonded plane. Files may have the same key, so that keys are compared, and not here.
    pub const OWN_KEY: FixedSetting =
        FixedSetting { key: "`key` in [bonded]", reason: "remote gateways know this one by it" };
}

impl GatewayConfig {
    /// What is to change where a gateway that runs with this configuration is given another one: a line for each change. What the
    /// files of keys contain is not looked at.
    ///
    /// # Errors
    /// A setting differs that can not change.
    pub fn changes_to(&self, after: &GatewayConfig) -> Result<Vec<String>, FixedSetting> {
        // Each field is named, so that none is forgotten.
        let GatewayConfig {
            name,
            plane,
            measurement,
            prometheus,
            on_event,
            sessions,
            locals,
            paths,
            remotes,
            translations,
        } = self;
        check(name == &after.name, "`name` in [gateway]", "its control socket has it")?;
        check(on_event == &after.on_event, "`on-event` in [gateway]", "a running gateway starts no program")?;
        let mut lines = Vec::new();
        lines.extend(value_changes([("prometheus", show_option(*prometheus), show_option(after.prometheus))]));
        lines.extend(measurement_changes(measurement, &after.measurement));
        lines.extend(named_changes("local", locals, &after.locals, |local| local.interface.clone(), local_changes));
        lines.extend(path_changes(paths, &after.paths));
        let by_name = |remote: &RemoteSite| remote.name.clone();
        lines.extend(named_changes("remote", remotes, &after.remotes, by_name, |old, new| {
            remote_changes((old, self), (new, after))
        }));
        lines.extend(translation_changes((translations, self), (&after.translations, after)));
        match (plane, &after.plane) {
            (Plane::Direct, Plane::Direct) => {}
            (Plane::Bonded(old), Plane::Bonded(new)) => lines.extend(bonded_changes(old, new)?),
            _ => check(false, "`plane` in [gateway]", "packets of one plane are none of the other")?,
        }
        check_sessions((sessions, self), (&after.sessions, after))?;
        Ok(lines)
    }
}

fn check(is_as_before: bool, key: &'static str, reason: &'static str) -> Result<(), FixedSetting> {
    if is_as_before { Ok(()) } else { Err(FixedSetting { key, reason }) }
}

fn measurement_changes(before: &MeasurementConfig, after: &MeasurementConfig) -> Vec<String> {
    let MeasurementConfig { key_file, is_answering, port } = before;
    let file = |file: &Option<std::path::PathBuf>| show_option(file.as_ref().map(|file| file.display()));
    value_changes([
        ("measure: key", file(key_file), file(&after.key_file)),
        ("measure: answer", is_answering.to_string(), after.is_answering.to_string()),
        ("measure: port", port.to_string(), after.port.to_string()),
    ])
}

fn local_changes(before: &LocalSite, after: &LocalSite) -> Vec<String> {
    list_changes("network", &before.networks, &after.networks)
}

/// A path is one by its name, and has a number by its place.
fn path_changes(before: &[GatewayPath], after: &[GatewayPath]) -> Vec<String> {
    let place =
        |list: &[GatewayPath], name: &str| list.iter().position(|path| path.name == name).map_or(0, |at| at + 1);
    named_changes(
        "path",
        before,
        after,
        |path| path.name.clone(),
        |old, new| {
            let GatewayPath { name, interface, gateway_v4, gateway_v6, weight, rate } = old;
            value_changes([
                ("number", place(before, name).to_string(), place(after, name).to_string()),
                ("interface", interface.clone(), new.interface.clone()),
                ("IPv4 gateway", show_option(*gateway_v4), show_option(new.gateway_v4)),
                ("IPv6 gateway", show_option(*gateway_v6), show_option(new.gateway_v6)),
                ("weight", weight.to_string(), new.weight.to_string()),
                ("rate", show_rate(*rate), show_rate(new.rate)),
            ])
        },
    )
}

/// Exactly.
fn show_rate(rate: Option<Rate>) -> String {
    show_option(rate.map(|rate| format!("{} bit/s", rate.bits_per_second())))
}

fn remote_changes(
    (before, of): (&RemoteSite, &GatewayConfig),
    (after, in_place): (&RemoteSite, &GatewayConfig),
) -> Vec<String> {
    let RemoteSite { name: _, networks, paths, ratio: _, measurement_addresses, divides_single_flows } = before;
    let mut lines = list_changes("network", networks, &after.networks);
    let names = |config: &GatewayConfig, places: &[usize]| -> Vec<String> {
        places.iter().map(|place| config.paths[*place].name.clone()).collect()
    };
    // Where all paths lead there, they are told already.
    let leads_all = |config: &GatewayConfig, places: &[usize]| places.len() == config.paths.len();
    if !(leads_all(of, paths) && leads_all(in_place, &after.paths)) {
        lines.extend(list_changes("path", &names(of, paths), &names(in_place, &after.paths)));
    }
    lines.extend(value_changes([
        ("measure", show_all(measurement_addresses), show_all(&after.measurement_addresses)),
        ("sessions", divides_single_flows.to_string(), after.divides_single_flows.to_string()),
    ]));
    if let (Some(old), Some(new)) = (peer_of(before, of), peer_of(after, in_place)) {
        lines.extend(peer_changes(old, new));
    }
    lines
}

fn show_all<T: ToString>(list: &[T]) -> String {
    let texts: Vec<_> = list.iter().map(ToString::to_string).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

/// The gateway of a remote site.
fn peer_of<'c>(remote: &RemoteSite, config: &'c GatewayConfig) -> Option<&'c RemotePeer> {
    let place = config.remotes.iter().position(|other| other.name == remote.name)?;
    match (&config.plane, &config.sessions) {
        (Plane::Bonded(bonded), _) => bonded.peers.get(place),
        (Plane::Direct, sessions) => sessions.as_ref()?.peers.get(place)?.as_ref(),
    }
}

fn peer_changes(before: &RemotePeer, after: &RemotePeer) -> Vec<String> {
    let RemotePeer { key, psk_file, addresses } = before;
    let file = |peer: &Option<std::path::PathBuf>| show_option(peer.as_ref().map(|file| file.display()));
    // Of a path without an address, and of none, nothing is known.
    let known = |addresses: &[Option<std::net::SocketAddr>]| {
        let mut texts: Vec<_> = addresses.iter().map(|address| show_option(*address)).collect();
        while texts.last().is_some_and(|last| last == "none") {
            texts.pop();
        }
        show_all(&texts)
    };
    value_changes([
        ("public key", key.to_string(), after.key.to_string()),
        ("preshared key", file(psk_file), file(&after.psk_file)),
        ("addresses", known(addresses), known(&after.addresses)),
    ])
}

fn translation_changes(
    (before, of): (&[AddressTranslation], &GatewayConfig),
    (after, in_place): (&[AddressTranslation], &GatewayConfig),
) -> Vec<String> {
    let shown = |list: &[AddressTranslation], config: &GatewayConfig| -> Vec<String> {
        let one = |AddressTranslation { side: _, network, alias, path }: &AddressTranslation| {
            let on = path.map(|path| format!(" on path {}", config.paths[path].name)).unwrap_or_default();
            format!("of {network} to {alias}{on}")
        };
        list.iter().map(one).collect()
    };
    list_changes("translation", &shown(before, of), &shown(after, in_place))
}

fn bonded_changes(before: &BondedSettings, after: &BondedSettings) -> Result<Vec<String>, FixedSetting> {
    let BondedSettings {
        key_file: _,
        device,
        mtu,
        port,
        threads,
        addresses,
        path_policy,
        unordered_flows,
        peers: _,
        dscp,
    } = before;
    check(device == &after.device, "`device` in [bonded]", "routes and rules of others may name it")?;
    check(port == &after.port, "`port` in [bonded]", "remote gateways send to it")?;
    check(threads == &after.threads, "`threads` in [bonded]", "each has a queue of the device")?;
    let mut lines = list_changes("address", addresses, &after.addresses);
    let [old, new] = [unordered_flows, &after.unordered_flows];
    lines.extend(value_changes([
        ("MTU", show_option(*mtu), show_option(after.mtu)),
        ("dscp", dscp.to_string(), after.dscp.to_string()),
        ("choice", choice_name(path_policy).to_owned(), choice_name(&after.path_policy).to_owned()),
        ("unordered DSCPs", show_all(&old.dscps), show_all(&new.dscps)),
        ("unordered ports", show_all(&old.ports), show_all(&new.ports)),
    ]));
    Ok(lines)
}

/// As in the file.
fn choice_name(policy: &PathPolicy) -> &'static str {
    match policy {
        PathPolicy::Ratio { .. } => "ratio",
        PathPolicy::Weighted => "weighted",
        PathPolicy::EarliestArrival => "earliest-arrival",
        PathPolicy::Redundant => "redundant",
        PathPolicy::LeastSent => "least-sent",
        PathPolicy::Pinned => "pinned",
    }
}

/// NAT sessions are of flows that pass: what both gateways agreed on for these stays.
fn check_sessions(
    (before, of): (&Option<SessionsConfig>, &GatewayConfig),
    (after, in_place): (&Option<SessionsConfig>, &GatewayConfig),
) -> Result<(), FixedSetting> {
    const REASON: &str = "NAT sessions that there are were agreed on with it";
    let (Some(old), Some(new)) = (before, after) else {
        return check(before.is_none() && after.is_none(), "[sessions]", REASON);
    };
    let SessionsConfig { key_file, port, limits, peers: _ } = old;
    let is_same = key_file == &new.key_file && port == &new.port && limits == &new.limits;
    check(is_same, "[sessions]", REASON)?;
    // By which others are what they are: weights and rates are in no agreement.
    let places = |config: &GatewayConfig| -> Vec<GatewayPath> {
        config.paths.iter().map(|path| GatewayPath { weight: 1, rate: None, ..path.clone() }).collect()
    };
    check(places(of) == places(in_place), "[[path]] of a gateway with [sessions]", REASON)?;
    let is_same = of.locals == in_place.locals && of.translations == in_place.translations;
    check(is_same, "[[local]] and [[translation]] of a gateway with [sessions]", REASON)?;
    let with_sessions = |config: &GatewayConfig| -> Vec<_> {
        let remotes = config.remotes.iter().filter(|remote| remote.divides_single_flows);
        let part = |remote: &RemoteSite| {
            let peer = peer_of(remote, config).cloned();
            (remote.name.clone(), remote.networks.clone(), remote.paths.clone(), peer)
        };
        remotes.map(part).collect()
    };
    check(with_sessions(of) == with_sessions(in_place), "a [[remote]] with `sessions = true`", REASON)
}
