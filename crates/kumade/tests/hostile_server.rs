//! What a client spends on a server that means it ill: it ends, and neither computes nor writes much.
//!
//! With the usual waiting time, and a table of what each server has cost:
//! `cargo test -p kumade --test tests hostile_server -- --ignored --nocapture`.

use kumade_netns_testbed::TEST_DEADLINE;
use kumade_units::Span;
use kumade_wire::{ClientMessage, Limits, ServerMessage, ServerSession, Token, Version};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, SysconfVar, sysconf};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often a slow server says something.
const DRIP: Duration = Duration::from_secs(1);
/// Bytes that a client may write for its user.
const MAX_WRITTEN: usize = 1 << 20;

/// How a server treats one connection. The first is the control connection.
type Treatment = fn(TcpStream, usize) -> Option<()>;

const SERVERS: [(&str, Treatment); 12] = [
    ("says nothing", |mut stream, _| drain(&mut stream)),
    ("sends zeroes without end", |stream, _| flood(stream, &[0; 1 << 16])),
    ("sends random bytes without end", |stream, _| flood(stream, &noise())),
    ("sends an answer byte by byte", |mut stream, _| drip(&mut stream, &[0; 64])),
    ("welcomes, and says no more", |stream, _| welcomed(stream).and_then(|(mut stream, _)| drain(&mut stream))),
    ("sends a frame byte by byte", |stream, _| {
        let (mut stream, _) = welcomed(stream)?;
        drip(&mut stream, &[&[0, 0xf, 0xff, 0xff][..], &[7; 1000]].concat())
    }),
    ("answers pings without end", |stream, _| {
        let (stream, mut session) = welcomed(stream)?;
        (0..1000).try_for_each(|_| session.send(&ServerMessage::Pong)).ok()?;
        flood(stream, &session.take_outgoing())
    }),
    ("tells ever other places without end", |stream, _| {
        let (mut stream, mut session) = queued(stream)?;
        for ahead in (0..=u32::MAX).cycle() {
            session.send(&ServerMessage::QueuePosition(ahead)).ok()?;
            stream.write_all(&session.take_outgoing()).ok()?;
        }
        None
    }),
    ("tells another place each second", |stream, _| {
        let (mut stream, mut session) = queued(stream)?;
        for ahead in 0..u32::MAX {
            session.send(&ServerMessage::QueuePosition(ahead % 3)).ok()?;
            stream.write_all(&session.take_outgoing()).ok()?;
            thread::sleep(DRIP);
        }
        None
    }),
    ("gives a turn and does nothing then", |stream, number| {
        converse(stream, number, |message| match message {
            ClientMessage::Ping => vec![ServerMessage::Pong],
            ClientMessage::EnterQueue => vec![ServerMessage::TurnBegins],
            _ => Vec::new(),
        })
    }),
    ("gives a turn, and claims that all trains fail", |stream, number| {
        converse(stream, number, |message| match message {
            ClientMessage::Receive { number, .. } | ClientMessage::Send { number, .. } => {
                vec![ServerMessage::Failed { number, reason: "\x1b[2J".repeat(1000) }]
            }
            message => plausible(&message),
        })
    }),
    ("gives a turn, and claims that nothing arrives", |stream, number| {
        converse(stream, number, |message| match message {
            ClientMessage::Receive { number, .. } => {
                vec![ServerMessage::Received { number, arrivals: Vec::new(), kernel_stamps: true }]
            }
            ClientMessage::Send { number, .. } => {
                vec![ServerMessage::Sent { number, departures: Vec::new(), kernel_stamps: true }]
            }
            message => plausible(&message),
        })
    }),
];

/// What the client says is read, so that it is not held up.
fn drain(stream: &mut TcpStream) -> Option<()> {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).ok()? > 0 {}
    None
}

fn flood(mut stream: TcpStream, bytes: &[u8]) -> Option<()> {
    while stream.write_all(bytes).is_ok() {}
    None
}

fn drip(stream: &mut TcpStream, bytes: &[u8]) -> Option<()> {
    for byte in bytes.iter().cycle() {
        stream.write_all(&[*byte]).ok()?;
        thread::sleep(DRIP);
    }
    None
}

/// From a generator that the client has no reason to expect.
fn noise() -> Vec<u8> {
    let states =
        std::iter::successors(Some(0x9e37_79b9_u32), |state| Some(state.wrapping_mul(747_796_405).wrapping_add(1)));
    states.map(|state| (state >> 24) as u8).take(1 << 16).collect()
}

fn limits() -> Limits {
    Limits { connections: u32::MAX, bytes: u64::MAX, packets: u64::MAX, turn: Span::from_secs(600) }
}

fn welcomed(mut stream: TcpStream) -> Option<(TcpStream, ServerSession)> {
    stream.read_exact(&mut [0; 32]).ok()?;
    let mut session = ServerSession::server(None, Version::NEWEST);
    session.send(&ServerMessage::Welcome { token: Token([0; 16]), limits: limits() }).ok()?;
    stream.write_all(&session.take_outgoing()).ok()?;
    Some((stream, session))
}

/// The client has pinged, and wants a turn.
fn queued(stream: TcpStream) -> Option<(TcpStream, ServerSession)> {
    let (mut stream, mut session) = welcomed(stream)?;
    (0..3).try_for_each(|_| session.send(&ServerMessage::Pong)).ok()?;
    stream.write_all(&session.take_outgoing()).ok()?;
    Some((stream, session))
}

