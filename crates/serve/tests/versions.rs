//! Clients and servers of other releases: sessions of earlier ones are recorded here, byte for byte, and played again.
//!
//! A recording has a line for each thing that was said: `client` and `server` for the preamble, the answer and the frames of
//! the control connection, `probe` for the preamble of a probe connection, `request` and `nonce` for the opening of UDP; then
//! the bytes in hexadecimal digits.

use crate::common;

use common::RunningServer;
use common::recorder::Recorder;
use kumade_client::report::Warning;
use kumade_client::{MeasureConfig, measure};
use kumade_measurement::{Directions, TransportChoice};
use kumade_probe_train::{Train, Transport};
use kumade_serve::ServerConfig;
use kumade_wire::{
    ClientMessage, ClientSession, Preamble, PreambleReply, PresharedKey, ServerMessage, UdpAnswer, Version,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

const PREVIOUS_RECORDINGS: [&str; 10] = [
    include_str!("recorded/protocol-3-udp.txt"),
    include_str!("recorded/protocol-3-single.txt"),
    include_str!("recorded/protocol-4-udp.txt"),
    include_str!("recorded/protocol-4-single.txt"),
    include_str!("recorded/protocol-5-udp.txt"),
    include_str!("recorded/protocol-5-single.txt"),
    include_str!("recorded/protocol-6-udp.txt"),
    include_str!("recorded/protocol-6-single.txt"),
    include_str!("recorded/protocol-7-udp.txt"),
    include_str!("recorded/protocol-7-single.txt"),
];

/// Who said it, and the bytes.
fn parse_lines(recording: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    recording.lines().map(|line| {
        let (who, digits) = line.split_once(' ').unwrap();
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
        (who, (0..digits.len() / 2).map(byte).collect())
    })
}

/// The client of a recording: says what it said then, but for what the server has chosen anew.
struct Player {
    server: SocketAddr,
    control: TcpStream,
    udp: UdpSocket,
    probes: Vec<TcpStream>,
    /// What stood in the recording, and what stands in its place now: the token and the nonce.
    renewed: Vec<([u8; 16], [u8; 16])>,
    is_answered: bool,
}

impl Player {
    fn connect(server: SocketAddr) -> Self {
        let control = TcpStream::connect(server).unwrap();
        control.set_read_timeout(Some(common::DEADLINE)).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_read_timeout(Some(common::DEADLINE)).unwrap();
        udp.connect(server).unwrap();
        Player { server, control, udp, probes: Vec::new(), renewed: Vec::new(), is_answered: false }
    }

    fn play(&mut self, who: &str, recorded: &[u8]) {
        match who {
            "client" => self.control.write_all(&self.renew(recorded)).unwrap(),
            "probe" => {
                let mut probe = TcpStream::connect(self.server).unwrap();
                probe.write_all(&self.renew(recorded)).unwrap();
                self.probes.push(probe);
            }
            "request" => drop(self.udp.send(&self.renew(recorded)).unwrap()),
            "nonce" => {
                let mut answer = [0; UdpAnswer::SIZE];
                self.udp.recv(&mut answer).unwrap();
                assert_eq!(answer[..16], recorded[..16]);
                self.renewed.push((recorded[16..].try_into().unwrap(), answer[16..].try_into().unwrap()));
            }
            _ => self.check_answer(recorded),
        }
    }

    fn renew(&self, recorded: &[u8]) -> Vec<u8> {
        let mut bytes = recorded.to_vec();
        for (then, now) in &self.renewed {
            if let Some(at) = bytes.windows(16).position(|window| window == then) {
                bytes[at..at + 16].copy_from_slice(now);
            }
        }
        bytes
    }

    /// The server's answer: of the same kind as then, and the same where it has no contents.
    fn check_answer(&mut self, recorded: &[u8]) {
        if !self.is_answered {
            let mut answer = [0; PreambleReply::SIZE];
            self.control.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *recorded);
            self.is_answered = true;
            return;
        }
        let mut prefix = [0; 4];
        self.control.read_exact(&mut prefix).unwrap();
        let mut body = vec![0; u32::from_be_bytes(prefix) as usize];
        self.control.read_exact(&mut body).unwrap();
        assert_eq!(body[0], recorded[4], "{body:?} in place of {recorded:?}");
        let mut frame = prefix.to_vec();
        frame.extend(&body);
        if let Some((ServerMessage::Welcome { .. }, _)) = kumade_wire::decode(&frame).unwrap() {
            self.renewed.push((recorded[5..21].try_into().unwrap(), body[1..17].try_into().unwrap()));
        }
    }
}

#[test]
fn a_client_of_an_earlier_release_is_answered_as_then() {
    for recording in PREVIOUS_RECORDINGS {
        let server = RunningServer::start(ServerConfig::default());
        let mut player = Player::connect(server.address);
        parse_lines(recording).for_each(|(who, bytes)| player.play(who, &bytes));
    }
}

#[test]
fn what_a_server_of_an_earlier_release_said_is_understood() {
    for recording in PREVIOUS_RECORDINGS {
        let (who, preamble) = parse_lines(recording).next().unwrap();
        let (_, version) = Preamble::decode(preamble.first_chunk().unwrap()).unwrap();
        assert!(version < Version::NEWEST);
        let mut client = ClientSession::client(None, version);
        assert_eq!((who, client.take_outgoing()), ("client", preamble));
        let said: Vec<_> = parse_lines(recording).filter(|(who, _)| *who == "server").map(|(_, bytes)| bytes).collect();
        client.feed(&said.concat());
        let understood = std::iter::from_fn(|| client.receive().unwrap()).count();
        assert_eq!(understood, said.len() - 1, "all but the answer to the preamble");
    }
}

