//! Filling the path: what carries it, who may ask for it, and where it ends.

use crate::common;

use common::recorder::Recorder;
use common::{RawClient, RunningServer};
use kumade_client::{MeasureConfig, measure};
use kumade_measurement::report::{LoadReason, LoadReport, Warning};
use kumade_measurement::{Directions, Event};
use kumade_serve::ServerConfig;
use kumade_units::{Direction, Span};
use kumade_wire::{ClientMessage, Limits, Preamble, PresharedKey, ServerMessage, Token, Version};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

const SHORT: Span = Span::from_secs(2);

fn loading(config: MeasureConfig) -> MeasureConfig {
    config.with_changed_plan(|plan| {
        plan.load = Some(SHORT);
        plan.method = "linear-scan:packets=10".parse().unwrap();
        plan.idle_delay = false;
    })
}

fn has_filled(load: Option<&LoadReport>) {
    let load = load.unwrap();
    assert_eq!(load.connections, 4, "{load:?}");
    assert!(load.bytes > 1_000_000 && load.goodput_bits_per_second.is_some_and(|rate| rate.as_f64() > 1e6), "{load:?}");
    assert!(load.idle_round_trip_seconds.is_some() && load.round_trip_seconds.is_some(), "{load:?}");
    assert!(load.best_grade.is_some(), "{load:?}");
}

#[test]
fn both_directions_are_filled_with_and_without_a_key() {
    let key = PresharedKey::from_bytes([7; 32]);
    for key in [None, Some(key)] {
        // Loopback carries more in these seconds than a turn may by default.
        let limits = Limits { bytes: u64::MAX, ..ServerConfig::default().limits };
        let server = RunningServer::start(ServerConfig { key: key.clone(), limits, ..ServerConfig::default() });
        let mut events = Vec::new();
        let config = MeasureConfig { key, ..loading(server.measuring()) };
        let report = measure(&config, &mut |event| events.push(event.clone())).unwrap();
        has_filled(report.up.unwrap().load.as_ref());
        has_filled(report.down.unwrap().load.as_ref());
        let loads = events.iter().filter(|event| matches!(event, Event::LoadBegins { .. } | Event::LoadDone { .. }));
        assert_eq!(loads.count(), 4, "{events:?}");
        assert!(matches!(events.last(), Some(Event::LoadDone { direction: Direction::Down, .. })), "{events:?}");
    }
}

#[test]
fn a_server_of_an_earlier_release_gives_no_grade_and_the_rest() {
    let server = RunningServer::start(ServerConfig::default());
    let older = Recorder::start(server.address, Version::from_number(4));
    let report = measure(&loading(common::measuring(older.address)), &mut |_| {}).unwrap();
    for found in [report.up.unwrap(), report.down.unwrap()] {
        assert!(found.packets_sent > 0, "{found:?}");
        let Some(LoadReason::Other(reason)) = found.load.unwrap().reason else { panic!("it has one") };
        assert!(reason.contains("protocol version 4") && reason.contains("since version 5"), "{reason}");
        assert!(
            found.warnings.iter().all(|warning| !matches!(warning, Warning::OldServer(..))),
            "{:?}",
            found.warnings
        );
    }
}

/// What was measured before remains when the turn ends in the middle, here because its bytes are spent.
#[test]
fn a_load_ends_with_the_bytes_of_the_turn() {
    let bytes = 3_000_000;
    let limits = Limits { bytes, ..ServerConfig::default().limits };
    let server = RunningServer::start(ServerConfig { limits, ..ServerConfig::default() });
    let mut config = loading(server.measuring());
    config.plan.directions = Directions::Down;
    let down = measure(&config, &mut |_| {}).unwrap().down.unwrap();
    let load = down.load.unwrap();
    assert!(load.bytes > 0 && down.bytes_sent + load.bytes <= bytes, "{load:?}");
    assert!(load.best_grade.is_none() && matches!(load.reason, Some(LoadReason::Ended(_))));
}

fn load(direction: Direction, expected: u32, duration: Span) -> ClientMessage {
    ClientMessage::Load { direction, first: 0, expected, wait: Span::from_secs(5), duration }
}

fn connect(address: SocketAddr, shown: Token, index: u16) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&Preamble::Probe { authenticator: shown, index }.encode(Version::NEWEST)).unwrap();
    stream
}

#[test]
fn a_load_beyond_the_limits_is_refused() {
    let server = RunningServer::start(ServerConfig::default());
    let too_long = ServerConfig::default().limits.turn + SHORT;
    for (message, why) in [
        (load(Direction::Down, 17, SHORT), "the limit is 16"),
        (load(Direction::Down, 1, Span::from_secs(31)), "the limit is 30 s"),
        (load(Direction::Up, 1, too_long), "the limit is 30 s"),
        (load(Direction::Up, 1, Span::from_nanos(-1)), "the limit is 30 s"),
    ] {
        let mut client = RawClient::with_turn(server.address);
        client.send(&message);
        let heard = client.receive();
        assert!(matches!(&heard, Ok(ServerMessage::Refused(reason)) if reason.contains(why)), "{heard:?}");
    }
    let mut stranger = RawClient::connect(server.address);
    stranger.receive().unwrap();
    stranger.send(&load(Direction::Down, 0, SHORT));
    assert!(matches!(stranger.receive(), Ok(ServerMessage::Refused(why)) if why.contains("not your turn")));
}

#[test]
fn without_connections_nothing_begins() {
    let server = RunningServer::start(ServerConfig::default());
    let mut client = RawClient::with_turn(server.address);
    client.send(&load(Direction::Down, 0, SHORT));
    assert_eq!(client.receive(), Ok(ServerMessage::LoadBegins { connections: 0 }));
    client.send(&ClientMessage::Ping);
    assert_eq!(client.receive(), Ok(ServerMessage::Pong));
}

/// Pings are what is timed meanwhile; whoever asks for anything else loses the turn, and its transfers end.
#[test]
fn a_server_that_fills_the_path_answers_pings_and_nothing_else() {
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let mut filled = connect(server.address, token, 0);
    client.send(&load(Direction::Down, 1, Span::from_secs(25)));
    assert_eq!(client.receive(), Ok(ServerMessage::LoadBegins { connections: 1 }));
    client.send(&ClientMessage::Ping);
    assert_eq!(client.receive(), Ok(ServerMessage::Pong));
    filled.read_exact(&mut [0; 100_000]).unwrap();
    client.send(&load(Direction::Down, 0, SHORT));
    assert!(matches!(client.receive(), Ok(ServerMessage::Refused(why)) if why.contains("being filled")));
    filled.set_read_timeout(Some(common::DEADLINE)).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let ending = loop {
        match filled.read(&mut buffer) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert!([None, Some(std::io::ErrorKind::ConnectionReset)].contains(&ending), "{ending:?}");
}

/// It counts as the work that a turn is for, longer than the five seconds after which an idle one ends; then the turn goes on.
#[test]
fn a_turn_lasts_while_the_path_is_filled() {
    let server = RunningServer::start(ServerConfig::default());
    let (mut client, token) = RawClient::with_turn_and_token(server.address);
    let silent = connect(server.address, token, 0);
    client.send(&load(Direction::Up, 1, Span::from_secs(6)));
    assert_eq!(client.receive(), Ok(ServerMessage::LoadBegins { connections: 1 }));
    assert_eq!(client.receive(), Ok(ServerMessage::LoadEnded { bytes: vec![] }));
    drop(silent);
    client.send(&ClientMessage::AskClock);
    assert!(matches!(client.receive(), Ok(ServerMessage::Clock { .. })));
}
