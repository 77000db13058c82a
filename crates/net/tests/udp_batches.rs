//! Many datagrams at a time, over loopback and over a cable.

use kumade_net::capture::Capture;
use kumade_net::interface::{self, Family};
use kumade_net::namespace::Namespace;
use kumade_net::udp::{BatchReceiver, BatchSocket, SendRefusal};
use kumade_net::{SocketBinding, clock, readiness};
use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use kumade_packet::{DsField, Ecn};
use kumade_units::Span;
use std::net::{IpAddr, SocketAddr};

const FAMILIES: [(Family, &str); 2] = [(Family::V4, "127.0.0.1"), (Family::V6, "::1")];

fn open(family: Family) -> BatchSocket {
    BatchSocket::bind(&SocketBinding::default(), family, 0).unwrap()
}

fn address(socket: &BatchSocket, host: &str) -> SocketAddr {
    SocketAddr::new(host.parse::<IpAddr>().unwrap(), socket.local_addr().unwrap().port())
}

fn numbered(count: u8, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![number; len]).collect()
}

/// The datagrams, and in how many parts the kernel handed them over.
fn received(receiver: &mut BatchReceiver, count: usize, from: SocketAddr, ecn: Ecn) -> (Vec<Vec<u8>>, usize) {
    let (mut all, mut parts) = (Vec::new(), 0);
    while all.len() < count {
        assert!(readiness::wait_readable(receiver, clock::monotonic() + Span::from_secs(60)).unwrap());
        parts += receiver
            .receive(|received| {
                assert_eq!((received.source, received.ecn), (from, ecn));
                assert!(received.stamp.is_none_or(|stamp| stamp <= clock::realtime()));
                all.extend(received.datagrams().map(|datagram| datagram.to_vec()));
            })
            .unwrap();
    }
    (all, parts)
}

#[test]
fn datagrams_of_one_length_travel_as_one_packet_with_their_ecn_field() {
    for (family, host) in FAMILIES {
        let (near, far) = (open(family), open(family));
        let mut receiver = BatchReceiver::new(&far);
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let mut sent = numbered(40, 1200);
            sent.extend(numbered(1, 7));
            let done = near.send(address(&far, host), ecn, &sent, |_, refusal| panic!("{refusal:?}"));
            assert_eq!(done, sent.len());
            let (found, parts) = received(&mut receiver, sent.len(), address(&near, host), ecn);
            assert_eq!(found, sent);
            assert!(near.is_segmenting() && parts < sent.len(), "{parts} parts");
        }
        assert_eq!(receiver.receive(|_| panic!("there is no more")).unwrap(), 0);
    }
}

#[test]
fn datagrams_of_any_lengths_come_in_order() {
    for (family, host) in FAMILIES {
        let (near, far) = (open(family), open(family));
        let mut receiver = BatchReceiver::new(&far);
        let lengths = [1, 500, 500, 499, 500, 1400, 1400, 20, 20, 20, 1300, 9000, 30_000, 30_000, 5];
        let sent: Vec<_> = lengths.iter().zip(0..).map(|(&len, number)| vec![number; len]).collect();
        assert_eq!(near.send(address(&far, host), Ecn::NotEct, &sent, |_, refusal| panic!("{refusal:?}")), sent.len());
        assert_eq!(received(&mut receiver, sent.len(), address(&near, host), Ecn::NotEct).0, sent);
    }
}

