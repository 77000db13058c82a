//! Peers that are not what they should be: each gives a clear error in bounded time.

use crate::common;

use common::{DEADLINE, measuring};
use kumade_client::{Error, Family, Hint, MeasureConfig, measure};
use kumade_estimate::MethodSettings;
use kumade_measurement::RequestedBudget;
use kumade_measurement::{Directions, Event, TransportChoice};
use kumade_probe_train::Transport;
use kumade_probe_train::{PortProtocol, Train};
use kumade_units::{Span, Time};
use kumade_wire::{
    AdmissionDecision, Arrival, ClientMessage, IdleFlowRecord, Limits, OpenedPort, PathView, PortArrival, PortStatus,
    PreambleReply, ServerMessage, ServerSession, TcpEnd, TcpPathView, Token, Version,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn failure(config: &MeasureConfig) -> Error {
    let began = Instant::now();
    let error = measure(config, &mut |_| {}).unwrap_err();
    assert!(began.elapsed() < DEADLINE, "{error} took {:?}", began.elapsed());
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    error
}

/// Something that takes one connection, listens to what the client says first, and treats it so.
fn peer(treat: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 32]).unwrap();
        treat(stream);
    });
    address
}

#[test]
fn a_wrong_host_and_a_wrong_family() {
    let error = failure(&MeasureConfig::new("no-such-host.invalid", 7272));
    assert!(matches!(error, Error::ResolutionFailed { .. }), "{error}");
    let config = MeasureConfig { family: Family::V6, ..MeasureConfig::new("127.0.0.1", 7272) };
    let error = failure(&config);
    assert!(error.to_string().contains("no IPv6 address"), "{error}");
    let error = failure(&MeasureConfig::new("fe80::1", 7272));
    assert!(matches!(error, Error::NoInterface { .. }), "{error}");
    assert_eq!(error.hint(), Some(Hint::NameInterface));
}

#[test]
fn a_closed_port() {
    // One that was free a moment ago may be another test's now.
    let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let error = failure(&measuring(address));
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn an_http_server_and_random_bytes() {
    let answers: [&[u8]; 3] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"H", &[0x7f, 0, 0xff, 0x13]];
    for answer in answers {
        let error = failure(&measuring(peer(move |mut stream| {
            stream.write_all(answer).unwrap();
            let _ = stream.read(&mut [0; 100]);
        })));
        assert!(error.to_string().contains("does not speak the kumade protocol"), "{error}");
    }
}

#[test]
fn a_silent_listener_and_one_that_closes() {
    let error = failure(&measuring(peer(|mut stream| {
        let _ = stream.read(&mut [0; 100]);
    })));
    assert!(matches!(&error, Error::NoAnswer { cause, .. } if cause.contains("no answer")), "{error}");
    let error = failure(&measuring(peer(drop)));
    assert!(matches!(&error, Error::NoAnswer { cause, .. } if cause.contains("closed")), "{error}");
}

#[test]
fn another_protocol_version() {
    let error = failure(&measuring(peer(|mut stream| {
        let mut answer = PreambleReply(AdmissionDecision::UnsupportedVersion).encode(Version::NEWEST);
        answer[6..8].copy_from_slice(&300u16.to_be_bytes());
        stream.write_all(&answer).unwrap();
    })));
    let versions = format!("speaks protocol version 300, this program versions {}", Version::OLDEST);
    assert!(error.to_string().contains(&versions), "{error}");
}

#[test]
fn a_server_that_stops_speaking_in_the_middle_of_a_message() {
    let error = failure(&measuring(peer(|mut stream| {
        stream.write_all(&PreambleReply(AdmissionDecision::Accepted).encode(Version::NEWEST)).unwrap();
        stream.write_all(&[0, 0, 0, 50, 1, 2, 3]).unwrap();
        let _ = stream.read(&mut [0; 100]);
    })));
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
}

/// A server that welcomes, answers the first pings, and then lets its client wait as `treat` says.
fn queueing_server(treat: impl FnOnce(&mut TcpStream, &mut ServerSession) + Send + 'static) -> SocketAddr {
    peer(move |mut stream| {
        let mut session = ServerSession::server(None, Version::NEWEST);
        let limits = Limits { connections: 1, bytes: 1, packets: 1, turn: Span::from_secs(1) };
        session.send(&ServerMessage::Welcome { token: Token([0; 16]), limits }).unwrap();
        (0..3).for_each(|_| session.send(&ServerMessage::Pong).unwrap());
        treat(&mut stream, &mut session);
    })
}

