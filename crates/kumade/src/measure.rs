//! `kumade measure`: the near end.

mod hints;
mod show;

use crate::choice;
use anyhow::{Context, anyhow};
use clap::error::ErrorKind;
use clap::{Args, Command, ValueEnum};
use estimate::{Allowance, MethodSettings};
use measurement::{Directions, MeasurementPlan, TransportChoice};
use probe::{Binding, DEFAULT_PORT, Family, Key, MeasureConfig, NtpServer};
use probe::{STAMP_PORT, StampConfig, measure_stamp};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use train::Transport;
use units::{Span, parse};

/// Measure available bandwidth, capacity and delay to a host that runs `kumade serve`
///
/// Uses UDP where it passes and many TCP connections where it does not. Exit status: 0 if at least one direction has
/// a value, 1 if none has or the measurement failed, 2 for wrong usage.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// The server: a name or an address, with a port unless it is 7272; an IPv6 address with a port stands in brackets
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "stamp")]
    target: Option<Target>,
    /// Measure delay, loss and reordering to a STAMP reflector (RFC 8762), such as a router, instead: its name or
    /// address, with a port unless it is 862
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        conflicts_with_all = [
            "target", "direction", "transport", "method", "connections", "budget_bytes", "budget_time", "no_capacity",
            "key", "deadline",
        ]
    )]
    stamp: Option<Target>,
    /// Ask this NTP server how wrong this host's clock may be, which narrows one-way delays
    #[arg(long, value_name = "SERVER[:PORT]")]
    ntp: Option<Target>,
    /// Which way to measure
    #[arg(long, value_enum, default_value_t = DirectionArg::Both)]
    direction: DirectionArg,
    /// What carries the packets
    #[arg(long, value_enum, default_value_t = TransportArg::Auto)]
    transport: TransportArg,
    /// What plans and reads the packet trains: a method, and parameters that differ from their defaults, such as
    /// linear-scan:interval=1ms:packets=60
    #[arg(long, value_name = "METHOD[:PARAMETER=VALUE]...", value_parser = choice::method(), default_value_t = MethodSettings::default())]
    method: MethodSettings,
    /// TCP connections to open where they carry the packets
    #[arg(long, value_name = "N", default_value_t = MeasurementPlan::CONNECTIONS, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Bytes to send per direction at most, such as 500kb
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    budget_bytes: Option<u64>,
    /// How long to measure each direction at most, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    budget_time: Option<Span>,
    /// Fail if the measurement has not ended after this time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    deadline: Option<Span>,
    /// Send from this address of this host
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Send and receive through this interface only
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Set this firewall mark on all packets, by which policy routes choose; needs CAP_NET_ADMIN
    #[arg(long, value_name = "NUMBER")]
    mark: Option<u32>,
    /// Leave out the capacity of the bottleneck, which hardly ever changes
    #[arg(long)]
    no_capacity: bool,
    /// The key that the server wants: a file with 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Print one JSON document (kumade.measure/1)
    #[arg(long, conflicts_with = "json_stream")]
    json: bool,
    /// Print a line of JSON (kumade.measure-stream/1) for each event as it happens
    #[arg(long)]
    json_stream: bool,
    /// Use IPv4
    #[arg(short = '4', conflicts_with = "v6")]
    v4: bool,
    /// Use IPv6
    #[arg(short = '6')]
    v6: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DirectionArg {
    /// From here to the server
    Up,
    /// From the server to here
    Down,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    /// UDP where it passes, else rake
    Auto,
    /// UDP (PathQuick3)
    Udp,
    /// Many TCP connections, one packet on each (PathRakeTCP)
    Rake,
    /// Everything on one TCP connection: the papers' counter-example
    Single,
}

/// Measures and prints.
pub fn run(args: &MeasureArgs) -> anyhow::Result<ExitCode> {
    let output = match (args.json, args.json_stream) {
        (true, _) => show::Output::Document,
        (_, true) => show::Output::Stream,
        _ => show::Output::People,
    };
    if let Some(reflector) = &args.stamp {
        let config = args.stamp_config(reflector);
        return show::run(output, Box::new(move |_| measure_stamp(&config)));
    }
    let config = args.config()?;
    show::run(output, Box::new(move |on_event| probe::measure(&config, on_event)))
}

