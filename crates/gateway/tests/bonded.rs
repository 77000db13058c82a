//! The bonded plane between real hosts, over two real paths.

use crate::tunnel;

use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use tunnel::{config, is_connected, keys, sent_on_each_path, separate_sites, start};

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
        // How they share depends on what else the machine does.
        assert!(sent_on_each_path(&left).iter().all(|packets| *packets > 100), "{:?}", sent_on_each_path(&left));
        for plane in [&left, &right] {
            let status = plane.status().unwrap();
            assert_eq!((status.node.refused_datagrams, status.node.foreign_source_packets), (0, 0));
        }
        drop((left, right));
        for gateway in [&sites.left, &sites.right] {
            let links = run_ip(gateway, &["-o", "link"]).unwrap();
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
