//! The fast path of the direct plane between real hosts, beside packet rules alone.

use crate::direct::{LEFT, by_fast_path_and_by_rules, install_host_rules, read, runtime, start};
use crate::sites::Sites;
use kumade_gateway::direct::DirectPlane;
use kumade_net::fast_path::FastPath;
use kumade_net::interface;
use kumade_netns_testbed::{TEST_DEADLINE, in_namespaces, run_ip};
use std::fs;
use std::net::UdpSocket;

#[test]
fn packets_take_the_fast_path_until_the_host_has_rules_of_its_own_and_all_are_counted() {
    in_namespaces("packets_take_the_fast_path_until_the_host_has_rules_of_its_own_and_all_are_counted", || {
        let sites = Sites::new();
        let mut plane = start(&sites.left, &read(LEFT), &runtime("fast"));
        let loaded = FastPath::load(1);
        assert_eq!(plane.uses_fast_path(), loaded.is_ok());
        // As in user namespaces, and before Linux 6.6.
        let Ok(_) = loaded else { return println!("passed over: {}", loaded.unwrap_err()) };
        let packets = |plane: &DirectPlane| {
            plane.path_counts().unwrap().iter().map(|count| count.sent.packets).collect::<Vec<_>>()
        };
        let send = || sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 19);
        send();
        assert_eq!(packets(&plane), [16, 3]);
        let rules = install_host_rules(&sites.left);
        sites.left.run(|| plane.update_interfaces()).unwrap().unwrap();
        assert!(!plane.uses_fast_path());
        send();
        assert_eq!(packets(&plane), [32, 6]);
        drop(rules);
        sites.left.run(|| plane.update_interfaces()).unwrap().unwrap();
        assert!(plane.uses_fast_path());
        // Other paths in other places keep their counts.
        let moved = read(&LEFT.replace(
            "[[path]]\nname = \"one\"",
            "[[path]]\nname = \"new\"\ninterface = \"path2\"\nweight = 0\n\n[[path]]\nname = \"one\"",
        ));
        sites.left.run(|| plane.reconfigure(&moved)).unwrap().unwrap();
        assert!(plane.uses_fast_path());
        send();
        assert_eq!(packets(&plane), [0, 48, 9]);
        sites.left.run(|| drop(plane)).unwrap();
    });
}

/// What they do to packets, programs before them would pass by.
#[test]
fn routing_rules_and_settings_of_interfaces_keep_packets_from_the_fast_path() {
    in_namespaces("routing_rules_and_settings_of_interfaces_keep_packets_from_the_fast_path", || {
        let sites = Sites::new();
        let mut plane = start(&sites.left, &read(LEFT), &runtime("obstacles"));
        if let Err(error) = FastPath::load(1) {
            return println!("passed over: {error}");
        }
        assert!(plane.uses_fast_path());
        let mut is_used = || {
            sites.left.run(|| plane.update_interfaces()).unwrap().unwrap();
            plane.uses_fast_path()
        };
        let ip = |arguments: &str| run_ip(&sites.left, &arguments.split(' ').collect::<Vec<_>>()).unwrap();
        ip("link add bridge type bridge");
        for [there, gone] in [
            ["rule add from 10.1.0.2 pref 100 prohibit", "rule del pref 100"],
            ["-6 rule add from fd01::2 pref 100 prohibit", "-6 rule del pref 100"],
            ["rule add ipproto udp dport 9 pref 30000 prohibit", "rule del pref 30000"],
            ["link set lan master bridge", "link set lan nomaster"],
        ] {
            ip(there);
            assert!(!is_used(), "{there}");
            ip(gone);
            assert!(is_used(), "{gone}");
        }
        for (setting, there, gone) in
            [("ipv4/conf/lan/forwarding", "0", "1"), ("ipv6/conf/path2/disable_ipv6", "1", "0")]
        {
            let set = |value: &str| {
                sites.left.run(|| fs::write(format!("/proc/sys/net/{setting}"), value)).unwrap().unwrap();
            };
            set(there);
            assert!(!is_used(), "{setting}");
            set(gone);
            assert!(is_used(), "{setting}");
        }
        sites.left.run(|| drop(plane)).unwrap();
    });
}

