//! What clients, kind and hostile, can do to a server.

use crate::common;

use common::{DEADLINE, RawClient, RunningServer};
use kumade_client::report::Warning;
use kumade_client::{Error, MeasureConfig, NtpServer, measure};
use kumade_measurement::{Directions, Event, TransportChoice};
use kumade_netns_testbed::eventually;
use kumade_probe_train::Transport;
use kumade_probe_train::{Segment, Train};
use kumade_serve::{Server, ServerConfig};
use kumade_units::Span;
use kumade_wire::{
    AdmissionDecision, ClientMessage, Limits, Preamble, PreambleReply, ServerMessage, Token, UdpAnswer, UdpRequest,
    Version,
};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Shorter than the trains of [`in_the_middle_of_a_train`], and long enough for anything else on a busy machine.
const A_TRAIN: Duration = Duration::from_secs(25);

fn quick(server: &RunningServer) -> MeasureConfig {
    server.measuring().with_changed_plan(|plan| plan.method = "linear-scan".parse().unwrap())
}

/// Measures while `holder` has the turn; lets it go by `release` once the client has seen its place.
fn measure_behind<T>(server: &RunningServer, holder: T, release: impl FnOnce(T)) {
    let (waiting, seen) = mpsc::channel();
    let config = quick(server);
    let client = thread::spawn(move || {
        measure(&config, &mut |event| {
            if let Event::Waiting { ahead } = event {
                let _ = waiting.send(*ahead);
            }
        })
    });
    assert_eq!(seen.recv_timeout(DEADLINE), Ok(1));
    release(holder);
    client.join().unwrap().unwrap();
}

#[test]
fn clients_wait_their_turn_and_see_their_place() {
    let server = RunningServer::start(ServerConfig::default());
    measure_behind(&server, RawClient::with_turn(server.address), |mut holder| holder.send(&ClientMessage::EndTurn));
}

#[test]
fn a_client_that_vanishes_frees_its_place() {
    let server = RunningServer::start(ServerConfig::default());
    let in_the_queue = |mut holder: RawClient| {
        let mut second = RawClient::connect(server.address);
        second.receive().unwrap();
        second.send(&ClientMessage::EnterQueue);
        drop(second);
        holder.send(&ClientMessage::Ping);
        drop(holder);
    };
    measure_behind(&server, RawClient::with_turn(server.address), in_the_queue);
}

#[test]
fn a_client_that_falls_silent_loses_its_turn() {
    let server = RunningServer::start(ServerConfig::default());
    let mut silent = RawClient::with_turn(server.address);
    let began = Instant::now();
    measure(&quick(&server), &mut |_| {}).unwrap();
    assert!(began.elapsed() < DEADLINE, "a turn may last three minutes: {:?}", began.elapsed());
    assert!(matches!(silent.receive(), Ok(ServerMessage::Refused(why)) if why.contains("no packet train for 5 s")));
}

/// A client with its turn, one probe connection, and a train that takes half a minute.
fn in_the_middle_of_a_train(
    server: &RunningServer,
    message: impl FnOnce(Train) -> ClientMessage,
) -> (RawClient, TcpStream) {
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let mut probe = TcpStream::connect(server.address).unwrap();
    probe.write_all(&Preamble::Probe { authenticator: token, index: 0 }.encode(Version::NEWEST)).unwrap();
    let transport = Transport::Rake;
    client.send(&ClientMessage::AwaitConnections { transport, first: 0, expected: 1, wait: Span::MAX, header: 40 });
    assert!(matches!(client.receive(), Ok(ServerMessage::Connections { numbers, .. }) if numbers == [0]));
    let interval = Span::from_secs(29);
    client.send(&message(Train { segments: vec![Segment { count: 2, interval, first_size: 100, size_step: 0 }] }));
    (client, probe)
}

fn receive(train: Train) -> ClientMessage {
    ClientMessage::Receive { number: 1, train, timeout: Span::MAX }
}

fn send(train: Train) -> ClientMessage {
    ClientMessage::Send { number: 1, train }
}

#[test]
fn a_client_that_vanishes_in_the_middle_of_a_train_frees_its_place() {
    for message in [receive, send] {
        let server = RunningServer::start(ServerConfig::default());
        let (client, _probe) = in_the_middle_of_a_train(&server, message);
        let began = Instant::now();
        measure_behind(&server, client, drop);
        assert!(began.elapsed() < A_TRAIN, "{:?}", began.elapsed());
    }
}

#[test]
fn a_server_that_is_stopped_does_not_wait_for_trains() {
    for message in [receive, send] {
        let server = RunningServer::start(ServerConfig::default());
        let (mut client, _probe) = in_the_middle_of_a_train(&server, message);
        // For the train to begin; nothing tells that it has.
        thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        drop(server);
        assert!(began.elapsed() < A_TRAIN, "{:?}", began.elapsed());
        assert!(matches!(client.receive(), Ok(ServerMessage::Refused(why)) if why.contains("being stopped")));
    }
}

