//! The lab's network carries what real hosts send, as set, and leaves nothing behind.

use kumade_link::{CrossConfig, CrossKind, LinkConfig, Loss, Medium, TokenBucket};
use kumade_middlebox::{FilterRule, MiddleboxConfig, NatConfig, PacketMatch, RefusalKind};
use kumade_net::udp::{DatagramReceiver, report_marks, send_marked};
use kumade_net::{clock, readiness};
use kumade_netns_testbed::{
    ExperimentNetwork, Host, HostSpec, Network, NetworkError, NetworkSpec, ProxiedNetwork, TEST_DEADLINE, VerifiedLink,
    in_namespaces,
};
use kumade_packet::Ecn;
use kumade_units::Direction;
use kumade_units::{Rate, Span, Time};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

const DELAY: Span = Span::from_millis(2);

fn config(mbit: u64) -> LinkConfig {
    let rate = Some(Rate::from_mbit(mbit));
    LinkConfig { rate, queue_bytes: 200_000, delay: DELAY, seed: 1, ..LinkConfig::default() }
}

fn udp(host: &Host, address: IpAddr) -> UdpSocket {
    let socket = host.namespace.run(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    socket
}

/// Sends one datagram there and back; returns the round-trip time.
fn echo(near: &UdpSocket, far: &UdpSocket) -> Span {
    let start = clock::monotonic();
    let mut buffer = [0; 100];
    near.send_to(b"there", far.local_addr().unwrap()).unwrap();
    let (length, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"there"[..], near.local_addr().unwrap()));
    far.send_to(b"and back", from).unwrap();
    let (length, _) = near.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"and back");
    clock::monotonic() - start
}

fn transfer(network: &Network, bytes: usize) -> Span {
    let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
    let address = SocketAddr::from((b.v4, 0));
    let listener = b.namespace.run(|| TcpListener::bind(address)).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let start = clock::monotonic();
    let sender = a.namespace.spawn("sender", move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&vec![7; bytes]).unwrap();
    });
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    sender.unwrap().join().unwrap();
    assert_eq!(received, vec![7; bytes]);
    clock::monotonic() - start
}

