use crate::fabric::Fabric;
use crate::htb::Htb;
use crate::network::{Host, HostSpec, Network, NetworkError, NetworkSpec};
use crate::observed::Observed;
use crate::row::{Interval, Row};
use crate::runner::{Attempt, RunError, Testbed};
use crate::scenario::{
    Bottleneck, BottleneckKind, Carrier, CrossKind, Direction, FirewallAction, FirewallRule, Method, Point, Protocol,
    Scenario, Transport,
};
use crate::traffic::Traffic;
use estimate::LinearScanConfig;
use link::middlebox::{Match, MiddleboxConfig, Refusal, Rule};
use link::{CrossConfig, LinkConfig, Periods, SizeMix};
use measure::report::{DirectionReport, Report};
use measure::{Directions, MeasureConfig, MethodChoice, Server, ServerConfig, ServerError, TransportChoice};
use net::clock;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use units::{Rate, Span, Time};
use wire::TransportKind;

/// New cross traffic runs so long before anything is measured.
const SETTLING: Span = Span::from_millis(100);
/// TCP has to find its rate first.
const TCP_SETTLING: Span = Span::from_secs(1);
/// What cross traffic by TCP uses, whatever the machine's default is.
const CONGESTION_CONTROL: &str = "cubic";

/// The bottleneck of the paper's experiment, to which the papers' train fits.
const PAPERS_RATE: Rate = Rate::from_mbit(100);

/// Measures on a network of real hosts in real time, with the programs that `kumade serve` and `kumade measure` are.
pub struct RealTime {
    fabric: Box<dyn Fabric>,
    /// Cross traffic of real packets.
    traffic: Option<Traffic>,
    server: SocketAddr,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<Result<(), ServerError>>>,
}

impl RealTime {
    /// Builds the network that `scenario` describes, checks that it is as set, and starts the server in it.
    ///
    /// # Errors
    /// Where the system refuses something, or what was built is not what was asked for.
    pub fn build(scenario: &Scenario) -> Result<Self, RunError> {
        let mut fabric = build(&scenario.bottleneck).map_err(failed("build the network"))?;
        for &direction in &scenario.directions {
            fabric.verify(direction).map_err(failed("check the network"))?;
        }
        let host = fabric.host(RIGHT).map_err(failed("find the far host"))?;
        let server = bind(host).map_err(failed("start the server"))?;
        let address = server.local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serving = host.namespace.spawn("lab-serve", move || server.run(&stopped));
        let serving = Some(serving.map_err(failed("start the server"))?);
        Ok(RealTime { fabric, traffic: None, server: address, stop, serving })
    }

    fn set_firewall(&mut self, scenario: &Scenario, point: &Point) -> Result<(), RunError> {
        let rules = scenario.firewall_for(point.transport).map(rule).collect();
        let middlebox = MiddleboxConfig { rules, nat: None };
        self.fabric.set_middlebox(Some(middlebox)).map_err(failed("set up the firewall"))
    }

    fn set_cross(&mut self, scenario: &Scenario, point: &Point) -> Result<(), RunError> {
        let wrong = failed("set the cross traffic");
        self.traffic = None;
        self.fabric.set_cross(point.direction, &[]).map_err(&wrong)?;
        let mut settling = SETTLING;
        match (pattern(scenario, point), scenario.cross_by()) {
            _ if point.cross == Rate::ZERO => {}
            (Some(pattern), Carrier::Link) => {
                self.fabric.set_cross(point.direction, &[pattern]).map_err(&wrong)?;
            }
            (Some(pattern), Carrier::Packets) => {
                let (from, to) = self.others(point.direction).map_err(&wrong)?;
                self.traffic = Some(Traffic::udp(from, to, &pattern).map_err(&wrong)?);
            }
            (None, _) => {
                let (from, to) = self.others(point.direction).map_err(&wrong)?;
                let most = Some(point.cross).filter(|level| *level < scenario.bottleneck.rate);
                self.traffic = Some(Traffic::tcp(from, to, CONGESTION_CONTROL, most).map_err(&wrong)?);
                settling = TCP_SETTLING;
            }
        }
        thread::sleep(settling.to_duration());
        Ok(())
    }

