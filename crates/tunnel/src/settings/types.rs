use crate::config::{DEFAULT_PORT, RelayedConfig, TransportMode, TunnelConfig, TunnelEnd};
use crate::peer::PeerConfig;
use ipnet::IpNet;
use kumade_daemon::config_changes::{list_changes, show_option, value_changes};
use kumade_net::{ResolvedHost, ScopedAddress, ScopedAddressError};
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::{ConnectionTuning, OuterDscp};
use kumade_units::parse;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use thiserror::Error;

/// The settings of one end of a tunnel as they are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelSettings {
    /// Its name, for who asks for its status; one is chosen, if none.
    pub name: Option<String>,
    /// The file of its private key.
    pub key_file: PathBuf,
    /// The file of a second key that both ends have.
    pub preshared_key_file: Option<PathBuf>,
    /// Which end, and where the other one is.
    pub end: EndSettings,
    /// As in [`TunnelConfig`], and so are all others that are not described here.
    pub transport: TransportMode,
    /// As there.
    pub device: String,
    /// As there.
    pub mtu: Option<u16>,
    /// As there.
    pub addresses: Vec<IpNet>,
    /// As there. An end that connects and carries packets reaches the networks of its addresses, where the peer has none here.
    pub peers: Vec<PeerConfig>,
    /// As there.
    pub congestion_control: Option<String>,
    /// As there.
    pub tuning: ConnectionTuning,
    /// As there.
    pub dscp: OuterDscp,
    /// As there.
    pub relayed_connections: RelayedConfig,
    /// Where Prometheus fetches metrics.
    pub prometheus: Option<SocketAddr>,
    /// What is run, by the shell, when a peer or a path changes.
    pub on_event: Option<String>,
}

/// Which end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndSettings {
    /// It waits for others at this address.
    Listen(SocketAddr),
    /// It connects to the one that waits there: `HOST[:PORT]`.
    Connect(String),
}

/// The far end is not found.
#[derive(Debug, Error)]
#[error("cannot find the address of {host}: {cause}")]
pub struct FarEndError {
    host: String,
    cause: io::Error,
}

impl TunnelSettings {
    /// Looks up the far end's name, if it has one. That may take its time.
    ///
    /// # Errors
    /// The name is not found.
    pub fn resolve_end(&self) -> Result<TunnelEnd, FarEndError> {
        match &self.end {
            EndSettings::Listen(address) => Ok(TunnelEnd::Listen(*address)),
            EndSettings::Connect(host) => {
                let failed = |cause| FarEndError { host: host.clone(), cause };
                resolve_host(host).map(TunnelEnd::Connect).map_err(failed)
            }
        }
    }

    /// With what stands elsewhere: the keys of its files, and the far end's address.
    pub fn to_config(&self, identity: PrivateKey, psk: PresharedKey, end: TunnelEnd) -> TunnelConfig {
        let mut peers = self.peers.clone();
        if let EndSettings::Connect(_) = self.end {
            let unsaid = peers.iter_mut().filter(|peer| peer.networks.is_empty());
            unsaid.for_each(|peer| peer.networks = self.addresses.iter().map(IpNet::trunc).collect());
        }
        TunnelConfig {
            end,
            transport: self.transport,
            device: self.device.clone(),
            mtu: self.mtu,
            addresses: self.addresses.clone(),
            identity,
            psk,
            peers,
            congestion_control: self.congestion_control.clone(),
            tuning: self.tuning,
            dscp: self.dscp,
            relayed_connections: self.relayed_connections.clone(),
        }
    }

