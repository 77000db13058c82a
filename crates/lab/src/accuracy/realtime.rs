use crate::accuracy::keywords::{BottleneckKind, CrossSource};
use crate::accuracy::observed_trains::ObservedTrains;
use crate::accuracy::path::{Bottleneck, DownstreamHop};
use crate::accuracy::plan;
use crate::accuracy::row::Row;
use crate::accuracy::scenario::{AccuracyPoint, AccuracyScenario};
use crate::error::RunError;
use crate::running_server::RunningServer;
use crate::study::RunOutcome;
use kumade_client::{Directions, MeasureConfig, MeasurementPlan};
use kumade_middlebox::{FilterRule, MiddleboxConfig};
use kumade_net::clock;
use kumade_netns_testbed::{
    ExperimentNetwork, Host, HostSpec, HtbNetwork, MAX_UNDISTURBED_LATENESS, Network, NetworkError, NetworkSpec,
    Traffic,
};
use kumade_units::Direction;
use kumade_units::{Rate, Span};
use std::net::SocketAddr;
use std::thread;

/// New cross traffic runs so long before anything is measured.
const CROSS_TRAFFIC_WARM_UP: Span = Span::from_millis(100);
/// TCP first has to find its rate.
const TCP_SETTLING: Span = Span::from_secs(1);
/// The congestion control of cross traffic by TCP.
const CONGESTION_CONTROL: &str = "cubic";

/// Measures on a network of real hosts in real time, with the same client and server as `kumade measure` and `kumade
/// serve`.
pub struct RealTime {
    network: Box<dyn ExperimentNetwork>,
    /// Cross traffic of real packets.
    traffic: Option<Traffic>,
    /// The path that the network was built as.
    path: (Bottleneck, Option<DownstreamHop>),
    server: RunningServer,
}

impl RealTime {
    /// Builds the network that `scenario` describes, checks that it is as set, and starts the server in it.
    ///
    /// # Errors
    /// Where the system refuses something, or what was built is not what was asked for.
    pub fn from_scenario(scenario: &AccuracyScenario) -> Result<Self, RunError> {
        let mut fabric = build(scenario).map_err(RunError::during("build the network"))?;
        for &direction in &scenario.directions {
            fabric.verify_bottleneck(direction).map_err(RunError::during("check the network"))?;
        }
        let serving =
            RunningServer::start(fabric.host(RECEIVING_HOST).map_err(RunError::during("find the far host"))?)?;
        let path = (scenario.bottleneck.clone(), scenario.downstream_hop);
        Ok(RealTime { network: fabric, traffic: None, path, server: serving })
    }

    fn set_firewall(&mut self, scenario: &AccuracyScenario, point: &AccuracyPoint) -> Result<(), RunError> {
        let rules = scenario.firewall_for(point.transport).map(FilterRule::from).collect();
        let middlebox = MiddleboxConfig { rules, ..Default::default() };
        self.network.set_middlebox(Some(middlebox)).map_err(RunError::during("set up the firewall"))
    }

    fn start_cross_traffic(&mut self, scenario: &AccuracyScenario, point: &AccuracyPoint) -> Result<(), RunError> {
        let wrong = RunError::during("set the cross traffic");
        self.traffic = None;
        for direction in [Direction::Up, Direction::Down] {
            self.network.set_cross_traffic(direction, &[]).map_err(&wrong)?;
            self.network.set_downstream_cross_traffic(direction, &[]).map_err(&wrong)?;
        }
        let downstream = plan::downstream_pattern(scenario, point);
        self.network.set_downstream_cross_traffic(point.direction, downstream.as_slice()).map_err(&wrong)?;
        let mut settling = CROSS_TRAFFIC_WARM_UP;
        match (plan::cross_traffic_pattern(scenario, point), scenario.cross_source()) {
            _ if point.cross == Rate::ZERO => {}
            (Some(pattern), CrossSource::Link) => {
                self.network.set_cross_traffic(point.direction, &[pattern]).map_err(&wrong)?;
            }
            (Some(pattern), CrossSource::Packets) => {
                let (from, to) = self.cross_traffic_hosts(point.direction).map_err(&wrong)?;
                self.traffic = Some(Traffic::udp(from, to, &pattern).map_err(&wrong)?);
            }
            (None, _) => {
                let (from, to) = self.cross_traffic_hosts(point.direction).map_err(&wrong)?;
                let max = Some(point.cross).filter(|level| *level < scenario.bottleneck.rate_in(point.direction));
                self.traffic = Some(Traffic::tcp(from, to, CONGESTION_CONTROL, max).map_err(&wrong)?);
                settling = TCP_SETTLING;
            }
        }
        thread::sleep(settling.to_duration());
        Ok(())
    }

    /// The hosts between which cross traffic of that direction goes: from the first to the second.
    fn cross_traffic_hosts(&self, direction: Direction) -> Result<(&Host, &Host), NetworkError> {
        let (left, right) = (self.network.host(LEFT_CROSS_TRAFFIC_HOST)?, self.network.host(RIGHT_CROSS_TRAFFIC_HOST)?);
        Ok(if direction == Direction::Up { (left, right) } else { (right, left) })
    }

