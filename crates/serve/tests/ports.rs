//! Ports at which a server listens for the client of the turn, and flows that it keeps: for whom, and how many.

use crate::common;

use common::{RawClient, RunningServer};
use kumade_client::measure;
use kumade_client::report::PortOutcome;
use kumade_measurement::TransportChoice;
use kumade_probe_train::{PortProtocol, Transport};
use kumade_serve::ServerConfig;
use kumade_units::{Direction, Span};
use kumade_wire::{
    ClientMessage, Credential, CredentialBearer, IdleFlow, OpenedPort, PortAnswer, PortProbe, PortStatus, Preamble,
    PresharedKey, ServerMessage, SessionEndpoint, Token, UdpAnswer, UdpRequest, Version,
};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Has the server listen at ports.
fn open_ports(client: &mut RawClient, ports: &[(PortProtocol, u16)]) -> Vec<OpenedPort> {
    client.send(&ClientMessage::OpenPorts { ports: ports.to_vec() });
    let answer = client.receive();
    let Ok(ServerMessage::PortsOpened { ports, .. }) = answer else { panic!("{answer:?}") };
    ports
}

/// Gives the turn back, and waits until that is done.
fn end_turn(client: &mut RawClient) {
    client.send_all(&[ClientMessage::EndTurn, ClientMessage::Ping]);
    assert_eq!(client.receive(), Ok(ServerMessage::Pong));
}

/// One of UDP and one of TCP, of the server's choice.
fn open_any(client: &mut RawClient) -> [u16; 2] {
    let opened = open_ports(client, &PortProtocol::BOTH.map(|protocol| (protocol, 0)));
    assert!(opened.iter().all(|opened| opened.status == PortStatus::Listening && opened.port > 0), "{opened:?}");
    [opened[0].port, opened[1].port]
}

/// What a client of a session without a key sends there.
fn probe(token: Token, protocol: PortProtocol, port: u16, index: u32) -> [u8; PortProbe::SIZE] {
    let credential = Credential::new(token, Version::NEWEST, false);
    let bearer = CredentialBearer::Port { sender: SessionEndpoint::Client, protocol, port, index };
    PortProbe { authenticator: credential.authenticator_for(bearer), index }.encode(Version::NEWEST)
}

fn udp_socket(from: &str) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.set_read_timeout(Some(common::DEADLINE)).unwrap();
    socket
}

fn arrivals(client: &mut RawClient) -> Vec<(PortProtocol, u32, SocketAddr)> {
    client.send(&ClientMessage::AskPortArrivals);
    let answer = client.receive();
    let Ok(ServerMessage::PortArrivals { arrivals }) = answer else { panic!("{answer:?}") };
    arrivals.iter().map(|arrival| (arrival.protocol, arrival.index, arrival.source)).collect()
}

/// The socket to which UDP is known to lead, and what the server has sent there.
fn proved(token: Token, server: SocketAddr) -> (UdpSocket, [u8; 16]) {
    proved_from("127.0.0.1", token, server)
}

fn proved_from(ip: &str, token: Token, server: SocketAddr) -> (UdpSocket, [u8; 16]) {
    let socket = udp_socket(ip);
    socket.send_to(&UdpRequest { authenticator: token }.encode(Version::NEWEST), server).unwrap();
    let mut answer = [0; UdpAnswer::SIZE];
    socket.recv(&mut answer).unwrap();
    (socket, UdpAnswer::decode(&answer).unwrap().nonce)
}

#[test]
fn a_port_answers_the_client_of_the_turn_and_nobody_else() {
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let [udp, tcp] = open_any(&mut client);
    let (udp_there, tcp_there) = (SocketAddr::from(([127, 0, 0, 1], udp)), SocketAddr::from(([127, 0, 0, 1], tcp)));

    let own = udp_socket("127.0.0.1");
    // From another address, with the right token; from the right one, with a wrong token, cut off, and for another port.
    let other = udp_socket("127.0.0.9");
    other.send_to(&probe(token, PortProtocol::Udp, udp, 1), udp_there).unwrap();
    own.send_to(&probe(token, PortProtocol::Udp, udp, 2)[..47], udp_there).unwrap();
    own.send_to(&probe(Token([7; 16]), PortProtocol::Udp, udp, 3), udp_there).unwrap();
    own.send_to(&probe(token, PortProtocol::Udp, udp, 4), udp_there).unwrap();
    let mut answer = [0; 64];
    assert_eq!(own.recv(&mut answer).unwrap(), PortAnswer::SIZE);
    assert_eq!(PortAnswer::decode(&answer[..PortAnswer::SIZE]).unwrap().index, 4, "the only one that is answered");

    let connect = |from: [u8; 4]| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&tcp_there.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
        stream
    };
    let ask = |mut stream: TcpStream, token, index| {
        // It may be closed already.
        let _ = stream.write_all(&probe(token, PortProtocol::Tcp, tcp, index));
        let mut answer = [0; PortAnswer::SIZE];
        stream.read_exact(&mut answer).map(|()| PortAnswer::decode(&answer).unwrap().index).ok()
    };
    assert_eq!(ask(connect([127, 0, 0, 9]), token, 5), None);
    assert_eq!(ask(connect([127, 0, 0, 1]), Token([7; 16]), 6), None);
    assert_eq!(ask(connect([127, 0, 0, 1]), token, 7), Some(7));

    let arrived: Vec<_> = arrivals(&mut client).into_iter().map(|(protocol, index, _)| (protocol, index)).collect();
    assert_eq!(arrived, [(PortProtocol::Udp, 4), (PortProtocol::Tcp, 7)]);
    assert_eq!(arrivals(&mut client), [], "each is told once");
    // All of it ends with the turn.
    end_turn(&mut client);
    assert!(TcpStream::connect(tcp_there).is_err());
}

