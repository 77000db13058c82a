//! A thousand peers of one tunnel, then of one gateway, driven by one process: what they take of the program that they connect to,
//! which is another process, and how long they take to connect, at first and after it was killed and started again.

use crate::lines::{self, Lines, PORT};
use crate::outcome::Outcome;
use crate::process::{cpu_time_of, peak_bytes_of, resident_bytes_of};
use kumade_multipath::dataplane::{Node, NodeConfig, NoticeContent, OuterHeaders, Output, RemoteChange, RemoteConfig};
use kumade_multipath::{BondConfig, HeaderCompression, OuterTransport, PathConfig, PathPolicy, ResequencerConfig};
use kumade_net::namespace::Namespace;
use kumade_net::readiness::EpollSet;
use kumade_net::{clock, udp};
use kumade_netns_testbed::run_ip;
use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey, Route};
use kumade_packet::Ecn;
use kumade_units::{Span, Time};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const PEERS: usize = 1000;
/// From the start of a program until all its peers are connected.
const MAX_CONNECT_SECONDS: f64 = 20.0;
const MAX_CPU_SECONDS: f64 = 5.0;
const MAX_RESIDENT_BYTES: u64 = 100_000_000;
/// What the peers are watched for while nothing happens.
const IDLE_TIME: Span = Span::from_secs(10);
/// Until a program that was killed is started again.
const DOWN_TIME: Span = Span::from_secs(1);
const PATIENCE: Span = Span::from_secs(120);
/// The longest wait for peers.
const MAX_WAIT: Span = Span::from_millis(20);
const MTU: u32 = 1500;
const OUTER_HEADER_BYTES: u32 = 28;

/// With the program at this path.
pub fn measure(program: &str) -> Outcome<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let program = fs::canonicalize(program)?;
    let directory = std::env::temp_dir().join(format!("kumade-bench-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let outcome = Kind::ALL
        .into_iter()
        .try_for_each(|kind| measure_kind(kind, &Server { kind, program: &program, directory: &directory }));
    if outcome.is_err() {
        eprintln!("the program said:\n{}", fs::read_to_string(directory.join("log")).unwrap_or_default());
    }
    let _ = fs::remove_dir_all(directory);
    outcome
}

fn measure_kind(kind: Kind, server: &Server<'_>) -> Outcome<()> {
    let lines = Lines::new(kind.path_count())?;
    server.prepare(&lines)?;
    let mut peers = Peers::new(&lines, kind.path_count())?;
    println!("{PEERS} peers of a {}, {} path(s) each", kind.name(), kind.path_count());
    let mut process = server.start(&lines.hosts[1])?;
    let first = peers.connect("first start", process.id())?;
    let idle = peers.idle(process.id())?;
    process.kill()?;
    process.wait()?;
    peers.forget_connections();
    peers.run_until(clock::monotonic() + DOWN_TIME, |_| false)?;
    let mut process = server.start(&lines.hosts[1])?;
    let again = peers.connect("restart after a kill", process.id())?;
    let idle_again = peers.idle(process.id())?;
    println!("  idle: {:.1} % and {:.1} % of a processor", idle * 100.0, idle_again * 100.0);
    let peak = peak_bytes_of(process.id())?;
    let is_met = |(seconds, cpu): (f64, f64)| seconds <= MAX_CONNECT_SECONDS && cpu <= MAX_CPU_SECONDS;
    let verdict = if is_met(first) && is_met(again) && peak <= MAX_RESIDENT_BYTES { "met" } else { "missed" };
    println!(
        "  peak {:.1} MB; targets ({MAX_CONNECT_SECONDS} s, {MAX_CPU_SECONDS} s of CPU, {} MB): {verdict}",
        peak as f64 / 1e6,
        MAX_RESIDENT_BYTES / 1_000_000
    );
    process.kill()?;
    process.wait()?;
    Ok(())
}

/// What the peers connect to.
#[derive(Clone, Copy)]
enum Kind {
    Tunnel,
    Gateway,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Tunnel, Kind::Gateway];

    fn name(self) -> &'static str {
        match self {
            Kind::Tunnel => "tunnel",
            Kind::Gateway => "gateway",
        }
    }

    fn path_count(self) -> usize {
        match self {
            Kind::Tunnel => 1,
            Kind::Gateway => 2,
        }
    }
}

struct Server<'a> {
    kind: Kind,
    program: &'a Path,
    directory: &'a Path,
}

