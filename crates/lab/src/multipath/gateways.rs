//! The gateways at work: the same planes as users run, each in its gateway's namespace.

use super::contender::Contender;
use super::framing::{self, PATH_MTU};
use super::peer_processes::PeerProcesses;
use super::plane::Plane;
use super::scenario::MultipathPoint;
use super::tuning::Tuning;
use crate::gateway_side::{GatewaySide, MEETING_TIMEOUT, read_config};
use crate::host_settings;
use anyhow::Context;
use kumade_daemon::{PrivateDirectory, RuntimeDir};
use kumade_gateway::config;
use kumade_gateway::direct::DirectPlane;
use kumade_net::clock;
use kumade_netns_testbed::{Sites, run_ip};
use kumade_noise_session::PresharedKey;
use kumade_overlay_io::{BondedConfig, BondedPlane, BondedStatus, OuterDscp};
use kumade_tunnel::{
    AllowedTargets, ConnectionTuning, PeerConfig, RelayedConfig, TransportMode, Tunnel, TunnelConfig, TunnelEnd,
};
use std::fmt::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// What forwards between the sites, until dropped.
pub(super) struct RunningGateways<'a> {
    sites: &'a Sites,
    direct: Vec<(GatewaySide, DirectPlane)>,
    _bonded: Vec<BondedPlane>,
    tunnels: Vec<Tunnel>,
    _peer: Option<PeerProcesses>,
    overhead_bytes: u32,
    /// Where they compress headers.
    saved_header_bytes: u32,
    directory: PrivateDirectory,
}

/// Bytes of IPv4 and UDP.
const OUTER_HEADER_BYTES: u32 = 28;
const TUNNEL_PORT: u16 = 4430;

impl<'a> RunningGateways<'a> {
    /// Starts what the contender needs; the gateways have met when this returns. So many bytes are saved of the headers of the
    /// packets that are measured, where they are compressed.
    pub(super) fn start(sites: &'a Sites, point: &MultipathPoint<'_>, saved_header_bytes: u32) -> anyhow::Result<Self> {
        let directory = PrivateDirectory::new("kumade-lab")?;
        let mut gateways = RunningGateways {
            sites,
            direct: Vec::new(),
            _bonded: Vec::new(),
            tunnels: Vec::new(),
            _peer: None,
            overhead_bytes: 0,
            saved_header_bytes,
            directory,
        };
        match point.contender.plane {
            Plane::Single | Plane::Mptcp => {}
            Plane::Direct => gateways.start_direct(&[GatewaySide::Left], point)?,
            Plane::DirectNat => gateways.start_direct(&[GatewaySide::Left, GatewaySide::Right], point)?,
            Plane::PeerProgram(peer) => {
                let directory = gateways.directory.path().join("peer");
                gateways._peer = Some(PeerProcesses::start(peer, sites, &directory)?);
            }
            Plane::Bonded | Plane::BondedRatio | Plane::BondedWeighted | Plane::BondedRedundant => {
                gateways.start_bonded(point)?;
            }
            Plane::TunnelAuto
            | Plane::TunnelTcp
            | Plane::TunnelTcpBbr
            | Plane::TunnelRake
            | Plane::TunnelRakeBbr
            | Plane::TunnelRelay
            | Plane::TunnelRelayBbr => {
                gateways.start_tunnel(point)?;
            }
        }
        Ok(gateways)
    }

    /// Bytes that they add to a packet on a path.
    pub(super) fn overhead_bytes(&self) -> u32 {
        self.overhead_bytes
    }

    fn start_direct(&mut self, sides: &[GatewaySide], point: &MultipathPoint<'_>) -> anyhow::Result<()> {
        for side in sides {
            let config = read_config(&direct_config(*side, point), point.case.paths.len())?;
            let directory = RuntimeDir::from_path(self.directory.path());
            let plane = side.gateway_namespace(self.sites).run(|| DirectPlane::start(&config, directory))??;
            self.direct.push((*side, plane));
        }
        Ok(())
    }