/// A second address has one listener of TCP with the first, at all addresses of the host.
#[test]
fn a_port_is_at_the_addresses_of_the_server_alone() {
    let second = [127, 0, 0, 2];
    let server =
        RunningServer::start(ServerConfig { second_addresses: vec![second.into()], ..ServerConfig::default() });
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let [_, tcp] = open_any(&mut client);
    let answered = |to: [u8; 4]| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.connect(&SocketAddr::from((to, tcp)).into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
        // It may be closed already.
        let _ = stream.write_all(&probe(token, PortProtocol::Tcp, tcp, 1));
        stream.read_exact(&mut [0; PortAnswer::SIZE]).is_ok()
    };
    assert!(answered([127, 0, 0, 1]));
    assert!(answered(second));
    assert!(!answered([127, 0, 0, 3]));
}

#[test]
fn with_a_key_each_packet_to_a_port_shows_a_code_of_its_own() {
    let key = PresharedKey::from_bytes([7; 32]);
    let server = RunningServer::start(ServerConfig { key: Some(key.clone()), ..ServerConfig::default() });
    let (mut client, token) = RawClient::with_key_and_turn(server.address, &key);
    let [udp, _] = open_any(&mut client);
    let there = SocketAddr::from(([127, 0, 0, 1], udp));
    let own = udp_socket("127.0.0.1");
    // The token, as without a key; the code of another packet; the right one.
    let credential = Credential::new(token, Version::NEWEST, true);
    let code = |index| {
        let bearer =
            CredentialBearer::Port { sender: SessionEndpoint::Client, protocol: PortProtocol::Udp, port: udp, index };
        credential.authenticator_for(bearer)
    };
    for (authenticator, index) in [(token, 1), (code(1), 2), (code(3), 3)] {
        own.send_to(&PortProbe { authenticator, index }.encode(Version::NEWEST), there).unwrap();
    }
    let mut answer = [0; PortAnswer::SIZE];
    own.recv(&mut answer).unwrap();
    assert_eq!(PortAnswer::decode(&answer).unwrap().index, 3);
}

#[test]
fn a_server_listens_where_it_is_allowed_to_within_limits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server =
        RunningServer::start(ServerConfig { ports: vec![taken..=taken, free..=free], ..ServerConfig::default() });
    let (mut client, _) = RawClient::with_turn_and_token(server.address);
    let opened =
        open_ports(&mut client, &[(PortProtocol::Tcp, taken), (PortProtocol::Udp, free), (PortProtocol::Udp, 1)]);
    let statuses: Vec<_> = opened.iter().map(|opened| opened.status.clone()).collect();
    assert_eq!(statuses, [PortStatus::InUse, PortStatus::Listening, PortStatus::NotAllowed]);
    // No more than 64 at once.
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, _) = RawClient::with_turn_and_token(server.address);
    // Of TCP: other tests start servers, which need a port of both.
    let opened = open_ports(&mut client, &[(PortProtocol::Tcp, 0); 70]);
    let count = |status: PortStatus| opened.iter().filter(|opened| opened.status == status).count();
    assert_eq!((count(PortStatus::Listening), count(PortStatus::TooMany)), (64, 6));
    // No more than 1024 in a turn.
    let more = (0..16).flat_map(|_| open_ports(&mut client, &[(PortProtocol::Tcp, 0); 64]));
    assert_eq!(more.filter(|opened| opened.status == PortStatus::Listening).count(), 1024 - 64);
}