    /// What a running end cannot change to become this, as it stands in a file; none where it can.
    pub fn unchangeable_since(&self, running: &TunnelSettings) -> Option<&'static str> {
        let is_listening = matches!(self.end, EndSettings::Listen(_));
        let keeps = |is_left_out| is_listening && is_left_out;
        let (transport, rto) = ((self.transport, running.transport), (self.tuning.rto, running.tuning.rto));
        let changes = [
            ("`name` in [tunnel]", self.name != running.name),
            ("`key` in [tunnel]", self.key_file != running.key_file),
            (if is_listening { "`listen` in [tunnel]" } else { "`connect` in [tunnel]" }, self.end != running.end),
            ("`connections` in [tunnel]", transport.0 != transport.1 && transport.0.name() == transport.1.name()),
            ("`carrier` in [tunnel]", transport.0 != transport.1),
            ("`device` in [tunnel]", self.device != running.device),
            // Open connections keep theirs.
            ("`dscp` in [tunnel]", self.dscp != running.dscp),
            // With a device, other things are started than without one.
            ("`addresses` in [tunnel]", self.addresses.is_empty() != running.addresses.is_empty()),
            // The process that runs it is started before this one gives up starting others.
            ("`on-event` in [tunnel]", self.on_event != running.on_event),
            // A port where others connect keeps what was set on it.
            (
                "`congestion-control` in [tunnel]",
                keeps(is_left_out(&self.congestion_control, &running.congestion_control)),
            ),
            ("`min-rto` in [tuning]", keeps(is_left_out(&rto.0.min, &rto.1.min))),
            ("`max-rto` in [tuning]", keeps(is_left_out(&rto.0.max, &rto.1.max))),
            (
                "`send-buffer` in [tuning]",
                keeps(is_left_out(&self.tuning.send_buffer_bytes, &running.tuning.send_buffer_bytes)),
            ),
        ];
        changes.into_iter().find_map(|(key, is_changed)| is_changed.then_some(key))
    }

    /// What a running end changes to become this, a line for each.
    pub fn changes_since(&self, running: &TunnelSettings) -> Vec<String> {
        let (now, before) = (&self.relayed_connections, &running.relayed_connections);
        let mut lines = peer_changes(&running.peers, &self.peers);
        lines.extend(list_changes("address", &running.addresses, &self.addresses));
        lines.extend(list_changes("forwarding", &before.forwards, &now.forwards));
        lines.extend(list_changes("allowed target", &before.allowed, &now.allowed));
        lines.extend(list_changes("relayed source", &before.sources, &now.sources));
        let file =
            |settings: &TunnelSettings| show_option(settings.preshared_key_file.as_ref().map(|file| file.display()));
        lines.extend(value_changes([
            ("preshared-key", file(running), file(self)),
            ("mtu", show_option(running.mtu), show_option(self.mtu)),
            (
                "congestion-control",
                show_option(running.congestion_control.as_ref()),
                show_option(self.congestion_control.as_ref()),
            ),
            ("prometheus", show_option(running.prometheus), show_option(self.prometheus)),
        ]));
        if self.tuning != running.tuning {
            lines.push("tuning: other values for connections that are opened from now on".to_owned());
        }
        lines
    }
}

/// Lines for peers that come, go or have other networks or names.
fn peer_changes(before: &[PeerConfig], now: &[PeerConfig]) -> Vec<String> {
    let find = |peers: &[PeerConfig], key| peers.iter().find(|peer| peer.key == key).cloned();
    let gone = before.iter().filter(|peer| find(now, peer.key).is_none());
    let mut lines: Vec<_> = gone.map(|peer| format!("peer {} ({}): removed", peer.label(), peer.key)).collect();
    for peer in now {
        match find(before, peer.key) {
            None => lines.push(format!("peer {} ({}): added", peer.label(), peer.key)),
            Some(before) => {
                if before.name != peer.name {
                    lines.push(format!("peer {}: called {} from now on", before.label(), peer.label()));
                }
                let changes = list_changes("network", &before.networks, &peer.networks);
                lines.extend(changes.into_iter().map(|line| format!("peer {}: {line}", peer.label())));
            }
        }
    }
    lines
}

/// Whether the system's own takes the place of what was given.
fn is_left_out<T>(now: &Option<T>, running: &Option<T>) -> bool {
    now.is_none() && running.is_some()
}

fn resolve_host(host: &str) -> io::Result<ResolvedHost> {
    match ScopedAddress::parse_with_port(host) {
        Ok((address, port)) => return Ok(address.with_port(port.unwrap_or(DEFAULT_PORT)).into()),
        // A name.
        Err(ScopedAddressError::Malformed(_)) => {}
        Err(error) => return Err(io::Error::other(error)),
    }
    let with_port = host.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
    let (name, port) = with_port.unwrap_or((host, DEFAULT_PORT));
    ResolvedHost::resolve(name, port, None)
}

/// An address of a tunnel's device and the length of its network's prefix.
///
/// # Errors
/// Says what is missing, with an example.
pub fn parse_device_address(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| match text.parse::<IpAddr>() {
        Ok(address) => {
            let length = if address.is_ipv4() { 24 } else { 64 };
            format!("the length of its network's prefix is missing: write {address}/{length}")
        }
        Err(_) => "write an address and the length of its network's prefix, like 10.77.0.1/24 or fd77::1/64".to_owned(),
    })
}

/// The bytes of a buffer of a TCP connection, such as `256kb`.
///
/// # Errors
/// Says what it may be.
pub fn parse_buffer_size(text: &str) -> Result<u32, String> {
    let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
    let in_range = u32::try_from(bytes).ok().filter(|bytes| (4096..=1 << 30).contains(bytes));
    in_range.ok_or_else(|| format!("{text}: give 4 kB to 1 GB"))
}