/// Answers each message so; probe connections are kept open.
fn converse(
    stream: TcpStream,
    number: usize,
    mut answer: impl FnMut(ClientMessage) -> Vec<ServerMessage>,
) -> Option<()> {
    if number > 0 {
        let mut stream = stream;
        return drain(&mut stream);
    }
    let (mut stream, mut session) = welcomed(stream)?;
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        session.feed(&buffer[..count]);
        while let Some(message) = session.receive().ok()? {
            answer(message).iter().try_for_each(|message| session.send(message)).ok()?;
        }
        stream.write_all(&session.take_outgoing()).ok()?;
    }
}

fn plausible(message: &ClientMessage) -> Vec<ServerMessage> {
    match message {
        ClientMessage::Ping => vec![ServerMessage::Pong],
        ClientMessage::EnterQueue => vec![ServerMessage::TurnBegins],
        ClientMessage::AskClock => vec![ServerMessage::Clock { maximum_error: None }],
        ClientMessage::AskPathView { .. } => vec![ServerMessage::PathView(Box::default())],
        ClientMessage::AskSyns { .. } => vec![ServerMessage::ConnectionSyns { syns: Vec::new() }],
        ClientMessage::OpenPorts { .. } => {
            vec![ServerMessage::PortsOpened { ports: Vec::new(), second_address: None }]
        }
        ClientMessage::SendFromPort { .. } => vec![ServerMessage::SentFromPort { client: None }],
        ClientMessage::AskPortArrivals => vec![ServerMessage::PortArrivals { arrivals: Vec::new() }],
        ClientMessage::AwaitConnections { .. } => {
            vec![ServerMessage::Connections { numbers: vec![0], server_endpoint: None }]
        }
        _ => Vec::new(),
    }
}

/// What a client has spent.
#[derive(Debug)]
struct Spent {
    time: Duration,
    cpu: Duration,
    /// Bytes on standard output and standard error.
    written: usize,
    code: Option<i32>,
    said: String,
}

fn spend(treatment: Treatment, options: &[&str], patience: Duration) -> Spent {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            thread::spawn(move || treatment(stream, number));
        }
    });
    let began = Instant::now();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("kumade"))
        .args(["measure", "--json-stream", "--transport", "single", &address])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let collect = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let output = collect(Box::new(child.stdout.take().unwrap()));
    let errors = collect(Box::new(child.stderr.take().unwrap()));
    let process = Pid::from_raw(child.id() as i32);
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let is_there = || waitid(Id::Pid(process), flags).unwrap().pid().is_none();
    while is_there() && began.elapsed() < patience {
        thread::sleep(Duration::from_millis(20));
    }
    // Of one that has ended and is not waited for, the kernel still tells.
    let (time, cpu) = (began.elapsed(), cpu_time(process));
    let _ = child.kill();
    let code = child.wait().unwrap().code();
    let (output, errors) = (output.join().unwrap(), errors.join().unwrap());
    let said = String::from_utf8_lossy(&errors).into_owned();
    Spent { time, cpu, written: output.len() + errors.len(), code, said }
}

fn cpu_time(process: Pid) -> Duration {
    let statistics = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name may hold blanks, and ends with the last parenthesis: proc_pid_stat(5).
    let fields: Vec<_> = statistics.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u32 = fields[11..13].iter().map(|field| field.parse::<u32>().unwrap()).sum();
    Duration::from_secs(1) * ticks / sysconf(SysconfVar::CLK_TCK).unwrap().unwrap() as u32
}

/// All at once, each a client of its own.
fn each(
    servers: &[(&'static str, Treatment)],
    options: &'static [&str],
    patience: Duration,
) -> Vec<(&'static str, Spent)> {
    let spending: Vec<_> = servers
        .iter()
        .map(|&(name, treatment)| (name, thread::spawn(move || spend(treatment, options, patience))))
        .collect();
    spending.into_iter().map(|(name, spent)| (name, spent.join().unwrap())).collect()
}

#[test]
fn a_client_leaves_every_hostile_server_and_writes_little() {
    for (name, spent) in each(&SERVERS, &["--wait", "3s"], TEST_DEADLINE) {
        assert!(matches!(spent.code, Some(0 | 1)), "{name}: {spent:?}");
        assert!(spent.written < MAX_WRITTEN, "{name}: {spent:?}");
        assert!(!spent.said.contains("panicked") && !spent.said.contains('\x1b'), "{name}: {spent:?}");
    }
}

#[test]
#[ignore = "takes minutes, and needs a machine that does nothing else"]
fn what_a_client_spends_on_each_hostile_server() {
    let spent = each(&SERVERS, &[], Duration::from_secs(300));
    for (name, Spent { time, cpu, written, code, said }) in &spent {
        let share = 100.0 * cpu.as_secs_f64() / time.as_secs_f64();
        let last = said.lines().last().unwrap_or_default();
        println!("{name}: {time:.1?}, CPU {cpu:.2?} ({share:.1} %), {written} bytes written, {code:?}, {last}");
    }
    for (name, spent) in &spent {
        assert!(spent.code.is_some() && spent.time < Duration::from_secs(130), "{name}: {spent:?}");
        let few = Duration::from_secs(1).max(spent.time / 20);
        assert!(spent.cpu < few && spent.written < MAX_WRITTEN, "{name}: {spent:?}");
    }
}