#[test]
fn a_client_notices_in_the_middle_of_a_train_that_its_server_is_stopped() {
    for (kind, directions) in [(Transport::Udp, Directions::Down), (Transport::Rake, Directions::Up)] {
        let server = RunningServer::start(ServerConfig::default());
        let method = "linear-scan:interval=1100ms:packets=26".parse().unwrap();
        let transport = TransportChoice::Fixed(kind);
        let config = server.measuring().with_changed_plan(|plan| {
            plan.method = method;
            plan.transport = transport;
            plan.directions = directions;
        });
        let (opened, is_open) = mpsc::channel();
        let client = thread::spawn(move || {
            measure(&config, &mut |event| {
                if let Event::Opened { .. } = event {
                    let _ = opened.send(());
                }
            })
        });
        is_open.recv().unwrap();
        // For the train to begin; nothing tells that it has.
        thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        drop(server);
        let error = client.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("being stopped"), "{error}");
        assert!(began.elapsed() < A_TRAIN, "{:?}", began.elapsed());
    }
}

#[test]
fn questions_asked_in_advance_do_not_prolong_a_turn() {
    // Long enough for the questions to be asked within it.
    let limits = Limits { turn: Span::from_secs(4), ..ServerConfig::default().limits };
    let server = RunningServer::start(ServerConfig { limits, ..ServerConfig::default() });
    let mut holder = RawClient::with_turn(server.address);
    let transport = Transport::Rake;
    let question = ClientMessage::AwaitConnections { transport, first: 0, expected: 1, wait: Span::MAX, header: 40 };
    holder.send_all(&[question.clone(), question.clone(), question]);
    let answer = loop {
        match holder.receive() {
            Ok(ServerMessage::Connections { numbers, .. }) => assert!(numbers.is_empty()),
            other => break other,
        }
    };
    assert!(matches!(answer, Ok(ServerMessage::Refused(why)) if why.contains("time limit of the turn")));
}

#[test]
fn a_silent_ntp_server_costs_nobody_a_turn() {
    let server = RunningServer::start(ServerConfig::default());
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ntp = NtpServer { host: "127.0.0.1".into(), port: silent.local_addr().unwrap().port() };
    let config = MeasureConfig { ntp: vec![ntp], ..quick(&server) };
    let mut other = RawClient::connect(server.address);
    other.receive().unwrap();
    let client = thread::spawn(move || measure(&config, &mut |_| {}));
    silent.recv(&mut [0; 100]).unwrap();
    // The client waits for an answer by now.
    other.send(&ClientMessage::EnterQueue);
    assert_eq!(other.receive(), Ok(ServerMessage::TurnBegins));
    other.send(&ClientMessage::EndTurn);
    let warnings = client.join().unwrap().unwrap().delay.unwrap().warnings;
    assert!(
        warnings
            .iter()
            .any(|warning| matches!(warning, Warning::NtpServerUnusable(_, why) if why.contains("no answer"))),
        "{warnings:?}"
    );
}

#[test]
fn a_full_server_says_so_and_has_room_again_later() {
    let server = RunningServer::start(ServerConfig { max_clients: 1, ..ServerConfig::default() });
    let holder = RawClient::with_turn(server.address);
    let error = measure(&quick(&server), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("as many clients as it accepts"), "{error}");
    assert!(!error.to_string().contains("violated"), "{error}");
    drop(holder);
    assert!(eventually(|| measure(&quick(&server), &mut |_| {}).is_ok()));
}

#[test]
fn a_server_that_is_stopped_tells_its_clients() {
    let server = RunningServer::start(ServerConfig::default());
    let mut client = RawClient::with_turn(server.address);
    drop(server);
    assert!(matches!(client.receive(), Ok(ServerMessage::Refused(why)) if why.contains("being stopped")));
}

#[test]
fn trains_belong_to_whoever_has_the_turn() {
    let server = RunningServer::start(ServerConfig::default());
    let train = Train { segments: vec![Segment { count: 1, interval: Span::ZERO, first_size: 100, size_step: 0 }] };
    let mut client = RawClient::connect(server.address);
    client.receive().unwrap();
    client.send(&ClientMessage::Send { number: 1, train });
    assert!(matches!(client.receive(), Ok(ServerMessage::Refused(why)) if why.contains("not your turn")));
    assert_eq!(client.receive(), Err("closed".into()));
}

#[test]
fn a_measurement_beyond_the_servers_limits_is_refused() {
    let limits = Limits { connections: 256, bytes: 50_000, packets: 1_000_000, turn: Span::from_secs(60) };
    let server = RunningServer::start(ServerConfig { limits, ..ServerConfig::default() });
    let error = measure(&quick(&server), &mut |_| {}).unwrap_err();
    assert!(matches!(&error, Error::Refused { reason, .. } if reason.contains("50000 bytes")), "{error}");
    let mut greedy = RawClient::with_turn(server.address);
    let transport = Transport::Rake;
    greedy.send(&ClientMessage::AwaitConnections {
        transport,
        first: 0,
        expected: 100_000,
        wait: Span::MAX,
        header: 40,
    });
    assert!(matches!(greedy.receive(), Ok(ServerMessage::Refused(why)) if why.contains("the limit is 256")));
}

