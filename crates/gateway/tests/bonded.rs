//! The bonded plane between real hosts, over two real paths.

mod sites;

use gateway::bonded::{BondedConfig, BondedPlane, BondedRemote};
use multipath::{PathChoice, UnorderedFlows};
use net::Binding;
use net::namespace::Namespace;
use secure::{PresharedKey, PrivateKey};
use sites::{PATHS, Sites};
use std::net::SocketAddr;
use testnet::{eventually, in_namespaces, ip};

const PORT: u16 = 7273;

/// Left is 1, right is 2.
fn config(own: u8, keys: &[PrivateKey; 2], knows_far: bool) -> BondedConfig {
    let far = 3 - own;
    let address = |path: usize| -> SocketAddr { format!("10.9.{}.{far}:{PORT}", path + 1).parse().unwrap() };
    let binding = |path: &&str| Binding { interface: Some((*path).into()), ..Binding::default() };
    BondedConfig {
        device: "tunnel".into(),
        mtu: 1400,
        addresses: Vec::new(),
        port: PORT,
        identity: keys[usize::from(own) - 1].clone(),
        paths: PATHS.iter().map(|path| (binding(path), None)).collect(),
        choice: PathChoice::Weighted,
        unordered: UnorderedFlows::default(),
        remotes: vec![BondedRemote {
            key: keys[usize::from(far) - 1].public(),
            psk: PresharedKey::default(),
            networks: [format!("10.{far}.0.0/24"), format!("fd0{far}::/64")].map(|text| text.parse().unwrap()).into(),
            addresses: (0..PATHS.len()).map(|path| knows_far.then(|| address(path))).collect(),
        }],
    }
}

fn keys(seeds: [u8; 2]) -> [PrivateKey; 2] {
    seeds.map(|seed| PrivateKey::from_bytes([seed; 32]))
}

fn start(inside: &Namespace, config: BondedConfig) -> BondedPlane {
    inside.run(|| BondedPlane::start(config)).unwrap().unwrap()
}

/// Sites whose hosts reach each other by a gateway's doing only.
fn separate_sites() -> Sites {
    let sites = Sites::new();
    for (gateway, far) in [(&sites.left, 2), (&sites.right, 1)] {
        for (family, network) in [("-4", format!("10.{far}.0.0/24")), ("-6", format!("fd0{far}::/64"))] {
            ip(gateway, &[family, "route", "del", &network]).unwrap();
        }
    }
    sites
}

fn is_connected(plane: &BondedPlane) -> bool {
    plane.status().unwrap().remotes[0].is_connected
}

fn sent_on_each_path(plane: &BondedPlane) -> Vec<u64> {
    plane.status().unwrap().remotes[0].paths.iter().map(|(_, path)| path.sent_packets).collect()
}

#[test]
fn hosts_talk_through_the_tunnel_and_nothing_stays_behind() {
    in_namespaces("hosts_talk_through_the_tunnel_and_nothing_stays_behind", || {
        let sites = separate_sites();
        let keys = keys([1, 2]);
        // Only one side has to know where the other is.
        let right = start(&sites.right, config(2, &keys, false));
        let left = start(&sites.left, config(1, &keys, true));
        assert!(eventually(|| is_connected(&left) && is_connected(&right)));
        sites.transfer(2_000_000);
        sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 100);
        sites.send(&sites.b, "fd02::2", &sites.a, "fd01::2", 100);
        assert!(sent_on_each_path(&left).iter().all(|packets| *packets > 500), "{:?}", sent_on_each_path(&left));
        for plane in [&left, &right] {
            let status = plane.status().unwrap();
            assert_eq!((status.node.refused_datagrams, status.node.foreign_sources), (0, 0));
        }
        drop((left, right));
        for gateway in [&sites.left, &sites.right] {
            let links = ip(gateway, &["-o", "link"]).unwrap();
            assert!(!links.contains("tunnel"), "{links}");
        }
    });
}

#[test]
fn a_gateway_that_restarts_is_found_again() {
    in_namespaces("a_gateway_that_restarts_is_found_again", || {
        let sites = separate_sites();
        let keys = keys([1, 2]);
        let right = start(&sites.right, config(2, &keys, true));
        let left = start(&sites.left, config(1, &keys, true));
        assert!(eventually(|| is_connected(&left) && is_connected(&right)));
        drop(right);
        let right = start(&sites.right, config(2, &keys, true));
        assert!(eventually(|| is_connected(&right)));
        sites.transfer(200_000);
    });
}

#[test]
fn nobody_passes_without_the_right_key() {
    in_namespaces("nobody_passes_without_the_right_key", || {
        let sites = separate_sites();
        let left = start(&sites.left, config(1, &keys([1, 2]), true));
        let right = start(&sites.right, config(2, &keys([3, 2]), true));
        assert!(eventually(|| right.status().unwrap().node.refused_handshakes > 0));
        assert!(!is_connected(&left) && !is_connected(&right));
    });
}
