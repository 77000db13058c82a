//! What the `[bonded]` section and the remotes of a bonded plane may say.

use super::checks::check_unique;
use super::file::{BondedSection, ChoiceName, ConfigFile, RemoteSection};
use super::peer::{DEFAULT_PORT, validate_peer, validate_port};
use super::types::{BondedSettings, GatewayPath, RemotePeer};
use ipnet::IpNet;
use kumade_daemon::ConfigFault;
use kumade_multipath::{PathId, PathPolicy, ShareUnit, UnorderedFlows};
use kumade_overlay_io::{DEFAULT_DEVICE, MAX_THREADS, parse_outer_dscp, validate_mtu};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

const MAX_DSCP: u8 = 63;

pub(super) fn validate_bonded(file: &ConfigFile, paths: &[GatewayPath]) -> Result<BondedSettings, ConfigFault> {
    let name = &file.gateway.name;
    let Some(section) = &file.bonded else {
        return Err(ConfigFault::new(name.span(), "no [bonded]: give `key`, the file of this gateway's private key"));
    };
    if paths.len() > PathId::MAX_PATHS {
        let problem = format!("more than {} paths: the bonded plane has no numbers for them", PathId::MAX_PATHS);
        return Err(ConfigFault::new(name.span(), problem));
    }
    if let Some(translation) = file.translation.first() {
        let problem = "the bonded plane carries addresses as they are: leave [[translation]] out";
        return Err(ConfigFault::new(translation.network.span(), problem));
    }
    check_unique(
        file.path.iter().map(|path| &path.interface),
        "interface of [[path]]: the bonded plane has one port there",
    )?;
    check_unique(file.remote.iter().filter_map(|remote| remote.public_key.as_ref()), "public-key")?;
    let port = validate_port(section.port.as_ref(), DEFAULT_PORT)?;
    let peers =
        file.remote.iter().map(|remote| validate_remote_gateway(remote, paths, port)).collect::<Result<Vec<_>, _>>()?;
    check_same_ip_version(file, &peers)?;
    Ok(BondedSettings {
        key_file: PathBuf::from(section.key.get_ref()),
        device: section.device.clone().unwrap_or_else(|| DEFAULT_DEVICE.into()),
        mtu: validate_mtu(section.mtu.as_ref())?,
        port,
        threads: validate_threads(section, port)?,
        addresses: section.addresses.iter().map(parse_device_network).collect::<Result<_, _>>()?,
        path_policy: path_policy(section, paths),
        unordered_flows: unordered_flows(section)?,
        dscp: parse_outer_dscp(section.dscp.as_ref())?,
        peers,
    })
}

/// As in `10.9.0.1/24`.
fn parse_device_network(text: &Spanned<String>) -> Result<IpNet, ConfigFault> {
    let problem = format!("`{}` is no address with its network: write it like 10.9.0.1/24", text.get_ref());
    text.get_ref().parse().map_err(|_| ConfigFault::new(text.span(), problem))
}

fn validate_threads(section: &BondedSection, port: u16) -> Result<usize, ConfigFault> {
    let Some(threads) = &section.threads else { return Ok(1) };
    let count = *threads.get_ref();
    if !(1..=MAX_THREADS).contains(&count) {
        return Err(ConfigFault::new(threads.span(), format!("packets are carried by 1 to {MAX_THREADS} threads")));
    }
    if usize::from(port) + count > 1 << 16 {
        let problem = format!("{count} threads need as many ports from {port} on: give a lower `port`");
        return Err(ConfigFault::new(threads.span(), problem));
    }
    Ok(count)
}

fn path_policy(section: &BondedSection, paths: &[GatewayPath]) -> PathPolicy {
    match section.choice {
        ChoiceName::Ratio => {
            let shares = paths.iter().map(|path| path.weight).collect();
            PathPolicy::Ratio { shares, unit: ShareUnit::Packets }
        }
        ChoiceName::Weighted => PathPolicy::Weighted,
        ChoiceName::EarliestArrival => PathPolicy::EarliestArrival,
        ChoiceName::Redundant => PathPolicy::Redundant,
        ChoiceName::Pinned => PathPolicy::Pinned,
    }
}

fn unordered_flows(section: &BondedSection) -> Result<UnorderedFlows, ConfigFault> {
    if let Some(dscp) = section.unordered_dscps.iter().find(|dscp| *dscp.get_ref() > MAX_DSCP) {
        return Err(ConfigFault::new(dscp.span(), format!("a DSCP is from 0 to {MAX_DSCP}")));
    }
    let dscps = section.unordered_dscps.iter().map(|dscp| *dscp.get_ref()).collect();
    Ok(UnorderedFlows { dscps, ports: section.unordered_ports.clone() })
}

fn validate_remote_gateway(
    section: &RemoteSection,
    paths: &[GatewayPath],
    port: u16,
) -> Result<RemotePeer, ConfigFault> {
    let name = section.name.get_ref();
    if section.paths.is_some() {
        let problem = format!("remote `{name}`: both gateways number all paths alike: leave `paths` out");
        return Err(ConfigFault::new(section.name.span(), problem));
    }
    if let Some(sessions) = &section.sessions {
        return Err(ConfigFault::new(sessions.span(), "the bonded plane carries all flows: leave `sessions` out"));
    }
    validate_peer(section, paths, port)
}

/// The datagrams of all remote gateways on a path are of one IP version, since a path has one socket.
fn check_same_ip_version(file: &ConfigFile, peers: &[RemotePeer]) -> Result<(), ConfigFault> {
    let mut versions = BTreeMap::new();
    for (section, peer) in file.remote.iter().zip(peers) {
        for (path, (address, text)) in peer.addresses.iter().zip(&section.addresses).enumerate() {
            let Some(address) = address else { continue };
            if *versions.entry(path).or_insert(address.is_ipv4()) != address.is_ipv4() {
                let problem = format!("{} is of another IP version than other addresses on that path", address.ip());
                return Err(ConfigFault::new(text.span(), problem));
            }
        }
    }
    Ok(())
}