#[test]
fn what_is_too_long_for_the_device_is_refused_and_the_rest_is_sent() {
    in_namespaces("what_is_too_long_for_the_device_is_refused_and_the_rest_is_sent", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            interface::set_mtu("lo", 1500).unwrap();
            for ((family, host), headers) in FAMILIES.into_iter().zip([28, 48]) {
                let (near, far) = (open(family), open(family));
                let longest = 1500 - headers;
                let sent = [longest, longest, longest + 1, longest + 1, longest + 1, 100, 100].map(|len| vec![0; len]);
                let mut refused = Vec::new();
                let refuse = |index, refusal| {
                    assert!(matches!(refusal, SendRefusal::TooLong), "{refusal:?}");
                    refused.push(index);
                };
                assert_eq!(near.send(address(&far, host), Ecn::NotEct, &sent, refuse), sent.len());
                assert_eq!(refused, [2, 3, 4]);
                assert!(near.is_segmenting(), "the length was refused, not segmentation");
                let found = received(&mut BatchReceiver::new(&far), 4, address(&near, host), Ecn::NotEct).0;
                assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [longest, longest, 100, 100]);
            }
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn a_path_without_route_refuses_each_datagram() {
    in_namespaces("a_path_without_route_refuses_each_datagram", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let (near, mut refused) = (open(Family::V4), 0);
            let refuse = |_, refusal| {
                assert!(matches!(refusal, SendRefusal::Other(_)), "{refusal:?}");
                refused += 1;
            };
            let done = near.send("192.0.2.1:9".parse().unwrap(), Ecn::NotEct, &numbered(10, 100), refuse);
            assert_eq!((done, refused), (10, 10));
            assert!(near.is_segmenting());
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn datagrams_cross_a_cable_in_order() {
    in_namespaces("datagrams_cross_a_cable_in_order", || {
        let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap()];
        let path = hosts[1].path();
        run_ip(&hosts[0], &["link", "add", "one", "type", "veth", "peer", "name", "two", "netns", &path]).unwrap();
        for (host, device, number) in [(&hosts[0], "one", 1), (&hosts[1], "two", 2)] {
            let set = || {
                interface::add_address(device, format!("10.96.0.{number}/24").parse().unwrap()).unwrap();
                interface::add_address(device, format!("fd96::{number}/64").parse().unwrap()).unwrap();
                interface::set_up(device).unwrap();
            };
            host.run(set).unwrap();
        }
        let name = |device: &str| SocketBinding { interface: Some(device.into()), ..SocketBinding::default() };
        for (family, [near_host, far_host]) in
            [(Family::V4, ["10.96.0.1", "10.96.0.2"]), (Family::V6, ["fd96::1", "fd96::2"])]
        {
            let pair = || {
                let near = hosts[0].run(|| BatchSocket::bind(&name("one"), family, 0).unwrap()).unwrap();
                (near, hosts[1].run(|| BatchSocket::bind(&name("two"), family, 0).unwrap()).unwrap())
            };
            let (knocking, listening) = pair();
            let is_there = || {
                knocking.send(address(&listening, far_host), Ecn::NotEct, &[b"hello"], |_, _| {});
                readiness::wait_readable(&listening, clock::monotonic() + Span::from_millis(100)).unwrap()
            };
            assert!(eventually(is_there), "addresses and neighbours are known");
            let (near, far) = pair();
            let mut receiver = BatchReceiver::new(&far);
            for _ in 0..10 {
                let sent = numbered(60, 1452);
                let done = near.send(address(&far, far_host), Ecn::Ect1, &sent, |_, refusal| panic!("{refusal:?}"));
                assert_eq!(done, sent.len());
                let found = received(&mut receiver, sent.len(), address(&near, near_host), Ecn::Ect1).0;
                assert_eq!(found, sent);
            }
        }
    });
}

/// Of datagrams that travel as one packet, and of one alone; seen as they leave.
#[test]
fn dscp_and_ecn_stand_in_the_header_of_either_version_of_ip() {
    in_namespaces("dscp_and_ecn_stand_in_the_header_of_either_version_of_ip", || {
        let host = Namespace::new().unwrap();
        run_ip(&host, &["link", "set", "lo", "up"]).unwrap();
        for (family, loopback) in FAMILIES {
            let (near, far) = host.run(|| (open(family), open(family))).unwrap();
            let mut capture = host.run(|| Capture::outgoing("lo").unwrap()).unwrap();
            for (dscp, ecn) in [("ef", Ecn::Ect0), ("cs1", Ecn::NotEct), ("0", Ecn::Ect1), ("0", Ecn::NotEct)] {
                let field = DsField::new(dscp.parse().unwrap(), ecn);
                for count in [1, 20] {
                    let sent = numbered(count, 300);
                    let done = near.send(address(&far, loopback), field, &sent, |_, refusal| panic!("{refusal:?}"));
                    assert_eq!(done, sent.len());
                    let mut shown = Vec::new();
                    assert!(eventually(|| {
                        shown.extend(std::iter::from_fn(|| capture.next(|_, packet| DsField::read(packet))));
                        !shown.is_empty()
                    }));
                    assert!(shown.iter().all(|shown| *shown == field), "{family:?}: {shown:?} in place of {field:?}");
                }
            }
        }
    });
}

#[test]
fn refused_sockets_say_why() {
    let taken = open(Family::V4);
    let port = taken.local_addr().unwrap().port();
    let again = BatchSocket::bind(&SocketBinding::default(), Family::V4, port).unwrap_err().to_string();
    assert!(again.contains(&format!("open UDP port {port} at any address")) && again.contains("another process"));
    // Each IP version has ports of its own.
    drop(BatchSocket::bind(&SocketBinding::default(), Family::V6, port).unwrap());
    let source = |text: &str| SocketBinding { source: Some(text.parse().unwrap()), ..SocketBinding::default() };
    let foreign = BatchSocket::bind(&source("192.0.2.1"), Family::V4, 0).unwrap_err().to_string();
    assert!(foreign.contains("no such address"), "{foreign}");
    let other = BatchSocket::bind(&source("::1"), Family::V4, 0).unwrap_err().to_string();
    assert!(other.contains("same IP version"), "{other}");
    let absent = SocketBinding { interface: Some("absent0".into()), ..SocketBinding::default() };
    let absent = BatchSocket::bind(&absent, Family::V4, 0).unwrap_err().to_string();
    assert!(absent.contains("no such interface"), "{absent}");
}
