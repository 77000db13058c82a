//! What a server says of how packets arrive, and the marked packets that it carries: for whom, and how many.

use crate::common;

use common::recorder::Recorder;
use common::{RawClient, RunningServer};
use kumade_client::report::{EcnGrade, PathReport, Treatment};
use kumade_client::{MeasureConfig, measure};
use kumade_measurement::TransportChoice;
use kumade_probe_train::{DsFieldTrain, HopProbe, HopTrace, Mark, MarkedTrain, Segment, Train, Transport};
use kumade_serve::ServerConfig;
use kumade_units::Span;
use kumade_wire::{
    ClientMessage, Limits, Preamble, PresharedKey, ServerMessage, Token, UdpAnswer, UdpRequest, Version,
};
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

fn looking_at_path(config: MeasureConfig, path: bool) -> MeasureConfig {
    config.with_changed_plan(|plan| {
        plan.path = path;
        plan.method = "linear-scan:packets=10".parse().unwrap();
    })
}

fn measured(config: &MeasureConfig) -> PathReport {
    measure(config, &mut |_| {}).unwrap().path.unwrap()
}

fn marked_train(count: usize) -> MarkedTrain {
    MarkedTrain { interval: Span::ZERO, marks: vec![Mark { ds_field: 2, hop_limit: None }; count] }
}

fn ds_field_train(count: u32, fields: usize) -> DsFieldTrain {
    let segment = Segment { count, interval: Span::ZERO, first_size: 500, size_step: 0 };
    DsFieldTrain { train: Train { segments: vec![segment] }, ds_fields: vec![1; fields] }
}

#[test]
fn both_ends_together_say_what_the_path_does_with_and_without_a_key() {
    for key in [None, Some(PresharedKey::from_bytes([7; 32]))] {
        let server = RunningServer::start(ServerConfig { key: key.clone(), ..ServerConfig::default() });
        let report = measured(&MeasureConfig { key, ..looking_at_path(server.measuring(), true) });
        assert_eq!(report.ecn_readiness.unwrap().grade, EcnGrade::L4s);
        for found in [report.up, report.down] {
            let marks = [found.ecn.unwrap(), found.dscp.unwrap()].concat();
            assert!(marks.iter().all(|mark| mark.treatment == Treatment::Kept), "{marks:?}");
            assert_eq!(found.hop_limit.unwrap().routers, 0);
        }
        let tcp = report.tcp.unwrap();
        assert_eq!(tcp.syn.unwrap().options_removed, Some(Vec::new()));
        let addresses = [report.udp_address.unwrap(), report.tcp_address.unwrap()];
        assert!(addresses.iter().all(|address| !address.is_translated && address.is_port_preserved), "{addresses:?}");
        assert_eq!(addresses[1].is_far_end_translated, Some(false));
    }
}

#[test]
fn what_costs_nothing_is_said_always_and_marks_are_looked_at_on_request() {
    let server = RunningServer::start(ServerConfig::default());
    let report = measured(&looking_at_path(server.measuring(), false));
    assert!(report.tcp.is_some() && report.up.hop_limit.is_some() && report.down.mtu.is_some(), "{report:?}");
    assert!(report.ecn_readiness.is_none() && report.up.ecn.is_none() && report.down.dscp.is_none(), "{report:?}");
    // Over TCP there are none.
    let mut config = looking_at_path(server.measuring(), true);
    config.plan.transport = TransportChoice::Fixed(Transport::Single);
    let report = measured(&config);
    assert_eq!(report.ecn_readiness.unwrap().grade, EcnGrade::Unknown);
    assert!(report.not_known.iter().any(|text| text.contains("by UDP alone")), "{:?}", report.not_known);
}

