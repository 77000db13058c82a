//! Real cross traffic, over the lab's own bottleneck and over the kernel's.

use kumade_link::queue::{DisciplineSettings, QueueConfig, QueueLimit};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Medium, SizeMix, TokenBucket};
use kumade_middlebox::{FilterRule, MiddleboxConfig, PacketMatch, RefusalKind};
use kumade_net::clock;
use kumade_netns_testbed::{
    DepartureMeter, ExperimentNetwork, FastFabric, FastHtb, FastNetwork, Host, HostSpec, HtbNetwork, Network,
    NetworkError, NetworkSpec, TEST_DEADLINE, Traffic, eventually, in_namespaces, received_packets,
};
use kumade_units::Direction;
use kumade_units::{Rate, Span, Time};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

fn network() -> Network {
    let (rate, delay) = (Some(Rate::from_mbit(50)), Span::from_millis(1));
    let link = LinkConfig { rate, queue_bytes: 100_000, delay, seed: 1, ..LinkConfig::default() };
    let mut spec = NetworkSpec::host_pair(link);
    spec.left.push(HostSpec::with_number("c", 3));
    spec.right.push(HostSpec::with_number("d", 4));
    Network::build(spec).unwrap()
}

fn pattern(kind: CrossKind) -> CrossConfig {
    CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 7 }
}

fn poisson(mbit: u64) -> CrossConfig {
    pattern(CrossKind::Poisson { rate: Rate::from_mbit(mbit), sizes: SizeMix::fixed(1000) })
}

fn seen_by_the_link(network: &Network, start: Time, end: Time) -> u64 {
    network.cross_rate(Direction::Up, start, end).unwrap().bytes_in(end - start)
}

/// Two stamps of one packet may lie on different sides of a window's end.
fn agree(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= 2 * 1500 || {
        eprintln!("{one} bytes against {other}");
        false
    }
}

#[test]
fn udp_traffic_arrives_and_counts_as_cross_traffic() {
    in_namespaces("udp_traffic_arrives_and_counts_as_cross_traffic", || {
        let network = network();
        let (c, d) = (network.host("c").unwrap(), network.host("d").unwrap());
        let meter = DepartureMeter::start(c).unwrap();
        let start = clock::realtime();
        let traffic = Traffic::udp(c, d, &poisson(10)).unwrap();
        assert!(eventually(|| traffic.received_bytes() > 200_000));
        let (received, end) = (traffic.received_bytes(), clock::realtime());
        let sent = meter.bytes_between(start, end).unwrap();
        assert_eq!(sent % 1000, 0);
        // Some are on their way; how many depends on when this thread was let run.
        assert!(sent >= received, "{sent} against {received}");
        assert!(agree(seen_by_the_link(&network, start, end), sent));
        assert!(matches!(meter.bytes_between(start - Span::from_secs(1), end), Err(NetworkError::NoRecord(_))));
    });
}

#[test]
fn greedy_tcp_takes_what_there_is_and_counts_as_cross_traffic_with_its_headers() {
    in_namespaces("greedy_tcp_takes_what_there_is_and_counts_as_cross_traffic_with_its_headers", || {
        let network = network();
        let (c, d) = (network.host("c").unwrap(), network.host("d").unwrap());
        for congestion_control in ["cubic", "reno"] {
            let meter = DepartureMeter::start(c).unwrap();
            let start = clock::realtime();
            let traffic = Traffic::tcp(c, d, congestion_control, None).unwrap();
            assert!(eventually(|| traffic.received_bytes() > 500_000), "{congestion_control}");
            let (received, end) = (traffic.received_bytes(), clock::realtime());
            let sent = seen_by_the_link(&network, start, end);
            assert!(sent as f64 > received as f64 * 1500.0 / 1448.0, "{sent} against {received}");
            assert!(agree(meter.bytes_between(start, end).unwrap(), sent));
        }
        let error = Traffic::tcp(c, d, "no-such", None).unwrap_err().to_string();
        assert!(error.contains("no-such") && error.contains("tcp_available_congestion_control"), "{error}");
    });
}

#[test]
fn tcp_never_sends_faster_than_it_may() {
    in_namespaces("tcp_never_sends_faster_than_it_may", || {
        let network = network();
        let (c, d) = (network.host("c").unwrap(), network.host("d").unwrap());
        let start = clock::realtime();
        let traffic = Traffic::tcp(c, d, "cubic", Some(Rate::from_mbit(5))).unwrap();
        assert!(eventually(|| traffic.received_bytes() > 200_000));
        let seen = network.cross_rate(Direction::Up, start, clock::realtime()).unwrap();
        // The first packets leave before the limit is felt. Without it there would be ten times as much.
        assert!(seen < Rate::from_mbit(7), "{seen}");
    });
}

