//! Trains over real sockets on loopback: what left, what came, and whose stamps they bear.

use kumade_net::platform::stamp;
use kumade_probe_train::Transport;
use kumade_probe_train::{Segment, Train};
use kumade_transport::{
    ControlWatch, Error, Probes, ReceivedTrain, SentTrain, StampSource, TcpProbes, UdpProbes, open_connections,
};
use kumade_units::{Span, Time};
use kumade_wire::{Credential, CredentialBearer, SessionEndpoint, Token, Version};
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

const V4: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const V6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
const TOKEN: Token = Token([7; 16]);
const RECEIVE_TIMEOUT: Span = Span::from_secs(60);
const SHORT_GRACE: Span = Span::from_millis(300);
/// Portable sockets have no stamps of the kernel, and know no path's MTU.
const STAMPS: StampSource = if stamp::IS_TIME_OF_READING { StampSource::User } else { StampSource::Kernel };
const LARGEST_PACKET: u32 = if stamp::IS_TIME_OF_READING { 1500 } else { Train::MAX_PACKET_BYTES };

fn train(count: u32, interval_us: i64, first_size: u32, size_step: i32) -> Train {
    Train { segments: vec![Segment { count, interval: Span::from_micros(interval_us), first_size, size_step }] }
}

/// The paper's train: 120 packets of 32 … 1460 bytes, one each 100 µs.
fn paper_train() -> Train {
    train(120, 100, 32, 12)
}

