//! A network leaves nothing behind. Alone in its file: it counts what the whole process has.

use kumade_link::LinkConfig;
use kumade_netns_testbed::{Network, NetworkSpec, eventually, in_namespaces};
use kumade_units::{Rate, Span};
use std::fs;
use std::net::UdpSocket;

/// Open descriptors and threads of this process.
fn count_descriptors_and_threads() -> (usize, usize) {
    let count = |directory: &str| fs::read_dir(directory).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

#[test]
fn a_dropped_network_takes_everything_with_it() {
    in_namespaces("a_dropped_network_takes_everything_with_it", || {
        let delay = Span::from_millis(1);
        let rate = Some(Rate::from_mbit(10));
        let link = LinkConfig { rate, queue_bytes: 100_000, delay, seed: 1, ..LinkConfig::default() };
        let before = count_descriptors_and_threads();
        let network = Network::build(NetworkSpec::host_pair(link)).unwrap();
        let host = network.host("a").unwrap();
        let address = (host.v4, 0);
        let socket = host.namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
        socket.send_to(b"on its way as the network goes", (network.host("b").unwrap().v4, 9)).unwrap();
        let during = count_descriptors_and_threads();
        assert!(during.0 > before.0 && during.1 > before.1, "{during:?} against {before:?}");
        drop((socket, network));
        // A joined thread may be listed for a moment longer.
        assert!(
            eventually(|| count_descriptors_and_threads() == before),
            "{:?} against {before:?}",
            count_descriptors_and_threads()
        );
        let interfaces = fs::read_to_string("/proc/net/dev").unwrap();
        assert!(!interfaces.contains("kumade"), "{interfaces}");
    });
}
