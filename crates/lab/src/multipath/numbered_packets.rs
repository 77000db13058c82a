//! Numbered UDP packets at a constant rate, in real time.

use super::observation::MultipathObservation;
use super::path_counters::carried_packets;
use super::reordering::ReorderingMeter;
use super::scenario::{MultipathExperiment, MultipathPoint, Workload};
use anyhow::Context;
use kumade_net::clock;
use kumade_netns_testbed::{ArrivalRecorder, NumberedPackets, PacketContent, RecordedPacket, Sites};
use kumade_units::{Rate, Span};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

/// How long after the last packet the run waits for those that are late.
pub(super) const DRAIN_TIME: Span = Span::from_secs(2);

/// IPv4 and UDP.
pub(super) const HEADER_BYTES: u32 = 28;
/// The part of the arrivals whose order the report shows: so many, from the middle of the run.
const SHOWN_ARRIVALS: usize = 300;
const ROUND_DURATION: Duration = Duration::from_millis(100);
/// A sender that is not done after so many times the time that it needs has failed.
const MAX_DURATION_RATIO: i64 = 4;

impl MultipathExperiment {
    /// The time from one numbered packet to the next.
    pub(super) fn packet_interval(&self, point: &MultipathPoint<'_>) -> Span {
        let Workload::Numbered { payload, load, .. } = self.workload else { return Span::ZERO };
        let rate = Rate::from_f64(point.case.total_rate().as_f64() * load);
        rate.time_for(u64::from(payload + HEADER_BYTES))
    }
}

/// Sends them between sites whose gateways are at work.
pub(super) fn run(
    sites: &Sites,
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
    overhead: u32,
) -> anyhow::Result<(MultipathObservation, u64)> {
    let Workload::Numbered { packets, payload, .. } = experiment.workload else {
        anyhow::bail!("another kind of traffic than numbered packets")
    };
    let arrivals = ArrivalRecorder::start(&sites.b, Sites::LAN)?;
    let (before, interval) = (carried_packets(sites)?, experiment.packet_interval(point));
    let start = clock::realtime();
    let to_b = (&sites.b, sites.b.v4);
    let sender = NumberedPackets::send(&sites.a, to_b, payload as usize, interval, packets).context("send packets")?;
    let end = clock::monotonic() + interval * packets as i64 * MAX_DURATION_RATIO + DRAIN_TIME;
    while sender.is_running() && clock::monotonic() < end {
        thread::sleep(ROUND_DURATION);
    }
    thread::sleep(DRAIN_TIME.to_duration());
    let sent = sender.sent_packets();
    let (received, missed) = arrivals.take_packets();
    let numbers: Vec<_> = received.iter().filter_map(|packet| packet_number(packet, sender.port())).collect();
    let mut order = ReorderingMeter::default();
    numbers.iter().for_each(|number| order.record_arrival(*number, 1));
    let distinct = numbers.iter().collect::<BTreeSet<_>>().len() as u64;
    let shown = numbers.len().saturating_sub(SHOWN_ARRIVALS) / 2;
    let after = carried_packets(sites)?;
    let observed = MultipathObservation {
        delivered_bytes: distinct * u64::from(payload),
        duration: arrival_duration(&received),
        full_payload_bytes: payload.into(),
        full_packet_bytes: u64::from(payload + HEADER_BYTES + overhead),
        reordering: Some(order.summary()),
        arrival_order: numbers.iter().skip(shown).take(SHOWN_ARRIVALS).copied().collect(),
        lost_packets: Some(sent.saturating_sub(distinct)),
        forwarded_by_path: after.iter().zip(&before).map(|(after, before)| after - before).collect(),
        lateness_p99: Some(sites.lateness(start, clock::realtime())?.p99),
        ..MultipathObservation::default()
    };
    Ok((observed, missed))
}

fn packet_number(packet: &RecordedPacket, to: u16) -> Option<u64> {
    match packet.content {
        PacketContent::Numbered { port, number, .. } if port == to => Some(number),
        _ => None,
    }
}

/// From the first arrival to the last.
fn arrival_duration(received: &[RecordedPacket]) -> Span {
    let ends = received.first().zip(received.last());
    ends.map_or(Span::ZERO, |(first, last)| last.stamp - first.stamp)
}