    /// Sets up what `point` needs (cross traffic, firewall) and measures once. That a path cannot be measured is a result, stated in
    /// [`Row::reason`].
    ///
    /// # Errors
    /// The testbed itself failed, so that no further run makes sense.
    pub fn measure(&mut self, scenario: &AccuracyScenario, point: &AccuracyPoint) -> Result<RunOutcome<Row>, RunError> {
        if (&scenario.bottleneck, scenario.downstream_hop) != (&self.path.0, self.path.1) {
            *self = RealTime::from_scenario(scenario)?;
        }
        self.set_firewall(scenario, point)?;
        self.start_cross_traffic(scenario, point)?;
        let config = measure_config(scenario, point, self.server.address());
        let host = self.network.host(SENDING_HOST).map_err(RunError::during("find the near host"))?;
        let mut observed = ObservedTrains::new(scenario.keeps_timeline, point.direction);
        let began = clock::realtime();
        let result = host.namespace.run(|| kumade_client::measure(&config, &mut |event| observed.record_event(event)));
        let result = result.map_err(RunError::during("enter the near host"))?;
        let ended = clock::realtime();
        let direction_report = result.as_ref().ok().and_then(|report| match point.direction {
            Direction::Up => report.up.as_ref(),
            Direction::Down => report.down.as_ref(),
        });
        let (from, to) = observed.truth_window(direction_report).unwrap_or((began, ended));
        let mut row = Row::new(scenario, point);
        let truth = self
            .network
            .true_available_bandwidth(point.direction, from, to)
            .map_err(RunError::during("read the link's ledger"))?;
        // Capacity and delay are measured before the trains that the truth is about.
        let from = if scenario.makes_full_measurement { began } else { from };
        let lateness =
            self.network.lateness(point.direction, from, to).map_err(RunError::during("read the link's ledger"))?.max;
        row.truth_bits_per_second = truth.bits_per_second();
        let emulated = scenario.bottleneck.kind == BottleneckKind::Emulated;
        row.max_lateness_seconds = emulated.then(|| lateness.as_secs_f64());
        row.timeline = observed.timeline();
        row.full_seconds = scenario.makes_full_measurement.then(|| (ended - began).as_secs_f64());
        match result {
            Ok(report) => row.fill_report(scenario, point.direction, report),
            Err(error) => {
                row.reason = Some(error.to_string());
                row.duration_seconds = (ended - began).as_secs_f64();
            }
        }
        Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_UNDISTURBED_LATENESS })
    }
}

/// The hosts that measure, and those that send cross traffic.
const SENDING_HOST: &str = "a";
const RECEIVING_HOST: &str = "b";
const LEFT_CROSS_TRAFFIC_HOST: &str = "c";
const RIGHT_CROSS_TRAFFIC_HOST: &str = "d";

fn build(scenario: &AccuracyScenario) -> Result<Box<dyn ExperimentNetwork>, NetworkError> {
    let Bottleneck { kind, rate, queue, .. } = scenario.bottleneck;
    if kind == BottleneckKind::Htb {
        return Ok(Box::new(HtbNetwork::build(rate, queue)?));
    }
    let (up, down) = (plan::link_config(scenario, Direction::Up), plan::link_config(scenario, Direction::Down));
    let (up_downstream_hop, down_downstream_hop) =
        (plan::downstream_link(scenario, Direction::Up), plan::downstream_link(scenario, Direction::Down));
    let mut network = NetworkSpec {
        up_second_hop: up_downstream_hop,
        down,
        down_second_hop: down_downstream_hop,
        ..NetworkSpec::host_pair(up)
    };
    network.left.push(HostSpec::with_number(LEFT_CROSS_TRAFFIC_HOST, 3));
    network.right.push(HostSpec::with_number(RIGHT_CROSS_TRAFFIC_HOST, 4));
    Ok(Box::new(Network::build(network)?))
}

fn measure_config(scenario: &AccuracyScenario, point: &AccuracyPoint, server: SocketAddr) -> MeasureConfig {
    let directions = if scenario.makes_full_measurement { Directions::Both } else { point.direction.into() };
    // A real client always measures the idle delay.
    let plan = MeasurementPlan { idle_delay: true, ..plan::measurement_plan(scenario, point, directions, 0) };
    MeasureConfig { plan, ..MeasureConfig::new(server.ip().to_string(), server.port()) }
}

#[cfg(test)]
mod tests {
    use kumade_estimate::{METHODS, MethodSettings};
    use kumade_netns_testbed::RECORD_LENGTH;
    use kumade_units::Span;

    /// A measurement by Pathload of 30.3 s ended the whole experiment.
    #[test]
    fn what_the_slowest_method_takes_is_still_on_record() {
        for method in METHODS {
            let method: MethodSettings = method.name.parse().unwrap();
            if let Some(budget) = method.budget() {
                assert!(RECORD_LENGTH > budget.time + Span::from_secs(10), "{method}: {budget:?}");
            }
        }
    }
}
