//! Real cross traffic, over the lab's own bottleneck and over the kernel's.

mod common;

use common::in_namespaces;
use lab::htb::Htb;
use lab::network::{HostSpec, Network, NetworkSpec};
use lab::traffic::{GreedyTcp, UdpTraffic};
use lab::{Direction, Fabric};
use link::middlebox::{Match, MiddleboxConfig, Refusal, Rule};
use link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use net::clock;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use units::{Rate, Span, Time};

fn network() -> Network {
    let (rate, delay) = (Some(Rate::from_mbit(50)), Span::from_millis(1));
    let link = LinkConfig { rate, queue_bytes: 100_000, delay, jitter: Span::ZERO, loss: 0.0, seed: 1 };
    let mut spec = NetworkSpec::pair(link);
    spec.left.push(HostSpec::numbered("c", 3));
    spec.right.push(HostSpec::numbered("d", 4));
    Network::build(spec).unwrap()
}

fn pattern(kind: CrossKind) -> CrossConfig {
    CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 7 }
}

fn poisson(mbit: u64) -> CrossConfig {
    pattern(CrossKind::Poisson { rate: Rate::from_mbit(mbit), sizes: SizeMix::fixed(1000) })
}

/// Waits until `condition` holds, for a machine that is busy with other things.
fn eventually(condition: impl Fn() -> bool) -> bool {
    (0..1000).any(|_| {
        condition() || {
            thread::sleep(Duration::from_millis(10));
            false
        }
    })
}

#[test]
fn udp_traffic_arrives_and_counts_as_cross_traffic() {
    in_namespaces("udp_traffic_arrives_and_counts_as_cross_traffic", || {
        let network = network();
        let start = clock::realtime();
        let (c, d) = (network.host("c").unwrap(), network.host("d").unwrap());
        let traffic = UdpTraffic::start(c, d, &poisson(10)).unwrap();
        assert!(eventually(|| traffic.received_bytes() > 200_000));
        let end = clock::realtime();
        let sent = traffic.bytes_between(start, end).unwrap();
        assert_eq!(sent % 1000, 0);
        let seen = network.cross_rate(Direction::Up, start, end).unwrap();
        let seen = seen.bytes_in(end - start);
        // A packet may be stamped on the other side of the window's end than it was counted.
        assert!(seen.abs_diff(sent) <= 2001, "{seen} against {sent}");
        assert_eq!(traffic.bytes_between(start - Span::from_secs(100), end), None);
    });
}

#[test]
fn greedy_tcp_takes_what_there_is_with_the_congestion_control_asked_for() {
    in_namespaces("greedy_tcp_takes_what_there_is_with_the_congestion_control_asked_for", || {
        let network = network();
        let (c, d) = (network.host("c").unwrap(), network.host("d").unwrap());
        for congestion_control in ["cubic", "reno"] {
            let traffic = GreedyTcp::start(c, d, congestion_control).unwrap();
            assert!(eventually(|| traffic.received_bytes() > 500_000), "{congestion_control}");
        }
        let error = GreedyTcp::start(c, d, "no-such").unwrap_err().to_string();
        assert!(error.contains("no-such") && error.contains("tcp_available_congestion_control"), "{error}");
    });
}

#[test]
fn the_kernels_token_bucket_is_as_set_or_says_what_is_missing() {
    in_namespaces("the_kernels_token_bucket_is_as_set_or_says_what_is_missing", || {
        let mut htb: Box<dyn Fabric> = match Htb::build(Rate::from_mbit(100), 150_000) {
            Ok(htb) => Box::new(htb),
            Err(error) => return assert!(error.to_string().contains("the lab's own bottleneck does not"), "{error}"),
        };
        for direction in [Direction::Up, Direction::Down] {
            htb.verify(direction).unwrap();
        }
        let constant = CrossKind::Constant { rate: Rate::from_mbit(30), size: 1500 };
        htb.set_cross(Direction::Up, &[pattern(constant)]).unwrap();
        thread::sleep(Duration::from_millis(100));
        let end = clock::realtime();
        let truth = htb.truth(Direction::Up, end - Span::from_millis(80), end).unwrap();
        assert!(truth < Rate::from_mbit(100) && truth > Rate::from_mbit(40), "{truth}");
        assert_eq!(htb.truth(Direction::Down, end - Span::from_millis(80), end).unwrap(), Rate::from_mbit(100));
    });
}

#[test]
fn the_router_before_the_token_bucket_refuses_udp_of_the_measuring_host_alone() {
    in_namespaces("the_router_before_the_token_bucket_refuses_udp_of_the_measuring_host_alone", || {
        let Ok(mut htb) = Htb::build(Rate::from_mbit(100), 150_000) else { return };
        let refusing = |protocol| {
            let matching = Match { protocol: Some(protocol), destination_port: None };
            MiddleboxConfig { rules: vec![Rule::Refuse { matching, how: Refusal::Reject }], nat: None }
        };
        htb.set_middlebox(Some(refusing(17))).unwrap();
        let socket = |htb: &Htb, name: &str| {
            let host = htb.host(name).unwrap();
            let address = (host.v4, 0);
            let socket = host.namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            socket
        };
        let (a, b, c) = (socket(&htb, "a"), socket(&htb, "b"), socket(&htb, "c"));
        a.connect(b.local_addr().unwrap()).unwrap();
        a.send(b"refused").unwrap();
        // The router's answer reaches the socket as an error.
        let error = a.recv(&mut [0; 10]).unwrap_err();
        assert!(error.kind() != std::io::ErrorKind::WouldBlock, "{error}");
        c.send_to(b"passes", b.local_addr().unwrap()).unwrap();
        assert_eq!(b.recv(&mut [0; 10]).unwrap(), 6);
        assert!(htb.set_middlebox(Some(refusing(6))).unwrap_err().to_string().contains("refuse UDP and nothing else"));
        htb.set_middlebox(None).unwrap();
        a.send(b"now").unwrap();
        assert_eq!(b.recv(&mut [0; 10]).unwrap(), 3);
    });
}
