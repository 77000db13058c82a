//! Bonded planes of several threads: flows on all of them, gateways with different numbers of them, restarts, paths that flap.

use crate::sites;
use crate::tunnel;

use kumade_net::capture::Capture;
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces, run_ip};
use kumade_noise_session::PrivateKey;
use kumade_overlay_io::{BondedConfig, BondedPlane, OuterTransportConfig};
use sites::Sites;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tunnel::{PORT, config, is_connected, keys, sent_on_each_path, separate_sites, start};

fn of_threads(own: u8, keys: &[PrivateKey; 2], knows_far: bool, threads: usize) -> BondedConfig {
    let mut config = config(own, keys, knows_far);
    if let OuterTransportConfig::Udp(datagrams) = &mut config.transports {
        datagrams.threads = threads;
    }
    config
}

/// Threads that carry packets to the other gateway.
fn in_use(plane: &BondedPlane) -> u32 {
    plane.status().unwrap().remotes[0].reaching_shards
}

/// Sites with both planes, whose threads reach each other. Drop the planes before the sites.
fn connected(threads: [usize; 2]) -> (Sites, BondedPlane, BondedPlane) {
    let sites = separate_sites();
    let keys = keys([1, 2]);
    let right = start(&sites.right, of_threads(2, &keys, false, threads[1]));
    let left = start(&sites.left, of_threads(1, &keys, true, threads[0]));
    let expected = threads[0].min(threads[1]) as u32;
    let is_ready = |plane| is_connected(plane) && in_use(plane) == expected;
    assert!(eventually(|| is_ready(&left) && is_ready(&right)), "{} {}", in_use(&left), in_use(&right));
    (sites, left, right)
}

/// So many connections at once from one host to the other; all that they carry arrives unchanged.
fn transfer_at_once(sites: &Sites, connections: u16, bytes: usize) {
    let data: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
    let listen = |_| {
        let listener = sites.b.run(|| TcpListener::bind(SocketAddr::from(([10, 2, 0, 2], 0))).unwrap()).unwrap();
        (listener.local_addr().unwrap(), listener)
    };
    let listeners: Vec<_> = (0..connections).map(listen).collect();
    thread::scope(|scope| {
        for (address, listener) in &listeners {
            let (near, data) = (sites.a.run(|| TcpStream::connect(*address).unwrap()).unwrap(), &data);
            let (mut far, _) = listener.accept().unwrap();
            far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
            near.set_write_timeout(Some(TEST_DEADLINE)).unwrap();
            scope.spawn(move || (&near).write_all(data).and_then(|()| near.shutdown(Shutdown::Write)).unwrap());
            scope.spawn(move || {
                let mut received = Vec::new();
                far.read_to_end(&mut received).unwrap();
                assert!(received == *data, "{} of {} bytes", received.len(), data.len());
            });
        }
    });
}

/// The source ports of the long datagrams that leave the left gateway by the first path during this.
fn ports_of_packets(sites: &Sites, work: impl FnOnce()) -> BTreeSet<u16> {
    let mut capture = sites.left.run(|| Capture::outgoing("path1").unwrap()).unwrap();
    work();
    let mut ports = BTreeSet::new();
    while let Some((length, port)) =
        capture.next(|_, packet| (packet.len(), u16::from_be_bytes([packet[20], packet[21]])))
    {
        ports.extend((length > 1000).then_some(port));
    }
    ports
}

#[test]
fn flows_pass_on_all_threads_and_arrive_unchanged() {
    in_namespaces("flows_pass_on_all_threads_and_arrive_unchanged", || {
        for threads in [2, 3] {
            let (sites, left, right) = connected([threads; 2]);
            let all: BTreeSet<_> = (0..threads as u16).map(|thread| PORT + thread).collect();
            let mut seen = BTreeSet::new();
            // By which queue a flow leaves is up to the kernel.
            assert!(eventually(|| {
                seen.extend(ports_of_packets(&sites, || transfer_at_once(&sites, 16, 100_000)));
                seen == all
            }));
            sites.transfer(500_000);
            sites.send(&sites.b, "fd02::2", &sites.a, "fd01::2", 100);
            for plane in [&left, &right] {
                let status = plane.status().unwrap();
                assert_eq!((status.threads, status.node.foreign_source_packets), (threads, 0));
                assert_eq!(status.node.refused_datagrams, 0);
            }
            drop((left, right));
            for gateway in [&sites.left, &sites.right] {
                let links = run_ip(gateway, &["-o", "link"]).unwrap();
                assert!(!links.contains("tunnel"), "{links}");
            }
        }
    });
}

