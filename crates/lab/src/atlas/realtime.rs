//! Paths of the atlas in real time, between real hosts, measured as `kumade measure` does against `kumade serve`.

use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::accuracy::BottleneckKind;
use crate::error::RunError;
use crate::running_server::RunningServer;
use crate::study::RunOutcome;
use crate::upward_measurement::UpwardMeasurement;
use kumade_estimate::{Outcome, Reason};
use kumade_link::LinkConfig;
use kumade_measurement::Cost;
use kumade_measurement::report::DirectionReport;
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
    let near = network.host(NEAR_HOST).map_err(RunError::during("find the near host"))?;
    let measured = UpwardMeasurement::make(near, &serving, (transport, path.seed), &mut |_| {})?;
    let ((from, to), (began, _)) = (measured.window, measured.whole);
    let available = network
        .true_available_bandwidth(Direction::Up, from, to)
        .map_err(RunError::during("read the link's ledger"))?;
    // Capacity and delay are measured before the trains that the truth is about. Of the thousands of packets of a whole measurement a few
    // are late on any host, which has to do with that; more of them are another path.
    let lateness = network.lateness(Direction::Up, began, to).map_err(RunError::during("read the link's ledger"))?.p99;
    let report = measured.report.unwrap_or_else(|reason| empty_report(transport, reason));
    let measured =
        AtlasMeasurement { report, truth: PathTruth::new(path, available, path.sustained_rate), impact: None };
    let verdict = PathResult::evaluate(path, &measured);
    let row = (AtlasRow::new(point, path, &measured, &verdict), verdict);
    Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_UNDISTURBED_LATENESS })
}

/// The network, and the traffic of real packets on it.
pub(super) fn build_network(
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
