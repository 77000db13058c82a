//! `kumade tunnel`: carries IP over TCP or UDP between hosts.

use crate::key;
use crate::output::note;
use crate::usage::usage;
use anyhow::Context;
use bonded::{BondedPlane, BondedStatus};
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use secure::PublicKey;
use service::{RuntimeDir, listen_address, signals};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tunnel::{Carrier, ConnectionTuning, DEFAULT_PORT, End, Peer, TunnelConfig};
use units::{Span, parse};

/// Carry IP packets between two hosts, encrypted, over TCP or UDP, until Ctrl-C
///
/// Over TCP the packets are spread over many connections, so that a loss holds up only what shares its connection. Both ends
/// need root or CAP_NET_ADMIN for the TUN device.
///
/// Example: kumade tunnel listen 443 --key host.key --address 10.77.0.1/24 --peer KEY=10.77.0.2
///
/// Example: kumade tunnel connect host.example:443 --key my.key --address 10.77.0.2/24 --peer KEY
#[derive(Debug, Args)]
pub struct TunnelArgs {
    #[command(subcommand)]
    command: TunnelCommand,
}

#[derive(Debug, Subcommand)]
enum TunnelCommand {
    /// Wait for other ends, each known by its key
    Listen {
        /// Where to wait [default: all addresses, port 7274; over UDP those of IPv4 only, or of IPv6 with [::]:PORT]
        #[arg(value_name = "[ADDRESS:]PORT")]
        listen: Option<String>,
        /// Another end: its public key, from `kumade key public` there, and the addresses or networks that are there.
        /// Repeatable
        #[arg(long = "peer", value_name = "KEY=NETWORK[,NETWORK]", required = true)]
        peers: Vec<Peer>,
        #[command(flatten)]
        common: Common,
    },
    /// Connect to an end that listens
    Connect {
        /// Where it listens [default port: 7274]
        #[arg(value_name = "HOST[:PORT]")]
        host: String,
        /// Its public key, from `kumade key public` there
        #[arg(long, value_name = "KEY")]
        peer: String,
        /// Network that is reached through the tunnel. Repeatable [default: the networks of --address]
        #[arg(long = "network", value_name = "NETWORK")]
        networks: Vec<IpNet>,
        /// TCP connections of the carrier `rake`
        #[arg(long, value_name = "NUMBER", default_value_t = Carrier::DEFAULT_CONNECTIONS)]
        connections: usize,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// File of this end's private key, from `kumade key private`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File of a second key that both ends have, from `kumade key preshared`
    #[arg(long, value_name = "FILE")]
    preshared_key: Option<PathBuf>,
    /// Address of this end in the tunnel, with the length of its network's prefix. Repeatable
    #[arg(long = "address", value_name = "ADDRESS/LENGTH", required = true)]
    addresses: Vec<IpNet>,
    /// What carries the packets; the same at both ends, but that `tcp` and `rake` understand each other
    #[arg(long, value_enum, default_value_t = CarrierName::Rake)]
    carrier: CarrierName,
    /// Name of the TUN device
    #[arg(long, value_name = "NAME", default_value = "kumade0")]
    device: String,
    /// Maximum length of packets in the tunnel, in bytes [default: 1500 over TCP; what the path passes over UDP]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1280..=9000))]
    mtu: Option<u16>,
    /// Congestion control of the TCP connections, one of net.ipv4.tcp_available_congestion_control [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    #[command(flatten)]
    tuning: Tuning,
}

/// What is set on the TCP connections. The defaults suit most paths.
#[derive(Debug, Args)]
struct Tuning {
    /// Least retransmission timeout of the TCP connections, up to 200ms, where the kernel can set it (Linux 6.17); 0 leaves
    /// the system's
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "20ms", hide_short_help = true)]
    min_rto: Span,
    /// Greatest retransmission timeout of the TCP connections, 1s to 120s, where the kernel can set it (Linux 6.15) [default:
    /// the system's]
    #[arg(long, value_name = "TIME", value_parser = parse::span, hide_short_help = true)]
    max_rto: Option<Span>,
    /// Send buffer of each TCP connection, such as 256kb [default: as the system adapts it]
    #[arg(long, value_name = "BYTES", value_parser = buffer, hide_short_help = true)]
    send_buffer: Option<u32>,
    /// Bytes not sent yet above which a TCP connection is given no more [default: what it delivers in 2 ms]
    #[arg(long, value_name = "BYTES", value_parser = buffer, hide_short_help = true)]
    unsent: Option<u32>,
    /// Let short segments wait until others are acknowledged (Nagle's algorithm)
    #[arg(long, hide_short_help = true)]
    delay_short_segments: bool,
}

impl Tuning {
    fn connections(&self) -> ConnectionTuning {
        ConnectionTuning {
            min_rto: Some(self.min_rto).filter(|least| *least > Span::ZERO),
            max_rto: self.max_rto,
            send_buffer: self.send_buffer,
            no_delay: !self.delay_short_segments,
            unsent_bytes: self.unsent,
            ..ConnectionTuning::default()
        }
    }
}

