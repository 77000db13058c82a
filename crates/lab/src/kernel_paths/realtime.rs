//! A path of the kernel's shapers, measured as `kumade measure` does against `kumade serve`.

use super::draw::KernelPath;
use super::judgement::KernelPathTruth;
use super::row::{KernelPathMeasurement, KernelPathRow};
use super::scenario::KernelPathPoint;
use crate::error::RunError;
use crate::running_server::RunningServer;
use crate::study::RunOutcome;
use crate::upward_measurement::UpwardMeasurement;
use anyhow::anyhow;
use kumade_net::clock;
use kumade_netns_testbed::{HtbNetwork, NetworkError, RouterSide, Traffic};
use kumade_units::{Rate, Span, Time};
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
    let how = (point.transport.full_measurement_transport()?, point.seed);
    let load_average = fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse().ok());
    let measure = || UpwardMeasurement::make(near, &server, how, &mut |_| {});
    let (measured, changed) = while_rate_changes(&network, &path, measure)?;
    let UpwardMeasurement { report, whole, window } = measured?;
    let truth_in = |(from, to): (Time, Time)| -> Result<_, RunError> {
        let cross = RouterSide::BOTH.iter().take(path.hops.len()).map(|side| network.cross_rate(*side, from, to));
        let cross = cross.collect::<Result<Vec<_>, _>>().map_err(RunError::during("count the cross traffic"))?;
        Ok((KernelPathTruth::new(&path, &cross, (from, to), changed), cross))
    };
    let [(truth, cross), (whole_truth, _)] = [truth_in(window)?, truth_in(whole)?];
    let rates: Vec<Rate> = path.hops.iter().map(|hop| hop.rate).collect();
    let seconds = (whole.1 - whole.0).as_secs_f64();
    let measured = KernelPathMeasurement {
        report,
        truth,
        whole_truth: whole_truth.available,
        rates,
        cross,
        seconds,
        load_average,
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
