//! `kumade tunnel`: carries IP over TCP or UDP between hosts.

mod check;
mod run;
mod source;
mod status;

use crate::running::parse_name;
use crate::usage::usage_error;
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use kumade_daemon::{RuntimeDir, listen_address, metrics_address};
use kumade_noise_session::PublicKey;
use kumade_overlay_io::OuterDscp;
use kumade_tunnel::{
    AllowedTargets, ConnectionTuning, DEFAULT_DEVICE, DEFAULT_PORT, EndSettings, FileOptions, Forward, PeerConfig,
    RelayedConfig, RtoLimits, TransportMode, TunnelSettings, parse_buffer_size, parse_device_address,
};
use kumade_units::{Span, parse};
use source::{SettingsSource, read_file};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Carry IP packets or TCP connections between two hosts, encrypted, over TCP or UDP, until Ctrl-C
///
/// Packets travel over UDP where that passes and performs, else over TCP, spread over many connections, so that a loss holds
/// up only what shares its connection. Both ends need root or CAP_NET_ADMIN for the TUN device, which --address makes. Without
/// it, connections to local ports are carried (--forward) to what the other end allows (--allow), and no privileges are needed.
///
/// Example: kumade tunnel listen 443 --key host.key --address 10.77.0.1/24 --peer KEY=10.77.0.2
///
/// Example: kumade tunnel connect host.example:443 --key my.key --address 10.77.0.2/24 --peer KEY
///
/// Example: kumade tunnel listen 443 --key host.key --peer KEY --allow 127.0.0.1:80
///
/// Example: kumade tunnel connect host.example:443 --key my.key --peer KEY --forward 8080:127.0.0.1:80
///
/// Example: kumade tunnel --config /etc/kumade/tunnel.toml
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct TunnelArgs {
    #[command(subcommand)]
    command: Option<TunnelCommand>,
    /// Configuration file (TOML) of an end that listens or connects. SIGHUP has it read again: peers, networks, forwardings and
    /// what may be reached change without an interruption of all others
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    in_place_of_file: FileArgs,
    /// Keep capabilities, writes and system calls that the tunnel does not need
    #[arg(long, requires = "config")]
    keep_privileges: bool,
}

/// What may be said on the command line in place of a file.
#[derive(Debug, Args)]
struct FileArgs {
    /// File of this end's private key, in place of `key` in the configuration
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Name of this end, in place of `name` in the configuration
    #[arg(long, value_parser = parse_name)]
    name: Option<String>,
}

#[derive(Debug, Subcommand)]
enum TunnelCommand {
    #[command(flatten)]
    RunEnd(Box<TunnelEndCommand>),
    /// Validate a configuration file against this host, without changing anything, and print the routes it comes to, as ip would
    /// list them
    ///
    /// Exit status: 0 if the tunnel can start so, 1 if a file cannot be read or the host refuses something, 2 if the configuration
    /// is invalid.
    Check {
        /// Configuration file
        file: PathBuf,
        #[command(flatten)]
        in_place_of_file: FileArgs,
    },
    Status(status::StatusArgs),
    /// Let nothing leave this host but through a tunnel that takes all traffic
    ///
    /// From now on, with or without a running tunnel and until `kumade tunnel unblock` or a restart, packets of this host and those that
    /// it forwards are refused, of IPv4 and IPv6, unless a tunnel with --network 0.0.0.0/0 and ::/0 takes them, or they are for
    /// networks of its own, such as the LAN. The DNS goes through the tunnel or nowhere, so give the tunnel's host by its
    /// address. Needs root or CAP_NET_ADMIN.
    Block,
    /// End what `kumade tunnel block` began, and remove what a killed tunnel has left
    Unblock,
}

