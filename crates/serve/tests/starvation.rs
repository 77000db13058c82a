//! Strangers, however many, keep nobody else from measuring.

use crate::common;

use common::{DEADLINE, RawClient, RunningServer};
use kumade_client::{MeasureConfig, measure};
use kumade_measurement::Event;
use kumade_serve::ServerConfig;
use kumade_wire::{ClientMessage, ClientSession, PresharedKey, ServerMessage};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Within which a connection has to show what it is.
const IDENTIFY_TIME: Duration = Duration::from_secs(10);

/// An address whose network, the loopback's 127.9.9.0/24, nobody else in these tests uses.
const QUIET: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 9, 9, 9));

fn quick(server: &RunningServer) -> MeasureConfig {
    server.measuring().with_changed_plan(|plan| plan.method = "linear-scan".parse().unwrap())
}

fn from_quiet_network(mut config: MeasureConfig) -> MeasureConfig {
    config.binding.source = Some(QUIET);
    config
}

/// Source addresses of 16 networks.
fn attackers(count: u16) -> Vec<SocketAddr> {
    (0..count).map(|number| ([127, 1, (number % 16) as u8, 1 + (number / 16) as u8], 0).into()).collect()
}

#[test]
fn a_holder_that_only_pings_loses_its_turn() {
    let server = RunningServer::start(ServerConfig::default());
    let mut holder = RawClient::with_turn(server.address);
    let began = Instant::now();
    let why = loop {
        holder.send_ignoring_errors(&ClientMessage::Ping);
        match holder.receive() {
            Ok(ServerMessage::Pong) => thread::sleep(Duration::from_millis(50)),
            other => break other,
        }
        assert!(began.elapsed() < DEADLINE);
    };
    assert!(matches!(&why, Ok(ServerMessage::Refused(why)) if why.contains("no packet train for 5 s")), "{why:?}");
}

#[test]
fn a_full_server_has_room_for_another_network() {
    let server = RunningServer::start(ServerConfig { max_clients: 4, ..ServerConfig::default() });
    let mut busy: Vec<_> = (0..4)
        .map(|_| {
            let mut client = RawClient::connect(server.address);
            client.receive().unwrap();
            client.send(&ClientMessage::Ping);
            assert_eq!(client.receive(), Ok(ServerMessage::Pong));
            client
        })
        .collect();
    assert!(RawClient::connect(server.address).receive().unwrap_err().contains("as many clients as it accepts"));
    measure(&from_quiet_network(quick(&server)), &mut |_| {}).unwrap();
    let gone = busy.iter_mut().map(RawClient::try_receive).filter(
        |heard| matches!(heard, Ok(Some(ServerMessage::Refused(why))) if why.contains("your network has most of them")),
    );
    assert_eq!(gone.count(), 1, "the newest of them");
}

/// Connections that say no more than these bytes.
fn flood(server: SocketAddr, bytes: &[u8], count: u16) -> Vec<TcpStream> {
    let said = |_| {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    (0..count).map(said).collect()
}

#[test]
fn strangers_without_the_key_take_no_place_of_those_with_it() {
    let key = PresharedKey::parse(&"5a".repeat(32)).unwrap();
    let server =
        RunningServer::start(ServerConfig { key: Some(key.clone()), max_clients: 4, ..ServerConfig::default() });
    let begins = ClientSession::client(Some(&key), kumade_wire::Version::NEWEST).take_outgoing();
    // Nothing but the preamble; and a handshake as recorded, which nobody can go on with.
    for said in [&begins[..kumade_wire::Preamble::SIZE], &begins] {
        let begun = Instant::now();
        let strangers = flood(server.address, said, 64);
        let config = MeasureConfig { key: Some(key.clone()), ..quick(&server) };
        measure(&config, &mut |_| {}).unwrap();
        for mut stranger in strangers {
            stranger.set_nonblocking(true).unwrap();
            let is_dropped = matches!(stranger.read(&mut [0; 4096]), Ok(0));
            // Where all of this takes long, each is left in its time.
            assert!(!is_dropped || begun.elapsed() > IDENTIFY_TIME, "it had to give way");
        }
    }
}

#[test]
fn strangers_fill_the_server_and_the_key_still_opens_it() {
    let key = PresharedKey::parse(&"5a".repeat(32)).unwrap();
    let server =
        RunningServer::start(ServerConfig { key: Some(key.clone()), max_pending: 32, ..ServerConfig::default() });
    let begins = ClientSession::client(Some(&key), kumade_wire::Version::NEWEST).take_outgoing();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(flood(server.address, &begins, 100));
            }
        });
        let config = MeasureConfig { key: Some(key.clone()), ..from_quiet_network(quick(&server)) };
        let measured = measure(&config, &mut |_| {});
        stop.store(true, Ordering::Relaxed);
        measured.unwrap();
    });
}

/// A client that asks for a turn, keeps it as long as it can, and begins again.
fn attack(server: SocketAddr, sources: &[SocketAddr], stop: &AtomicBool, turns: &AtomicUsize) {
    let mut clients: Vec<Option<RawClient>> = sources.iter().map(|_| None).collect();
    while !stop.load(Ordering::Relaxed) {
        for (client, &source) in clients.iter_mut().zip(sources) {
            let Some(connected) = client else {
                *client = RawClient::try_connect(server, source).ok();
                continue;
            };
            match connected.try_receive() {
                Ok(Some(ServerMessage::Welcome { .. })) => connected.send_ignoring_errors(&ClientMessage::EnterQueue),
                Ok(Some(ServerMessage::TurnBegins)) => drop(turns.fetch_add(1, Ordering::Relaxed)),
                Ok(Some(ServerMessage::QueuePosition(_))) => connected.send_ignoring_errors(&ClientMessage::Ping),
                Ok(Some(ServerMessage::Refused(_))) | Err(_) => *client = None,
                Ok(_) => connected.send_ignoring_errors(&ClientMessage::Ping),
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_quiet_network_waits_for_no_more_than_two_turns_of_an_attack() {
    let server = RunningServer::start(ServerConfig::default());
    let stop = Arc::new(AtomicBool::new(false));
    let turns = Arc::new(AtomicUsize::new(0));
    // As many as a process may usually have open, both ends.
    let count = std::env::var("KUMADE_ATTACKERS").map_or(160, |count| count.parse().unwrap());
    let sources = attackers(count);
    let threads: Vec<_> = sources
        .chunks(64)
        .map(|sources| {
            let (sources, stop, turns, address) =
                (sources.to_vec(), Arc::clone(&stop), Arc::clone(&turns), server.address);
            thread::spawn(move || attack(address, &sources, &stop, &turns))
        })
        .collect();
    assert!(kumade_netns_testbed::eventually(|| turns.load(Ordering::Relaxed) > 0));
    thread::sleep(Duration::from_secs(1));
    let before = turns.load(Ordering::Relaxed);
    let began = Instant::now();
    let mut waited = None;
    let report = measure(&from_quiet_network(quick(&server)), &mut |event| {
        if let Event::Opened { .. } = event {
            waited.get_or_insert_with(|| (began.elapsed(), turns.load(Ordering::Relaxed) - before));
        }
    });
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    report.unwrap();
    let (time, turns) = waited.expect("it had its turn");
    println!("waited {time:?} and {turns} turns under attack from {count} addresses");
    // How long a turn lasts is held by the queue's own tests, in virtual time.
    assert!(turns <= 2, "{turns}");
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}