#[test]
fn a_turn_ends_in_time() {
    let limits = Limits { turn: Span::from_millis(300), ..ServerConfig::default().limits };
    let server = RunningServer::start(ServerConfig { limits, ..ServerConfig::default() });
    let mut holder = RawClient::with_turn(server.address);
    assert!(matches!(holder.receive(), Ok(ServerMessage::Refused(why)) if why.contains("time limit of the turn")));
}

#[test]
fn another_version_is_told_ours() {
    let server = RunningServer::start(ServerConfig::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut preamble = Preamble::Control { encrypted: false }.encode(Version::NEWEST);
    preamble[6..8].copy_from_slice(&9u16.to_be_bytes());
    stream.write_all(&preamble).unwrap();
    let mut answer = [0; PreambleReply::SIZE];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(
        PreambleReply::decode(&answer),
        Ok((PreambleReply(AdmissionDecision::UnsupportedVersion), Version::NEWEST))
    );
    let mut stranger = TcpStream::connect(server.address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: example.net\r\n\r\n").unwrap();
    assert!(!matches!(stranger.read(&mut answer), Ok(1..)), "pending get no answer");
}

#[test]
fn udp_answers_only_whoever_has_the_turn() {
    let server = RunningServer::start(ServerConfig::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut buffer = [0; 100];
    let mut client = RawClient::connect(server.address);
    let Ok(ServerMessage::Welcome { token, .. }) = client.receive() else { panic!("no welcome") };
    for (token, why) in [(Token([0; 16]), "a made-up token"), (token, "no turn yet")] {
        socket.send(&UdpRequest { authenticator: token }.encode(Version::NEWEST)).unwrap();
        assert!(socket.recv(&mut buffer).is_err(), "{why}");
    }
    client.send(&ClientMessage::EnterQueue);
    assert_eq!(client.receive(), Ok(ServerMessage::TurnBegins));
    // As every client does, ask again where no answer comes.
    socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let mut ask = || {
        let length = (0..5).find_map(|_| {
            socket.send(&UdpRequest { authenticator: token }.encode(Version::NEWEST)).unwrap();
            socket.recv(&mut buffer).ok()
        });
        UdpAnswer::decode(&buffer[..length.unwrap()]).unwrap()
    };
    let answer = ask();
    assert_eq!(ask(), answer, "a retry gets the same nonce");
    let UdpAnswer { nonce } = answer;
    client.send(&ClientMessage::ProveUdp(nonce));
    assert_eq!(client.receive(), Ok(ServerMessage::UdpOpen));
    client.send(&ClientMessage::ProveUdp([0; 16]));
    assert!(matches!(client.receive(), Ok(ServerMessage::Refused(_))), "a made-up nonce");
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let server = RunningServer::start(ServerConfig::default());
    let Err(error) = Server::bind(ServerConfig { listen: Some(server.address), ..ServerConfig::default() }) else {
        panic!("bound twice")
    };
    let text = error.to_string();
    assert!(text.contains(&server.address.to_string()) && text.contains("in use"), "{text}");
}

/// Of another program, with one of the options by which sockets share a port.
fn sharing_udp(option: fn(&Socket) -> io::Result<()>, address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    option(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[test]
fn the_udp_port_is_shared_with_nobody() {
    let reuse_address = |socket: &Socket| socket.set_reuse_address(true);
    let reuse_port = |socket: &Socket| socket.set_reuse_port(true);
    // Any user could. (With the other option, the kernel lets only the same user: socket(7), SO_REUSEPORT.)
    let server = RunningServer::start(ServerConfig::default());
    assert!(sharing_udp(reuse_address, server.address).is_err());
    assert!(sharing_udp(|_| Ok(()), server.address).is_err());
    measure(&quick(&server), &mut |_| {}).unwrap();
    // Whoever was there before is noticed, whoever it is.
    for option in [reuse_address, reuse_port] {
        let refusal = |_| {
            let taken = sharing_udp(option, ([127, 0, 0, 1], 0).into()).unwrap();
            let listen = taken.local_addr().unwrap().as_socket();
            let Err(error) = Server::bind(ServerConfig { listen, ..ServerConfig::default() }) else { panic!("shared") };
            Some(error.to_string()).filter(|text| !text.contains("(TCP)"))
        };
        // Another test may have the same port over TCP.
        let text = (0..20).find_map(refusal).unwrap();
        assert!(text.contains("UDP") && text.contains("in use"), "{text}");
    }
}

#[test]
fn idle_connections_give_way_when_there_are_too_many() {
    let server = RunningServer::start(ServerConfig { max_pending: 50, ..ServerConfig::default() });
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    measure(&quick(&server), &mut |_| {}).unwrap();
    drop(idle);
}