#[test]
fn packets_from_another_port_go_to_an_address_that_has_proved_to_receive_alone() {
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let [port, _] = open_any(&mut client);
    client.send(&ClientMessage::SendFromPort { nonce: [7; 16], port });
    assert_eq!(client.receive(), Ok(ServerMessage::SentFromPort { client: None }));
    let (socket, nonce) = proved(token, server.address);
    let own = socket.local_addr().unwrap();
    for _ in 0..8 {
        client.send(&ClientMessage::SendFromPort { nonce, port });
        assert_eq!(client.receive(), Ok(ServerMessage::SentFromPort { client: Some(own) }));
    }
    let mut packet = [0; 100];
    for _ in 0..8 * 8 {
        let (length, source) = socket.recv_from(&mut packet).unwrap();
        assert_eq!((length, source.port()), (PortAnswer::SIZE, port));
    }
    client.send(&ClientMessage::SendFromPort { nonce, port });
    let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("no limit") };
    assert!(why.contains("the limit is 8 requests"), "{why}");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut packet).is_err(), "no more than was asked for");
}

#[test]
fn ports_and_flows_are_for_the_turn_and_for_clients_of_this_release() {
    let server = RunningServer::start(ServerConfig::default());
    let hold = || ClientMessage::HoldFlows { udp: Vec::new(), tcp: Vec::new(), wait: Span::ZERO };
    let questions = || {
        let send = ClientMessage::SendFromPort { nonce: [0; 16], port: 1 };
        [ClientMessage::OpenPorts { ports: Vec::new() }, ClientMessage::AskPortArrivals, send, hold()]
    };
    for question in questions() {
        let mut client = RawClient::connect(server.address);
        assert!(matches!(client.receive(), Ok(ServerMessage::Welcome { .. })));
        client.send(&question);
        let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("{question:?}") };
        assert!(why.contains("not your turn"), "{why}");
    }
    for question in questions() {
        let mut client = RawClient::with_turn_in_version(server.address, Version::from_number(7).unwrap());
        client.send(&question);
        let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("{question:?}") };
        assert!(why.contains("this version of the protocol has no"), "{why}");
    }
}

/// A flow that was opened is sent three packets after its time, also beyond the turn, and what came back is told.
#[test]
fn idle_flows_are_kept_beyond_the_turn_and_sent_down_once() {
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let (socket, nonce) = proved(token, server.address);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(common::DEADLINE)).unwrap();
    stream.write_all(&Preamble::Probe { authenticator: token, index: 5 }.encode(Version::NEWEST)).unwrap();
    let flow = IdleFlow { idle: Span::from_millis(200) };
    let (udp, tcp) = (vec![(nonce, flow), ([7; 16], flow)], vec![(5, flow), (6, flow)]);
    client.send(&ClientMessage::HoldFlows { udp, tcp, wait: Span::from_millis(300) });
    let held = client.receive();
    assert_eq!(held, Ok(ServerMessage::FlowsHeld { udp: vec![true, false], tcp: vec![true, false] }));
    end_turn(&mut client);
    // Somebody else has the turn.
    let _other = RawClient::with_turn(server.address);
    let mut packet = [0; 100];
    for _ in 0..3 {
        assert_eq!(socket.recv(&mut packet).unwrap(), PortAnswer::SIZE);
        assert_eq!(PortAnswer::decode(&packet[..PortAnswer::SIZE]).unwrap().index, 0);
    }
    stream.read_exact(&mut packet[..PortAnswer::SIZE]).unwrap();
    let up = |protocol| probe(token, protocol, 0, 0);
    socket.send_to(&up(PortProtocol::Udp), server.address).unwrap();
    stream.write_all(&up(PortProtocol::Tcp)).unwrap();
    // Both have arrived before the question does: TCP over loopback waits for nothing.
    client.send(&ClientMessage::EndFlows);
    let answer = client.receive();
    let Ok(ServerMessage::FlowRecords { udp, tcp }) = answer else { panic!("{answer:?}") };
    for records in [udp, tcp] {
        assert!(records[0].idle >= Some(flow.idle) && records[0].has_arrived, "{records:?}");
        assert!(records[1].idle.is_none() && !records[1].has_arrived, "{records:?}");
    }
}

#[test]
fn idle_flows_beyond_the_limits_are_refused() {
    let config = ServerConfig { max_flow_idle: Span::from_secs(10), ..ServerConfig::default() };
    let server = RunningServer::start(config);
    let hold = |count: usize, idle| ClientMessage::HoldFlows {
        udp: vec![([7; 16], IdleFlow { idle }); count],
        tcp: Vec::new(),
        wait: Span::ZERO,
    };
    for (question, limit) in [
        (hold(65, Span::from_secs(1)), "64, which is the limit"),
        (hold(1, Span::from_secs(11)), "10 s, which is the limit"),
        (hold(1, Span::from_secs(-1)), "10 s, which is the limit"),
    ] {
        let mut client = RawClient::with_turn(server.address);
        client.send(&question);
        let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("{question:?}") };
        assert!(why.contains(limit), "{why}");
    }
    // Zero is none at all, not those that are idle for no time.
    let server = RunningServer::start(ServerConfig { max_flow_idle: Span::ZERO, ..ServerConfig::default() });
    let mut client = RawClient::with_turn(server.address);
    client.send(&hold(1, Span::ZERO));
    let Ok(ServerMessage::Refused(why)) = client.receive() else { panic!("flows are kept") };
    assert!(why.contains("keeps no idle flows"), "{why}");
}