    fn start_bonded(&mut self, point: &MultipathPoint<'_>) -> anyhow::Result<()> {
        self.overhead_bytes =
            OUTER_HEADER_BYTES + kumade_multipath::dataplane::OVERHEAD_BYTES - self.saved_header_bytes;
        let mut configs = Vec::new();
        for side in [GatewaySide::Left, GatewaySide::Right] {
            let config = read_config(&bonded_config(side, point), point.case.paths.len())?;
            let config::Plane::Bonded(bonded) = &config.plane else { anyhow::bail!("not a bonded configuration") };
            let (psks, directory) = (vec![PresharedKey::default()], RuntimeDir::standard("kumade"));
            configs.push((
                side,
                kumade_gateway::bonded::plane_config(&config, bonded, side.private_key(), psks, directory),
            ));
        }
        self.start_planes(configs)
    }

    fn start_tunnel(&mut self, point: &MultipathPoint<'_>) -> anyhow::Result<()> {
        let (carrier, control) = point.contender.plane.outer_transport().context("no carrier")?;
        // With `auto`, packets have the length that suits datagrams.
        self.overhead_bytes = match carrier {
            TransportMode::Auto(_) => {
                OUTER_HEADER_BYTES + kumade_multipath::dataplane::OVERHEAD_BYTES - self.saved_header_bytes
            }
            _ => framing::connection_overhead_bytes(),
        };
        let tuning = point.contender.tuning.as_ref();
        for side in [GatewaySide::Left, GatewaySide::Right] {
            host_settings::write_sysctls(
                side.gateway_namespace(self.sites),
                &tuning.map(Tuning::namespace_settings).unwrap_or_default(),
            )?;
        }
        let tuning = tuning.map(Tuning::connection_tuning).unwrap_or_default();
        for side in [GatewaySide::Right, GatewaySide::Left] {
            self.remove_route(side)?;
            let config = tunnel_config(side, carrier, control, tuning);
            let directory = RuntimeDir::from_path(self.directory.path());
            self.tunnels.push(
                side.gateway_namespace(self.sites).run(|| Tunnel::start(config, directory, Default::default()))??,
            );
        }
        let packets =
            |tunnel: &Tunnel| tunnel.packet_status().ok().flatten().is_some_and(|status| is_connected(&status));
        wait_until_met(|| self.tunnels.iter().all(packets))
    }

    fn start_planes(&mut self, configs: impl IntoIterator<Item = (GatewaySide, BondedConfig)>) -> anyhow::Result<()> {
        let mut planes = Vec::new();
        for (side, config) in configs {
            self.remove_route(side)?;
            planes.push(side.gateway_namespace(self.sites).run(|| BondedPlane::start(config, Default::default()))??);
        }
        wait_until_met(|| planes.iter().all(|plane| plane.status().is_ok_and(|status| is_connected(&status))))?;
        self._bonded = planes;
        Ok(())
    }

    /// A tunnel takes the place of the route to the far site.
    fn remove_route(&self, side: GatewaySide) -> anyhow::Result<()> {
        let far = format!("10.{}.0.0/24", side.other_side().address_number());
        run_ip(side.gateway_namespace(self.sites), &["route", "del", &far])?;
        Ok(())
    }
}

impl Drop for RunningGateways<'_> {
    fn drop(&mut self) {
        for (side, plane) in self.direct.drain(..) {
            // It takes its rules away in its own namespace.
            if let Err(error) = side.gateway_namespace(self.sites).run(|| drop(plane)) {
                tracing::warn!("{error}");
            }
        }
    }
}

fn is_connected(status: &BondedStatus) -> bool {
    status.remotes.iter().all(|remote| remote.is_connected)
}