/// A whole measurement with a server that speaks an earlier version alone, which the client finds out, and says what is lost.
#[test]
fn a_server_of_an_earlier_release_is_measured_and_what_it_cant_say_is_noted() {
    let previous = Version::from_number(3).unwrap();
    for transport in [Transport::Udp, Transport::Single] {
        let server = RunningServer::start(ServerConfig::default());
        let older = Recorder::start(server.address, Some(previous));
        let config = common::measuring(older.address).with_changed_plan(|plan| {
            plan.transport = TransportChoice::Fixed(transport);
            plan.method = "linear-scan:packets=10".parse().unwrap();
        });
        let report = measure(&config, &mut |_| {}).unwrap();
        let (up, down) = (report.up.unwrap(), report.down.unwrap());
        assert!(up.packets_sent > 0 && down.packets_sent > 0);
        assert!(
            down.warnings.iter().any(|warning| matches!(warning, Warning::OldServer(3, ..))),
            "{:?}",
            down.warnings
        );
        for (who, bytes) in parse_lines(&older.text()) {
            let opens = bytes.len() >= Preamble::SIZE && bytes.starts_with(&kumade_wire::MAGIC);
            assert!(!opens || bytes[6..8] == previous.number().to_be_bytes(), "{who} {bytes:?}");
        }
    }
    let server = RunningServer::start(ServerConfig::default());
    let report = measure(&server.measuring(), &mut |_| {}).unwrap();
    let down = report.down.unwrap();
    assert!(!down.warnings.iter().any(|warning| matches!(warning, Warning::OldServer(..))), "{:?}", down.warnings);
}

/// Servers of earlier releases refuse trains of jumbo frames. Loopback takes them.
#[test]
fn only_servers_that_know_jumbo_frames_are_asked_for_them() {
    let server = RunningServer::start(ServerConfig::default());
    for (only, largest) in
        [(Version::from_number(5), Train::MAX_ETHERNET_PACKET_BYTES), (None, Train::MAX_PACKET_BYTES)]
    {
        let recorder = Recorder::start(server.address, only);
        let config = common::measuring(recorder.address).with_changed_plan(|plan| {
            plan.transport = TransportChoice::Fixed(Transport::Udp);
            plan.method = "linear-scan:packets=10".parse().unwrap();
        });
        measure(&config, &mut |_| {}).unwrap();
        let text = recorder.text();
        let planned =
            parse_lines(&text).filter(|(who, _)| *who == "client").filter_map(|(_, frame)| match kumade_wire::decode(
                &frame,
            )
            .ok()??
            .0
            {
                ClientMessage::Receive { train, .. } | ClientMessage::Send { train, .. } => Some(train),
                _ => None,
            });
        let found = planned.flat_map(|train| train.packets().map(|packet| packet.size).collect::<Vec<_>>()).max();
        assert_eq!(found, Some(largest), "{only:?}");
    }
}

/// With a key, a server that does not know how to authenticate packets is measured as it can be, which is noted.
#[test]
fn a_server_that_authenticates_no_packets_is_measured_and_that_is_noted() {
    let key = PresharedKey::from_bytes([7; 32]);
    let server = RunningServer::start(ServerConfig { key: Some(key.clone()), ..ServerConfig::default() });
    for only in [Some(Version::OLDEST), None] {
        let recorder = Recorder::start(server.address, only);
        for transport in [Transport::Udp, Transport::Rake] {
            let config = common::measuring(recorder.address).with_changed_plan(|plan| {
                plan.transport = TransportChoice::Fixed(transport);
                plan.directions = Directions::Down;
                plan.method = "linear-scan:packets=10".parse().unwrap();
            });
            let report = measure(&MeasureConfig { key: Some(key.clone()), ..config }, &mut |_| {}).unwrap();
            let down = report.down.unwrap();
            let is_noted = down.warnings.iter().any(|warning| matches!(warning, Warning::OldServer(_, _, what) if what.contains("somebody on the path forges")));
            assert_eq!(is_noted, only.is_some(), "{:?}", down.warnings);
        }
    }
}

/// Records a session of this release over each kind of transport. To be run, and its files committed, when the protocol's
/// version is about to be raised: `cargo test -p kumade-serve --test tests versions -- --ignored`.
#[test]
#[ignore = "writes files: only before the protocol changes"]
fn record_this_release() {
    for (name, transport) in [("udp", Transport::Udp), ("single", Transport::Single)] {
        let server = RunningServer::start(ServerConfig::default());
        let recorder = Recorder::start(server.address, None);
        let config = common::measuring(recorder.address).with_changed_plan(|plan| {
            plan.transport = TransportChoice::Fixed(transport);
            plan.directions = Directions::Both;
            plan.method = "linear-scan:packets=10".parse().unwrap();
        });
        measure(&config, &mut |_| {}).unwrap();
        let path = format!(
            "{}/tests/recorded/protocol-{}-{name}.txt",
            env!("CARGO_MANIFEST_DIR"),
            kumade_wire::Version::NEWEST
        );
        std::fs::write(path, recorder.text()).unwrap();
    }
}
