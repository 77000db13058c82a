//! One TCP connection that is written to in blocks of different lengths, in real time.

use super::block_sweep::BlockRate;
use super::observation::MultipathObservation;
use super::scenario::{MultipathExperiment, MultipathPoint, Workload};
use anyhow::Context;
use kumade_net::clock;
use kumade_netns_testbed::{Sites, TcpEnds, Traffic};
use kumade_units::{Rate, Span};
use std::thread;
use std::time::Duration;

/// After a change of the length, what was written before has left after this.
pub(super) const WARM_UP: Span = Span::from_millis(100);

/// Runs it between sites whose gateways are at work.
pub(super) fn run(
    sites: &Sites,
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
) -> anyhow::Result<(MultipathObservation, u64)> {
    let through = point.contender.plane.forwarding_address(sites.b.v4);
    let port = through.map_or(0, |through| through.port());
    let ends = TcpEnds {
        from: &sites.a,
        to: &sites.b,
        port,
        proxy: through,
        congestion_control: Workload::CONGESTION_CONTROL,
    };
    let (connection, blocks) = Traffic::tcp_blocks(&ends).context("open the connection")?;
    thread::sleep(experiment.warm_up.to_duration());
    let start = clock::realtime();
    let mut observed = MultipathObservation::default();
    for (block_bytes, no_delay) in experiment.blocks.block_settings() {
        blocks.write(block_bytes as usize, no_delay)?;
        thread::sleep(WARM_UP.to_duration());
        let (bytes, time) = arrived_within(&connection, experiment.duration.to_duration());
        let goodput_bits_per_second = Rate::from_bytes_over(bytes, time).as_f64();
        observed.block_rates.push(BlockRate { block_bytes, no_delay, goodput_bits_per_second });
        observed.delivered_bytes += bytes;
        observed.duration += time;
    }
    observed.lateness_p99 = Some(sites.lateness(start, clock::realtime())?.p99);
    Ok((observed, 0))
}

/// Bytes that arrive within about so long, and how long that was.
fn arrived_within(connection: &Traffic, time: Duration) -> (u64, Span) {
    let (before, start) = (connection.received_bytes(), clock::monotonic());
    thread::sleep(time);
    (connection.received_bytes() - before, clock::monotonic() - start)
}