/// Two of a network; who has no flow takes no place, and who finds none measures on, and says so.
#[test]
fn places_for_idle_flows_are_shared_among_networks() {
    let server = RunningServer::start(ServerConfig::default());
    let hold = |network: u8, has_flow: bool| {
        let ip = format!("127.0.{network}.1");
        let source = SocketAddr::new(ip.parse().unwrap(), 0);
        let (mut client, token) = RawClient::try_connect(server.address, source).unwrap().wait_for_turn();
        let nonce = if has_flow { proved_from(&ip, token, server.address).1 } else { [7; 16] };
        let udp = vec![(nonce, IdleFlow { idle: Span::from_secs(600) })];
        client.send(&ClientMessage::HoldFlows { udp, tcp: Vec::new(), wait: Span::ZERO });
        let answer = client.receive();
        let Ok(ServerMessage::FlowsHeld { udp, .. }) = answer else { panic!("{answer:?}") };
        end_turn(&mut client);
        (client, udp)
    };
    let mut clients = Vec::new();
    for (network, has_flow, is_held) in
        [(0, false, false), (0, false, false), (0, true, true), (0, true, true), (0, true, false), (2, true, true)]
    {
        let (client, held) = hold(network, has_flow);
        assert_eq!(held, [is_held], "client {} from network {network}", clients.len());
        clients.push(client);
    }
    let config = server.measuring().with_changed_plan(|plan| {
        plan.idle_timeouts = Some(Span::from_secs(300));
        plan.transport = TransportChoice::Fixed(Transport::Single);
        plan.method = "linear-scan:packets=10".parse().unwrap();
    });
    let is_over = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        // The server leaves clients that say nothing.
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                clients.iter_mut().for_each(|client| client.send_ignoring_errors(&ClientMessage::Ping));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let found = measure(&config, &mut |_| {});
        is_over.store(true, Ordering::SeqCst);
        found.unwrap().path.unwrap().idle_timeouts.unwrap()
    });
    assert!(found.failure.as_ref().is_some_and(|why| why.contains("kept none of the flows")), "{found:?}");
    assert!(found.udp.is_none() && found.udp_stream.is_none() && found.tcp.is_none(), "{found:?}");
}

#[test]
fn flows_are_not_kept_while_the_path_is_being_filled() {
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&Preamble::Probe { authenticator: token, index: 0 }.encode(Version::NEWEST)).unwrap();
    let wait = Span::from_secs(1);
    let (direction, duration) = (Direction::Up, Span::from_secs(20));
    client.send(&ClientMessage::Load { direction, first: 0, expected: 1, wait, duration });
    assert_eq!(client.receive(), Ok(ServerMessage::LoadBegins { connections: 1 }));
    client.send(&ClientMessage::HoldFlows { udp: Vec::new(), tcp: Vec::new(), wait: Span::ZERO });
    let answer = client.receive();
    assert!(matches!(&answer, Ok(ServerMessage::Refused(why)) if why.contains("being filled")), "{answer:?}");
}

#[test]
fn both_ends_together_say_which_ports_pass_with_and_without_a_key() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for key in [None, Some(PresharedKey::from_bytes([7; 32]))] {
        let config = ServerConfig { key: key.clone(), ports: vec![free..=free], ..ServerConfig::default() };
        let server = RunningServer::start(config);
        let config = server.measuring().with_changed_plan(|plan| {
            plan.ports = vec![free];
            plan.idle_timeouts = Some(Span::from_millis(100));
            plan.transport = TransportChoice::Fixed(Transport::Single);
            plan.method = "linear-scan:packets=10".parse().unwrap();
        });
        let path = measure(&kumade_client::MeasureConfig { key, ..config }, &mut |_| {}).unwrap().path.unwrap();
        let ports = path.ports.unwrap();
        // Another test may have taken it by now.
        let passes = |outcome| matches!(outcome, PortOutcome::Passes | PortOutcome::InUse);
        assert!(ports.ports.iter().all(|found| passes(found.outcome)), "{ports:?}");
        let idle = path.idle_timeouts.unwrap();
        for found in [idle.udp, idle.udp_stream, idle.tcp] {
            let found = found.unwrap();
            assert!(found.longer_than_seconds.unwrap() >= 0.1 && found.at_most_seconds.is_none(), "{found:?}");
        }
        assert_eq!(idle.failure, None);
    }
}