fn sockets(address: SocketAddr) -> (UdpSocket, UdpSocket) {
    kumade_netns_testbed::keep_receive_stamps_on();
    let (a, b) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

/// Of a session with a key.
fn secret_credential() -> Credential {
    Credential::new(TOKEN, Version::NEWEST, true)
}

fn client(socket: UdpSocket) -> Probes {
    Probes::Udp(UdpProbes::new(socket, secret_credential(), SessionEndpoint::Client).unwrap())
}

fn server(socket: UdpSocket) -> Probes {
    Probes::Udp(UdpProbes::new(socket, secret_credential(), SessionEndpoint::Server).unwrap())
}

fn udp(address: SocketAddr) -> (Probes, Probes) {
    let (a, b) = sockets(address);
    (client(a), server(b))
}

/// `count` connections: the client's ends and the server's, both in the clients' order.
fn streams(address: SocketAddr, count: u16) -> (Vec<TcpStream>, Vec<TcpStream>) {
    kumade_netns_testbed::keep_receive_stamps_on();
    let listener = TcpListener::bind(address).unwrap();
    kumade_net::tcp::prepare_listener(&listener).unwrap();
    let at = listener.local_addr().unwrap();
    let opened = open_connections(
        at,
        &kumade_net::SocketBinding::default(),
        count,
        Span::ZERO,
        Span::ZERO,
        Span::from_secs(60),
        |n| n.to_be_bytes().to_vec(),
    )
    .unwrap();
    let mut accepted: Vec<(u16, TcpStream)> = (0..count)
        .map(|_| {
            let mut stream = listener.accept().unwrap().0;
            let mut hello = [0; 2];
            stream.read_exact(&mut hello).unwrap();
            (u16::from_be_bytes(hello), stream)
        })
        .collect();
    accepted.sort_by_key(|(number, _)| *number);
    let client = opened.streams.into_iter().map(|(_, stream)| stream).collect();
    (client, accepted.into_iter().map(|(_, stream)| stream).collect())
}

fn rake(address: SocketAddr, count: u16) -> (Probes, Probes) {
    let (client, server) = streams(address, count);
    (Probes::Tcp(TcpProbes::rake(client).unwrap()), Probes::Tcp(TcpProbes::rake(server).unwrap()))
}

fn transfer_train(
    from: &mut Probes,
    to: &mut Probes,
    number: u32,
    train: &Train,
    timeout: Span,
) -> (SentTrain, ReceivedTrain) {
    thread::scope(|scope| {
        let receiving = scope.spawn(|| to.receive(number, train, timeout).unwrap());
        let sending = from.send(number, train).unwrap();
        (sending, receiving.join().unwrap())
    })
}

/// A peer plans the trains that a server sends: the smallest packets at the highest rate ended the sender's thread.
#[test]
fn the_smallest_packets_at_the_highest_rate_are_sent_all_the_same() {
    let (mut client, _server) = udp(V4);
    let segment = Segment { count: 10_000, interval: Span::from_nanos(1), first_size: 1, size_step: 0 };
    let sent = client.send(0, &Train { segments: vec![segment] }).unwrap();
    assert!(
        !sent.departures.is_empty() && sent.departures.iter().all(|departure| departure.size == client.min_packet())
    );
}

/// 10 Gbit/s of full packets behind some back to back: no host sends these one by one in time, so they leave in bursts, which are
/// stamped once.
#[test]
fn packets_that_are_too_close_together_leave_in_bursts() {
    for address in [V4, V6] {
        let (mut client, mut server) = udp(address);
        let segment =
            |count, nanos| Segment { count, interval: Span::from_nanos(nanos), first_size: 1400, size_step: 0 };
        let train = Train { segments: vec![segment(90, 0), segment(200, 1120)] };
        let bursts = train.bursts().unwrap();
        for number in 0..2 {
            let (sending, receiving) = transfer_train(&mut client, &mut server, number, &train, RECEIVE_TIMEOUT);
            assert_eq!((sending.departures.len(), receiving.arrivals.len()), (290, 290));
            assert!(sending.departures.iter().zip(0..).all(|(departure, index)| departure.index == index));
            assert!(sending.departures.iter().all(|departure| departure.size == 1400));
            let sent: Vec<Time> = sending.departures.iter().map(|departure| departure.sent.unwrap()).collect();
            for burst in &bursts {
                let stamps = &sent[burst.packets.start as usize..burst.packets.end as usize];
                assert!(
                    stamps.iter().all(|at| *at == stamps[0]) || STAMPS == StampSource::User,
                    "{burst:?}: {stamps:?}"
                );
            }
            assert!(sent.is_sorted() && sent.first() < sent.last());
        }
    }
}

fn indices(receiving: &ReceivedTrain) -> Vec<u32> {
    receiving.arrivals.iter().map(|a| a.index).collect()
}

fn planned_indices(train: &Train) -> Vec<u32> {
    (0..train.packet_count()).collect()
}

fn is_increasing(stamps: impl Iterator<Item = Time>) -> bool {
    let stamps: Vec<_> = stamps.collect();
    stamps.is_sorted()
}

/// Everything left and came, with the kernel's stamps, each after the one before it, on one clock since on one host; without these, connections may
/// be read in another order.
fn assert_whole(train: &Train, min_packet: u32, sending: &SentTrain, receiving: &ReceivedTrain) {
    assert_eq!((sending.stamp_source, receiving.stamp_source), (STAMPS, STAMPS));
    let sent: Vec<_> = sending.departures.iter().map(|d| (d.index, d.size)).collect();
    let planned: Vec<_> = train.packets().zip(0..).map(|(p, index)| (index, p.size.max(min_packet))).collect();
    assert_eq!(sent, planned);
    assert_eq!(indices(receiving), planned_indices(train));
    assert!(is_increasing(sending.departures.iter().map(|d| d.sent.unwrap())));
    assert!(STAMPS == StampSource::User || is_increasing(receiving.arrivals.iter().map(|a| a.received.unwrap())));
    for (departure, arrival) in sending.departures.iter().zip(&receiving.arrivals) {
        assert!(departure.sent.unwrap() <= arrival.received.unwrap(), "{departure:?} {arrival:?}");
    }
}

#[test]
fn udp_carries_the_papers_train_both_ways() {
    for (address, min) in [(V4, 20 + 8 + 24), (V6, 40 + 8 + 24)] {
        let (mut a, mut b) = udp(address);
        assert_eq!(
            (a.kind(), a.connections(), a.max_packet(), a.min_packet()),
            (Transport::Udp, 0, LARGEST_PACKET, min)
        );
        let (sending, receiving) = transfer_train(&mut a, &mut b, 1, &paper_train(), RECEIVE_TIMEOUT);
        assert_whole(&paper_train(), min, &sending, &receiving);
        let (sending, receiving) = transfer_train(&mut b, &mut a, 2, &paper_train(), RECEIVE_TIMEOUT);
        assert_whole(&paper_train(), min, &sending, &receiving);
    }
}

/// The path's MTU is the kernel's business: here, that of the route.
#[test]
fn jumbo_frames_are_sent_where_the_path_takes_them() {
    if STAMPS == StampSource::User {
        return println!("passed over: portable sockets know no path's MTU");
    }
    kumade_netns_testbed::in_namespaces("jumbo_frames_are_sent_where_the_path_takes_them", || {
        for (mtu, largest) in [(9000, 9000), (9600, 9000), (1500, 1500)] {
            let hosts = kumade_netns_testbed::VethHosts::new(mtu).unwrap();
            kumade_netns_testbed::run_ip(
                &hosts.middle,
                &["addr", "add", "10.79.0.3/24", "dev", kumade_netns_testbed::VethHosts::MIDDLE_INTERFACES[0]],
            )
            .unwrap();
            let bind = |address: &'static str| move || UdpSocket::bind((address, 0)).unwrap();
            let near = hosts.left.run(bind("10.79.0.1")).unwrap();
            let far = hosts.middle.run(bind("10.79.0.3")).unwrap();
            near.connect(far.local_addr().unwrap()).unwrap();
            far.connect(near.local_addr().unwrap()).unwrap();
            let (mut near, mut far) = (client(near), server(far));
            assert_eq!((near.max_packet(), far.max_packet()), (largest, largest));
            let train = train(20, 100, 9000, 0);
            let (count, grace) = if largest == 9000 { (20, RECEIVE_TIMEOUT) } else { (0, SHORT_GRACE) };
            let (sending, receiving) = transfer_train(&mut near, &mut far, 1, &train, grace);
            assert_eq!((sending.departures.len(), receiving.arrivals.len()), (count, count), "{mtu}");
        }
    });
}

#[test]
fn ipv4_mapped_addresses_count_as_ipv4() {
    kumade_netns_testbed::keep_receive_stamps_on();
    let (client, server) = (UdpSocket::bind(V4).unwrap(), UdpSocket::bind("[::]:0").unwrap());
    let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), client.local_addr().unwrap().port());
    server.connect(mapped).unwrap();
    client.connect((Ipv4Addr::LOCALHOST, server.local_addr().unwrap().port())).unwrap();
    let (mut a, mut b) = (self::client(client), self::server(server));
    assert_eq!((a.min_packet(), b.min_packet(), b.max_packet()), (52, 52, LARGEST_PACKET));
    let (sending, receiving) = transfer_train(&mut b, &mut a, 0, &paper_train(), RECEIVE_TIMEOUT);
    assert_whole(&paper_train(), 52, &sending, &receiving);

    let listener = TcpListener::bind("[::]:0").unwrap();
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port())).unwrap();
    let a = TcpProbes::rake(vec![client]).unwrap();
    let b = TcpProbes::rake(vec![listener.accept().unwrap().0]).unwrap();
    assert_eq!((a.min_packet(), b.min_packet()), (53, 53));
}

