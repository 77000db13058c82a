//! `kumade measure`: the client of a measurement.

mod cells;
mod check;
mod csv;
mod hints;
mod marking_cells;
mod path_lines;
mod port_lines;
mod progress;
mod prometheus;
mod queue_class_cells;
mod result_sentence;
mod show;
mod summary;
mod trace_lines;
mod watch;

use crate::port_ranges::PortRanges;
use crate::terminal::{self, ColorWhen, Styles};
use crate::usage::usage_error;
use crate::{choice, key};
use anyhow::{Context, anyhow};
use check::Threshold;
use clap::{Args, ValueEnum};
use kumade_client::{DEFAULT_PORT, Family, HostClaimConfig, IfHeld, MeasureConfig, NtpServer, SocketBinding};
use kumade_client::{DsField, Dscp, Ecn, STAMP_PORT, StampConfig, measure_stamp};
use kumade_estimate::{MethodSettings, RequestedBudget};
use kumade_measurement::{Directions, MeasurementPlan, TransportChoice};
use kumade_net::{ScopedAddress, ScopedAddressError};
use kumade_probe_train::Transport;
use kumade_units::{Direction, Span, parse};
use show::{MeasureOutput, OutputSettings};
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use summary::SummaryView;

/// Measure available bandwidth, capacity, one-way delay and loss to a host that runs `kumade serve`
///
/// Probes travel over UDP, or over many TCP connections if a firewall drops UDP. Exit status: 0 if at least one direction
/// has a value or a bound, 1 if none has or the measurement failed, 2 for invalid usage; with --check, see there.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Name or address of the server; the port defaults to 7272. Put an IPv6 address in brackets if a port follows
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "stamp")]
    target: Option<Target>,
    /// Measure only delay, loss, duplication and reordering, to a STAMP reflector (RFC 8762) such as a router; the port
    /// defaults to 862
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        conflicts_with_all = [
            "target", "direction", "transport", "method", "connections", "budget_bytes", "budget_time", "no_capacity",
            "deadline", "load", "path", "trace", "queues", "ports", "idle_timeouts",
        ]
    )]
    stamp: Option<Target>,
    /// With --stamp: DSCP of the test packets, 0 to 63 or a name such as ef; the reflector is asked with which they arrive, and to answer
    /// with the same (RFC 8972)
    #[arg(long, value_name = "DSCP", conflicts_with = "target")]
    dscp: Option<Dscp>,
    /// With --stamp: ECN codepoint of the test packets, likewise
    #[arg(long, value_enum, value_name = "CODEPOINT", conflicts_with = "target")]
    ecn: Option<EcnArg>,
    /// With --stamp: ask the reflector for all that RFC 8972 has it tell: DSCP and ECN, between which addresses test packets come, how its
    /// clock is set and read, what it counts
    #[arg(long, conflicts_with = "target")]
    extensions: bool,
    /// Query this NTP server for the error of this host's clock, which tightens the bounds of one-way delays; may be given
    /// several times: of three and more sources, the kernel's own statement among them, fewer than half may be wrong
    #[arg(long, value_name = "SERVER[:PORT]")]
    ntp: Vec<Target>,
    /// Direction to measure
    #[arg(long, value_enum, default_value_t = DirectionArg::Both)]
    direction: DirectionArg,
    /// Transport of the probe packets
    #[arg(long, value_enum, default_value_t = TransportArg::Auto)]
    transport: TransportArg,
    /// Estimation method for the available bandwidth, with parameters that differ from their defaults, such as
    /// linear-scan:interval=1ms:packets=60
    #[arg(long, value_name = "METHOD[:PARAMETER=VALUE]...", value_parser = choice::method_parser(), default_value_t = MethodSettings::default())]
    method: MethodSettings,
    /// TCP connections to open for the transport `rake`
    #[arg(long, value_name = "N", default_value_t = MeasurementPlan::DEFAULT_CONNECTIONS, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Maximum number of bytes to send in each direction, such as 500kb; with more than 10mb, token buckets with larger bursts are
    /// looked for
    #[arg(long, value_name = "SIZE", value_parser = parse::byte_count)]
    budget_bytes: Option<u64>,
    /// Maximum time to measure each direction, such as 1.5s
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    budget_time: Option<Span>,
    /// Maximum time to wait while other programs measure at this host, and then while the server measures other clients [default: 2min]
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    wait: Option<Span>,
    /// Fail if the whole measurement takes longer than this, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    deadline: Option<Span>,
    /// Source address of all packets: one of this host's addresses, such as 192.0.2.1 or fe80::1%eth0
    #[arg(long, value_name = "ADDRESS")]
    source: Option<ScopedAddress>,
    /// Bind all sockets to this interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Firewall mark of all packets, for policy routing; requires CAP_NET_ADMIN
    #[arg(long, value_name = "NUMBER")]
    mark: Option<u32>,
    /// Skip the capacity measurement
    #[arg(long)]
    no_capacity: bool,
    /// At the end, fill the path with TCP connections in each direction for so long (6s without TIME), and grade how much longer round trips take
    /// meanwhile (bufferbloat, A+ to F). With --path, keep the queue for a second before, by up to 15 MB of ECT(0) in each direction, to see whether
    /// an AQM marks packets that wait for long. Others on the path notice
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "6s", value_parser = parse_load_duration)]
    load: Option<Span>,
    /// Look at what the path does to packets as well: to ECN codepoints and DSCPs, by some hundred small ones in each direction, which takes
    /// up to 3 s; and print that with hop limits, MTU, TCP's options, and address translation and its kind. Once the bandwidth of a direction is
    /// known, up to six trains of at most 0.4 MB each fill its queue for a moment, within 2 s, to see which packets it marks
    #[arg(long)]
    path: bool,
    /// As --path, and ask the routers on the way for their own answers, up, and down by the far end: their addresses and round trips, between which of
    /// them DSCP and ECN are changed, which only a process with CAP_NET_RAW may read, and whether load balancers spread flows over several
    /// of them. The packets are of the measurement's own flow and of five others at least (of 26, as long as more routers are found), over UDP, or over TCP
    /// where the trains are. In each direction, sends up to 54 small packets to each router, mostly six, and takes up to 10 s
    #[arg(long)]
    trace: bool,
    /// As --path, and see whether the path has queues of its own for some DSCPs, or for ECT(1): how long packets with them wait beside best
    /// effort, and what share they get. Fills the path for moments (up to a second at 1 Mbit/s and above), with up to 8 MB in each direction, in up to 10 s each.
    /// Others on the path notice
    #[arg(long)]
    queues: bool,
    /// At the end, try these ports of the server, such as 53,443,5060-5070, by UDP and TCP: which pass there and back, and what becomes of
    /// packets to the others. The server must allow it (`kumade serve --ports`). Up to 128 ports; each 32 take some 1 to 20 s
    #[arg(long, value_name = "PORTS", value_parser = parse_ports)]
    ports: Option<PortRanges>,
    /// At the end, look after which time a NAT or firewall on the path forgets flows of UDP and TCP that are idle, up to this time (5min without TIME): many flows
    /// are left idle at once, so that it takes as long as the longest, and once more to be more precise; others may measure meanwhile
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "5min", value_parser = parse_idle_time)]
    idle_timeouts: Option<Span>,
    /// Pre-shared key of the server: a file with 64 hexadecimal digits; with --stamp, authenticates test packets and replies
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Print all details as well
    #[arg(long, short)]
    verbose: bool,
    /// Colour in what is printed for people
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto)]
    color: ColorWhen,
    /// Print one JSON document (kumade.measure/1)
    #[arg(long, conflicts_with = "json_stream")]
    json: bool,
    /// Print one line of JSON (kumade.measure-stream/1) for each event as it happens
    #[arg(long)]
    json_stream: bool,
    /// Print CSV: a line for each direction, below the names of the columns
    #[arg(long, conflicts_with_all = ["json", "json_stream"])]
    csv: bool,
    /// Also write the results to this file as Prometheus metrics, for the textfile collector of the node exporter
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// Measure again and again until Ctrl-C, such as every 5min (60s without INTERVAL), with a line for each measurement
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "60s", value_parser = parse_optional_span)]
    watch: Option<Span>,
    /// For Nagios, Icinga and the like: one line with performance data, and exit status 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN).
    /// METRIC is available, loss or delay, each also with -up or -down, or round-trip. WARNING and CRITICAL are ranges of the Monitoring
    /// Plugins, such as 20mbit: (less alerts), 1% or 50ms (more alerts). A threshold counts as crossed if the whole interval is beyond it, and what may
    /// be critical is not OK; for loss, up to 800 packets more are sent, which takes up to 17 s. May be given several times
    #[arg(
        long,
        value_name = "METRIC[=WARNING[,CRITICAL]]",
        conflicts_with_all = ["json", "json_stream", "csv", "prometheus", "watch", "verbose", "ports", "idle_timeouts"]
    )]
    check: Vec<Threshold>,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "v6")]
    v4: bool,
    /// Use IPv6 only
    #[arg(short = '6')]
    v6: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DirectionArg {
    /// From this host to the server
    Up,
    /// From the server to this host
    Down,
    /// Both, one after the other
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EcnArg {
    /// Not ECN-capable transport
    NotEct,
    /// ECN-capable transport, ECT(0)
    Ect0,
    /// ECN-capable transport, ECT(1): L4S
    Ect1,
    /// Congestion experienced, as a queue marks packets
    Ce,
}

impl From<EcnArg> for Ecn {
    fn from(argument: EcnArg) -> Self {
        match argument {
            EcnArg::NotEct => Ecn::NotEct,
            EcnArg::Ect0 => Ecn::Ect0,
            EcnArg::Ect1 => Ecn::Ect1,
            EcnArg::Ce => Ecn::Ce,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    /// UDP if it passes, otherwise rake
    Auto,
    /// UDP (PathQuick3)
    Udp,
    /// Many TCP connections, one packet of a train on each (PathRakeTCP)
    Rake,
    /// One TCP connection, for comparison only: congestion control distorts the trains
    Single,
}

/// Measures and prints.
pub fn run(args: &MeasureArgs) -> anyhow::Result<ExitCode> {
    if !args.check.is_empty() {
        return Ok(args.check());
    }
    if let Err(reason) = args.check_budgets() {
        return Ok(usage_error(&reason));
    }
    let output = match (args.json, args.json_stream, args.csv) {
        (true, ..) => MeasureOutput::Document,
        (_, true, _) => MeasureOutput::Stream,
        (.., true) => MeasureOutput::Csv,
        _ => MeasureOutput::Text(SummaryView {
            styles: Styles::new(args.color),
            width: terminal::terminal_width(),
            verbose: args.verbose,
            clock_notes: !args.ntp.is_empty(),
        }),
    };
    let target = args.stamp.as_ref().or(args.target.as_ref()).map_or_else(String::new, Target::to_string);
    let shown = OutputSettings { output, target, prometheus: args.prometheus.clone(), watch: args.watch };
    if let Some(reflector) = &args.stamp {
        let config = args.stamp_config(reflector)?;
        return show::run(&shown, &|_| measure_stamp(&config));
    }
    let config = args.measure_config()?;
    show::run(&shown, &|on_event| kumade_client::measure(&config, on_event))
}

/// With `--check`: the systems that ask give up after a minute, without a word of the reason.
const CHECK_DEADLINE: Span = Span::from_secs(55);
/// With `--check`: a measurement takes some ten seconds, and packets that tell loss up to 17 s more, so that there is time for them afterwards.
const CHECK_WAIT: Span = Span::from_secs(25);

/// The exit status for `--check` where a command line makes no sense; otherwise that of an invalid command line would be CRITICAL.
pub fn usage_status(arguments: &[String]) -> Option<u8> {
    let is_check = |argument: &String| argument == "--check" || argument.starts_with("--check=");
    arguments.iter().any(is_check).then_some(check::State::Unknown.exit_status())
}

impl MeasureArgs {
    fn check(&self) -> ExitCode {
        let outcome = self.measure_to_check().map_err(|error| format!("{error:#}"));
        check::print_verdict(&self.check, self.directions(), outcome.as_ref().map_err(String::as_str))
    }

    /// The report that is checked.
    fn measure_to_check(&self) -> anyhow::Result<kumade_client::Report> {
        self.check_budgets().map_err(|reason| anyhow!(reason))?;
        let check = |threshold: &Threshold| threshold.check_measured(self.directions(), self.stamp.is_some());
        self.check.iter().try_for_each(check).map_err(|reason| anyhow!(reason))?;
        let measured = match &self.stamp {
            Some(reflector) => measure_stamp(&self.stamp_config(reflector)?),
            None => kumade_client::measure(&self.measure_config()?, &mut |_| ()),
        };
        measured.map_err(|error| anyhow!(hints::describe_error(&error)))
    }

    fn directions(&self) -> &'static [Direction] {
        match self.direction {
            DirectionArg::Up => &[Direction::Up],
            DirectionArg::Down => &[Direction::Down],
            DirectionArg::Both => &Direction::BOTH,
        }
    }

    fn measure_config(&self) -> anyhow::Result<MeasureConfig> {
        let target = self.target.as_ref().context("no server is given")?;
        let mut config = MeasureConfig::new(&target.host, target.port_or(DEFAULT_PORT));
        config.family = self.family();
        config.ntp = self.ntp_servers();
        let is_check = !self.check.is_empty();
        config.max_server_wait = self.wait.unwrap_or(if is_check { CHECK_WAIT } else { config.max_server_wait });
        config.host_claim = Some(HostClaimConfig { max_wait: config.max_server_wait, if_held: IfHeld::Fail });
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
        config.plan.budget = RequestedBudget { bytes: self.budget_bytes, time: self.budget_time };
        config.plan.capacity = !self.no_capacity;
        config.plan.min_idle_packets = check::packets_to_tell_loss(&self.check);
        config.plan.load = self.load;
        config.plan.path = self.path || self.trace || self.queues;
        config.plan.trace = self.trace;
        config.plan.queues = self.queues;
        config.plan.ports = self.ports.as_ref().map(PortRanges::ports).unwrap_or_default();
        config.plan.idle_timeouts = self.idle_timeouts;
        config.binding = self.binding();
        config.deadline = self.deadline.or(is_check.then_some(CHECK_DEADLINE));
        config.key = self.key.as_deref().map(key::read_preshared_key).transpose()?;
        Ok(config)
    }

    fn stamp_config(&self, reflector: &Target) -> anyhow::Result<StampConfig> {
        let config = StampConfig::new(&reflector.host, reflector.port_or(STAMP_PORT));
        let key = self.key.as_deref().map(key::read_preshared_key).transpose()?;
        let is_marked = self.dscp.is_some() || self.ecn.is_some();
        let ecn = self.ecn.map_or(Ecn::NotEct, Ecn::from);
        let (family, ntp, binding) = (self.family(), self.ntp_servers(), self.binding());
        let ds_field = is_marked.then(|| DsField::new(self.dscp.unwrap_or_default(), ecn));
        let count = config.count.max(check::packets_to_tell_loss(&self.check));
        Ok(StampConfig { count, family, ntp, binding, key, ds_field, extensions: self.extensions, ..config })
    }

    fn binding(&self) -> SocketBinding {
        // An address of one link is one of its interface.
        let interface = self.interface.clone().or_else(|| self.source?.interface());
        SocketBinding { source: self.source.map(ScopedAddress::ip), interface, mark: self.mark }
    }

    fn family(&self) -> Family {
        match (self.v4, self.v6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        }
    }

    fn ntp_servers(&self) -> Vec<NtpServer> {
        let server = |server: &Target| NtpServer { host: server.host.clone(), port: server.port_or(NtpServer::PORT) };
        self.ntp.iter().map(server).collect()
    }

    /// What is wrong with the budgets.
    fn check_budgets(&self) -> Result<(), String> {
        let is_given = self.budget_bytes.is_some() || self.budget_time.is_some();
        let method = self.method.name();
        if self.method.budget().is_none() && is_given {
            return Err(format!(
                "--budget-bytes and --budget-time have no effect on --method {method}, whose probes are fixed"
            ));
        }
        if self.budget_bytes.is_some_and(|bytes| bytes < 10_000) {
            return Err("--budget-bytes must be at least 10kb".to_owned());
        }
        if self.budget_time.is_some_and(|time| time < Span::from_millis(10)) {
            return Err("--budget-time must be at least 10ms".to_owned());
        }
        Ok(())
    }
}

/// How long to fill the path.
fn parse_load_duration(text: &str) -> Result<Span, String> {
    parse_span_between(Span::from_secs(2), Span::from_secs(25), text)
}

fn parse_span_between(least: Span, most: Span, text: &str) -> Result<Span, String> {
    let time = parse_optional_span(text)?;
    if (least..=most).contains(&time) { Ok(time) } else { Err(format!("{time} is not between {least} and {most}")) }
}

/// A time that may be left out: then an option takes what follows for it.
fn parse_optional_span(text: &str) -> Result<Span, String> {
    parse::span(text).map_err(|error| format!("{error}; if it is the host, write it before the option"))
}

/// Ports to be tried.
fn parse_ports(text: &str) -> Result<PortRanges, String> {
    const MAX_PORTS: usize = 128;
    let ports: PortRanges = text.parse()?;
    match ports.ports().len() {
        count if count > MAX_PORTS => Err(format!("{count} ports are too many: at most {MAX_PORTS} in a measurement")),
        _ => Ok(ports),
    }
}

/// How long flows are idle at most.
fn parse_idle_time(text: &str) -> Result<Span, String> {
    parse_span_between(Span::from_secs(2), Span::from_secs(24 * 3600), text)
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    host: String,
    port: Option<u16>,
}

impl Target {
    fn port_or(&self, default: u16) -> u16 {
        self.port.unwrap_or(default)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            None => f.write_str(&self.host),
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(format!("give the host's name or address alone, without `{scheme}://`"));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("only `:PORT` may follow `]`")?)),
            None if text.starts_with('[') => return Err("`]` is missing".into()),
            None if text.matches(':').count() == 1 => text.split_once(':').map_or((text, None), |(h, p)| (h, Some(p))),
            // A bare IPv6 address has many colons and no port.
            None if text.contains(':')
                && matches!(text.parse::<ScopedAddress>(), Err(ScopedAddressError::Malformed(_))) =>
            {
                return Err("an IPv6 address before a port stands in brackets: [ADDRESS]:PORT".into());
            }
            None => (text, None),
        };
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("the host name is missing or contains spaces".into());
        }
        let port = match port {
            None => None,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => Some(port),
                _ => return Err(format!("`{port}` is not a port: use 1 to 65535")),
            },
        };
        Ok(Target { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_in_common_notations() {
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
        for bad in [
            "",
            ":80",
            "host:",
            "host:0",
            "host:65536",
            "host:http",
            "[::1]80",
            "[::1",
            "[]:1",
            "a b",
            "http://h",
            "::1:72720",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