#[test]
fn a_server_that_never_begins_is_left_after_the_wait() {
    let floods = queueing_server(|stream, session| {
        let mut ahead = 0..;
        loop {
            let mut place = |_| session.send(&ServerMessage::QueuePosition(ahead.next().unwrap())).unwrap();
            (0..1000).for_each(&mut place);
            if stream.write_all(&session.take_outgoing()).is_err() {
                return;
            }
        }
    });
    let drips = queueing_server(|stream, session| {
        loop {
            session.send(&ServerMessage::QueuePosition(1)).unwrap();
            if stream.write_all(&session.take_outgoing()).is_err() {
                return;
            }
            thread::sleep(Duration::from_secs(1));
        }
    });
    // What is reported meanwhile: at most twice a second, and changes only.
    for (address, reported) in [(floods, 3..=30), (drips, 1..=1)] {
        let wait = Span::from_secs(7);
        let config = MeasureConfig { max_server_wait: wait, ..measuring(address) };
        let (began, mut events) = (Instant::now(), 0);
        let error =
            measure(&config, &mut |event| events += u32::from(matches!(event, Event::Waiting { .. }))).unwrap_err();
        assert!(matches!(error, Error::WaitExceeded { .. }), "{error}");
        assert_eq!(error.hint(), Some(Hint::WaitLonger));
        assert!((wait.to_duration()..DEADLINE).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert!(reported.contains(&events), "{events}");
    }
}

#[test]
fn a_server_that_says_the_same_for_ever() {
    let error = failure(&{
        let base = measuring(peer(|mut stream| {
            let mut session = ServerSession::server(None, Version::NEWEST);
            let limits = Limits { connections: 1, bytes: 1, packets: 1, turn: Span::from_secs(1) };
            session.send(&ServerMessage::Welcome { token: Token([0; 16]), limits }).unwrap();
            // The answers to the pings, and to the wish for a turn.
            for message in [ServerMessage::Pong, ServerMessage::Pong, ServerMessage::Pong, ServerMessage::TurnBegins] {
                session.send(&message).unwrap();
            }
            stream.write_all(&session.take_outgoing()).unwrap();
            (0..10_000).for_each(|_| session.send(&ServerMessage::Pong).unwrap());
            let flood = session.take_outgoing();
            while stream.write_all(&flood).is_ok() {}
        }));
        base.with_changed_plan(|plan| plan.transport = TransportChoice::Fixed(Transport::Single))
    });
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
}

/// Takes one client and its one probe connection, and tells it of each train what it likes.
fn liar(tell: impl Fn(u32, &Train) -> Vec<Arrival> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut control = listener.accept().unwrap().0;
        control.read_exact(&mut [0; 32]).unwrap();
        let mut session = ServerSession::server(None, Version::NEWEST);
        let limits = Limits { connections: u32::MAX, bytes: u64::MAX, packets: u64::MAX, turn: Span::MAX };
        session.send(&ServerMessage::Welcome { token: Token([0; 16]), limits }).unwrap();
        let mut probes = Vec::new();
        loop {
            while let Some(message) = session.receive().unwrap() {
                let answer = match message {
                    ClientMessage::Ping => ServerMessage::Pong,
                    ClientMessage::EnterQueue => ServerMessage::TurnBegins,
                    ClientMessage::AskClock => ServerMessage::Clock { maximum_error: Some(Span::from_nanos(i64::MIN)) },
                    ClientMessage::AskPathView { .. } => ServerMessage::PathView(Box::new(false_view())),
                    ClientMessage::AskSyns { .. } => {
                        let syns = (0..1000).map(|number| (u16::MAX - number, vec![0x4f; 60])).collect();
                        ServerMessage::ConnectionSyns { syns }
                    }
                    ClientMessage::OpenPorts { .. } => {
                        let opened = |protocol| OpenedPort { protocol, port: 9, status: PortStatus::Listening };
                        let second_address = Some([255; 4].into());
                        ServerMessage::PortsOpened { ports: PortProtocol::BOTH.map(opened).to_vec(), second_address }
                    }
                    ClientMessage::SendFromPort { .. } => ServerMessage::SentFromPort { client: None },
                    ClientMessage::AskPortArrivals => {
                        let source = SocketAddr::from(([0; 4], 0));
                        let arrival = |index| PortArrival { protocol: PortProtocol::Udp, port: 9, index, source };
                        ServerMessage::PortArrivals { arrivals: (0..4000).map(arrival).collect() }
                    }
                    ClientMessage::HoldFlows { .. } => {
                        ServerMessage::FlowsHeld { udp: vec![true; 999], tcp: vec![true] }
                    }
                    ClientMessage::EndTurn => continue,
                    ClientMessage::EndFlows => {
                        let record = |nanos| IdleFlowRecord { idle: Some(Span::from_nanos(nanos)), has_arrived: true };
                        let records = vec![record(i64::MAX), record(i64::MIN)];
                        ServerMessage::FlowRecords { udp: records.clone(), tcp: records }
                    }
                    ClientMessage::AwaitConnections { .. } => {
                        probes.push(listener.accept().unwrap().0);
                        ServerMessage::Connections { numbers: vec![0], server_endpoint: None }
                    }
                    ClientMessage::Receive { number, train, .. } => {
                        let arrivals = tell(number, &train);
                        ServerMessage::Received { number, arrivals, kernel_stamps: true }
                    }
                    ClientMessage::Send { number, .. } => {
                        ServerMessage::Sent { number, departures: Vec::new(), kernel_stamps: false }
                    }
                    _ => return,
                };
                session.send(&answer).unwrap();
            }
            let mut buffer = [0; 4096];
            if control.write_all(&session.take_outgoing()).is_err() {
                return;
            }
            match control.read(&mut buffer) {
                Ok(count @ 1..) => session.feed(&buffer[..count]),
                _ => return,
            }
        }
    });
    address
}

