//! What the transports believe of the kernel's stamps, checked against the kernel at hand.

use kumade_net::{clock, congestion, readiness, stamp, tcp};
use kumade_units::{Span, Time};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(5);

fn connection(address: &str) -> (TcpStream, TcpStream) {
    kumade_netns_testbed::keep_receive_stamps_on();
    let listener = TcpListener::bind(address).unwrap();
    tcp::prepare_listener(&listener).unwrap();
    let at = listener.local_addr().unwrap();
    let opened = tcp::open_connections(
        at,
        &kumade_net::SocketBinding::default(),
        1,
        Span::ZERO,
        Span::ZERO,
        Span::from_secs(60),
        |_| Vec::new(),
    )
    .unwrap();
    let accepted = listener.accept().unwrap().0;
    (opened.streams.into_iter().next().unwrap().1, accepted)
}

fn await_bytes(socket: &impl AsFd) {
    assert!(readiness::wait_readable(socket, clock::monotonic() + Span::from_secs(60)).unwrap());
}

fn receive(socket: &impl AsFd, len: usize) -> Time {
    await_bytes(socket);
    let received = stamp::receive(socket, &mut vec![0; len]).unwrap();
    assert_eq!(received.len, len);
    received.stamp.unwrap()
}

#[test]
fn udp_keys_count_datagrams() {
    kumade_netns_testbed::keep_receive_stamps_on();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (a, b) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        assert_eq!(stamp::enable_transmit(&a, false).unwrap(), 0);
        stamp::enable_receive(&b).unwrap();
        for key in 0..3 {
            let before = clock::realtime();
            a.send(b"probe").unwrap();
            let sent = stamp::next_transmit_stamp(&a).unwrap().unwrap();
            assert_eq!((sent.key, stamp::next_transmit_stamp(&a).unwrap()), (key, None));
            let received = receive(&b, 5);
            assert!(before <= sent.time && sent.time <= received && received <= clock::realtime());
        }
    }
}

#[test]
fn tcp_keys_are_numbers_of_last_bytes() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (a, b) = connection(address);
        // What was sent before does not count.
        tcp::send(&a, &[0; 100], true).unwrap();
        assert_eq!(stamp::enable_transmit(&a, true).unwrap(), 0);
        tcp::send(&a, &[0; 10], true).unwrap();
        tcp::send(&a, &[0; 20], true).unwrap();
        let keys: Vec<_> = (0..2).map(|_| stamp::next_transmit_stamp(&a).unwrap().unwrap().key).collect();
        assert_eq!(keys, [9, 29]);
        receive(&b, 100);
    }
}

#[test]
fn a_tcp_packet_read_by_itself_shows_its_own_stamp() {
    let (a, b) = connection("127.0.0.1:0");
    stamp::enable_transmit(&a, true).unwrap();
    for _ in 0..10 {
        tcp::send(&a, &[0; 500], true).unwrap();
        let sent = stamp::next_transmit_stamp(&a).unwrap().unwrap().time;
        let received = receive(&b, 500);
        assert!(sent <= received && received <= clock::realtime());
    }
}

#[test]
fn tcp_packets_merged_in_the_queue_show_the_newest_stamp() {
    let (a, b) = connection("127.0.0.1:0");
    for _ in 0..10 {
        tcp::send(&a, &[0; 100], true).unwrap();
        await_bytes(&b);
        let between = clock::realtime();
        tcp::send(&a, &[0; 100], true).unwrap();
        sleep(MOMENT);
        let (first, second) = (receive(&b, 100), receive(&b, 100));
        let were_merged = first == second;
        assert!(second > between && (were_merged || first < between), "{first:?} {between:?} {second:?}");
    }
}

#[test]
fn neither_side_of_a_connection_paces() {
    let (a, b) = connection("127.0.0.1:0");
    for stream in [&a, &b] {
        let name = congestion::get(stream).unwrap();
        assert!(["cubic", "reno"].contains(&&*name), "{name}");
        assert!(stream.nodelay().unwrap());
    }
}

#[test]
fn both_sides_of_a_connection_know_the_same_header() {
    for (address, least) in [("127.0.0.1:0", 40), ("[::1]:0", 60)] {
        let (a, b) = connection(address);
        let (a, b) = (tcp::segment_sizes(&a).unwrap(), tcp::segment_sizes(&b).unwrap());
        assert_eq!(a.header_bytes, b.header_bytes);
        assert!(a.header_bytes == least || a.header_bytes == least + 12, "{a:?}");
        assert!(a.max_payload_bytes > 1000, "{a:?}");
    }
}
