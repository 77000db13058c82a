//! Bonded planes on the gateways of two sites. Left is 1, right is 2.

use crate::sites::{PATHS, Sites};
use kumade_daemon::RuntimeDir;
use kumade_multipath::{PathPolicy, UnorderedFlows};
use kumade_net::SocketBinding;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::run_ip;
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::{BondedConfig, BondedPlane, BondedRemote, DatagramConfig, OuterTransportConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

pub const PORT: u16 = 7273;

pub fn config(own: u8, keys: &[PrivateKey; 2], knows_far: bool) -> BondedConfig {
    let far = 3 - own;
    let address = |path: usize| -> SocketAddr { format!("10.9.{}.{far}:{PORT}", path + 1).parse().unwrap() };
    let binding = |path: &&str| SocketBinding { interface: Some((*path).into()), ..SocketBinding::default() };
    BondedConfig {
        device: "tunnel".into(),
        mtu: None,
        addresses: Vec::new(),
        identity: keys[usize::from(own) - 1].clone(),
        transports: OuterTransportConfig::Udp(DatagramConfig {
            port: PORT,
            threads: 1,
            paths: PATHS.iter().map(|path| (binding(path), None)).collect(),
            routes: Vec::new(),
            dscp: Default::default(),
        }),
        policy: PathPolicy::Weighted,
        unordered_flows: UnorderedFlows::default(),
        remotes: vec![BondedRemote {
            key: keys[usize::from(far) - 1].public_key(),
            psk: PresharedKey::default(),
            networks: [format!("10.{far}.0.0/24"), format!("fd0{far}::/64")].map(|text| text.parse().unwrap()).into(),
            addresses: (0..PATHS.len()).map(|path| knows_far.then(|| address(path))).collect(),
            host: None,
        }],
        network_routes: Vec::new(),
        directory: directory(),
    }
}

pub fn keys(seeds: [u8; 2]) -> [PrivateKey; 2] {
    seeds.map(|seed| PrivateKey::from_bytes([seed; 32]))
}

/// Of this test program.
pub fn directory() -> RuntimeDir {
    RuntimeDir::from_path(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bonded-{}", std::process::id())))
}

pub fn start(inside: &Namespace, config: BondedConfig) -> BondedPlane {
    inside.run(|| BondedPlane::start(config, Default::default())).unwrap().unwrap()
}

/// Sites whose hosts reach each other by a gateway's doing only.
pub fn separate_sites() -> Sites {
    let sites = Sites::new();
    for (gateway, far) in [(&sites.left, 2), (&sites.right, 1)] {
        for (family, network) in [("-4", format!("10.{far}.0.0/24")), ("-6", format!("fd0{far}::/64"))] {
            run_ip(gateway, &[family, "route", "del", &network]).unwrap();
        }
    }
    sites
}

pub fn is_connected(plane: &BondedPlane) -> bool {
    plane.status().unwrap().remotes[0].is_connected
}

pub fn sent_on_each_path(plane: &BondedPlane) -> Vec<u64> {
    plane.status().unwrap().remotes[0].paths.iter().map(|path| path.status.sent_packets).collect()
}