fn wait_until_met(have_met: impl Fn() -> bool) -> anyhow::Result<()> {
    let end = clock::monotonic() + MEETING_TIMEOUT;
    while !have_met() {
        anyhow::ensure!(clock::monotonic() < end, "the gateways have not met within {MEETING_TIMEOUT}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The part that both planes have. The direct plane is told next hops.
fn common_config(side: GatewaySide, plane: &str, weights: &[u32], next_hops: bool) -> String {
    let mut text = format!(
        "[gateway]\nname = \"{side:?}\"\nplane = \"{plane}\"\n\n\
         [[local]]\ninterface = \"{}\"\nnetworks = [\"10.{}.0.0/24\"]\n",
        Sites::LAN,
        side.address_number()
    );
    for (place, weight) in weights.iter().enumerate() {
        let name = Sites::path_interface(place);
        let _ = writeln!(text, "\n[[path]]\nname = \"{name}\"\ninterface = \"{name}\"\nweight = {weight}");
        if next_hops {
            let _ = writeln!(
                text,
                "gateways = [\"{}\"]",
                Sites::gateway_address(place, side.other_side().address_number())
            );
        }
    }
    let far = side.other_side().address_number();
    let _ = writeln!(text, "\n[[remote]]\nname = \"far\"\nnetworks = [\"10.{far}.0.0/24\"]");
    text
}

/// Of the left side, packets are divided; those of the right side (acknowledgements) take the first path, as in the paper.
fn direct_config(side: GatewaySide, point: &MultipathPoint<'_>) -> String {
    let paths = point.case.paths.len();
    let weights = match side {
        GatewaySide::Left => contender_shares(point.contender, paths),
        GatewaySide::Right => (0..paths).map(|place| u32::from(place == 0)).collect(),
    };
    let mut text = common_config(side, "direct", &weights, true);
    if point.contender.plane == Plane::DirectNat {
        for place in 0..paths {
            // The left site's hosts have another address on each path.
            let (alias, path) = (format!("198.51.{}.0/24", 100 + place), Sites::path_interface(place));
            let _ =
                writeln!(text, "\n[[translation]]\nnetwork = \"10.1.0.0/24\"\nalias = \"{alias}\"\npath = \"{path}\"");
        }
    }
    text
}

/// The gateways find the paths' rates out by themselves.
fn bonded_config(side: GatewaySide, point: &MultipathPoint<'_>) -> String {
    let choice = match point.contender.plane {
        Plane::BondedRatio => "ratio",
        Plane::BondedWeighted => "weighted",
        Plane::BondedRedundant => "redundant",
        _ => "earliest-arrival",
    };
    let paths = point.case.paths.len();
    let mut text = common_config(side, "bonded", &contender_shares(point.contender, paths), false);
    let addresses: Vec<_> = (0..paths)
        .map(|place| format!("\"{}\"", Sites::gateway_address(place, side.other_side().address_number())))
        .collect();
    let _ = writeln!(
        text,
        "public-key = \"{}\"\naddresses = [{}]\n\n[bonded]\nkey = \"unused\"\nchoice = \"{choice}\"\nmtu = {}",
        side.other_side().private_key().public_key(),
        addresses.join(", "),
        PATH_MTU - OUTER_HEADER_BYTES - kumade_multipath::dataplane::OVERHEAD_BYTES
    );
    text
}

/// The left side connects to the right one, over the first path.
fn tunnel_config(side: GatewaySide, carrier: TransportMode, control: &str, tuning: ConnectionTuning) -> TunnelConfig {
    let address = SocketAddr::new(Sites::gateway_address(0, GatewaySide::Right.address_number()).into(), TUNNEL_PORT);
    let far = side.other_side();
    let network = |side: GatewaySide| format!("10.{}.0.0/24", side.address_number()).parse().expect("a network");
    let own = network(side);
    TunnelConfig {
        dscp: OuterDscp::default(),
        end: if side == GatewaySide::Left { TunnelEnd::Connect(address.into()) } else { TunnelEnd::Listen(address) },
        transport: carrier,
        device: "tunnel".into(),
        mtu: None,
        addresses: vec![format!("10.88.0.{}/24", side.address_number()).parse().expect("an address")],
        identity: side.private_key(),
        psk: PresharedKey::default(),
        peers: vec![PeerConfig { name: None, key: far.private_key().public_key(), networks: vec![network(far)] }],
        congestion_control: Some(control.to_owned()),
        tuning,
        relayed_connections: RelayedConfig {
            allowed: vec![AllowedTargets::from_network(own)],
            ..RelayedConfig::default()
        },
    }
}

/// The contender's ratio, or equal shares.
fn contender_shares(contender: &Contender, paths: usize) -> Vec<u32> {
    contender.ratio.as_ref().map_or_else(|| vec![1; paths], |ratio| ratio.shares().to_vec())
}