#[derive(Debug, Subcommand)]
enum TunnelEndCommand {
    /// Wait for other ends, each known by its key
    Listen {
        /// Where to wait, for TCP and UDP [default: all addresses, port 7274]
        #[arg(value_name = "[ADDRESS:]PORT")]
        listen: Option<String>,
        /// Another end: its public key, from `kumade key public` there, and the addresses or networks that are there, if
        /// packets are carried. Repeatable
        #[arg(long = "peer", value_name = "KEY[=NETWORK[,NETWORK]]", required = true)]
        peers: Vec<PeerConfig>,
        /// Let the other ends' --forward reach this host or network, seen from here: a name, address or network, and a port
        /// or all. A network that contains loopback, link-local or this host's own addresses does not open these: give
        /// them by themselves, like 127.0.0.1:80. Repeatable [default: nothing]
        #[arg(long = "allow", value_name = "HOST[:PORT]")]
        allowed: Vec<AllowedTargets>,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Connect to an end that listens
    Connect {
        /// Where it listens [default port: 7274]
        #[arg(value_name = "HOST[:PORT]")]
        host: String,
        /// Its public key, from `kumade key public` there
        #[arg(long, value_name = "KEY")]
        peer: String,
        /// Network that is reached through the tunnel; 0.0.0.0/0 and ::/0 for all that has no smaller route, such as to the LAN.
        /// Repeatable [default: the networks of --address]
        #[arg(long = "network", value_name = "NETWORK")]
        networks: Vec<IpNet>,
        /// Carry TCP connections to this port, at 127.0.0.1 if no address is given, to HOST:PORT as seen from the other end,
        /// which has to --allow that. Repeatable
        #[arg(long = "forward", value_name = "[ADDRESS:]PORT:HOST:PORT")]
        forwards: Vec<Forward>,
        /// With `--carrier relay`, relay also the TCP connections of hosts in this network that this host is the router of. The
        /// other end takes them for this host's own. Repeatable [default: only those of this host's programs]
        #[arg(long = "relay-from", value_name = "NETWORK")]
        relay_sources: Vec<IpNet>,
        /// TCP connections that carry packets with `rake` and `relay`, and with `auto`, which has 15 at most
        #[arg(long, value_name = "NUMBER", default_value_t = TransportMode::DEFAULT_CONNECTIONS)]
        connections: usize,
        #[command(flatten)]
        common: CommonArgs,
    },
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// File of this end's private key, from `kumade key private`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File of a second key that both ends have, from `kumade key preshared`
    #[arg(long, value_name = "FILE")]
    preshared_key: Option<PathBuf>,
    /// Address of this end in the tunnel, with the length of its network's prefix. Repeatable [default: no packets are carried]
    #[arg(long = "address", value_name = "ADDRESS/LENGTH", value_parser = parse_device_address)]
    addresses: Vec<IpNet>,
    /// What carries the packets; the same at both ends, but that `auto` understands all, and `tcp`, `rake` and `relay` each other
    #[arg(long, value_enum, default_value_t = TransportName::Auto)]
    carrier: TransportName,
    /// Name of the TUN device
    #[arg(long, value_name = "NAME", default_value = DEFAULT_DEVICE)]
    device: String,
    /// Maximum length of packets in the tunnel, in bytes [default: what the path passes over UDP; 1500 over TCP alone]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1280..=9000))]
    mtu: Option<u16>,
    /// Congestion control of the TCP connections, one of net.ipv4.tcp_available_congestion_control [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// DSCP of the packets between the ends: `inherit` for that of the packet inside (not over TCP, where a segment is of several),
    /// which tells networks on the path how it is marked; or one for all, 0 to 63 or a name such as ef or cs1 [default: 0]
    #[arg(long, value_name = "inherit|DSCP")]
    dscp: Option<OuterDscp>,
    #[command(flatten)]
    tuning: TuningArgs,
    #[command(flatten)]
    monitoring: MonitoringArgs,
}

/// How others see what an end does.
#[derive(Debug, Args)]
struct MonitoringArgs {
    /// Name of this end, for `kumade tunnel status` [default: that of the device, or `tunnel`, with a number if it is taken]
    #[arg(long, value_parser = parse_name)]
    name: Option<String>,
    /// Serve Prometheus metrics on this port; without an address, on the loopback interface only
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    prometheus: Option<SocketAddr>,
    /// Run this command, by the shell, when another end is connected or lost or has restarted, or a path to it fails or is back. It
    /// finds what has happened in KUMADE_EVENT (peer-connected, peer-lost, peer-restarted, path-failed, path-returned), KUMADE_PEER and
    /// KUMADE_PATH, runs with the rights that the tunnel was started with, one at a time, and is ended after 30 s
    #[arg(long, value_name = "COMMAND")]
    on_event: Option<String>,
    /// Keep capabilities, writes and system calls that the tunnel does not need
    #[arg(long)]
    keep_privileges: bool,
}

/// What is set on the TCP connections. The defaults suit most paths.
#[derive(Debug, Args)]
struct TuningArgs {
    /// Minimum retransmission timeout of the TCP connections, up to 200ms, where the kernel can set it (Linux 6.17); 0 leaves
    /// the system's
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "20ms", hide_short_help = true)]
    min_rto: Span,
    /// Maximum retransmission timeout of the TCP connections, 1s to 120s, where the kernel can set it (Linux 6.15), or four
    /// round trips if these are longer; 0 leaves the system's
    #[arg(long, value_name = "TIME", value_parser = parse::span, default_value = "1s", hide_short_help = true)]
    max_rto: Span,
    /// Send buffer of each TCP connection, such as 256kb [default: as the system adapts it]
    #[arg(long, value_name = "BYTES", value_parser = parse_buffer_size, hide_short_help = true)]
    send_buffer: Option<u32>,
    /// Bytes not sent yet above which a TCP connection is given no more [default: what it delivers in 2 ms]
    #[arg(long, value_name = "BYTES", value_parser = parse_buffer_size, hide_short_help = true)]
    unsent: Option<u32>,
    /// Let short segments wait until others are acknowledged (Nagle's algorithm)
    #[arg(long, hide_short_help = true)]
    delay_short_segments: bool,
}