#[test]
fn the_kernels_token_bucket_is_as_set_or_says_what_is_missing() {
    in_namespaces("the_kernels_token_bucket_is_as_set_or_says_what_is_missing", || {
        let mut htb: Box<dyn ExperimentNetwork> = match HtbNetwork::build(Rate::from_mbit(100), 150_000) {
            Ok(htb) => Box::new(htb),
            Err(error) => return assert!(error.to_string().contains("the lab's own bottleneck does not"), "{error}"),
        };
        for direction in [Direction::Up, Direction::Down] {
            // A busy machine may let no packet keep time; then this is said.
            let refused = htb.verify_bottleneck(direction).err();
            assert!(refused.is_none_or(|error| matches!(error, NetworkError::NotAsSet { .. })), "{direction:?}");
        }
        let constant = CrossKind::Constant { rate: Rate::from_mbit(30), size: 1500 };
        let error = htb.set_cross_traffic(Direction::Up, &[pattern(constant.clone())]).unwrap_err().to_string();
        assert!(error.contains("can only be sent"), "{error}");
        let start = clock::realtime();
        let traffic = Traffic::udp(htb.host("c").unwrap(), htb.host("d").unwrap(), &pattern(constant)).unwrap();
        assert!(eventually(|| traffic.received_bytes() > 200_000));
        let end = clock::realtime();
        let truth = htb.true_available_bandwidth(Direction::Up, start, end).unwrap();
        // A sender that was not let run sends less, and never more than what was due since it began.
        assert!(truth < Rate::from_mbit(100) && truth > Rate::from_mbit(65), "{truth}");
        assert_eq!(htb.true_available_bandwidth(Direction::Down, start, end).unwrap(), Rate::from_mbit(100));
    });
}

#[test]
fn a_fast_link_of_the_kernel_carries_no_more_than_its_rate_less_the_cross_traffic_or_says_what_is_missing() {
    in_namespaces(
        "a_fast_link_of_the_kernel_carries_no_more_than_its_rate_less_the_cross_traffic_or_says_what_is_missing",
        || {
            let rate = Rate::from_mbit(1000);
            let htb = match FastHtb::build(rate, 1_250_000, 9000) {
                Ok(htb) => htb,
                Err(error) => {
                    return assert!(error.to_string().contains("the lab's own bottleneck does not"), "{error}");
                }
            };
            // What a kernel that was not let run leaves in the queue passes later, in addition.
            assert!(eventually(|| {
                let carried = htb.measure_max_rate().unwrap();
                println!("{carried}");
                carried > Rate::ZERO && carried < Rate::from_mbit(1030)
            }));
            let cross = htb.start_cross_traffic(Rate::from_mbit(300)).unwrap();
            thread::sleep(Duration::from_millis(200));
            let sent = htb.stop_cross_traffic(cross).unwrap();
            // A kernel that was not let run sends less.
            assert!(sent > Rate::ZERO && sent < Rate::from_mbit(310), "{sent}");
            assert_eq!(
                htb.available_bandwidth(sent, 9000).bits_per_second(),
                rate.bits_per_second() - sent.bits_per_second()
            );
            // 1514 bytes of a frame are 1500 of a packet; 9014 were 9000.
            let smaller = htb.available_bandwidth(Rate::ZERO, 1500).as_f64() / rate.as_f64();
            assert!((smaller - 1500.0 / 1514.0 * 9014.0 / 9000.0).abs() < 1e-6, "{smaller}");
        },
    );
}

#[test]
fn an_emulated_fast_link_carries_no_more_than_its_rate_and_less_beside_cross_traffic() {
    in_namespaces("an_emulated_fast_link_carries_no_more_than_its_rate_and_less_beside_cross_traffic", || {
        let rate = Rate::from_mbit(1000);
        let network = FastNetwork::build(rate, 1_250_000, 1500).unwrap();
        // What a thread that was not let run leaves in the queue passes later, in addition.
        let carries_at_most = |mbit| {
            let carried = network.measure_max_rate().unwrap();
            println!("{carried}");
            carried > Rate::ZERO && carried < Rate::from_mbit(mbit)
        };
        assert!(eventually(|| carries_at_most(1030)));
        let cross = network.start_cross_traffic(Rate::from_mbit(300)).unwrap();
        // In a full queue, each is dropped in proportion to what it sends: 1.1 Gbit/s and 300 Mbit/s.
        assert!(eventually(|| carries_at_most(950)));
        let sent = network.stop_cross_traffic(cross).unwrap();
        assert!(sent > Rate::from_mbit(290) && sent < Rate::from_mbit(310), "{sent}");
        assert_eq!(
            network.available_bandwidth(sent, 1500).bits_per_second(),
            rate.bits_per_second() - sent.bits_per_second()
        );
    });
}