/// Reads a key file, and warns where others may read it too.
pub fn read_key(path: &Path) -> anyhow::Result<Key> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the key file {name}"))?;
    if std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0) {
        tracing::warn!("other users may read or change the key file {name}: chmod 600 it");
    }
    Key::parse(&text).map_err(|error| anyhow!("the key file {name} holds no key: {error}"))
}

impl MeasureArgs {
    fn config(&self) -> anyhow::Result<MeasureConfig> {
        self.check_budgets();
        let target = self.target.as_ref().context("no server is named")?;
        let mut config = MeasureConfig::new(&target.host, target.port_or(DEFAULT_PORT));
        config.family = self.family();
        config.ntp = self.ntp();
        config.plan.directions = match self.direction {
            DirectionArg::Up => Directions::Up,
            DirectionArg::Down => Directions::Down,
            DirectionArg::Both => Directions::Both,
        };
        config.plan.transport = match self.transport {
            TransportArg::Auto => TransportChoice::Auto,
            TransportArg::Udp => TransportChoice::Fixed(Transport::Udp),
            TransportArg::Rake => TransportChoice::Fixed(Transport::Rake),
            TransportArg::Single => TransportChoice::Fixed(Transport::Single),
        };
        config.plan.method = self.method.clone();
        config.plan.connections = self.connections;
        config.plan.allowance = Allowance { bytes: self.budget_bytes, time: self.budget_time };
        config.plan.capacity = !self.no_capacity;
        config.binding = self.binding();
        config.deadline = self.deadline;
        config.key = self.key.as_deref().map(read_key).transpose()?;
        Ok(config)
    }

    fn stamp_config(&self, reflector: &Target) -> StampConfig {
        let config = StampConfig::new(&reflector.host, reflector.port_or(STAMP_PORT));
        StampConfig { family: self.family(), ntp: self.ntp(), binding: self.binding(), ..config }
    }

    fn binding(&self) -> Binding {
        Binding { source: self.source, interface: self.interface.clone(), mark: self.mark }
    }

    fn family(&self) -> Family {
        match (self.v4, self.v6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        }
    }

    fn ntp(&self) -> Option<NtpServer> {
        let server = self.ntp.as_ref()?;
        Some(NtpServer { host: server.host.clone(), port: server.port_or(NtpServer::PORT) })
    }

    fn check_budgets(&self) {
        if self.method.budget().is_none() && (self.budget_bytes.is_some() || self.budget_time.is_some()) {
            let method = self.method.name();
            usage(&format!("--budget-bytes and --budget-time do not limit --method {method}: what it sends is fixed"));
        }
        if self.budget_bytes.is_some_and(|bytes| bytes < 10_000) {
            usage("--budget-bytes below 10kb buys no train");
        }
        if self.budget_time.is_some_and(|time| time < Span::from_millis(10)) {
            usage("--budget-time below 10ms buys no train");
        }
    }
}

/// Ends the program as wrong usage.
fn usage(message: &str) -> ! {
    let command = MeasureArgs::augment_args(Command::new("kumade measure"));
    command.bin_name("kumade measure").error(ErrorKind::ValueValidation, message).exit()
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    host: String,
    port: Option<u16>,
}

impl Target {
    fn port_or(&self, usual: u16) -> u16 {
        self.port.unwrap_or(usual)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("after `]` comes `:PORT`")?)),
            None if text.starts_with('[') => return Err("`]` is missing".into()),
            None if text.matches(':').count() == 1 => text.split_once(':').map_or((text, None), |(h, p)| (h, Some(p))),
            // A bare IPv6 address has many colons and no port.
            None => (text, None),
        };
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("it names no host".into());
        }
        let port = match port {
            None => None,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => Some(port),
                _ => return Err(format!("`{port}` is no port: 1 to 65535")),
            },
        };
        Ok(Target { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_people_write_them() {
        for (text, host, port) in [
            ("example.net", "example.net", None),
            ("example.net:80", "example.net", Some(80)),
            ("192.0.2.1:65535", "192.0.2.1", Some(65535)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[fe80::1%eth0]:99", "fe80::1%eth0", Some(99)),
        ] {
            assert_eq!(text.parse(), Ok(Target { host: host.into(), port }));
        }
        for bad in ["", ":80", "host:", "host:0", "host:65536", "host:http", "[::1]80", "[::1", "[]:1", "a b"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
