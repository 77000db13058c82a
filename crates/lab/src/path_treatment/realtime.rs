//! A path with its middlebox, measured as `kumade measure --path` does against `kumade serve`.

use super::judgement::judge_path;
use super::queue_case::{judge_lasting_queue, judge_queue};
use super::row::TreatmentRow;
use super::scenario::{IpVersion, LinkSettings, PathTreatmentExperiment, TreatmentCase, TreatmentPoint};
use super::truth::{LINE_MSS, PathTruth};
use crate::accuracy::BottleneckKind;
use crate::error::RunError;
use crate::running_server::RunningServer;
use crate::study::{Exclusion, RunOutcome};
use anyhow::anyhow;
use kumade_client::{Directions, MeasureConfig, MeasurementPlan};
use kumade_net::clock;
use kumade_netns_testbed::{ExperimentNetwork, Host, HtbNetwork, Network, NetworkError, NetworkSpec, eventually};
use kumade_units::{Direction, Span};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

const NEAR_HOST: &str = "a";
const FAR_HOST: &str = "b";
/// What these transfers come to is not judged.
const LOAD_TIME: Span = Span::from_secs(1);
const FAR_SECOND_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// The shortest of the methods: of interest is what goes along with any.
const METHOD: &str = "linear-scan";

/// What the kernel lacks for this case, or this machine.
pub(super) fn missing_requirement(bottleneck: BottleneckKind, case: &TreatmentCase) -> Option<Exclusion> {
    if bottleneck != BottleneckKind::Htb {
        return None;
    }
    let queues = || case.queues.is_special().then(|| "the kernel's shapers here have no queue that marks".to_owned());
    let lossy = (case.loss > 0.0).then(|| "the kernel's shapers lose nothing at random".to_owned());
    let lacking = || HtbNetwork::unavailable_treatment(&case.middlebox().ok()?);
    let kind = format!("{} ({})", case.label, case.version.word());
    lossy.or_else(queues).or_else(lacking).map(|reason| Exclusion { kind, reason })
}

/// Builds the path, measures it, and removes it: hosts remember what they learn of a path. That it cannot be measured is a result.
///
/// # Errors
/// Where the system refuses something.
pub(super) fn measure(
    experiment: &PathTreatmentExperiment,
    point: &TreatmentPoint<'_>,
) -> Result<RunOutcome<TreatmentRow>, RunError> {
    let case = point.case;
    let is_ipv6 = case.version == IpVersion::Ipv6;
    let impossible = RunError::during("set up the middlebox");
    let middlebox = case.middlebox().map_err(|reason| impossible(anyhow!(reason)))?;
    let truth = PathTruth::from_middlebox(&middlebox, is_ipv6).map_err(RunError::during("set up the middlebox"))?;
    let mut network = build_network(experiment, point).map_err(RunError::during("build the network"))?;
    prepare_hosts(&*network, is_ipv6)?;
    network.set_middlebox(Some(middlebox)).map_err(RunError::during("set up the middlebox"))?;
    let far = network.host(FAR_HOST).map_err(RunError::during("find the far host"))?;
    let server = RunningServer::start_at(far, address(far, is_ipv6))?;
    let plan = MeasurementPlan {
        directions: Directions::Both,
        method: METHOD.parse().map_err(RunError::during("choose a method"))?,
        capacity: false,
        idle_delay: false,
        path: true,
        // Only with one is a queue kept for long.
        load: case.queues.is_special().then_some(LOAD_TIME),
        seed: point.run.into(),
        ..MeasurementPlan::default()
    };
    let server = server.address();
    let config = MeasureConfig { plan, ..MeasureConfig::new(server.ip().to_string(), server.port()) };
    let near = network.host(NEAR_HOST).map_err(RunError::during("find the near host"))?;
    let began = clock::monotonic();
    let result = near.namespace.run(|| kumade_client::measure(&config, &mut |_| {}));
    let result = result.map_err(RunError::during("enter the near host"))?;
    let seconds = (clock::monotonic() - began).as_secs_f64();
    let report = result.map_err(|error| error.to_string());
    let path = report.and_then(|report| report.path.ok_or_else(|| "the report has no section on the path".into()));
    let judged = path.map(|path| {
        let mut items = judge_path(&path, &truth, LINE_MSS[usize::from(is_ipv6)]);
        for (direction, found) in [(Direction::Up, &path.up), (Direction::Down, &path.down)] {
            let truth = case.queues.truth(direction, experiment.link.rate);
            items.push(judge_queue(direction, found.queue_marking.as_ref(), truth));
            if case.queues.is_special() {
                items.push(judge_lasting_queue(direction, found.lasting_queue.as_ref(), truth));
            }
        }
        items
    });
    let row = TreatmentRow::new(point, judged, seconds);
    Ok(RunOutcome { row, lateness: Span::ZERO, disturbed: false })
}

fn build_network(
    experiment: &PathTreatmentExperiment,
    point: &TreatmentPoint<'_>,
) -> Result<Box<dyn ExperimentNetwork>, NetworkError> {
    let link = point.case.link(&experiment.link, point.run);
    match experiment.bottleneck {
        BottleneckKind::Htb => Ok(Box::new(HtbNetwork::build(experiment.link.rate, experiment.link.queue)?)),
        _ => {
            let LinkSettings { rate, queue, .. } = experiment.link;
            let [up_queue, down_queue] =
                Direction::BOTH.map(|direction| point.case.queues.config(direction, rate, queue));
            let mut spec = NetworkSpec { up_queue, down_queue, ..NetworkSpec::host_pair(link) };
            // By which kinds of address translation are told apart.
            spec.right[0].second_v4 = Some(FAR_SECOND_ADDRESS);
            Ok(Box::new(Network::build(spec)?))
        }
    }
}

/// Hosts that ask for ECN, as few systems do by themselves, and that know each other's addresses.
fn prepare_hosts(network: &dyn ExperimentNetwork, is_ipv6: bool) -> Result<(), RunError> {
    let failed = RunError::during("prepare the hosts");
    let host = |name| network.host(name).map_err(RunError::during("find a host"));
    let (near, far) = (host(NEAR_HOST)?, host(FAR_HOST)?);
    for host in [near, far] {
        let asked = host.namespace.run(|| fs::write("/proc/sys/net/ipv4/tcp_ecn", "1"));
        asked.map_err(RunError::during("enter a host"))?.map_err(RunError::during("ask for ECN"))?;
    }
    let bind = |host: &Host| -> anyhow::Result<UdpSocket> {
        Ok(host.namespace.run(|| UdpSocket::bind((address(host, is_ipv6), 0)))??)
    };
    let (from, to) = (bind(near).map_err(&failed)?, bind(far).map_err(&failed)?);
    to.set_nonblocking(true).map_err(RunError::during("prepare the hosts"))?;
    let end = to.local_addr().map_err(RunError::during("prepare the hosts"))?;
    let arrives = || from.send_to(b"?", end).is_ok() && to.recv(&mut [0; 1]).is_ok();
    if eventually(arrives) { Ok(()) } else { Err(failed(anyhow!("no packet arrives"))) }
}

fn address(host: &Host, is_ipv6: bool) -> IpAddr {
    host.v6.filter(|_| is_ipv6).map_or_else(|| IpAddr::V4(host.v4), IpAddr::V6)
}