#[test]
fn a_server_of_an_earlier_release_says_nothing_and_that_is_said() {
    let server = RunningServer::start(ServerConfig::default());
    let older = Recorder::start(server.address, Version::from_number(6));
    let report = measured(&looking_at_path(common::measuring(older.address), true));
    assert!(report.tcp.is_none() && report.up.ecn.is_none(), "{report:?}");
    assert!(report.not_known.iter().all(|text| text.contains("version 6")), "{:?}", report.not_known);
    assert_eq!(report.not_known.len(), 2, "{:?}", report.not_known);
}

#[test]
fn marked_packets_beyond_the_limits_are_refused() {
    let small = Limits { packets: 100, ..ServerConfig::default().limits };
    let server = RunningServer::start(ServerConfig { limits: small, ..ServerConfig::default() });
    let send = |count| ClientMessage::SendMarked { number: 1, train: marked_train(count) };
    let receive = |count| {
        let train = marked_train(count);
        ClientMessage::ReceiveMarked { number: 1, train, timeout: Span::from_millis(1) }
    };
    for (question, limit) in [
        (send(MarkedTrain::MAX_PACKETS + 1), "allowed are 1 to 512"),
        (receive(0), "allowed are 1 to 512"),
        (send(101), "limit is 100 packets"),
        (receive(101), "limit is 100 packets"),
        (ClientMessage::AskSyns { first: 0, expected: 9, wait: Span::ZERO }, "the limit is 8"),
    ] {
        let (mut client, token) = RawClient::with_turn_and_token(server.address);
        let _socket = open_udp(&mut client, token, server.address);
        client.send(&question);
        let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("{question:?}") };
        assert!(why.contains(limit), "{why}");
    }
    // A client of an earlier release does not know them.
    let asks_syns = ClientMessage::AskSyns { first: 0, expected: 1, wait: Span::ZERO };
    for question in [send(1), receive(1), asks_syns, ClientMessage::AskPathView { destination: server.address }] {
        let mut client = RawClient::with_turn_in_version(server.address, Version::from_number(6).unwrap());
        client.send(&question);
        let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("{question:?}") };
        assert!(why.contains("this version of the protocol has no"), "{why}");
    }
}

#[test]
fn marked_packets_go_to_the_client_of_the_turn_alone_as_many_as_it_asked_for() {
    let server = RunningServer::start(ServerConfig::default());
    let question = ClientMessage::SendMarked { number: 1, train: marked_train(40) };
    // Not before the client has proved that it receives somewhere.
    let mut client = RawClient::with_turn(server.address);
    client.send(&question);
    let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("UDP is not open") };
    assert!(why.contains("no transport is open"), "{why}");
    drop(client);
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let socket = open_udp(&mut client, token, server.address);
    client.send(&question);
    assert_eq!(client.receive(), Ok(ServerMessage::SentMarked { number: 1, sent: (0..40).collect() }));
    assert_eq!(received_sizes(&socket), [24; 40], "bytes of each");
    // Nor for anybody who waits.
    let mut other = RawClient::connect(server.address);
    assert!(matches!(other.receive(), Ok(ServerMessage::Welcome { .. })));
    other.send(&question);
    let Ok(ServerMessage::Refused(why)) = other.receive() else { panic!("it is not its turn") };
    assert!(why.contains("not your turn"), "{why}");
    assert_eq!(received_sizes(&socket), [0; 0]);
}

