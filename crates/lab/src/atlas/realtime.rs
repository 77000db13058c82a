//! Paths of the atlas in real time, between real hosts, measured as `kumade measure` does against `kumade serve`.

use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::accuracy::BottleneckKind;
use crate::accuracy::observed_trains::ObservedTrains;
use crate::error::RunError;
use crate::running_server::RunningServer;
use crate::study::RunOutcome;
use kumade_client::{Directions, MeasureConfig, MeasurementPlan};
use kumade_estimate::{Outcome, Reason};
use kumade_link::LinkConfig;
use kumade_measurement::report::DirectionReport;
use kumade_measurement::{Cost, TransportChoice};
use kumade_net::clock;
use kumade_netns_testbed::{
    ExperimentNetwork, HtbNetwork, MAX_UNDISTURBED_LATENESS, Network, NetworkError, NetworkSpec, ProxiedNetwork,
    Traffic,
};
use kumade_probe_train::Transport;
use kumade_sim::PathHop;
use kumade_sim::atlas::{AtlasMeasurement, DrawnPath, PathResult, PathTruth};
use kumade_units::{Direction, Span};
use std::thread;

/// Cross traffic runs so long before anything is measured, as in virtual time.
const CROSS_TRAFFIC_WARM_UP: Span = Span::from_millis(500);
/// The hosts that measure, …
const NEAR_HOST: &str = "a";
const FAR_HOST: &str = "b";
/// … and those between which cross traffic of real packets passes.
const NEAR_CROSS_TRAFFIC_HOST: &str = "c";
const FAR_CROSS_TRAFFIC_HOST: &str = "d";

/// What this machine lacks for paths of this kind, if it lacks something. Builds one to find out; whatever else is refused is left
/// to its measurement.
pub(super) fn missing_requirement(path: &DrawnPath, bottleneck: BottleneckKind) -> Option<String> {
    match build_network(path, bottleneck) {
        Err(NetworkError::NoShaper(error)) => Some(error.to_string()),
        Ok(_) | Err(_) => None,
    }
}

/// Builds the path, measures it, and removes it.
///
/// # Errors
/// Where the system refuses something. That the path can't be measured is a result.
pub(super) fn measure(
    experiment: &PathAtlas,
    path: &DrawnPath,
    point: &AtlasPoint,
    transport: Transport,
) -> Result<RunOutcome<(AtlasRow, PathResult)>, RunError> {
    let (network, _traffic) =
        build_network(path, experiment.bottleneck).map_err(RunError::during("build the network"))?;
    let serving = RunningServer::start(network.host(FAR_HOST).map_err(RunError::during("find the far host"))?)?;
    thread::sleep(CROSS_TRAFFIC_WARM_UP.to_duration());
    let plan = MeasurementPlan {
        directions: Directions::Up,
        transport: TransportChoice::Fixed(transport),
        seed: path.seed,
        ..MeasurementPlan::default()
    };
    let server = serving.address();
    let config = MeasureConfig { plan, ..MeasureConfig::new(server.ip().to_string(), server.port()) };
    let mut observed = ObservedTrains::new(false, Direction::Up);
    let near = network.host(NEAR_HOST).map_err(RunError::during("find the near host"))?;
    let began = clock::realtime();
    let result = near.namespace.run(|| kumade_client::measure(&config, &mut |event| observed.record_event(event)));
    let result = result.map_err(RunError::during("enter the near host"))?;
    let ended = clock::realtime();
    let (from, to) = observed.observation_window().unwrap_or((began, ended));
    let available = network
        .true_available_bandwidth(Direction::Up, from, to)
        .map_err(RunError::during("read the link's ledger"))?;
    // Capacity and delay are measured before the trains that the truth is about. Of the thousands of packets of a whole measurement a few
    // are late on any host, which has to do with that; more of them are another path.
    let lateness = network.lateness(Direction::Up, began, to).map_err(RunError::during("read the link's ledger"))?.p99;
    let report = match result {
        Ok(report) => report.up.unwrap_or_else(|| empty_report(transport, "the report lacks the direction".into())),
        Err(error) => empty_report(transport, error.to_string()),
    };
    let measured = AtlasMeasurement { report, truth: PathTruth::new(path, available), impact: None };
    let verdict = PathResult::evaluate(path, &measured);
    let row = (AtlasRow::new(point, path, &measured, &verdict), verdict);
    Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_UNDISTURBED_LATENESS })
}

/// The network, and the traffic of real packets on it.
fn build_network(
    path: &DrawnPath,
    bottleneck: BottleneckKind,
) -> Result<(Box<dyn ExperimentNetwork>, Vec<Traffic>), NetworkError> {
    let mut hops = path.hops.iter();
    let first = hops.next().ok_or_else(|| NetworkError::Spec("the path has no link".into()))?;
    let behind = hops.next();
    if bottleneck == BottleneckKind::Htb {
        let network = HtbNetwork::build_up(first.link.clone(), first.queue.as_ref())?;
        let (from, to) = (network.host(NEAR_CROSS_TRAFFIC_HOST)?, network.host(FAR_CROSS_TRAFFIC_HOST)?);
        let traffic: Result<_, _> = first.cross.iter().map(|pattern| Traffic::udp(from, to, pattern)).collect();
        let traffic = traffic?;
        return Ok((Box::new(network), traffic));
    }
    let mut network: Box<dyn ExperimentNetwork> = match (behind, &path.return_links()[..]) {
        (Some(behind), [far_back, near_back]) => {
            let [near, far] = [(first, near_back), (behind, far_back)].map(|(hop, back)| network_spec(hop, back));
            Box::new(ProxiedNetwork::build(near, far, kumade_serve::DEFAULT_PORT)?)
        }
        (_, [back, ..]) => {
            let up_downstream_hop = behind.map(|hop| hop.link.clone());
            Box::new(Network::build(NetworkSpec { up_second_hop: up_downstream_hop, ..network_spec(first, back) })?)
        }
        (_, []) => return Err(NetworkError::Spec("the path has no way back".into())),
    };
    network.set_cross_traffic(Direction::Up, &first.cross)?;
    network.set_downstream_cross_traffic(Direction::Up, behind.map_or(&[], |hop| &hop.cross))?;
    Ok((network, Vec::new()))
}

fn network_spec(hop: &PathHop, back: &LinkConfig) -> NetworkSpec {
    NetworkSpec { up_queue: hop.queue.clone(), down: back.clone(), ..NetworkSpec::host_pair(hop.link.clone()) }
}

/// The report of a measurement that ended without one.
fn empty_report(transport: Transport, reason: String) -> DirectionReport {
    DirectionReport::new(transport, 0, "primed", Outcome::without_value(Reason::Other(reason)), None, &Cost::default())
}