/// 0 leaves what the system has.
fn non_zero(span: Span) -> Option<Span> {
    Some(span).filter(|span| *span > Span::ZERO)
}

impl TuningArgs {
    fn to_connection_tuning(&self) -> ConnectionTuning {
        ConnectionTuning {
            rto: RtoLimits { min: non_zero(self.min_rto), max: non_zero(self.max_rto) },
            send_buffer_bytes: self.send_buffer,
            has_no_delay: !self.delay_short_segments,
            unsent_bytes: self.unsent,
            ..ConnectionTuning::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportName {
    /// UDP where it passes and performs, else many TCP connections; whatever comes, at the end that listens
    Auto,
    /// UDP datagrams
    Udp,
    /// One TCP connection
    Tcp,
    /// Many TCP connections, each packet on one that has room
    Rake,
    /// As `rake`, but TCP connections to the other end's networks are ended here and carried as streams of their own; give it at
    /// both ends
    Relay,
}

/// Runs one end of a tunnel until a signal comes, or shows or validates what one does.
///
/// # Errors
/// A file, a key or an address cannot be read, the system refuses something, or no tunnel can be asked. Settings that contradict
/// each other give exit status 2.
pub fn run(args: TunnelArgs) -> anyhow::Result<ExitCode> {
    let (source, keeps_privileges) = match (args.command, args.config) {
        (Some(TunnelCommand::Status(args)), _) => return status::run(&args),
        (Some(TunnelCommand::Block), _) => return Ok(kumade_tunnel::block_traffic().map(|()| ExitCode::SUCCESS)?),
        (Some(TunnelCommand::Unblock), _) => {
            return Ok(kumade_tunnel::unblock_traffic(RuntimeDir::standard("kumade")).map(|()| ExitCode::SUCCESS)?);
        }
        (Some(TunnelCommand::Check { file, in_place_of_file }), _) => {
            return match read_file(&file, in_place_of_file.into())? {
                Ok(source) => check::run(&source),
                Err(error) => Ok(usage_error(&error)),
            };
        }
        (Some(TunnelCommand::RunEnd(command)), _) => {
            let (settings, keeps_privileges) = command.into_settings()?;
            (SettingsSource::Options(Box::new(settings)), keeps_privileges)
        }
        (None, Some(file)) => match read_file(&file, args.in_place_of_file.into())? {
            Ok(source) => (source, args.keep_privileges),
            Err(error) => return Ok(usage_error(&error)),
        },
        (None, None) => {
            return Ok(usage_error(&"give --config FILE, or one of the commands that `kumade tunnel --help` lists"));
        }
    };
    match source.load()? {
        Ok(config) => run::run(source, config, keeps_privileges),
        Err(error) => Ok(usage_error(&error)),
    }
}

impl From<FileArgs> for FileOptions {
    fn from(FileArgs { key, name }: FileArgs) -> Self {
        FileOptions { name, key_file: key }
    }
}

impl TunnelEndCommand {
    /// As a file would say it, and whether to keep privileges.
    fn into_settings(self) -> anyhow::Result<(TunnelSettings, bool)> {
        let (end, peers, connections, relayed, common) = match self {
            TunnelEndCommand::Listen { listen, peers, allowed, common } => {
                let text = listen.unwrap_or_else(|| DEFAULT_PORT.to_string());
                let end = EndSettings::Listen(listen_address(&text, DEFAULT_PORT)?);
                (end, peers, 1, RelayedConfig { allowed, ..RelayedConfig::default() }, common)
            }
            TunnelEndCommand::Connect { host, peer, networks, forwards, relay_sources, connections, common } => {
                let key = peer.parse::<PublicKey>().context("the key of --peer")?;
                let networks = networks.iter().map(IpNet::trunc).collect();
                let relayed = RelayedConfig { forwards, sources: relay_sources, ..RelayedConfig::default() };
                let peers = vec![PeerConfig { name: None, key, networks }];
                (EndSettings::Connect(host), peers, connections, relayed, common)
            }
        };
        let MonitoringArgs { name, prometheus, on_event, keep_privileges } = common.monitoring;
        let settings = TunnelSettings {
            name,
            key_file: common.key,
            preshared_key_file: common.preshared_key,
            end,
            transport: match common.carrier {
                TransportName::Auto => TransportMode::Auto(connections),
                TransportName::Udp => TransportMode::Udp,
                TransportName::Tcp => TransportMode::Tcp,
                TransportName::Rake => TransportMode::Rake(connections),
                TransportName::Relay => TransportMode::Relay(connections),
            },
            device: common.device,
            mtu: common.mtu,
            addresses: common.addresses,
            peers,
            congestion_control: common.congestion_control,
            tuning: common.tuning.to_connection_tuning(),
            dscp: common.dscp.unwrap_or_default(),
            relayed_connections: relayed,
            prometheus,
            on_event,
        };
        Ok((settings, keep_privileges))
    }
}
