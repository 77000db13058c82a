use super::kernel_network::{self, BottleneckLink, CounterSnapshot, KernelControllers};
use super::row::{FairnessObservation, FairnessRow};
use super::scenario::{FairnessExperiment, FairnessPoint};
use crate::error::RunError;
use crate::study::{MAX_LATENESS, RunOutcome};
use kumade_netns_testbed::Network;
use kumade_units::Direction;
use std::thread;

/// Builds the network of `point`, runs its connections, and removes it.
///
/// # Errors
/// Where the system refuses something.
pub(super) fn run(
    kernel: &KernelControllers,
    experiment: &FairnessExperiment,
    point: &FairnessPoint<'_>,
) -> Result<RunOutcome<FairnessRow>, RunError> {
    let case = point.case;
    let bottleneck =
        BottleneckLink { rate: case.rate, delay: case.delay, queue: point.queue, seed: u64::from(point.run) };
    let network = kernel_network::build_network(bottleneck, &case.groups, &[]);
    let network = network.map_err(RunError::during("build the network"))?;
    let observed = observe(kernel, experiment, point, &network);
    let (observed, missed) = observed.map_err(RunError::during("run the connections"))?;
    let lateness = observed.lateness_p99.unwrap_or_default();
    let row = FairnessRow::new(point, &observed);
    Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_LATENESS || missed > 0 })
}

fn observe(
    kernel: &KernelControllers,
    experiment: &FairnessExperiment,
    point: &FairnessPoint<'_>,
    network: &Network,
) -> anyhow::Result<(FairnessObservation, u64)> {
    let connections = kernel.open_connections(&point.case.groups, point.run, network)?;
    thread::sleep(experiment.warm_up.to_duration());
    let before = CounterSnapshot::take(network, point.case.groups.len(), &connections)?;
    thread::sleep(experiment.duration.to_duration());
    let after = CounterSnapshot::take(network, point.case.groups.len(), &connections)?;
    let lateness = network.lateness(Direction::Up, before.time, after.time)?;
    let delivered = after.delivered_bytes.iter().zip(&before.delivered_bytes).map(|(after, before)| after - before);
    let observed = FairnessObservation {
        delivered_bytes: delivered.collect(),
        duration: after.time - before.time,
        forwarded_bytes: after.forwarded_bytes - before.forwarded_bytes,
        queueing: after.queueing,
        group_queueing: after.group_queueing,
        drops: after.drops.difference_since(before.drops),
        lateness_p99: Some(lateness.p99),
    };
    Ok((observed, after.missed_packets))
}