#[test]
fn a_large_train_keeps_its_kernel_stamps() {
    let (mut a, mut b) = udp(V4);
    let big = train(3000, 10, 200, 0);
    let (sending, _) = transfer_train(&mut a, &mut b, 1, &big, Span::from_secs(1));
    assert_eq!(sending.stamp_source, STAMPS);
    assert!(sending.departures.iter().all(|d| d.sent.is_some()));
    let back_to_back = train(3000, 0, 200, 0);
    let (sending, _) = transfer_train(&mut a, &mut b, 2, &back_to_back, Span::from_secs(1));
    assert!(sending.departures.iter().all(|d| d.sent.is_some()));
}

/// A packet of a train as it stands on the wire.
fn packet(shown: Token, number: u32, index: u32) -> Vec<u8> {
    [&shown.0[..], &number.to_be_bytes(), &index.to_be_bytes()].concat()
}

#[test]
fn udp_ignores_what_is_not_of_its_train() {
    let (socket, other) = sockets(V4);
    let plain = Credential::new(TOKEN, Version::NEWEST, false);
    let mut probes = Probes::Udp(UdpProbes::new(socket, plain, SessionEndpoint::Client).unwrap());
    let send = |token, number, index| assert!(other.send(&packet(token, number, index)).is_ok());
    send(TOKEN, 1, 0); // of an earlier train
    send(TOKEN, 2, 1); // out of order
    send(TOKEN, 2, 1); // a duplicate
    send(Token([8; 16]), 2, 0); // a stranger's
    send(TOKEN, 2, 3); // beyond the plan
    other.send(&TOKEN.0).unwrap(); // cut off
    let receiving = probes.receive(2, &train(3, 100, 100, 0), SHORT_GRACE).unwrap();
    assert_eq!(indices(&receiving), [1]);
}

