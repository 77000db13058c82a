//! Paths of the atlas in real time, between real hosts, measured as `kumade measure` does against `kumade serve`.

use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::accuracy::BottleneckKind;
use crate::accuracy::observed::Observed;
use crate::error::RunError;
use crate::serving::Serving;
use estimate::Outcome;
use link::{Medium, TokenBucket};
use measurement::report::DirectionReport;
use measurement::{Cost, TransportChoice};
use net::clock;
use probe::{Directions, MeasureConfig, MeasurementPlan};
use sim::Hop;
use sim::atlas::{DrawnPath, Measured, Truth, Verdict};
use std::thread;
use testnet::{Fabric, Htb, Network, NetworkError, NetworkSpec, Traffic};
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
/// What programs of one machine send and receive in time, on a link that is emulated and on the kernel's; and what of it may be
/// cross traffic of real packets.
const MAX_LINE: Rate = Rate::from_mbit(1000);
const MAX_KERNEL_LINE: Rate = Rate::from_mbit(500);
const MAX_REAL_CROSS: Rate = Rate::from_mbit(50);
/// Policers with larger bursts are beyond what a measurement tries.
const MAX_POLICED_BURST: u64 = 1_000_000;
/// Of the hosts' devices.
const MTU: u32 = 1500;

/// Why the path cannot be built so, if it cannot. In real time, a path is one link or two in series, of a constant rate, with cross
/// traffic that does not react, and without errors of its hosts' stamps; of the kernel's parts, one link that it can do.
pub(super) fn obstacle(path: &DrawnPath, bottleneck: BottleneckKind) -> Option<String> {
    let max_line = match bottleneck {
        BottleneckKind::Virtual => return None,
        BottleneckKind::Emulated => MAX_LINE,
        BottleneckKind::Htb => MAX_KERNEL_LINE,
    };
    let varies = |hop: &Hop| matches!(hop.link.medium, Some(Medium::Wireless(_) | Medium::Trace(_)));
    let is_too_fast = |hop: &Hop| hop.link.rate.is_none_or(|rate| rate > max_line);
    let obstacles = [
        (path.is_balanced, "its links are side by side"),
        (path.hops.len() > 2, "it has more than two links"),
        (
            !path.elastic.is_empty(),
            "what its connections would do without the measurement is known in virtual time only",
        ),
        (path.stamping.batching > Span::ZERO, "its receiver would have to collect packets"),
        (path.hops.iter().any(varies), "what its link carries is known in virtual time only"),
        (path.mtu.is_some_and(|mtu| mtu < MTU), "the hosts' devices have a larger MTU"),
        (path.hops.iter().any(is_too_fast), "its link is faster than programs of one machine"),
    ];
    let obstacle = obstacles.iter().find(|(applies, _)| *applies).map(|(_, reason)| (*reason).to_owned());
    obstacle.or_else(|| (bottleneck == BottleneckKind::Htb).then(|| kernel_obstacle(path)).flatten())
}

fn kernel_obstacle(path: &DrawnPath) -> Option<String> {
    let [Hop { link, queue, .. }] = &path.hops[..] else { return Some("the kernel's shapers are one link".into()) };
    if path.cross > MAX_REAL_CROSS {
        return Some(format!("more than {MAX_REAL_CROSS} of real packets is too much for programs of one machine"));
    }
    if link.policer.is_some_and(|policer| Htb::policed_burst(policer) > MAX_POLICED_BURST) {
        return Some("the kernel's policer adds what passes in a second to its burst, which is too much here".into());
    }
    Htb::obstacle(link, queue.as_ref())
}

/// What this machine lacks for the path, if it lacks something. Builds it to find out.
///
/// # Errors
/// The system refuses something else.
pub(super) fn lacks(path: &DrawnPath, bottleneck: BottleneckKind) -> Result<Option<String>, RunError> {
    match build(path, bottleneck) {
        Ok(_) => Ok(None),
        Err(NetworkError::NoShaper(error)) => Ok(Some(error.to_string())),
        Err(error) => Err(failed("build the network")(error)),
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
fn build(path: &DrawnPath, bottleneck: BottleneckKind) -> Result<(Box<dyn Fabric>, Vec<Traffic>), NetworkError> {
    let mut hops = path.hops.iter();
    let first = hops.next().ok_or_else(|| NetworkError::Spec("the path has no link".into()))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use sim::atlas::{PathKind, Seeds};

    /// The paths among the first hundred of a kind that can be built so.
    fn built_of(kind: PathKind, bottleneck: BottleneckKind) -> Vec<DrawnPath> {
        let paths = (0..100).map(|number| DrawnPath::new(kind, Seeds::Tuning.seed(number)));
        paths.filter(|path| obstacle(path, bottleneck).is_none()).map(|path| built(path, bottleneck)).collect()
    }

    #[test]
    fn the_kernel_has_some_of_each_kind_that_it_can_do_and_none_of_the_others() {
        use PathKind::{Fifo, JitteredCross, PacketMix, Policer, Red, Shaper, SlowLink};
        for kind in PathKind::ALL {
            let can_do = [Fifo, Policer, Shaper, Red, SlowLink, PacketMix, JitteredCross].contains(&kind);
            // Short queues, long delays and large MTUs are those of links, without their delays.
            let may_do = can_do || [PathKind::ShortQueue, PathKind::LongDelay, PathKind::Mtu].contains(&kind);
            let found = built_of(kind, BottleneckKind::Htb).len();
            assert!(if can_do { found >= 4 } else { found == 0 || may_do }, "{kind}: {found}");
        }
    }

    #[test]
    fn a_policer_of_the_kernel_is_what_it_makes_of_the_burst() {
        for path in built_of(PathKind::Policer, BottleneckKind::Htb) {
            let (bucket, policer) = (path.bucket.unwrap(), path.hops[0].link.policer.unwrap());
            assert_eq!(bucket.burst_bytes, policer.burst_bytes + policer.rate.bytes_in(Span::from_secs(1)));
            assert!(bucket.burst_bytes <= MAX_POLICED_BURST && path.hops[0].link.delay == Span::ZERO);
        }
    }
}