#[test]
fn trains_that_fill_a_queue_are_carried_for_the_client_of_the_turn_alone_and_within_its_limits() {
    let small = Limits { packets: 100, bytes: 40_000, ..ServerConfig::default().limits };
    let server = RunningServer::start(ServerConfig { limits: small, ..ServerConfig::default() });
    let send = |train| ClientMessage::SendDsFields { number: 1, train };
    let receive = |train| ClientMessage::ReceiveDsFields { number: 1, train, timeout: Span::from_millis(1) };
    for (question, limit) in [
        (send(ds_field_train(3, 2)), "3 packets, and DSCP and ECN of 2"),
        (receive(ds_field_train(0, 0)), "train refused"),
        (send(ds_field_train(101, 101)), "limit is 100 packets"),
        (receive(ds_field_train(81, 81)), "limit is 40000 bytes"),
    ] {
        let (mut client, token) = RawClient::with_turn_and_token(server.address);
        let _socket = open_udp(&mut client, token, server.address);
        client.send(&question);
        let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("{question:?}") };
        assert!(why.contains(limit), "{why}");
    }
    // Not before the client has proved that it receives somewhere, nor of an earlier release, nor for anybody who waits.
    let question = send(ds_field_train(40, 40));
    let mut client = RawClient::with_turn(server.address);
    client.send(&question);
    let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("UDP is not open") };
    assert!(why.contains("no transport is open"), "{why}");
    drop(client);
    let mut client = RawClient::with_turn_in_version(server.address, Version::from_number(7).unwrap());
    client.send(&question);
    let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("version 7 has none") };
    assert!(why.contains("this version of the protocol has no"), "{why}");
    drop(client);
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let socket = open_udp(&mut client, token, server.address);
    let mut other = RawClient::connect(server.address);
    assert!(matches!(other.receive(), Ok(ServerMessage::Welcome { .. })));
    other.send(&question);
    let Ok(ServerMessage::Refused(why)) = other.receive() else { panic!("it is not its turn") };
    assert!(why.contains("not your turn"), "{why}");
    client.send(&question);
    let Ok(ServerMessage::SentDsFields { number: 1, departures }) = client.receive() else { panic!("not sent") };
    assert_eq!(departures.len(), 40);
    assert_eq!(received_sizes(&socket), [500 - 28; 40], "bytes behind the headers of each");
}

#[test]
fn a_server_of_version_7_has_no_trains_that_fill_a_queue_and_that_is_said() {
    let server = RunningServer::start(ServerConfig::default());
    let older = Recorder::start(server.address, Version::from_number(7));
    // Whoever passes packets on here bleaches their marks, but DSCPs are sent nevertheless.
    let config = looking_at_path(common::measuring(older.address), true);
    let report = measured(&config.with_changed_plan(|plan| plan.queues = true));
    assert!(report.up.ecn.is_some() && report.up.queue_classes.is_none(), "{report:?}");
    let said = report.not_known.iter().filter(|text| text.contains("version 7 of the protocol"));
    assert_eq!(said.count(), 3, "each way, and of address translation: {:?}", report.not_known);
}