#[test]
fn with_a_key_nobody_on_the_path_makes_a_packet_of_a_train() {
    let (socket, other) = sockets(V4);
    let mut probes = client(socket);
    let shown = |from, train, index| {
        secret_credential().authenticator_for(CredentialBearer::Packet { sender: from, train, index })
    };
    let right = |number, index| packet(shown(SessionEndpoint::Server, number, index), number, index);
    let mut damaged = right(2, 0);
    damaged[15] ^= 1;
    let mut renumbered = right(1, 0);
    renumbered[19] = 2;
    for forged in [
        packet(TOKEN, 2, 0),
        packet(Token([8; 16]), 2, 0),
        packet(shown(SessionEndpoint::Client, 2, 0), 2, 0), // our own, sent back
        packet(shown(SessionEndpoint::Server, 2, 1), 2, 0), // another one's code
        packet(secret_credential().authenticator_for(CredentialBearer::UdpRequest), 2, 0),
        right(1, 0), // of an earlier train
        renumbered,
        damaged,
        right(2, 1),
        right(2, 1), // sent again
        right(2, 3), // beyond the plan
    ] {
        other.send(&forged).unwrap();
    }
    let receiving = probes.receive(2, &train(3, 100, 100, 0), SHORT_GRACE).unwrap();
    assert_eq!(indices(&receiving), [1]);
}

#[test]
fn a_closed_udp_port_is_an_error_and_no_end() {
    // At an address where no other test has ports.
    let (socket, other) = sockets("127.3.3.3:0".parse().unwrap());
    let (at, back) = (other.local_addr().unwrap(), socket.local_addr().unwrap());
    let mut probes = client(socket);
    drop(other);
    let error = probes.send(1, &paper_train()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains(&at.to_string()), "{error}");

    let again = UdpSocket::bind(at).unwrap();
    again.connect(back).unwrap();
    let mut peer = server(again);
    let (sending, receiving) = transfer_train(&mut probes, &mut peer, 2, &paper_train(), RECEIVE_TIMEOUT);
    assert_whole(&paper_train(), probes.min_packet(), &sending, &receiving);
}

#[test]
fn rake_gives_each_packet_its_connection() {
    for (address, min) in [(V4, 20 + 32 + 1), (V6, 40 + 32 + 1)] {
        let (mut a, mut b) = rake(address, 120);
        assert_eq!((a.kind(), a.connections(), a.max_packet(), a.min_packet()), (Transport::Rake, 120, 1500, min));
        for number in 0..3 {
            let (sending, receiving) = transfer_train(&mut a, &mut b, number, &paper_train(), RECEIVE_TIMEOUT);
            assert_whole(&paper_train(), min, &sending, &receiving);
        }
        let (sending, receiving) = transfer_train(&mut b, &mut a, 3, &paper_train(), RECEIVE_TIMEOUT);
        assert_whole(&paper_train(), min, &sending, &receiving);
    }
}

#[test]
fn fewer_connections_carry_several_packets_each() {
    let (mut a, mut b) = rake(V4, 25);
    for number in 0..3 {
        let (sending, receiving) = transfer_train(&mut a, &mut b, number, &paper_train(), RECEIVE_TIMEOUT);
        assert_eq!((sending.stamp_source, receiving.stamp_source), (STAMPS, STAMPS));
        assert_eq!(sending.departures.len(), 120);
        assert!(sending.departures.iter().all(|d| d.sent.is_some()));
        assert_eq!(indices(&receiving), planned_indices(&paper_train()));
    }
    let error = a.send(3, &train(251, 10, 100, 0)).unwrap_err();
    assert!(matches!(error, Error::TooManyPerConnection { count: 251, connections: 25, limit: 10 }), "{error}");
}

/// Whoever stamps packets as it reads them read all of a connection first, and packets of others seemed to be overtaken.
#[test]
fn what_waits_on_connections_is_read_in_the_order_in_which_it_was_sent() {
    let (mut a, mut b) = rake(V4, 25);
    for number in 0..10 {
        a.send(number, &train(120, 0, 500, 0)).unwrap();
        let receiving = b.receive(number, &train(120, 0, 500, 0), RECEIVE_TIMEOUT).unwrap();
        assert_eq!(indices(&receiving), (0..120).collect::<Vec<_>>());
        // The kernel merges what waits on a connection.
        let received = receiving.arrivals.iter().map(|a| a.received);
        assert!(STAMPS == StampSource::Kernel || is_increasing(received.map(Option::unwrap)), "{number}");
    }
}

