//! Paths of the atlas in real time, between real hosts, measured as `kumade measure` does against `kumade serve`.

use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::accuracy::BottleneckKind;
use crate::accuracy::observed::Observed;
use crate::error::RunError;
use crate::serving::Serving;
use anyhow::anyhow;
use estimate::Outcome;
use link::queue::Discipline;
use link::{LinkConfig, Loss, Medium, TokenBucket};
use measurement::report::DirectionReport;
use measurement::{Cost, TransportChoice};
use net::clock;
use probe::{Directions, MeasureConfig, MeasurementPlan};
use sim::Hop;
use sim::atlas::{DrawnPath, Measured, Truth, Verdict};
use std::thread;
use testnet::{Fabric, Htb, Network, NetworkSpec, Traffic};
use train::Transport;
use units::{Direction, Rate, Span};

/// One measurement, and by how much the emulated link was late meanwhile.
pub(super) struct Attempt {
    pub(super) row: AtlasRow,
    pub(super) verdict: Verdict,
    pub(super) lateness: Span,
}

/// Cross traffic runs so long before anything is measured, as in virtual time.
const SETTLING: Span = Span::from_millis(500);
/// The hosts that measure, …
const NEAR: &str = "a";
const FAR: &str = "b";
/// … and those between which cross traffic of real packets passes.
const NEAR_CROSS: &str = "c";
const FAR_CROSS: &str = "d";
/// What programs of one machine send and receive in time, and what of it may be cross traffic.
const MAX_LINE: Rate = Rate::from_mbit(500);
const MAX_CROSS: Rate = Rate::from_mbit(50);
/// Policers with larger bursts are beyond what a measurement tries.
const MAX_POLICED_BURST: u64 = 1_000_000;

/// Whether the path is one that can be built so. In real time, that is one link or two in series, of a constant rate, with cross
/// traffic that does not react, and without errors of its hosts' stamps; of the kernel's parts, one link that it can do.
pub(super) fn can_be_built(path: &DrawnPath, bottleneck: BottleneckKind) -> bool {
    let (first, behind) = match &path.hops[..] {
        _ if bottleneck == BottleneckKind::Virtual => return true,
        [first] => (first, None),
        [first, behind] => (first, Some(behind)),
        _ => return false,
    };
    let is_real = !path.is_balanced && path.elastic.is_empty() && path.stamping.batching == Span::ZERO;
    let varies = |hop: &Hop| matches!(hop.link.medium, Some(Medium::Wireless(_) | Medium::Trace(_)));
    match bottleneck {
        BottleneckKind::Htb => is_real && behind.is_none() && is_the_kernels(first) && path.cross <= MAX_CROSS,
        _ => is_real && !path.hops.iter().any(varies) && behind.is_none_or(|hop| hop.queue.is_none()),
    }
}

/// The path as it is when it is built so: the kernel's links have no delay, and its policers larger bursts.
pub(super) fn built(mut path: DrawnPath, bottleneck: BottleneckKind) -> DrawnPath {
    if let (BottleneckKind::Htb, [hop]) = (bottleneck, &mut path.hops[..]) {
        hop.link.delay = Span::ZERO;
        if let Some(policer) = hop.link.policer {
            path.bucket = path.bucket.map(|bucket| TokenBucket { burst_bytes: Htb::policed_burst(policer), ..bucket });
        }
    }
    path
}

fn is_the_kernels(hop: &Hop) -> bool {
    let LinkConfig { rate, medium, policer, jitter, loss, reordering, duplication, .. } = &hop.link;
    let in_order = *jitter == Span::ZERO && reordering.probability == 0.0;
    let once = *loss == Loss::None && *duplication == 0.0;
    let shaped = matches!(medium, None | Some(Medium::TokenBucket(_)));
    let queued = hop.queue.as_ref().is_none_or(|queue| matches!(queue.discipline, Discipline::Red(_)));
    let policed = policer.is_none_or(|policer| Htb::policed_burst(policer) <= MAX_POLICED_BURST);
    in_order && once && shaped && queued && policed && rate.is_some_and(|rate| rate <= MAX_LINE)
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
) -> Result<Attempt, RunError> {
    let (network, _traffic) = build(path, experiment.bottleneck).map_err(failed("build the network"))?;
    let serving = Serving::start(network.host(FAR).map_err(failed("find the far host"))?)?;
    thread::sleep(SETTLING.to_duration());
    let plan = MeasurementPlan {
        directions: Directions::Up,
        transport: TransportChoice::Fixed(transport),
        seed: path.seed,
        ..MeasurementPlan::default()
    };
    let server = serving.address();
    let config = MeasureConfig { plan, ..MeasureConfig::new(server.ip().to_string(), server.port()) };
    let mut observed = Observed::new(false, Direction::Up);
    let near = network.host(NEAR).map_err(failed("find the near host"))?;
    let began = clock::realtime();
    let result = near.namespace.run(|| probe::measure(&config, &mut |event| observed.note(event)));
    let result = result.map_err(failed("enter the near host"))?;
    let ended = clock::realtime();
    let (from, to) = observed.window().unwrap_or((began, ended));
    let available = network.truth(Direction::Up, from, to).map_err(failed("read the link's ledger"))?;
    // Capacity and delay are measured before the trains that the truth is about.
    let lateness = network.lateness(Direction::Up, began, to).map_err(failed("read the link's ledger"))?.max;
    let report = match result {
        Ok(report) => report.up.unwrap_or_else(|| nothing(transport, "the report lacks the direction".into())),
        Err(error) => nothing(transport, error.to_string()),
    };
    let measured = Measured { report, truth: Truth::new(path, available), impact: None };
    let verdict = Verdict::of(path, &measured);
    Ok(Attempt { row: AtlasRow::new(point, path, &measured, &verdict), verdict, lateness })
}

/// The network, and the traffic of real packets on it.
fn build(path: &DrawnPath, bottleneck: BottleneckKind) -> anyhow::Result<(Box<dyn Fabric>, Vec<Traffic>)> {
    let mut hops = path.hops.iter();
    let first = hops.next().ok_or_else(|| anyhow!("the path has no link"))?;
    let behind = hops.next();
    if bottleneck == BottleneckKind::Htb {
        let network = Htb::build_up(first.link.clone(), first.queue.as_ref())?;
        let (from, to) = (network.host(NEAR_CROSS)?, network.host(FAR_CROSS)?);
        let traffic: Result<_, _> = first.cross.iter().map(|pattern| Traffic::udp(from, to, pattern)).collect();
        let traffic = traffic?;
        return Ok((Box::new(network), traffic));
    }
    let spec = NetworkSpec {
        up_queue: first.queue.clone(),
        up_downstream_hop: behind.map(|hop| hop.link.clone()),
        down: path.link_back(),
        ..NetworkSpec::pair(first.link.clone())
    };
    let network = Network::build(spec)?;
    network.set_cross(Direction::Up, &first.cross)?;
    network.set_downstream_cross(Direction::Up, behind.map_or(&[], |hop| &hop.cross))?;
    Ok((Box::new(network), Vec::new()))
}

/// The report of a measurement that ended without one.
fn nothing(transport: Transport, reason: String) -> DirectionReport {
    DirectionReport::new(transport, 0, "primed", Outcome::refused(reason), None, &Cost::default())
}

fn failed<E: Into<anyhow::Error>>(doing: &'static str) -> impl Fn(E) -> RunError {
    move |cause| RunError { doing, cause: cause.into() }
}