/// What a direction was found to be; none where the machine was too busy for the probe packets to keep time, which is
/// said. That right settings are told from wrong ones is tested on given arrival times, beside [`Network::verify`].
fn verified(network: &Network, direction: Direction) -> Option<VerifiedLink> {
    match network.verify(direction) {
        Ok(found) => Some(found),
        Err(NetworkError::NotAsSet { direction: of, found, .. }) => {
            assert!(of == direction && !found.is_empty(), "{found}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Linux sends ECT(0) alone: L4S senders, whose packets are ECT(1), are hosts whose packets are re-marked.
#[test]
fn a_hosts_ecn_capable_packets_are_sent_as_what_it_says() {
    in_namespaces("a_hosts_ecn_capable_packets_are_sent_as_what_it_says", || {
        let pair = NetworkSpec::host_pair(config(100));
        let left = vec![HostSpec { ect: Some(Ecn::Ect1), ..pair.left[0].clone() }];
        let network = Network::build(NetworkSpec { left, ..pair }).unwrap();
        let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
        for (near, far) in [(IpAddr::from(a.v4), IpAddr::from(b.v4)), (a.v6.unwrap().into(), b.v6.unwrap().into())] {
            let (sender, receiver) = (udp(a, near), udp(b, far));
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            report_marks(&receiver, true).unwrap();
            let (mut datagrams, mut arrived) = (DatagramReceiver::new(1), Vec::new());
            for sent in [Ecn::Ect0, Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
                send_marked(&sender, b"x", sent as u8, None).unwrap();
            }
            while arrived.len() < 4 {
                let deadline = clock::monotonic() + Span::from_secs(TEST_DEADLINE.as_secs() as i64);
                assert!(readiness::wait_readable(&receiver, deadline).unwrap());
                datagrams
                    .receive(&receiver, |_, arrival| arrived.push(Ecn::from_bits(arrival.ds_field.unwrap())))
                    .unwrap();
            }
            assert_eq!(arrived, [Ecn::Ect1, Ecn::NotEct, Ecn::Ect1, Ecn::Ce]);
        }
    });
}

#[test]
fn datagrams_pass_in_both_families_and_take_the_delay() {
    in_namespaces("datagrams_pass_in_both_families_and_take_the_delay", || {
        let network = Network::build(NetworkSpec::host_pair(config(100))).unwrap();
        let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
        for (near, far) in [(a.v4.into(), b.v4.into()), (a.v6.unwrap().into(), b.v6.unwrap().into())] {
            let round_trip = echo(&udp(a, near), &udp(b, far));
            assert!(round_trip >= DELAY * 2, "{round_trip}");
        }
        assert!(matches!(network.host("c"), Err(NetworkError::NoHost(_))));
    });
}

#[test]
fn kernel_tcp_passes_no_faster_than_the_link() {
    in_namespaces("kernel_tcp_passes_no_faster_than_the_link", || {
        let network = Network::build(NetworkSpec::host_pair(config(50))).unwrap();
        let took = transfer(&network, 1_000_000);
        // A megabyte of payload and its headers at 50 Mbit/s; slow start and a busy machine add to it.
        assert!(took >= Span::from_millis(160), "{took}");
        let drops = network.drops(Direction::Up).unwrap();
        assert_eq!((drops.missed, drops.unroutable), (0, 0));
        assert!(drops.packets.forwarded.bytes > 1_000_000);
    });
}

#[test]
fn what_was_built_is_verified() {
    in_namespaces("what_was_built_is_verified", || {
        let lossy = LinkConfig { loss: Loss::Independent(0.2), ..config(10) };
        let spec = NetworkSpec { up: config(100), ..NetworkSpec::host_pair(lossy) };
        let network = Network::build(spec).unwrap();
        assert!(verified(&network, Direction::Up).is_none_or(|up| up.loss == 0.0));
        assert!(verified(&network, Direction::Down).is_none_or(|down| down.loss > 0.05));
    });
}

#[test]
fn the_truth_is_the_rate_less_computed_cross_traffic_and_other_hosts_packets() {
    in_namespaces("the_truth_is_the_rate_less_computed_cross_traffic_and_other_hosts_packets", || {
        let mut spec = NetworkSpec::host_pair(config(100));
        spec.left.push(HostSpec::with_number("c", 3));
        let network = Network::build(spec).unwrap();
        let kind = CrossKind::Constant { rate: Rate::from_mbit(40), size: 1500 };
        let source = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 1 };
        network.set_cross_traffic(Direction::Up, &[source]).unwrap();
        let start = clock::realtime();
        let (c, b) = (network.host("c").unwrap(), network.host("b").unwrap());
        let (sender, receiver) = (udp(c, c.v4.into()), udp(b, b.v4.into()));
        let own = udp(network.host("a").unwrap(), network.host("a").unwrap().v4.into());
        for _ in 0..20 {
            sender.send_to(&[0; 972], receiver.local_addr().unwrap()).unwrap();
            own.send_to(&[0; 972], receiver.local_addr().unwrap()).unwrap();
        }
        (0..40).for_each(|_| assert_eq!(receiver.recv(&mut [0; 2000]).unwrap(), 972));
        // A window in which one packet of the constant traffic is little.
        thread::sleep(Duration::from_millis(100));
        let end = clock::realtime();
        let truth = network.available_bandwidth(Direction::Up, start, end).unwrap().as_f64();
        let expected = 60e6 - 20_000.0 * 8.0 / (end - start).as_secs_f64();
        // One packet of the constant traffic more or less falls into the window.
        assert!((truth - expected).abs() < 13_000.0 / (end - start).as_secs_f64(), "{truth} against {expected}");
        assert_eq!(network.available_bandwidth(Direction::Down, start, end).unwrap(), Rate::from_mbit(100));
        let long_ago = start - Span::from_secs(3600);
        assert!(matches!(network.available_bandwidth(Direction::Up, long_ago, end), Err(NetworkError::NoRecord(_))));
        assert!(network.lateness(Direction::Up, start, end).unwrap().packets >= 40);
    });
}

/// What leaves the bottleneck passes the hop behind it, whose own traffic counts, and both are verified.
#[test]
fn a_later_hop_and_a_token_bucket_are_as_set() {
    in_namespaces("a_later_hop_and_a_token_bucket_are_as_set", || {
        let medium = Some(Medium::TokenBucket(TokenBucket { rate: Rate::from_mbit(10), burst_bytes: 10_000 }));
        let shaped = LinkConfig { medium, ..config(1000) };
        let spec =
            NetworkSpec { up_second_hop: Some(config(200)), down: shaped, ..NetworkSpec::host_pair(config(100)) };
        let network = Network::build(spec).unwrap();
        verified(&network, Direction::Up);
        let down = verified(&network, Direction::Down).and_then(|down| down.rate);
        assert!(down.is_none_or(|rate| (rate.as_f64() / 10e6 - 1.0).abs() < 0.02), "{down:?}");
        let kind = CrossKind::Constant { rate: Rate::from_mbit(160), size: 1500 };
        let source = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 1 };
        network.set_downstream_cross_traffic(Direction::Up, std::slice::from_ref(&source)).unwrap();
        assert!(matches!(network.set_downstream_cross_traffic(Direction::Down, &[source]), Err(NetworkError::Spec(_))));
        let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
        let start = clock::realtime();
        let round_trip = echo(&udp(a, a.v4.into()), &udp(b, b.v4.into()));
        assert!(round_trip >= DELAY * 3, "{round_trip}");
        thread::sleep(Duration::from_millis(100));
        let end = clock::realtime();
        let truth = network.available_bandwidth(Direction::Up, start, end).unwrap().as_f64();
        assert!((truth - 40e6).abs() < 13_000.0 / (end - start).as_secs_f64(), "{truth}");
        assert_eq!(network.available_bandwidth(Direction::Down, start, end).unwrap(), Rate::from_mbit(10));
    });
}

#[test]
fn descriptions_that_no_network_can_have_are_refused() {
    let refused = |spec: NetworkSpec, part: &str| {
        let error = Network::build(spec).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let good = NetworkSpec::host_pair(config(10));
    refused(NetworkSpec { right: vec![], ..good.clone() }, "each side needs a host");
    refused(NetworkSpec { right: good.left.clone(), ..good.clone() }, "a and a share");
    let hasty = LinkConfig { delay: Span::from_micros(100), ..config(10) };
    refused(NetworkSpec { down: hasty, ..good }, "the delay down is 100 µs, give it at least 200 µs");
}

#[test]
fn a_middlebox_refuses_udp_and_lets_tcp_pass_until_it_is_taken_away() {
    in_namespaces("a_middlebox_refuses_udp_and_lets_tcp_pass_until_it_is_taken_away", || {
        let network = Network::build(NetworkSpec::host_pair(config(100))).unwrap();
        let matching = PacketMatch { protocol: Some(17), destination_port: None };
        let rules = vec![FilterRule::Refuse { matching, refusal: RefusalKind::Reject }];
        network.set_middlebox(Some(MiddleboxConfig { rules, ..Default::default() })).unwrap();
        // Verifying takes the middlebox away for a while, and puts it back.
        verified(&network, Direction::Up);
        let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
        let (near, far) = (udp(a, a.v4.into()), udp(b, b.v4.into()));
        near.connect(far.local_addr().unwrap()).unwrap();
        near.send(b"refused").unwrap();
        let error = near.recv(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(network.drops(Direction::Up).unwrap().refused, 1);
        transfer(&network, 10_000);
        network.set_middlebox(None).unwrap();
        echo(&udp(a, a.v4.into()), &far);
    });
}

#[test]
fn a_translator_shows_the_far_host_another_address() {
    in_namespaces("a_translator_shows_the_far_host_another_address", || {
        let network = Network::build(NetworkSpec::host_pair(config(100))).unwrap();
        let external = "203.0.113.7".parse().unwrap();
        let nat = Some(NatConfig::new(external));
        network.set_middlebox(Some(MiddleboxConfig { nat, ..Default::default() })).unwrap();
        let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
        let (near, far) = (udp(a, a.v4.into()), udp(b, b.v4.into()));
        near.send_to(b"there", far.local_addr().unwrap()).unwrap();
        let (_, from) = far.recv_from(&mut [0; 10]).unwrap();
        assert_eq!(from.ip(), IpAddr::V4(external));
        far.send_to(b"and back", from).unwrap();
        assert_eq!(near.recv_from(&mut [0; 10]).unwrap().1, far.local_addr().unwrap());
        transfer(&network, 100_000);
    });
}

#[test]
fn through_a_proxy_tcp_passes_both_bottlenecks_and_udp_does_not() {
    in_namespaces("through_a_proxy_tcp_passes_both_bottlenecks_and_udp_does_not", || {
        const PORT: u16 = 4000;
        let [near, far] = [config(50), config(20)].map(NetworkSpec::host_pair);
        let network = ProxiedNetwork::build(near, far, PORT).unwrap();
        let (a, b) = (network.host("a").unwrap(), network.host("b").unwrap());
        let server = SocketAddr::from((b.v4, PORT));
        let listener = b.namespace.run(|| TcpListener::bind(server)).unwrap().unwrap();
        let echoing = b.namespace.spawn("echo", move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 5];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(&question).unwrap();
        });
        let started = clock::realtime();
        let begun = clock::monotonic();
        let mut client = a.namespace.run(|| TcpStream::connect(server)).unwrap().unwrap();
        client.write_all(b"there").unwrap();
        let mut answer = [0; 5];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"there");
        // Two handshakes, one after the other or at once, and there and back over both links.
        assert!(clock::monotonic() - begun > DELAY * 4);
        echoing.unwrap().join().unwrap();
        let socket = udp(a, a.v4.into());
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket.connect(server).unwrap();
        socket.send(b"there").unwrap();
        assert!(socket.recv(&mut answer).is_err());
        let truth = network.true_available_bandwidth(Direction::Up, started, clock::realtime()).unwrap();
        assert_eq!(truth, Rate::from_mbit(20));
    });
}