/// With a hop limit that does not end on the way, they arrive.
#[test]
fn packets_for_routers_go_to_the_client_of_the_turn_alone_and_within_its_limits() {
    let server = RunningServer::start(ServerConfig::default());
    let trace = |probes: &[(u8, u8)], seconds| {
        let probes = probes.iter().map(|(flow, hop_limit)| HopProbe { flow: *flow, hop_limit: *hop_limit }).collect();
        HopTrace { ds_field: 2, probes, timeout: Span::from_millis(1), max_duration: Span::from_secs(seconds) }
    };
    let question = |trace, flows| ClientMessage::TraceHops { number: 1, trace, flows };
    for (trace, limit) in [
        (trace(&[(0, 9); 513], 1), "allowed are 1 to 512"),
        (trace(&[(27, 9)], 1), "more flows than 27"),
        (trace(&[(0, 0)], 1), "a hop limit of zero"),
        (trace(&[(0, 9)], 6), "longer than 5 s"),
    ] {
        let (mut client, token) = RawClient::with_turn_and_token(server.address);
        let _socket = open_udp(&mut client, token, server.address);
        client.send(&question(trace, Vec::new()));
        let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("{limit}") };
        assert!(why.contains(limit), "{why}");
    }
    // Neither an older client, nor one that has not proved that it receives somewhere, nor one that waits.
    let small = question(trace(&[(0, 9), (1, 9)], 1), Vec::new());
    let mut older = RawClient::with_turn_in_version(server.address, Version::from_number(7).unwrap());
    older.send(&small);
    let Ok(ServerMessage::Refused(why)) = older.receive() else { panic!("version 7 has none") };
    assert!(why.contains("this version of the protocol has no"), "{why}");
    drop(older);
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    client.send(&small);
    let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("UDP is not open") };
    assert!(why.contains("no transport is open"), "{why}");
    drop((client, token));
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let mut other = RawClient::connect(server.address);
    assert!(matches!(other.receive(), Ok(ServerMessage::Welcome { .. })));
    other.send(&small);
    let Ok(ServerMessage::Refused(why)) = other.receive() else { panic!("it is not its turn") };
    assert!(why.contains("not your turn"), "{why}");
    // Of flows, only those to which a nonce was sent.
    let socket = open_udp(&mut client, token, server.address);
    let (flow, nonce) = request_nonce(token, server.address);
    client.send(&question(trace(&[(0, 9), (1, 9), (2, 9), (2, 8)], 1), vec![[7; 16], nonce]));
    let Ok(ServerMessage::HopsTraced { number: 1, record }) = client.receive() else { panic!("not traced") };
    assert_eq!((record.sent, record.answers.len()), (vec![0, 2, 3], 0));
    assert_eq!((received_sizes(&socket), received_sizes(&flow)), (vec![24], vec![24; 2]));
    // Beyond what a turn has, none are sent, and the session goes on.
    let many = question(HopTrace { timeout: Span::ZERO, ..trace(&[(0, 9); 512], 5) }, Vec::new());
    for _ in 0..3 {
        client.send(&many);
        assert!(matches!(client.receive(), Ok(ServerMessage::HopsTraced { .. })));
    }
    client.send(&many);
    let Ok(ServerMessage::Failed { number: 1, reason }) = client.receive() else { panic!("traced") };
    assert!(reason.contains("2000 packets for routers"), "{reason}");
    client.send(&ClientMessage::Ping);
    assert_eq!(client.receive(), Ok(ServerMessage::Pong));
}

/// The far end says how the SYNs of the session's own connections arrived, and no others'.
#[test]
fn the_syns_of_probe_connections_are_told_to_their_client() {
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let probe = |authenticator, index| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&Preamble::Probe { authenticator, index }.encode(Version::NEWEST)).unwrap();
        stream
    };
    let _others = [probe(Token([7; 16]), 4), probe(token, 2)];
    let ours = probe(token, 5);
    client.send(&ClientMessage::AskSyns { first: 3, expected: 1, wait: Span::from_secs(5) });
    let Ok(ServerMessage::ConnectionSyns { syns }) = client.receive() else { panic!("no SYNs") };
    let [(5, syn)] = &syns[..] else { panic!("{syns:?}") };
    assert_eq!(syn[20..22], ours.local_addr().unwrap().port().to_be_bytes(), "the source port, behind an IPv4 header");
}

/// The socket to which UDP is open then.
fn open_udp(client: &mut RawClient, token: Token, server: SocketAddr) -> UdpSocket {
    let (socket, nonce) = request_nonce(token, server);
    client.send(&ClientMessage::ProveUdp(nonce));
    assert_eq!(client.receive(), Ok(ServerMessage::UdpOpen));
    socket
}

/// A socket, and what the server has answered it.
fn request_nonce(token: Token, server: SocketAddr) -> (UdpSocket, [u8; 16]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(common::DEADLINE)).unwrap();
    socket.send(&UdpRequest { authenticator: token }.encode(Version::NEWEST)).unwrap();
    let mut answer = [0; UdpAnswer::SIZE];
    socket.recv(&mut answer).unwrap();
    (socket, UdpAnswer::decode(&answer).unwrap().nonce)
}

/// Of all datagrams that have arrived.
fn received_sizes(socket: &UdpSocket) -> Vec<usize> {
    socket.set_nonblocking(true).unwrap();
    let began = Instant::now();
    let mut sizes = Vec::new();
    // Over loopback they have arrived before the sender is told that they left.
    while let Ok(size) = socket.recv(&mut [0; 2000]) {
        sizes.push(size);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    sizes
}
