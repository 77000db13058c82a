//! Two sites behind gateways: packets take the path that they are sent on, with its delay, until it is cut.

use kumade_link::LinkConfig;
use kumade_net::clock;
use kumade_netns_testbed::{
    ArrivalRecorder, NumberedPackets, PacketContent, PathLinks, Sites, TEST_DEADLINE, Traffic, eventually,
    in_namespaces, received_packets, retransmitted_segments,
};
use kumade_units::{Rate, Span, Time};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

fn path(delay: Span) -> PathLinks {
    let link = LinkConfig { rate: Some(Rate::from_mbit(50)), delay, ..LinkConfig::default() };
    PathLinks { up: link.clone(), down: link }
}

fn sites() -> Sites {
    Sites::with_emulated_paths(vec![path(Span::from_millis(2)), path(Span::from_millis(9))]).unwrap()
}

fn socket(host: &kumade_netns_testbed::Host, address: Ipv4Addr) -> UdpSocket {
    let socket = host.namespace.run(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    socket
}

/// There and back; returns the round-trip time.
fn echo(near: &UdpSocket, far: &UdpSocket) -> Span {
    let start = clock::monotonic();
    near.send_to(b"there", far.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 9];
    let (_, from) = far.recv_from(&mut buffer).unwrap();
    far.send_to(b"back", from).unwrap();
    near.recv_from(&mut buffer).unwrap();
    clock::monotonic() - start
}

#[test]
fn packets_take_the_first_path_or_that_of_their_address() {
    in_namespaces("packets_take_the_first_path_or_that_of_their_address", || {
        let sites = sites();
        for (near, far, delay, place) in [
            (sites.a.v4, sites.b.v4, 2, 0),
            (Sites::host_address_on_path(0, 1), Sites::host_address_on_path(0, 2), 2, 0),
            (Sites::host_address_on_path(1, 1), Sites::host_address_on_path(0, 2), 9, 1),
        ] {
            let before = sites.link_counters().unwrap();
            let round_trip = echo(&socket(&sites.a, near), &socket(&sites.b, far));
            assert!(round_trip >= Span::from_millis(delay) * 2, "{round_trip}");
            let after = sites.link_counters().unwrap();
            assert!(after[place][0].forwarded.packets > before[place][0].forwarded.packets, "{near}");
            assert!(after[place][1].forwarded.packets > before[place][1].forwarded.packets, "{near}");
            assert_eq!(after[1 - place][0].forwarded.packets, before[1 - place][0].forwarded.packets, "{near}");
        }
        assert!(sites.lateness(Time::ZERO, clock::realtime()).unwrap().packets > 0);
        assert_eq!(sites.missed_packets().unwrap(), 0);
    });
}

#[test]
fn a_cut_path_passes_nothing_until_it_is_mended() {
    in_namespaces("a_cut_path_passes_nothing_until_it_is_mended", || {
        let sites = sites();
        let (near, far) = (socket(&sites.a, sites.a.v4), socket(&sites.b, sites.b.v4));
        sites.set_cut(0, true).unwrap();
        near.send_to(b"lost", far.local_addr().unwrap()).unwrap();
        far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(far.recv(&mut [0; 9]).is_err());
        sites.set_cut(0, false).unwrap();
        far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        echo(&near, &far);
    });
}

#[test]
fn what_arrives_is_recorded_packet_by_packet() {
    in_namespaces("what_arrives_is_recorded_packet_by_packet", || {
        let sites = sites();
        let arrivals = ArrivalRecorder::start(&sites.b, Sites::LAN).unwrap();
        let interval = Span::from_millis(1);
        let packets = NumberedPackets::send(&sites.a, (&sites.b, sites.b.v4), 500, interval, 50).unwrap();
        assert!(eventually(|| !packets.is_running()));
        assert_eq!(packets.sent_packets(), 50);
        let mut seen = Vec::new();
        assert!(eventually(|| {
            seen.extend(arrivals.take_packets().0);
            seen.len() == 50
        }));
        for (expected, packet) in seen.iter().enumerate() {
            let PacketContent::Numbered { port, number, sent } = packet.content else { panic!("{packet:?}") };
            assert_eq!((port, number, packet.bytes), (packets.port(), expected as u64, 528));
            assert!(packet.stamp - sent >= Span::from_millis(2), "{packet:?}");
        }
        let connection = Traffic::tcp(&sites.a, &sites.b, "cubic", None).unwrap();
        assert!(eventually(|| connection.received_bytes() > 100_000));
        let segments = arrivals.take_packets().0;
        // As long as on the wire, however the hosts' kernels hand them over.
        assert!(segments.iter().all(|packet| packet.bytes <= 1500), "{segments:?}");
        retransmitted_segments(&sites.a).unwrap();
    });
}

#[test]
fn cables_join_the_sites_as_well() {
    in_namespaces("cables_join_the_sites_as_well", || {
        let sites = Sites::with_veth_paths(2).unwrap();
        let before = received_packets(&sites.b, Sites::LAN).unwrap();
        echo(&socket(&sites.a, sites.a.v4), &socket(&sites.b, sites.b.v4));
        assert!(received_packets(&sites.b, Sites::LAN).unwrap() > before);
        assert!(sites.link_counters().is_err());
    });
}
