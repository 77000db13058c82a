//! UDP packets as fast as the host sends them, in real time: how much the gateways forward.

use super::numbered_packets::HEADER_BYTES;
use super::observation::MultipathObservation;
use super::scenario::{MultipathExperiment, Workload};
use anyhow::Context;
use kumade_net::clock;
use kumade_netns_testbed::{NumberedPackets, Sites, received_packets};
use kumade_units::Span;
use std::thread;

/// Sends them between sites whose gateways are at work, and counts what arrives at the far host's interface: what its
/// application makes of it is another question.
pub(super) fn run(
    sites: &Sites,
    experiment: &MultipathExperiment,
    overhead: u32,
) -> anyhow::Result<MultipathObservation> {
    let Workload::Flood { payload } = experiment.workload else {
        anyhow::bail!("another kind of traffic than a flood")
    };
    let to_b = (&sites.b, sites.b.v4);
    let _sender =
        NumberedPackets::send(&sites.a, to_b, payload as usize, Span::ZERO, u64::MAX).context("send packets")?;
    thread::sleep(experiment.warm_up.to_duration());
    let look = || anyhow::Ok((clock::monotonic(), received_packets(&sites.b, Sites::LAN)?));
    let (start, before) = look()?;
    thread::sleep(experiment.duration.to_duration());
    let (end, after) = look()?;
    Ok(MultipathObservation {
        delivered_bytes: (after - before) * u64::from(payload),
        duration: end - start,
        full_payload_bytes: payload.into(),
        full_packet_bytes: u64::from(payload + HEADER_BYTES + overhead),
        ..MultipathObservation::default()
    })
}
