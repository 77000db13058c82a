//! `kumade measure`: the near end.

mod show;

use anyhow::{Context, anyhow};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, ValueEnum};
use estimate::{LinearScanConfig, PathTesterClassicConfig};
use measure::stamp::{STAMP_PORT, StampConfig, measure_stamp};
use measure::transport::MAX_PACKET;
use measure::{
    DEFAULT_PORT, Directions, Family, Key, MeasureConfig, MethodChoice, NtpServer, TransportChoice, TransportKind,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use train::{Segment, Train};
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
            "target", "direction", "transport", "method", "interval", "first_size", "size_step", "packets", "iunit",
            "connections", "budget_bytes", "budget_time", "no_capacity", "key",
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
    /// What plans and reads the packet trains
    #[arg(long, value_enum, default_value_t = MethodArg::Primed)]
    method: MethodArg,
    /// For linear-scan: time between two packets [default: 100us]
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    interval: Option<Span>,
    /// For linear-scan: the first packet's bytes [default: 32]
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    first_size: Option<u64>,
    /// For linear-scan: what each further packet has more, in bytes [default: 12]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    size_step: Option<i32>,
    /// For linear-scan: packets in the train [default: 120]
    #[arg(long, value_name = "N")]
    packets: Option<u32>,
    /// For pathtester-classic: exponents of the waits between packets, which are 2^N µs [default: 0-15]
    #[arg(long, value_name = "FIRST-LAST", value_parser = iunit_range)]
    iunit: Option<(u32, u32)>,
    /// TCP connections to open where they carry the packets
    #[arg(long, value_name = "N", default_value_t = MeasureConfig::CONNECTIONS, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Bytes to send per direction at most, such as 500kb; not for linear-scan
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    budget_bytes: Option<u64>,
    /// How long to measure each direction at most, such as 1.5s; not for linear-scan
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    budget_time: Option<Span>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodArg {
    /// Finds the range by itself, then pins the value down
    Primed,
    /// The papers' rule: one train of growing packets
    LinearScan,
    /// PathTester, improved: ten short trains, steered by the rate at which they come
    #[value(name = "pathtester")]
    PathTester,
    /// PathTester before: one short train for each power of two of the wait
    #[value(name = "pathtester-classic")]
    PathTesterClassic,
    /// Fleets of periodic streams, up to a minute; the result is a range
    Pathload,
    /// Trains whose rate grows exponentially
    #[value(name = "pathchirp")]
    PathChirp,
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
    show::run(output, Box::new(move |on_event| measure::measure(&config, on_event)))
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
        config.directions = match self.direction {
            DirectionArg::Up => Directions::Up,
            DirectionArg::Down => Directions::Down,
            DirectionArg::Both => Directions::Both,
        };
        config.transport = match self.transport {
            TransportArg::Auto => TransportChoice::Auto,
            TransportArg::Udp => TransportChoice::Fixed(TransportKind::Udp),
            TransportArg::Rake => TransportChoice::Fixed(TransportKind::Rake),
            TransportArg::Single => TransportChoice::Fixed(TransportKind::Single),
        };
        config.method = self.method();
        config.connections = self.connections;
        config.budget_bytes = self.budget_bytes;
        config.budget_time = self.budget_time;
        config.capacity = !self.no_capacity;
        config.key = self.key.as_deref().map(read_key).transpose()?;
        Ok(config)
    }

    fn stamp_config(&self, reflector: &Target) -> StampConfig {
        let config = StampConfig::new(&reflector.host, reflector.port_or(STAMP_PORT));
        StampConfig { family: self.family(), ntp: self.ntp(), ..config }
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

    fn method(&self) -> MethodChoice {
        let numbers = [self.interval.is_some(), self.first_size.is_some(), self.size_step.is_some()];
        let numbers_given = numbers.contains(&true) || self.packets.is_some();
        if self.method != MethodArg::LinearScan && numbers_given {
            usage("--interval, --first-size, --size-step and --packets belong to --method linear-scan");
        }
        if self.method != MethodArg::PathTesterClassic && self.iunit.is_some() {
            usage("--iunit belongs to --method pathtester-classic");
        }
        match self.method {
            MethodArg::Primed => MethodChoice::Primed,
            MethodArg::LinearScan => self.linear_scan(),
            MethodArg::PathTester => MethodChoice::PathTester,
            MethodArg::PathTesterClassic => {
                let (first_iunit, last_iunit) = self.iunit.unwrap_or((0, 15));
                MethodChoice::PathTesterClassic { first_iunit, last_iunit }
            }
            MethodArg::Pathload => MethodChoice::Pathload,
            MethodArg::PathChirp => MethodChoice::PathChirp,
        }
    }

    fn linear_scan(&self) -> MethodChoice {
        let paper = LinearScanConfig::paper(MAX_PACKET);
        let scan = LinearScanConfig {
            interval: self.interval.unwrap_or(paper.interval),
            first_size: self.first_size.map_or(paper.first_size, |bytes| bytes.try_into().unwrap_or(u32::MAX)),
            size_step: self.size_step.unwrap_or(paper.size_step),
            packets: self.packets.unwrap_or(paper.packets),
            ..paper
        };
        let LinearScanConfig { interval, first_size, size_step, packets: count, .. } = scan;
        if interval <= Span::ZERO {
            usage("--interval must be longer than nothing");
        }
        // The method leaves out packets that would grow beyond the largest; everything else must be right.
        let growing = if size_step > 0 { 0 } else { size_step };
        let plan = Train { segments: vec![Segment { count, interval, first_size, size_step: growing }] };
        if let Err(error) = plan.check(MAX_PACKET) {
            usage(&error.to_string());
        }
        MethodChoice::LinearScan(scan)
    }

    fn check_budgets(&self) {
        if self.method == MethodArg::LinearScan && (self.budget_bytes.is_some() || self.budget_time.is_some()) {
            usage("--budget-bytes and --budget-time say nothing to --method linear-scan: it sends one train");
        }
        if self.budget_bytes.is_some_and(|bytes| bytes < 10_000) {
            usage("--budget-bytes below 10kb buys no train");
        }
        if self.budget_time.is_some_and(|time| time < Span::from_millis(10)) {
            usage("--budget-time below 10ms buys no train");
        }
    }
}

/// Reads `0-15`.
fn iunit_range(text: &str) -> Result<(u32, u32), String> {
    let most = PathTesterClassicConfig::MOST_IUNIT;
    let range = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    range.filter(|(first, last)| first <= last && *last <= most).ok_or(format!("it is no range within 0-{most}"))
}

/// Ends the program as wrong usage.
fn usage(message: &str) -> ! {
    crate::Cli::command().error(ErrorKind::ValueValidation, message).exit()
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
    fn iunit_ranges_are_read_as_the_paper_writes_them() {
        assert_eq!(iunit_range("0-17"), Ok((0, 17)));
        for bad in ["", "5", "17-0", "0-23", "-1-5", "a-b"] {
            assert!(iunit_range(bad).is_err(), "{bad}");
        }
    }

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