/// Sends 20 Mbit/s over a link of 100 Mbit/s with this bucket on it, and holds what arrives to the bucket; or says what is missing.
fn is_held_to(bucket: TokenBucket, allowed: u64, link: LinkConfig) {
    let htb = match HtbNetwork::build_up(link, None) {
        Ok(htb) => htb,
        Err(NetworkError::NoShaper(error)) => {
            return assert!(error.to_string().contains("the lab's own bottleneck does not"), "{error}");
        }
        Err(error) => panic!("{error}"),
    };
    let arrived = || received_packets(htb.host("d").unwrap(), Host::DEVICE).unwrap() * 1500;
    let (before, start) = (arrived(), clock::monotonic());
    let constant = CrossKind::Constant { rate: Rate::from_mbit(20), size: 1500 };
    let traffic = Traffic::udp(htb.host("c").unwrap(), htb.host("d").unwrap(), &pattern(constant)).unwrap();
    assert!(eventually(|| traffic.sent_bytes() > 2 * allowed && arrived() - before > allowed));
    let bytes = arrived() - before;
    let most = allowed + bucket.rate.bytes_in(clock::monotonic() - start);
    println!("{bytes} bytes came of {}, {most} may", traffic.sent_bytes());
    // A packet or two of the hosts' own, besides.
    assert!(bytes < most + 10_000, "{bytes} of {most}");
}

#[test]
fn the_kernels_shaper_and_policer_hold_to_their_buckets() {
    in_namespaces("the_kernels_shaper_and_policer_hold_to_their_buckets", || {
        let bucket = TokenBucket { rate: Rate::from_mbit(2), burst_bytes: 50_000 };
        let line = LinkConfig { rate: Some(Rate::from_mbit(100)), queue_bytes: 200_000, ..LinkConfig::default() };
        let shaped = LinkConfig { medium: Some(Medium::TokenBucket(bucket)), ..line.clone() };
        is_held_to(bucket, bucket.burst_bytes, shaped);
        is_held_to(bucket, HtbNetwork::nftables_burst_bytes(bucket), LinkConfig { policer: Some(bucket), ..line });
    });
}

#[test]
fn what_this_kernel_lacks_is_told_from_what_none_has() {
    in_namespaces("what_this_kernel_lacks_is_told_from_what_none_has", || {
        let line = LinkConfig { rate: Some(Rate::from_mbit(100)), ..LinkConfig::default() };
        let queue = |name: &str| QueueConfig {
            limit: QueueLimit::Bytes(150_000),
            discipline: DisciplineSettings::new(name).unwrap().discipline(line.rate),
        };
        match HtbNetwork::build_up(line.clone(), Some(&queue("red"))) {
            Ok(_) => {}
            Err(NetworkError::NoShaper(error)) => assert!(error.to_string().contains("sch_red"), "{error}"),
            Err(error) => panic!("{error}"),
        }
        let error = HtbNetwork::build_up(line.clone(), Some(&queue("afd"))).unwrap_err();
        assert!(matches!(&error, NetworkError::Spec(text) if text.contains("tail drop and RED")), "{error}");
    });
}

#[test]
fn the_router_before_the_token_bucket_refuses_udp_of_the_measuring_host_alone() {
    in_namespaces("the_router_before_the_token_bucket_refuses_udp_of_the_measuring_host_alone", || {
        let Ok(mut htb) = HtbNetwork::build(Rate::from_mbit(100), 150_000) else { return };
        let refusing = |protocol| {
            let matching = PacketMatch { protocol: Some(protocol), destination_port: None };
            MiddleboxConfig {
                rules: vec![FilterRule::Refuse { matching, refusal: RefusalKind::Reject }],
                ..Default::default()
            }
        };
        htb.set_middlebox(Some(refusing(17))).unwrap();
        let socket = |htb: &HtbNetwork, name: &str| {
            let host = htb.host(name).unwrap();
            let address = (host.v4, 0);
            let socket = host.namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
            socket.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
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
