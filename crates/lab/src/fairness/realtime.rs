use super::kernel_network::{self, BottleneckLink, CounterSnapshot, KernelControllers};
use super::row::{FairnessObservation, FairnessRow};
use super::scenario::{FairnessExperiment, FairnessPoint};
use crate::error::RunError;
use kumade_netns_testbed::Network;
use kumade_units::{Direction, Span};
use std::thread;

/// One run, and how host scheduling delay disturbed it.
pub(super) struct FairnessAttempt {
    pub(super) row: FairnessRow,
    /// 99th percentile of the delay behind schedule of delivered packets.
    pub(super) lateness: Span,
    /// Packets that were lost because the lab read them too late.
    pub(super) missed_packets: u64,
}

/// Builds the network of `point`, runs its connections, and removes it.
///
/// # Errors
/// Where the system refuses something.
pub(super) fn run(
    kernel: &KernelControllers,
    experiment: &FairnessExperiment,
    point: &FairnessPoint<'_>,
) -> Result<FairnessAttempt, RunError> {
    let case = point.case;
    let bottleneck =
        BottleneckLink { rate: case.rate, delay: case.delay, queue: point.queue, seed: u64::from(point.run) };
    let network = kernel_network::build_network(bottleneck, &case.groups, &[]);
    let network = network.map_err(|cause| RunError { doing: "build the network", cause })?;
    let observed = observe(kernel, experiment, point, &network);
    let (observed, missed) = observed.map_err(|cause| RunError { doing: "run the connections", cause })?;
    let lateness = observed.lateness_p99.unwrap_or_default();
    Ok(FairnessAttempt { row: FairnessRow::new(point, &observed), lateness, missed_packets: missed })
}

fn observe(
    kernel: &KernelControllers,
    experiment: &FairnessExperiment,
    point: &FairnessPoint<'_>,
    network: &Network,
) -> anyhow::Result<(FairnessObservation, u64)> {
    let connections = kernel.open_connections(&point.case.groups, point.run, network)?;
    thread::sleep(experiment.warm_up.to_duration());
    let before = CounterSnapshot::take(network, &connections)?;
    thread::sleep(experiment.duration.to_duration());
    let after = CounterSnapshot::take(network, &connections)?;
    let lateness = network.lateness(Direction::Up, before.time, after.time)?;
    let delivered = after.delivered_bytes.iter().zip(&before.delivered_bytes).map(|(after, before)| after - before);
    let observed = FairnessObservation {
        delivered_bytes: delivered.collect(),
        duration: after.time - before.time,
        forwarded_bytes: after.forwarded_bytes - before.forwarded_bytes,
        queueing: after.queueing,
        drops: after.drops.difference_since(before.drops),
        lateness_p99: Some(lateness.p99),
    };
    Ok((observed, after.missed_packets))
}
