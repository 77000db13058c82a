//! A path of the kernel's shapers, measured as `kumade measure` does against `kumade serve`.

use super::draw::{KernelHop, KernelPath};
use super::judgement::KernelPathTruth;
use super::row::{KernelPathMeasurement, KernelPathRow};
use super::scenario::KernelPathPoint;
use crate::accuracy::observed_trains::ObservedTrains;
use crate::error::RunError;
use crate::running_server::RunningServer;
use crate::study::RunOutcome;
use anyhow::anyhow;
use kumade_client::{Directions, MeasureConfig, MeasurementPlan};
use kumade_measurement::TransportChoice;
use kumade_net::clock;
use kumade_netns_testbed::{HtbNetwork, NetworkError, RouterSide, Traffic};
use kumade_units::{Direction, Rate, Span, Time};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::{fs, thread};

/// Cross traffic runs so long before anything is measured.
const CROSS_TRAFFIC_WARM_UP: Span = Span::from_millis(500);

/// Builds the path without traffic.
pub(super) fn build_network(path: &KernelPath) -> Result<HtbNetwork, NetworkError> {
    let network = HtbNetwork::build_unshaped()?;
    for (hop, side) in path.hops.iter().zip(RouterSide::BOTH) {
        hop.commands.iter().try_for_each(|command| network.run_at(side, command))?;
    }
    Ok(network)
}

/// What passes through the first shaper leaves behind it, and what passes through the second one enters before it.
fn start_traffic(network: &HtbNetwork, path: &KernelPath) -> Result<Vec<Traffic>, NetworkError> {
    let ends = [(network.host("c")?, network.host("d")?), (network.host("d")?, network.host("b")?)];
    let patterns =
        path.hops.iter().zip(ends).flat_map(|(hop, ends)| hop.cross.iter().map(move |pattern| (pattern, ends)));
    patterns.map(|(pattern, (from, to))| Traffic::udp(from, to, pattern)).collect()
}

/// Builds the path, measures it, and removes it. That it cannot be measured is a result.
///
/// # Errors
/// Where the system refuses something.
pub(super) fn measure(point: &KernelPathPoint) -> Result<RunOutcome<KernelPathRow>, RunError> {
    let path = KernelPath::new(point.kind, point.seed);
    let network = build_network(&path).map_err(RunError::during("build the network"))?;
    let host = |name| network.host(name).map_err(RunError::during("find a host"));
    let (near, server) = (host("a")?, RunningServer::start(host("b")?)?);
    let _traffic = start_traffic(&network, &path).map_err(RunError::during("send cross traffic"))?;
    thread::sleep(CROSS_TRAFFIC_WARM_UP.to_duration());
    let plan = MeasurementPlan {
        directions: Directions::Up,
        transport: TransportChoice::Fixed(point.transport.full_measurement_transport()?),
        seed: point.seed,
        ..MeasurementPlan::default()
    };
    let config =
        MeasureConfig { plan, ..MeasureConfig::new(server.address().ip().to_string(), server.address().port()) };
    let mut observed = ObservedTrains::new(false, Direction::Up);
    let load_average = fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse().ok());
    let began = clock::realtime();
    let (result, changed) = while_rate_changes(&network, &path, || {
        near.namespace.run(|| kumade_client::measure(&config, &mut |event| observed.record_event(event)))
    })?;
    let result = result.map_err(RunError::during("enter the near host"))?;
    let ended = clock::realtime();
    // What the report's `window_seconds` is about, and all of the time that it took.
    let windows = [observed.observation_window().unwrap_or((began, ended)), (began, ended)];
    let truth_in = |(from, to): (Time, Time)| -> Result<_, RunError> {
        let cross = RouterSide::BOTH.iter().take(path.hops.len()).map(|side| network.cross_rate(*side, from, to));
        let cross = cross.collect::<Result<Vec<_>, _>>().map_err(RunError::during("count the cross traffic"))?;
        Ok((true_of(&path, &cross, changed.map(|changed| (changed, (from, to)))), cross))
    };
    let [(truth, cross), (whole_truth, _)] = [truth_in(windows[0])?, truth_in(windows[1])?];
    let rates: Vec<Rate> = path.hops.iter().map(|hop| hop.rate).collect();
    let report = result.map_err(|error| error.to_string());
    let report = report.and_then(|report| report.up.ok_or_else(|| "the report lacks the direction".into()));
    let seconds = (ended - began).as_secs_f64();
    let measured = KernelPathMeasurement {
        report,
        truth,
        whole_truth: whole_truth.available,
        rates,
        cross,
        seconds,
        load_average: load_average.unwrap_or(0.0),
    };
    Ok(RunOutcome { row: KernelPathRow::new(point, measured), lateness: Span::ZERO, disturbed: false })
}

/// Runs this, while the rate of the first shaper changes where it is to; with the time of that.
fn while_rate_changes<T>(
    network: &HtbNetwork,
    path: &KernelPath,
    measure: impl FnOnce() -> T,
) -> Result<(T, Option<Time>), RunError> {
    let Some((delay, command)) = path.rate_change() else { return Ok((measure(), None)) };
    let (ended, is_ended) = channel::<()>();
    thread::scope(|scope| {
        let change = scope.spawn(move || match is_ended.recv_timeout(delay.to_duration()) {
            Err(RecvTimeoutError::Timeout) => {
                network.run_at(RouterSide::Left, &command).map(|()| Some(clock::realtime()))
            }
            _ => Ok(None),
        });
        let measured = measure();
        drop(ended);
        let failed = RunError::during("change the rate");
        let changed = change.join().map_err(|_| failed(anyhow!("its thread ended")))?;
        Ok((measured, changed.map_err(RunError::during("change the rate"))?))
    })
}

/// What was true on average over the time from the first train to the last one, in which the first shaper's rate may have changed.
fn true_of(path: &KernelPath, cross: &[Rate], change: Option<(Time, (Time, Time))>) -> KernelPathTruth {
    let later_part = change.map_or(0.0, |(changed, (from, to))| {
        ((to - changed).as_secs_f64() / (to - from).as_secs_f64()).clamp(0.0, 1.0)
    });
    let mean_rate = |(index, hop): (usize, &KernelHop)| match path.later_rate.filter(|_| index == 0) {
        Some((_, later)) => hop.rate.as_f64() * (1.0 - later_part) + later.as_f64() * later_part,
        None => hop.rate.as_f64(),
    };
    let rates: Vec<f64> = path.hops.iter().enumerate().map(mean_rate).collect();
    let left = rates.iter().zip(cross).map(|(rate, cross)| rate - cross.as_f64()).fold(f64::INFINITY, f64::min);
    let flows = path.hops.iter().map(|hop| hop.cross.len()).max().unwrap_or(0);
    let narrow = path.hops.iter().map(|hop| hop.rate).min().unwrap_or_default();
    let share = narrow.as_f64() / (flows + 1) as f64;
    KernelPathTruth {
        available: Rate::from_f64(left.max(0.0)),
        fair_share: path.has_flow_queueing.then(|| Rate::from_f64(left.max(share))),
        capacity: (!path.has_bucket && path.later_rate.is_none()).then_some(narrow),
    }
}