/// A number of bytes, such as 256kb.
fn buffer(text: &str) -> Result<u32, String> {
    let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
    let in_range = u32::try_from(bytes).ok().filter(|bytes| (4096..=1 << 30).contains(bytes));
    in_range.ok_or_else(|| format!("{text}: give 4 kB to 1 GB"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CarrierName {
    /// UDP datagrams
    Udp,
    /// One TCP connection
    Tcp,
    /// Many TCP connections, each packet on one that has room
    Rake,
}

/// Maximum time until a signal or a change is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs one end of a tunnel until a signal comes.
///
/// # Errors
/// A key or an address cannot be read, or the system refuses something. Settings that contradict each other give exit status 2.
pub fn run(args: TunnelArgs) -> anyhow::Result<ExitCode> {
    let stop = signals::termination().context("cannot listen for Ctrl-C")?;
    let config = config(args.command)?;
    let (end, names) = (config.end, config.peers.iter().map(|peer| name(&peer.key)).collect::<Vec<_>>());
    let device = config.device.clone();
    let plane = match config.plane(RuntimeDir::standard("kumade")) {
        Ok(plane) => BondedPlane::start(plane)?,
        Err(error) => return Ok(usage(&error)),
    };
    match end {
        End::Listen(address) => note!("{device}: waiting at {address}; Ctrl-C ends it"),
        End::Connect(address) => note!("{device}: connecting to {address}; Ctrl-C ends it"),
    }
    let mut connected = vec![false; names.len()];
    let mut last = None;
    while !stop.load(Ordering::Relaxed) && plane.is_running() {
        // One that has ended says why when it is stopped.
        let Ok(status) = plane.status() else { break };
        say_changes(&names, &status, &mut connected);
        last = Some(status);
        thread::sleep(POLL_INTERVAL);
    }
    for (name, remote) in names.iter().zip(last.iter().flat_map(|status| &status.remotes)) {
        let sent: u64 = remote.paths.iter().map(|path| path.status.sent_bytes).sum();
        let received: u64 = remote.paths.iter().map(|path| path.received_bytes).sum();
        note!("{name}: {sent} bytes sent, {received} received");
    }
    plane.stop()?;
    Ok(ExitCode::SUCCESS)
}

fn say_changes(names: &[String], status: &BondedStatus, connected: &mut [bool]) {
    for ((name, now), before) in names.iter().zip(&status.remotes).zip(connected) {
        if *before != now.is_connected {
            *before = now.is_connected;
            note!("{name}: {}", if now.is_connected { "connected" } else { "not connected" });
        }
    }
}

/// A key's first digits, enough to tell peers apart.
fn name(key: &PublicKey) -> String {
    key.to_string().chars().take(8).collect()
}

fn config(command: TunnelCommand) -> anyhow::Result<TunnelConfig> {
    let (end, peers, connections, common) = match command {
        TunnelCommand::Listen { listen, peers, common } => {
            let text = listen.unwrap_or_else(|| DEFAULT_PORT.to_string());
            let mut address = listen_address(&text, DEFAULT_PORT)?;
            // A TCP socket takes connections of both IP versions, a UDP socket of this program those of one.
            if common.carrier == CarrierName::Udp && !text.contains("::") && address.ip().is_unspecified() {
                address.set_ip(Ipv4Addr::UNSPECIFIED.into());
            }
            (End::Listen(address), peers, 1, common)
        }
        TunnelCommand::Connect { host, peer, networks, connections, common } => {
            let key = peer.parse::<PublicKey>().context("the key of --peer")?;
            let networks = if networks.is_empty() { &common.addresses } else { &networks };
            let networks = networks.iter().map(IpNet::trunc).collect();
            (End::Connect(resolve(&host)?), vec![Peer { key, networks }], connections, common)
        }
    };
    let psk = common.preshared_key.as_deref().map(key::read_preshared).transpose()?;
    Ok(TunnelConfig {
        end,
        carrier: match common.carrier {
            CarrierName::Udp => Carrier::Udp,
            CarrierName::Tcp => Carrier::Tcp,
            CarrierName::Rake => Carrier::Rake(connections),
        },
        device: common.device,
        mtu: common.mtu,
        addresses: common.addresses,
        identity: key::read_private(&common.key)?,
        psk: psk.unwrap_or_default(),
        peers,
        congestion_control: common.congestion_control,
        tuning: common.tuning.connections(),
    })
}

fn resolve(host: &str) -> anyhow::Result<SocketAddr> {
    let failed = || format!("cannot find the address of {host}");
    let with_port = host.to_socket_addrs();
    let found = with_port.or_else(|_| (host, DEFAULT_PORT).to_socket_addrs()).with_context(failed)?.next();
    found.with_context(failed)
}
