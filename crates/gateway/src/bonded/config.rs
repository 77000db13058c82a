use crate::config::{BondedSettings, GatewayConfig, GatewayPath};
use kumade_daemon::RuntimeDir;
use kumade_net::SocketBinding;
use kumade_net::interface::Family;
use kumade_net::policy_routing::MarkedRoute;
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::{BondedConfig, BondedRemote, DatagramConfig, OuterTransportConfig};

/// What a valid configuration comes to. `identity` is the key of its key file, `psks` are those of the remotes' files, or
/// the default one. In `directory` routes are written down, so that they can be removed after a crash.
pub fn plane_config(
    config: &GatewayConfig,
    bonded: &BondedSettings,
    identity: PrivateKey,
    psks: Vec<PresharedKey>,
    directory: RuntimeDir,
) -> BondedConfig {
    let path = |(place, path): (usize, &GatewayPath)| (path_binding(place, path), path.rate);
    let remotes = config.remotes.iter().zip(&bonded.peers).zip(psks);
    let remotes = remotes.map(|((remote, peer), psk)| BondedRemote {
        key: peer.key,
        psk,
        networks: remote.networks.clone(),
        addresses: peer.addresses.clone(),
        host: None,
    });
    BondedConfig {
        device: bonded.device.clone(),
        mtu: bonded.mtu,
        addresses: bonded.addresses.clone(),
        identity,
        transports: OuterTransportConfig::Udp(DatagramConfig {
            port: bonded.port,
            threads: bonded.threads,
            paths: config.paths.iter().enumerate().map(path).collect(),
            routes: config.paths.iter().enumerate().flat_map(|(place, path)| path_routes(place, path)).collect(),
            dscp: bonded.dscp,
        }),
        policy: bonded.path_policy.clone(),
        unordered_flows: bonded.unordered_flows.clone(),
        remotes: remotes.collect(),
        network_routes: Vec::new(),
        directory,
    }
}

/// Mark, routing table and rule priority of the first path; those of the others follow. Behind those of the direct plane,
/// which has up to 64.
const FIRST_MARK: u32 = 0x6b41;

/// From where datagrams leave on a path, and measurements of it.
pub(crate) fn path_binding(place: usize, path: &GatewayPath) -> SocketBinding {
    let mark = path.has_next_hop().then(|| path_mark(place));
    SocketBinding { interface: Some(path.interface.clone()), mark, source: None }
}

fn path_mark(path: usize) -> u32 {
    // There are no more than 16.
    FIRST_MARK + path as u32
}

fn path_routes(place: usize, path: &GatewayPath) -> impl Iterator<Item = MarkedRoute> {
    let route = move |family| {
        let gateway = path.next_hop(family)?;
        Some(MarkedRoute {
            number: path_mark(place),
            family,
            interface: path.interface.clone(),
            gateway: Some(gateway),
        })
    };
    [Family::V4, Family::V6].into_iter().filter_map(route)
}