    /// The hosts between which cross traffic of that direction goes: from the first to the second.
    fn others(&self, direction: Direction) -> Result<(&Host, &Host), NetworkError> {
        let (left, right) = (self.fabric.host(LEFT_OTHER)?, self.fabric.host(RIGHT_OTHER)?);
        Ok(if direction == Direction::Up { (left, right) } else { (right, left) })
    }
}

impl Testbed for RealTime {
    fn measure(&mut self, scenario: &Scenario, point: &Point) -> Result<Attempt, RunError> {
        self.set_firewall(scenario, point)?;
        self.set_cross(scenario, point)?;
        let config = measurement(scenario, point, self.server);
        let host = self.fabric.host(LEFT).map_err(failed("find the near host"))?;
        let mut observed = Observed::new(scenario.timeline);
        let began = clock::realtime();
        let result = host.namespace.run(|| measure::measure(&config, &mut |event| observed.note(event)));
        let result = result.map_err(failed("enter the near host"))?;
        let (from, to) = observed.window().unwrap_or((began, clock::realtime()));
        let mut row = Row::new(point, scenario.cross.kind);
        let truth = self.fabric.truth(point.direction, from, to).map_err(failed("read the link's ledger"))?;
        let lateness = self.fabric.lateness(point.direction, from, to).map_err(failed("read the link's ledger"))?.max;
        row.truth_bits_per_second = truth.bits_per_second();
        let emulated = scenario.bottleneck.kind == BottleneckKind::Own;
        row.worst_lateness_seconds = emulated.then(|| lateness.as_secs_f64());
        row.timeline = observed.timeline();
        match result {
            Ok(report) => fill(&mut row, point.direction, report),
            Err(error) => {
                row.reason = Some(error.to_string());
                row.duration_seconds = (clock::realtime() - began).as_secs_f64();
            }
        }
        Ok(Attempt { row, lateness })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(serving) = self.serving.take() {
            // Its panic has been printed, and a second one here would abort.
            let _ = serving.join();
        }
    }
}

/// The hosts that measure, and those that send cross traffic.
const LEFT: &str = "a";
const RIGHT: &str = "b";
const LEFT_OTHER: &str = "c";
const RIGHT_OTHER: &str = "d";

fn failed<E: Into<anyhow::Error>>(doing: &'static str) -> impl Fn(E) -> RunError {
    move |cause| RunError { doing, cause: cause.into() }
}

fn build(bottleneck: &Bottleneck) -> Result<Box<dyn Fabric>, NetworkError> {
    let Bottleneck { kind, rate, delay, queue } = *bottleneck;
    if kind == BottleneckKind::Htb {
        return Ok(Box::new(Htb::build(rate, queue)?));
    }
    let (jitter, loss, seed) = (Span::ZERO, 0.0, 1);
    let link = LinkConfig { rate: Some(rate), queue_bytes: queue, delay, jitter, loss, seed };
    let mut network = NetworkSpec::pair(link);
    network.left.push(HostSpec::numbered(LEFT_OTHER, 3));
    network.right.push(HostSpec::numbered(RIGHT_OTHER, 4));
    Ok(Box::new(Network::build(network)?))
}

fn bind(host: &Host) -> anyhow::Result<Server> {
    let listen = Some(SocketAddr::from((IpAddr::V4(host.v4), measure::DEFAULT_PORT)));
    let config = ServerConfig { listen, ..ServerConfig::default() };
    Ok(host.namespace.run(|| Server::bind(config))??)
}

fn measurement(scenario: &Scenario, point: &Point, server: SocketAddr) -> MeasureConfig {
    let transport = match point.transport {
        Transport::Auto => TransportChoice::Auto,
        Transport::Udp => TransportChoice::Fixed(TransportKind::Udp),
        Transport::Rake => TransportChoice::Fixed(TransportKind::Rake),
        Transport::Single => TransportChoice::Fixed(TransportKind::Single),
    };
    let method = match point.method {
        Method::Primed => MethodChoice::Primed,
        Method::LinearScan => MethodChoice::LinearScan(papers_train(scenario.bottleneck.rate)),
        Method::PathTester => MethodChoice::PathTester,
        // The shortest range that the paper found to work from 100 kbit/s on.
        Method::PathTesterClassic => MethodChoice::PathTesterClassic { first_iunit: 0, last_iunit: 17 },
        Method::Pathload => MethodChoice::Pathload,
        Method::PathChirp => MethodChoice::PathChirp,
    };
    let directions = match point.direction {
        Direction::Up => Directions::Up,
        Direction::Down => Directions::Down,
    };
    let config = MeasureConfig::new(server.ip().to_string(), server.port());
    MeasureConfig { directions, transport, method, ..config }
}