/// What no kernel says.
fn false_view() -> PathView {
    let endpoint = TcpEnd {
        options: u8::MAX,
        announced_mss: u32::MAX,
        send_mss: u32::MAX,
        path_mtu: 0,
        hop_limit: Some(0),
        delivered_ce: u32::MAX,
    };
    let client = "[::]:0".parse().unwrap();
    PathView {
        tcp: Some(TcpPathView { client, is_destination_kept: false, syn: vec![0x6f; 3000], endpoint }),
        udp: None,
    }
}

/// Whatever a server claims, the client ends with a report or an error, and never with a panic.
#[test]
fn claims_that_cannot_be_true() {
    let extremes = |_: u32, train: &Train| {
        let stamp = |index| Time::from_nanos(if index % 2 == 0 { i64::MIN } else { i64::MAX });
        (0..train.packet_count()).map(|index| Arrival { index, received: Some(stamp(index)) }).collect()
    };
    let foreign = |_: u32, _: &Train| (0..5_000).map(|i| Arrival { index: u32::MAX - i, received: None }).collect();
    let repeated = |number: u32, train: &Train| {
        let received = Some(Time::from_nanos(i64::from(number)));
        (0..train.packet_count()).map(|index| Arrival { index: index / 2, received }).collect()
    };
    for method in ["primed", "pathload"].map(|name| name.parse::<MethodSettings>().unwrap()) {
        for address in [liar(extremes), liar(foreign), liar(repeated)] {
            let budget_time = Some(Span::from_millis(500));
            let transport = TransportChoice::Fixed(Transport::Single);
            let directions = Directions::Up;
            let config = measuring(address).with_changed_plan(|plan| {
                plan.method = method.clone();
                plan.transport = transport;
                plan.directions = directions;
                plan.path = true;
                plan.trace = true;
                plan.ports = vec![1, 9];
                plan.idle_timeouts = Some(Span::from_millis(10)).filter(|_| method.name() == "pathload");
                plan.budget = RequestedBudget { time: budget_time, ..RequestedBudget::default() };
            });
            let report = measure(&config, &mut |_| {}).unwrap();
            assert!(!report.up.unwrap().to_string().contains("NaN"));
            assert!(!report.delay.unwrap().to_string().contains("NaN"));
        }
    }
}

#[test]
fn a_frame_that_is_no_message() {
    let error = failure(&measuring(peer(|mut stream| {
        stream.write_all(&PreambleReply(AdmissionDecision::Accepted).encode(Version::NEWEST)).unwrap();
        stream.write_all(&[0, 0, 0, 1, 99]).unwrap();
        let _ = stream.read(&mut [0; 100]);
    })));
    assert!(error.to_string().contains("holds no valid message"), "{error}");
}
