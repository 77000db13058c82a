//! Sessions with a key, seen by somebody on the path: what they show opens nothing else.

use crate::common;

use common::{DEADLINE, RawClient, RunningServer};
use kumade_probe_train::{Segment, Train, Transport};
use kumade_serve::ServerConfig;
use kumade_units::Span;
use kumade_wire::{
    ClientMessage, Credential, CredentialBearer, Preamble, PresharedKey, ServerMessage, SessionEndpoint, Token,
    UdpAnswer, UdpRequest, Version,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

struct Session {
    _server: RunningServer,
    address: SocketAddr,
    client: RawClient,
    token: Token,
}

impl Session {
    fn begin() -> Self {
        let key = PresharedKey::from_bytes([7; 32]);
        let server = RunningServer::start(ServerConfig { key: Some(key.clone()), ..ServerConfig::default() });
        let address = server.address;
        let (client, token) = RawClient::with_key_and_turn(address, &key);
        Session { _server: server, address, client, token }
    }

    fn shown(&self, bearer: CredentialBearer) -> Token {
        Credential::new(self.token, Version::NEWEST, true).authenticator_for(bearer)
    }

    /// Whoever asks for UDP, from a port of its own, and whether there is an answer.
    fn ask_for_udp(&self, shown: Token, wait: Duration) -> (UdpSocket, Option<UdpAnswer>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(wait)).unwrap();
        socket.send(&UdpRequest { authenticator: shown }.encode(Version::NEWEST)).unwrap();
        let mut answer = [0; UdpAnswer::SIZE];
        let heard = socket.recv(&mut answer).ok().map(|_| UdpAnswer::decode(&answer).unwrap());
        (socket, heard)
    }

    /// The numbers of those that the server takes, from the first on; returns as soon as there is one.
    fn await_connections(&mut self, first: u16, wait: Span) -> Vec<u16> {
        let transport = Transport::Rake;
        self.client.send(&ClientMessage::AwaitConnections { transport, first, expected: 1, wait, header: 40 });
        match self.client.receive() {
            Ok(ServerMessage::Connections { numbers, .. }) => numbers,
            other => panic!("{other:?}"),
        }
    }

    fn connect(&self, shown: Token, index: u16) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(&Preamble::Probe { authenticator: shown, index }.encode(Version::NEWEST)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }
}

#[test]
fn udp_opens_to_whoever_has_the_secret_alone_and_counts_its_packets_alone() {
    let mut session = Session::begin();
    let of_packet = |train, index| CredentialBearer::Packet { sender: SessionEndpoint::Client, train, index };
    let connection = session.shown(CredentialBearer::Connection { index: 0 });
    for forged in [session.token, Token([0; 16]), connection, session.shown(of_packet(0, 0))] {
        assert_eq!(session.ask_for_udp(forged, Duration::from_millis(300)).1, None);
    }
    let (socket, answer) = session.ask_for_udp(session.shown(CredentialBearer::UdpRequest), DEADLINE);
    session.client.send(&ClientMessage::ProveUdp(answer.unwrap().nonce));
    assert_eq!(session.client.receive(), Ok(ServerMessage::UdpOpen));

    let back = session.shown(CredentialBearer::Packet { sender: SessionEndpoint::Server, train: 1, index: 0 });
    let said = [
        (session.token, 1, 0),
        (session.shown(CredentialBearer::UdpRequest), 1, 0),
        (back, 1, 0),
        (session.shown(of_packet(1, 2)), 1, 0),
        (session.shown(of_packet(0, 0)), 1, 0),
        (session.shown(of_packet(1, 1)), 1, 1),
        (session.shown(of_packet(1, 1)), 1, 1),
    ];
    // They wait in the server's buffer.
    for (shown, train, index) in said {
        socket.send(&[&shown.0[..], &u32::to_be_bytes(train), &u32::to_be_bytes(index)].concat()).unwrap();
    }
    let train =
        Train { segments: vec![Segment { count: 3, interval: Span::from_micros(100), first_size: 52, size_step: 0 }] };
    session.client.send(&ClientMessage::Receive { number: 1, train, timeout: Span::from_millis(300) });
    let Ok(ServerMessage::Received { arrivals, .. }) = session.client.receive() else { panic!("no record") };
    assert_eq!(arrivals.iter().map(|arrival| arrival.index).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_probe_connection_is_of_whoever_has_the_secret_and_its_copy_of_nobody() {
    let mut session = Session::begin();
    let of_connection = |index| CredentialBearer::Connection { index };
    let forged = [session.token, session.shown(CredentialBearer::UdpRequest), session.shown(of_connection(1))];
    for shown in forged {
        assert!(!matches!(session.connect(shown, 0).read(&mut [0]), Ok(1..)), "it is not closed");
    }
    let shown = session.shown(of_connection(0));
    let [_right, _copy] = [session.connect(shown, 0), session.connect(shown, 0)];
    assert_eq!(session.await_connections(0, Span::from_secs(5)), [0]);
    // As clients do, ask for those of higher numbers when they open others.
    let _late_copy = session.connect(shown, 0);
    assert_eq!(session.await_connections(1, Span::from_millis(300)), [0_u16; 0]);
}