/// The papers' train with the interval that lets it scan the same share of this rate as of the paper's.
fn papers_train(rate: Rate) -> LinearScanConfig {
    let paper = LinearScanConfig::paper(measure::transport::MAX_PACKET);
    let interval = paper.interval.as_secs_f64() * PAPERS_RATE.as_f64() / rate.as_f64();
    LinearScanConfig { interval: Span::from_secs_f64(interval), ..paper }
}

fn rule(rule: &FirewallRule) -> Rule {
    let protocol = match rule.protocol {
        Protocol::Udp => packet::protocol::UDP,
        Protocol::Tcp => packet::protocol::TCP,
    };
    let how = match rule.action {
        FirewallAction::Reject => Refusal::Reject,
        FirewallAction::Drop => Refusal::Drop,
    };
    Rule::Refuse { matching: Match { protocol: Some(protocol), destination_port: None }, how }
}

/// The pattern of the cross traffic; none where the kernel's TCP makes it up. Each run meets another part of it; the same
/// run of the same scenario meets the same.
fn pattern(scenario: &Scenario, point: &Point) -> Option<CrossConfig> {
    let size = scenario.cross.packet_bytes;
    let rate = point.cross;
    let kind = match scenario.cross.kind {
        CrossKind::Constant => link::CrossKind::Constant { rate, size },
        CrossKind::Poisson => link::CrossKind::Poisson { rate, sizes: SizeMix::fixed(size) },
        CrossKind::OnOff => {
            let on = Span::from_millis(20);
            let burst = (rate.as_f64() + scenario.bottleneck.rate.as_f64()) / 2.0;
            let off = Span::from_secs_f64(on.as_secs_f64() * (burst / rate.as_f64() - 1.0));
            link::CrossKind::OnOff { rate: Rate::from_f64(burst), size, on, off, periods: Periods::Exponential }
        }
        CrossKind::Tcp => return None,
    };
    // The golden ratio's multiples lie evenly between 0 and 1.
    let phase = (f64::from(point.run) * 0.618_033_988_749_895).fract();
    Some(CrossConfig { kind, start: Time::ZERO, phase, seed: u64::from(point.run) << 40 | rate.bits_per_second() })
}

fn fill(row: &mut Row, direction: Direction, report: Report) {
    let measured = match direction {
        Direction::Up => report.up,
        Direction::Down => report.down,
    };
    let Some(measured) = measured else {
        row.reason = Some(format!("the measurement says nothing of the direction {}", direction.word()));
        return;
    };
    let DirectionReport { available_bits_per_second: value, .. } = measured;
    if let Some(value) = value {
        let measure::report::Value { value, low, high, confidence } = value;
        row.set_estimate(Interval { value, low, high, confidence });
    }
    row.transport = carrier(measured.transport).word().to_owned();
    row.method = measured.method;
    row.reason = measured.reason;
    row.spread_bits_per_second = measured.spread_bits_per_second;
    row.connections = measured.connections;
    row.packets_sent = measured.packets_sent;
    row.bytes_sent = measured.bytes_sent;
    row.duration_seconds = measured.duration_seconds;
    row.trains = measured.trains + measured.trains_rejected;
    row.trains_rejected = measured.trains_rejected;
    row.warnings = measured.warnings;
}

/// What carried the trains in the end: where the choice was left open, the row says what was chosen.
fn carrier(transport: measure::report::Transport) -> Transport {
    match transport {
        measure::report::Transport::Udp => Transport::Udp,
        measure::report::Transport::Rake => Transport::Rake,
        measure::report::Transport::Single => Transport::Single,
    }
}