#[test]
fn single_carries_everything_on_one_connection() {
    let (mut client, mut server) = streams(V4, 1);
    let mut a = Probes::Tcp(TcpProbes::single(client.remove(0)).unwrap());
    let mut b = Probes::Tcp(TcpProbes::single(server.remove(0)).unwrap());
    assert_eq!((a.kind(), a.connections()), (Transport::Single, 1));
    for number in 0..2 {
        let (sending, receiving) = transfer_train(&mut a, &mut b, number, &paper_train(), RECEIVE_TIMEOUT);
        assert_eq!(sending.departures.len(), 120);
        assert_eq!(indices(&receiving), planned_indices(&paper_train()));
        assert_eq!((sending.stamp_source, receiving.stamp_source), (STAMPS, STAMPS));
    }
}

#[test]
fn a_peer_that_does_not_read_hangs_nothing() {
    let (mut client, server) = streams(V4, 1);
    let mut probes = Probes::Tcp(TcpProbes::single(client.remove(0)).unwrap());
    let big = train(10_000, 0, 1500, 0);
    let sending = probes.send(0, &big).unwrap();
    assert!(!sending.departures.is_empty() && sending.departures.len() < 10_000, "{}", sending.departures.len());
    drop(server);
}

#[test]
fn late_bytes_of_a_train_do_not_shift_the_next_one() {
    for count in [120, 25] {
        let (mut a, mut b) = rake(V4, count);
        // The receiver gives up before the first train has begun.
        assert_eq!(b.receive(0, &paper_train(), Span::from_secs(-3600)).unwrap().arrivals, []);
        a.send(0, &paper_train()).unwrap();
        let (_, receiving) = transfer_train(&mut a, &mut b, 1, &train(240, 10, 700, 1), RECEIVE_TIMEOUT);
        assert_eq!(indices(&receiving), planned_indices(&train(240, 10, 700, 1)));
    }
}

#[test]
fn a_lost_connection_takes_only_its_packets_along() {
    let (client, server) = streams(V4, 10);
    // Resets connection 3, as a middlebox does.
    socket2::SockRef::from(&server[3]).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    let mut a = Probes::Tcp(TcpProbes::rake(client).unwrap());
    let mut server: Vec<_> = server.into_iter().map(Some).collect();
    drop(server[3].take());
    // The server keeps the slot: a stream that is closed at once stands in for it.
    let (mut dead, _) = streams(V4, 1);
    let dead = dead.remove(0);
    dead.shutdown(std::net::Shutdown::Both).unwrap();
    server[3] = Some(dead);
    let mut b = Probes::Tcp(TcpProbes::rake(server.into_iter().flatten().collect()).unwrap());

    let plan = train(20, 100, 500, 0);
    let without_3: Vec<_> = (0..20).filter(|i| i % 10 != 3).collect();
    for number in 0..2 {
        let (sending, receiving) = transfer_train(&mut a, &mut b, number, &plan, RECEIVE_TIMEOUT);
        assert_eq!(sending.departures.iter().map(|d| d.index).collect::<Vec<_>>(), without_3);
        assert_eq!(indices(&receiving), without_3);
        assert_eq!((a.connections(), b.connections()), (9, 9));
    }
}

#[test]
fn when_every_connection_is_lost_both_sides_say_so() {
    let (mut a, b) = rake(V4, 3);
    drop(b);
    let error = (0..3).find_map(|number| a.send(number, &train(3, 0, 100, 0)).err()).unwrap();
    assert!(error.to_string().contains("all 3 probe connections are closed"), "{error}");
    let error = a.receive(9, &train(3, 0, 100, 0), RECEIVE_TIMEOUT).unwrap_err();
    assert!(matches!(error, Error::NoConnection(3)), "{error}");
}

#[test]
fn trains_end_when_the_control_connection_does() {
    let slow = train(2, 29_000_000, 100, 0);
    for (mut probes, _peer) in [udp(V4), rake(V4, 2)] {
        let (control, far_end) = streams(V4, 1);
        probes.abort_on_close_of(ControlWatch::from_stream(&control[0]).unwrap());
        drop(far_end);
        assert!(matches!(probes.send(1, &slow), Err(Error::Aborted(_))));
        assert!(matches!(probes.receive(2, &slow, RECEIVE_TIMEOUT), Err(Error::Aborted(_))));
    }
}

#[test]
fn a_plan_beyond_the_limits_is_refused_before_anything_leaves() {
    let (mut a, mut b) = udp(V4);
    assert!(matches!(a.send(0, &train(1, 0, Train::MAX_PACKET_BYTES + 1, 0)), Err(Error::Plan(_))));
    assert!(matches!(b.receive(0, &Train::default(), RECEIVE_TIMEOUT), Err(Error::Plan(_))));
}