impl Server<'_> {
    /// Routes to the peers, and the files that the program reads.
    fn prepare(&self, lines: &Lines) -> Outcome<()> {
        for line in 1..=self.kind.path_count() {
            let (network, next_hop) = (format!("10.{}.0.0/16", 63 + line), format!("10.1.{line}.1"));
            run_ip(&lines.hosts[0], &["link", "set", "lo", "up"])?;
            // All its addresses are this host's.
            run_ip(&lines.hosts[0], &["route", "add", "local", &network, "dev", "lo"])?;
            run_ip(&lines.hosts[1], &["route", "add", &network, "via", &next_hop])?;
        }
        let key = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(self.file("server.key"));
        writeln!(key?, "{}", Lines::keys()[1].to_hex().as_str())?;
        if let Kind::Gateway = self.kind {
            fs::write(self.file("gateway.toml"), self.gateway_file()?)?;
        }
        Ok(())
    }

    fn gateway_file(&self) -> Result<String, std::fmt::Error> {
        let mut text = format!(
            "[gateway]\nname = \"bench\"\nplane = \"bonded\"\n[bonded]\nkey = \"{}\"\nport = {PORT}\n",
            self.file("server.key")
        );
        for line in 1..=self.kind.path_count() {
            writeln!(text, "[[path]]\nname = \"path-{line}\"\ninterface = \"{}\"", lines::name(line))?;
        }
        for number in 0..PEERS {
            let (key, network) = (peer_key(number).public_key(), peer_network(number));
            writeln!(
                text,
                "[[remote]]\nname = \"site-{number}\"\nnetworks = [\"{network}/32\"]\npublic-key = \"{key}\"\naddresses = []"
            )?;
        }
        Ok(text)
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn start(&self, host: &Namespace) -> Outcome<Child> {
        let mut command = host.command(self.program);
        match self.kind {
            Kind::Tunnel => {
                command.args(["tunnel", "listen", &PORT.to_string(), "--address", "10.80.255.254/16"]);
                command.args(["--key", &self.file("server.key")]);
                for number in 0..PEERS {
                    command.args(["--peer", &format!("{}={}", peer_key(number).public_key(), peer_network(number))]);
                }
            }
            Kind::Gateway => {
                command.args(["gateway", "--config", &self.file("gateway.toml")]);
            }
        }
        let log = OpenOptions::new().create(true).append(true).open(self.file("log"))?;
        command.env("XDG_RUNTIME_DIR", self.directory).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command.spawn()?)
    }
}

fn peer_key(number: usize) -> PrivateKey {
    let mut bytes = [7; 32];
    // Of the first byte, bits are cleared.
    bytes[8..16].copy_from_slice(&(number as u64).to_le_bytes());
    PrivateKey::from_bytes(bytes)
}

fn peer_network(number: usize) -> Ipv4Addr {
    let [.., high, low] = (number as u32 + 1).to_be_bytes();
    [10, 80, high, low].into()
}

type Buffer = Box<Vec<u8>>;

struct Peer {
    sockets: Vec<UdpSocket>,
    node: Node<Buffer>,
    is_connected: bool,
    deadline: Time,
}

/// All of them, on the first host.
struct Peers {
    peers: Vec<Peer>,
    /// Sockets, by the number of the peer and of the path.
    readiness: EpollSet,
    paths: usize,
    deadlines: BTreeSet<(Time, usize)>,
    connected: usize,
}

impl Peers {
    fn new(lines: &Lines, paths: usize) -> Outcome<Self> {
        let now = clock::monotonic();
        let readiness = EpollSet::new()?;
        let mut peers = Vec::new();
        for number in 0..PEERS {
            let sockets =
                lines.hosts[0].run(|| (1..=paths).map(|line| bind(number, line)).collect::<io::Result<Vec<_>>>())??;
            for (path, socket) in sockets.iter().enumerate() {
                readiness.add_reader(socket, (number * paths + path) as u32)?;
            }
            peers.push(Peer { sockets, node: new_node(number, paths, now)?, is_connected: false, deadline: now });
        }
        let deadlines = (0..PEERS).map(|number| (now, number)).collect();
        Ok(Peers { peers, readiness, paths, deadlines, connected: 0 })
    }

    /// Until all are connected. Returns how many seconds that took, and how many of a processor's time.
    fn connect(&mut self, name: &str, process: u32) -> Outcome<(f64, f64)> {
        let start = clock::monotonic();
        let mut slow = None;
        while self.connected < PEERS {
            if clock::monotonic() > start + PATIENCE {
                return Err(format!("{} of {PEERS} peers connect, after {PATIENCE}", self.connected).into());
            }
            self.run_until(start + PATIENCE, |peers| {
                peers.connected == PEERS || slow.is_none() && peers.connected > PEERS / 2
            })?;
            slow.get_or_insert((clock::monotonic() - start).as_secs_f64());
        }
        let (seconds, cpu) = ((clock::monotonic() - start).as_secs_f64(), cpu_time_of(process)?.as_secs_f64());
        println!(
            "  {name}: half are connected after {:.1} s, all after {seconds:.1} s; {cpu:.2} s of CPU, {:.1} MB",
            slow.unwrap_or(seconds),
            resident_bytes_of(process)? as f64 / 1e6
        );
        Ok((seconds, cpu))
    }