#[test]
fn gateways_with_different_numbers_of_threads_use_the_smaller() {
    in_namespaces("gateways_with_different_numbers_of_threads_use_the_smaller", || {
        for threads in [[3, 1], [1, 2], [3, 2]] {
            let (sites, left, right) = connected(threads);
            transfer_at_once(&sites, 16, 100_000);
            sites.transfer(200_000);
            assert_eq!([&left, &right].map(in_use), [threads[0].min(threads[1]) as u32; 2]);
            drop((left, right));
        }
    });
}

#[test]
fn a_gateway_that_restarts_is_found_by_all_threads_even_if_it_has_others_then() {
    in_namespaces("a_gateway_that_restarts_is_found_by_all_threads_even_if_it_has_others_then", || {
        let (sites, left, mut right) = connected([2, 2]);
        let keys = keys([1, 2]);
        for threads in [2, 1, 3] {
            transfer_at_once(&sites, 8, 50_000);
            drop(right);
            right = start(&sites.right, of_threads(2, &keys, true, threads));
            let expected = threads.min(2) as u32;
            assert!(eventually(|| is_connected(&right) && [&left, &right].map(in_use) == [expected; 2]));
        }
        transfer_at_once(&sites, 8, 50_000);
        assert!(left.status().unwrap().remotes[0].restarts >= 3);
        drop((left, right));
    });
}

/// It ended with "File descriptor in bad state" before (issue 40, 24).
#[test]
fn a_device_that_somebody_deletes_is_made_again_with_its_addresses_routes_and_queues() {
    in_namespaces("a_device_that_somebody_deletes_is_made_again_with_its_addresses_routes_and_queues", || {
        let (sites, left, right) = connected([2, 2]);
        for _ in 0..3 {
            run_ip(&sites.left, &["link", "del", "tunnel"]).unwrap();
            assert!(eventually(|| run_ip(&sites.left, &["link", "show", "tunnel"]).is_ok()));
            transfer_at_once(&sites, 8, 50_000);
        }
        assert!(left.is_running() && right.is_running());
        drop((left, right));
    });
}

#[test]
fn a_plane_ends_with_the_error_of_a_thread() {
    in_namespaces("a_plane_ends_with_the_error_of_a_thread", || {
        let (sites, left, right) = connected([2, 2]);
        let on_the_left = |command: &[&str]| run_ip(&sites.left, command).unwrap();
        on_the_left(&["link", "set", "tunnel", "down"]);
        on_the_left(&["link", "set", "tunnel", "name", "other"]);
        on_the_left(&["link", "add", "tunnel", "type", "veth", "peer", "name", "tunnelpeer"]);
        on_the_left(&["link", "del", "other"]);
        assert!(eventually(|| !left.is_running()));
        let error = left.stop().unwrap_err().to_string();
        assert!(error.starts_with("cannot make the TUN device tunnel"), "{error}");
        assert!(right.is_running());
        drop(right);
    });
}

#[test]
fn paths_that_flap_lose_no_byte_of_what_threads_carry() {
    in_namespaces("paths_that_flap_lose_no_byte_of_what_threads_carry", || {
        for threads in [2, 3] {
            let (sites, left, right) = connected([threads; 2]);
            thread::scope(|scope| {
                let flapping = scope.spawn(|| {
                    for state in ["down", "up"].iter().cycle().take(4) {
                        run_ip(&sites.left, &["link", "set", "path2", state]).unwrap();
                        thread::sleep(Duration::from_secs(1));
                    }
                });
                while !flapping.is_finished() {
                    transfer_at_once(&sites, 6, 100_000);
                }
            });
            let before = sent_on_each_path(&left);
            assert!(eventually(|| {
                transfer_at_once(&sites, 6, 100_000);
                sent_on_each_path(&left)[1] > before[1] + 100
            }));
            drop((left, right));
        }
    });
}
