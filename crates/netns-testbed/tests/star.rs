//! Hosts around a hub: each reaches each other, by both links on the way.

use kumade_link::{CrossConfig, CrossKind, LinkConfig};
use kumade_net::clock;
use kumade_netns_testbed::{
    Host, HostSpec, NetworkError, StarHostSpec, StarNetwork, TEST_DEADLINE, eventually, in_namespaces,
};
use kumade_units::{Rate, Span, Time};
use std::net::UdpSocket;

fn site(name: &str, number: u8, mbit: u64, delay: i64) -> StarHostSpec {
    let (rate, delay) = (Some(Rate::from_mbit(mbit)), Span::from_millis(delay));
    let link = LinkConfig { rate, delay, queue_bytes: 100_000, ..LinkConfig::default() };
    let host = HostSpec::with_number(name, number);
    StarHostSpec { host, up: link.clone(), down: link, up_cross: None, down_cross: None }
}

fn socket(host: &Host) -> UdpSocket {
    let socket = host.namespace.run(|| UdpSocket::bind((host.v4, 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    socket
}

#[test]
fn each_two_hosts_have_a_path_of_two_links() {
    in_namespaces("each_two_hosts_have_a_path_of_two_links", || {
        let kind = CrossKind::Constant { rate: Rate::from_mbit(20), size: 1500 };
        let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 1 };
        let busy = StarHostSpec { up_cross: Some(cross), ..site("b", 2, 50, 5) };
        let star = StarNetwork::build(vec![site("a", 1, 100, 2), busy, site("c", 3, 10, 8)]).unwrap();
        let began = clock::realtime();
        for (ends, base) in [(["a", "b"], 14), (["b", "c"], 26), (["c", "a"], 20)] {
            let base = Span::from_millis(base);
            assert_eq!(star.base_round_trip(ends).unwrap(), base);
            let [near, far] = ends.map(|name| socket(star.host(name).unwrap()));
            let start = clock::monotonic();
            let mut buffer = [0; 10];
            near.send_to(b"there", far.local_addr().unwrap()).unwrap();
            let (_, from) = far.recv_from(&mut buffer).unwrap();
            far.send_to(b"back", from).unwrap();
            assert_eq!(near.recv_from(&mut buffer).unwrap().0, 4);
            assert!(clock::monotonic() - start >= base, "{ends:?}");
        }
        // A second of constant traffic, of which an end may cut a packet.
        let to = began + Span::from_secs(1);
        assert!(eventually(|| clock::realtime() > to));
        let available = |ends| star.available_bandwidth(ends, began, to).unwrap().as_f64();
        assert!((available(["b", "a"]) / 30e6 - 1.0).abs() < 0.01, "{}", available(["b", "a"]));
        assert_eq!((available(["a", "b"]), available(["b", "c"])), (50e6, 10e6));
        assert!(matches!(star.host("d"), Err(NetworkError::NoHost(name)) if name == "d"));
    });
}

#[test]
fn a_link_without_delay_is_refused() {
    let error = StarNetwork::build(vec![site("a", 1, 10, 0)]).unwrap_err();
    assert!(error.to_string().contains("give it at least 200 µs"), "{error}");
}