    /// What a program takes of a processor while its peers have nothing to say.
    fn idle(&mut self, process: u32) -> Outcome<f64> {
        // What is still found out of paths.
        self.run_until(clock::monotonic() + IDLE_TIME, |_| false)?;
        let (before, start) = (cpu_time_of(process)?, clock::monotonic());
        self.run_until(start + IDLE_TIME, |_| false)?;
        let lost = PEERS - self.connected;
        if lost > 0 {
            println!("  {lost} peers were lost meanwhile");
        }
        Ok((cpu_time_of(process)? - before).as_secs_f64() / (clock::monotonic() - start).as_secs_f64())
    }

    fn forget_connections(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.is_connected = false);
        self.connected = 0;
    }

    fn run_until(&mut self, end: Time, is_over: impl Fn(&Self) -> bool) -> Outcome<()> {
        let mut events = Vec::new();
        let mut now = clock::monotonic();
        while now < end && !is_over(self) {
            let due = self.deadlines.first().map_or(end, |(at, _)| *at);
            self.readiness.wait(&mut events, due.min(end).min(now + MAX_WAIT))?;
            for event in &events {
                let (number, path) = (event.number as usize / self.paths, event.number as usize % self.paths);
                self.peers[number].receive(path)?;
                self.drain(number);
            }
            now = clock::monotonic();
            while let Some(&(_, number)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
                self.drain(number);
            }
        }
        Ok(())
    }

    fn drain(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        self.deadlines.remove(&(peer.deadline, number));
        let was_connected = peer.is_connected;
        peer.drain();
        self.connected = self.connected + usize::from(peer.is_connected) - usize::from(was_connected);
        self.deadlines.insert((peer.deadline, number));
    }
}

impl Peer {
    fn receive(&mut self, path: usize) -> Outcome<()> {
        let mut bytes = [0; 2048];
        loop {
            let (length, address) = match self.sockets[path].recv_from(&mut bytes) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Nobody listens now.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error.into()),
            };
            let now = clock::monotonic();
            let outer = OuterHeaders {
                route: Route { path: path as u8, address },
                transport: OuterTransport::Udp,
                ecn: Ecn::NotEct,
                packet_bytes: length as u32 + OUTER_HEADER_BYTES,
                arrival: now,
            };
            self.node.receive(&mut bytes[..length], outer, now);
        }
    }

    fn drain(&mut self) {
        let now = clock::monotonic();
        let mut output = Output::default();
        self.node.drain(now, clock::realtime(), &mut output);
        for datagram in &output.datagrams {
            // What the system does not take is lost, as on any path.
            let _ = self.sockets[usize::from(datagram.route.path)].send(datagram.as_ref());
        }
        for notice in output.notices {
            if let NoticeContent::Remote { change, .. } = notice.content {
                self.is_connected = match change {
                    RemoteChange::Connected => true,
                    RemoteChange::Lost { .. } | RemoteChange::Restarted => false,
                    _ => self.is_connected,
                };
            }
        }
        let latest = now + Span::from_millis(500);
        self.deadline =
            self.node.deadline(now).map_or(latest, |deadline| deadline.min(latest)).max(now + Span::from_micros(150));
    }
}

/// A socket of a peer on a line, at an address of its own.
fn bind(number: usize, line: usize) -> io::Result<UdpSocket> {
    let [.., high, low] = (number as u32 + 1).to_be_bytes();
    let socket = UdpSocket::bind(SocketAddr::from(([10, 63 + line as u8, high, low], PORT)))?;
    socket.connect(SocketAddr::from(([10, 1, line as u8, 2], PORT)))?;
    udp::prepare_socket(&socket, Duration::from_secs(1))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn new_node(number: usize, paths: usize, now: Time) -> Outcome<Node<Buffer>> {
    let route = |line: usize| Route { path: line as u8 - 1, address: SocketAddr::from(([10, 1, line as u8, 2], PORT)) };
    let path = PathConfig {
        overhead_bytes: OUTER_HEADER_BYTES + kumade_multipath::dataplane::OVERHEAD_BYTES,
        ..PathConfig::default()
    };
    let remote = RemoteConfig {
        key: Lines::keys()[1].public_key(),
        psk: PresharedKey::default(),
        networks: vec!["10.80.0.0/16".parse()?],
        routes: (1..=paths).map(|line| Some(route(line))).collect(),
        interface_mtus: vec![Some(MTU); paths],
        max_packet_bytes: u32::MAX,
        bond: BondConfig {
            policy: PathPolicy::EarliestArrival,
            queue: BondConfig::managed_queue(),
            paths: vec![path; paths],
            seed: number as u64,
        },
        resequencer: ResequencerConfig::default(),
    };
    let config = NodeConfig {
        identity: peer_key(number),
        policy: HandshakePolicy::default(),
        header_compression: HeaderCompression::default(),
        remotes: vec![remote],
    };
    let random = Box::new(StdRng::seed_from_u64(clock::realtime().as_nanos() as u64 ^ number as u64));
    Ok(Node::new(config, random, Box::new(|bytes| Box::new(Vec::with_capacity(bytes))), now)?)
}
