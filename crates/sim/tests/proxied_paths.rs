//! Paths on which a proxy ends the TCP connections: what passes, when, what is true of them, and whether the proxy is named.

use kumade_estimate::MethodSettings;
use kumade_link::{LinkConfig, Loss};
use kumade_probe_train::{Segment, Train, Transport};
use kumade_sim::atlas::{DrawnPath, MeasureError, PathKind, PathResult, Seeds};
use kumade_sim::{PathHop, Proxy, Stamping, VirtualPath};
use kumade_units::{Rate, Span, Time};

const PROXY: Proxy =
    Proxy { max_wake_up_delay: Span::from_micros(200), send_cost: Span::from_micros(5), header_bytes: [52, 52] };

fn hop(mbit: u64, loss: Loss) -> PathHop {
    let (rate, delay) = (Some(Rate::from_mbit(mbit)), Span::from_millis(5));
    let link = LinkConfig { rate, delay, queue_bytes: 1_000_000, loss, seed: 3, ..LinkConfig::default() };
    PathHop { link, queue: None, cross: Vec::new() }
}

fn path(proxy: Proxy, near: PathHop, far: PathHop) -> VirtualPath {
    VirtualPath::new(&[near, far], Stamping::default(), 1).unwrap().with_proxy(proxy)
}

#[test]
fn what_either_leg_loses_comes_later() {
    for lossy in [0, 1] {
        let mut hops = [hop(50, Loss::None), hop(100, Loss::None)];
        hops[lossy].link.loss = Loss::Independent(0.05);
        let [near, far] = hops;
        let segment = Segment { count: 240, interval: Span::from_micros(600), first_size: 1500, size_step: 0 };
        let train = Train { segments: vec![segment] };
        let record = path(PROXY, near, far).send_over_connections(&train, 120, Span::from_secs(10));
        let delays: Vec<Span> =
            record.packets.iter().map(|packet| packet.received.unwrap() - packet.sent.unwrap()).collect();
        let least = *delays.iter().min().unwrap();
        // What was lost, and before the proxy what came behind it on its connection: a round trip later at least.
        let late = delays.iter().filter(|delay| **delay - least > Span::from_millis(8)).count();
        assert!((4..40).contains(&late), "{late} of 240, link {lossy}");
        // The others wait for the proxy at most.
        let usual = delays.iter().filter(|delay| **delay - least < Span::from_millis(2)).count();
        assert!(usual + late == 240, "{usual} and {late} of 240, link {lossy}");
    }
}

#[test]
fn the_link_that_carries_less_bounds_what_is_available_in_packets_as_the_sender_has_them() {
    let to_ipv6 = Proxy { header_bytes: [52, 72], ..PROXY };
    let truth = |proxy, near, far| {
        let mut path = path(proxy, hop(near, Loss::None), hop(far, Loss::None));
        path.wait(Span::from_secs(1));
        path.run_until_quiet();
        path.true_available(Time::ZERO, path.now())
    };
    assert_eq!(truth(PROXY, 50, 100), Rate::from_mbit(50));
    assert_eq!(truth(PROXY, 50, 30), Rate::from_mbit(30));
    // 1500 bytes behind the proxy are 1480 before it.
    assert_eq!(truth(to_ipv6, 50, 30), Rate::from_f64(29.6e6));
    assert_eq!(path(to_ipv6, hop(50, Loss::None), hop(30, Loss::None)).mtu(), Some(1480));
}

#[test]
fn no_udp_passes() {
    let drawn = DrawnPath::new(PathKind::Proxy, Seeds::Tuning.seed(0));
    let measured = drawn.measure(Transport::Udp, &MethodSettings::default());
    assert!(matches!(measured, Err(MeasureError::Measurement(_))), "{measured:?}");
}

/// Of the first path of this kind, with such headers on both sides of its proxy, and links of so many milliseconds.
fn is_named(kind: PathKind, headers: [u32; 2], millis: [i64; 2]) -> bool {
    let mut drawn = DrawnPath::new(kind, Seeds::Tuning.seed(0));
    drawn.proxy = drawn.proxy.map(|proxy| Proxy { header_bytes: headers, ..proxy });
    for (hop, millis) in drawn.hops.iter_mut().zip(millis) {
        hop.link.delay = Span::from_millis(millis);
    }
    let measured = drawn.measure(Transport::Rake, &MethodSettings::default()).unwrap();
    PathResult::evaluate(&drawn, &measured).reports_proxy
}

#[test]
fn a_proxy_is_named_by_its_headers_or_by_the_legs_that_it_makes() {
    assert!(is_named(PathKind::Proxy, [52, 40], [1, 1]));
    assert!(is_named(PathKind::Proxy, [52, 52], [12, 9]));
    assert!(is_named(PathKind::Proxy, [52, 52], [20, 2]));
    // So short a leg may be what a host takes to answer.
    assert!(!is_named(PathKind::Proxy, [52, 52], [1, 1]));
    assert!(!is_named(PathKind::Fifo, [52, 40], [12, 9]));
}