/// A gateway that has an address in a remote network, as on a path, is still reached by its hosts.
#[test]
fn what_is_for_the_gateway_itself_takes_no_path() {
    by_fast_path_and_by_rules("what_is_for_the_gateway_itself_takes_no_path", |sites| {
        let config = read(&LEFT.replace("\"10.2.0.0/24\", ", "\"10.2.0.0/24\", \"10.9.0.0/16\", \"fd09::/16\", "));
        let mut plane = start(&sites.left, &config, &runtime("own-addresses"));
        sites.send(&sites.a, "10.1.0.2", &sites.left, "10.9.1.1", 3);
        sites.send(&sites.a, "fd01::2", &sites.left, "fd09:2::1", 3);
        run_ip(&sites.left, &["addr", "add", "10.9.7.7/32", "dev", "lan"]).unwrap();
        sites.left.run(|| plane.update_interfaces()).unwrap().unwrap();
        sites.send(&sites.a, "10.1.0.2", &sites.left, "10.9.7.7", 3);
        sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 3);
        sites.left.run(|| drop(plane)).unwrap();
    });
}

/// As forwarded packets live for a hop less, and routers tell where they died.
#[test]
fn each_gateway_takes_a_hop() {
    by_fast_path_and_by_rules("each_gateway_takes_a_hop", |sites| {
        let plane = start(&sites.left, &read(LEFT), &runtime("hops"));
        for (near, far) in [("10.1.0.2:0", "10.2.0.2:9"), ("[fd01::2]:0", "[fd02::2]:9")] {
            let far = sites.b.run(|| UdpSocket::bind(far).unwrap()).unwrap();
            let near = sites.a.run(|| UdpSocket::bind(near).unwrap()).unwrap();
            let set_hops = |hops| {
                let socket = socket2::SockRef::from(&near);
                if far.local_addr().unwrap().is_ipv4() {
                    socket.set_ttl_v4(hops)
                } else {
                    socket.set_unicast_hops_v6(hops)
                }
            };
            far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
            // Those with fewer hops than gateways never arrive.
            for hops in [1, 2, 3] {
                set_hops(hops).unwrap();
                near.send_to(&[hops as u8], far.local_addr().unwrap()).unwrap();
            }
            let mut received = [0];
            far.recv(&mut received).unwrap();
            assert_eq!(received, [3]);
        }
        sites.left.run(|| drop(plane)).unwrap();
    });
}

/// As from interfaces without offloads: the checksums that arrive are those that the sender has computed, and that gateways mended.
#[test]
fn checksums_of_translated_packets_are_right_that_no_interface_computes() {
    by_fast_path_and_by_rules("checksums_of_translated_packets_are_right_that_no_interface_computes", |sites| {
        for host in [&sites.a, &sites.b] {
            host.run(|| interface::disable_offloads("lan")).unwrap().unwrap();
        }
        let translations = |side: u8| {
            let one = |network: &str, alias: &str, path: &str| {
                format!("[[translation]]\nnetwork = \"{network}\"\nalias = \"{alias}\"\npath = \"{path}\"\n")
            };
            let both = |path: u8, name: &str| {
                one(&format!("10.{side}.0.0/24"), &format!("198.51.{side}{path}.0/24"), name)
                    + &one(&format!("fd0{side}::/64"), &format!("fd51:{side}{path}::/64"), name)
            };
            both(1, "one") + &both(2, "two")
        };
        let all = translations(1) + &translations(2);
        let left = LEFT.to_owned() + &all;
        let right = swap_sides(LEFT) + &all;
        let planes = [
            (&sites.left, start(&sites.left, &read(&left), &runtime("sums-left"))),
            (&sites.right, start(&sites.right, &read(&right), &runtime("sums-right"))),
        ];
        sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 38);
        sites.send(&sites.a, "fd01::2", &sites.b, "fd02::2", 38);
        sites.transfer(300_000);
        for (gateway, plane) in planes {
            gateway.run(|| drop(plane)).unwrap();
        }
    });
}

/// The configuration of the gateway at the other end.
fn swap_sides(left: &str) -> String {
    let swap = |text: String, one: &str, other: &str| text.replace(one, "X").replace(other, one).replace('X', other);
    let swapped = swap(swap(left.to_owned(), "10.1.0.0/24", "10.2.0.0/24"), "fd01::/64", "fd02::/64");
    let swapped = swapped.replace("10.9.1.2", "10.9.1.1").replace("10.9.2.2", "10.9.2.1");
    swapped.replace("fd09:1::2", "fd09:1::1").replace("fd09:2::2", "fd09:2::1")
}
