//! One TCP connection that always has something to send, in real time.

use super::numbered_packets::HEADER_BYTES;
use super::observation::MultipathObservation;
use super::path_counters::carried_packets;
use super::plane::Plane;
use super::reordering::{Reordering, ReorderingMeter, SequenceUnwrapper};
use super::scenario::{MultipathExperiment, MultipathPoint, Workload};
use super::sparse_flow::{ECHO_INTERVAL, PACKET_BYTES, PACKET_INTERVAL};
use super::trace::{TcpLayer, TraceSegment, trace_segments};
use crate::delay_quantiles::{DelayQuantiles, EchoDelays};
use anyhow::Context;
use kumade_net::clock;
use kumade_netns_testbed::{
    ArrivalRecorder, EchoedPackets, NumberedPackets, PacketContent, RecordedPacket, Sites, TcpEnds, Traffic, UdpEcho,
    retransmitted_segments,
};
use kumade_units::{Span, Time};
use std::thread;

/// Runs it between sites whose gateways are at work. `overhead` is what these add to a packet on a path, in bytes.
pub(super) fn run(
    sites: &Sites,
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
    overhead: u32,
) -> anyhow::Result<(MultipathObservation, u64)> {
    let arrivals = ArrivalRecorder::start(&sites.b, Sites::LAN)?;
    let connection = open_connection(sites, point).context("open the connection")?;
    let to_b = (&sites.b, sites.b.v4);
    let sparse = point.case.sparse.then(|| {
        NumberedPackets::send(&sites.a, to_b, (PACKET_BYTES - HEADER_BYTES) as usize, PACKET_INTERVAL, u64::MAX)
            .context("send the sparse flow")
    });
    let sparse = sparse.transpose()?;
    let payload = (PACKET_BYTES - HEADER_BYTES) as usize;
    let echo = point.case.echo.then(|| UdpEcho::start(&sites.a, to_b, payload, ECHO_INTERVAL).context("send the echo"));
    let echo = echo.transpose()?;
    let leaving = point.case.trace.then(|| LeavingSegments::start(sites, point)).transpose()?;
    thread::sleep(experiment.warm_up.to_duration());
    arrivals.take_packets();
    connection.take_longest_gap();
    let before = CounterSnapshot::take(sites, &connection)?;
    let restored = wait_for_transfer(sites, experiment, point)?;
    let after = CounterSnapshot::take(sites, &connection)?;
    let longest_gap = connection.take_longest_gap();
    let (packets, missed) = arrivals.take_packets();
    let order = segment_order(&packets).filter(|_| point.contender.plane != Plane::Mptcp);
    let (full_payload, full_packet) = full_segment(&packets);
    let observed = MultipathObservation {
        delivered_bytes: after.delivered_bytes - before.delivered_bytes,
        duration: after.monotonic_time - before.monotonic_time,
        full_payload_bytes: full_payload,
        full_packet_bytes: full_packet + u64::from(overhead),
        retransmitted_segments: Some(after.retransmitted_packets - before.retransmitted_packets),
        reordering: order,
        longest_gap: Some(longest_gap),
        recovery_time: restored.and_then(|restored| recovery_time(&packets, restored, point.case.min_delay())),
        trace: leaving.map(|leaving| leaving.trace(before.real_time)).unwrap_or_default(),
        echo_delays: echo.and_then(|echo| round_trips(&echo, before.monotonic_time, after.monotonic_time)),
        sparse_delays: sparse.and_then(|sparse| one_way_delays(&packets, sparse.port())),
        forwarded_by_path: after
            .forwarded_packets
            .iter()
            .zip(&before.forwarded_packets)
            .map(|(after, before)| after - before)
            .collect(),
        lateness_p99: Some(sites.lateness(before.real_time, after.real_time)?.p99),
        ..MultipathObservation::default()
    };
    Ok((observed, missed))
}

fn open_connection(sites: &Sites, point: &MultipathPoint<'_>) -> anyhow::Result<Traffic> {
    if let Some(through) = point.contender.plane.forwarding_address(sites.b.v4) {
        let (port, congestion_control) = (through.port(), Workload::CONGESTION_CONTROL);
        let ends = TcpEnds { from: &sites.a, to: &sites.b, port, proxy: Some(through), congestion_control };
        return Ok(Traffic::tcp_blocks(&ends)?.0);
    }
    if point.contender.plane != Plane::Mptcp {
        return Ok(Traffic::tcp(&sites.a, &sites.b, Workload::CONGESTION_CONTROL, None)?);
    }
    sites.enable_mptcp()?;
    let on_first = |site| Sites::host_address_on_path(0, site);
    Ok(Traffic::mptcp((&sites.a, on_first(1)), (&sites.b, on_first(2)), Workload::CONGESTION_CONTROL)?)
}

/// Lets the measured time pass; a path may be cut in it. Returns when it was restored: [`clock::realtime`].
fn wait_for_transfer(
    sites: &Sites,
    experiment: &MultipathExperiment,
    point: &MultipathPoint<'_>,
) -> anyhow::Result<Option<Time>> {
    let (mut rest, mut restored) = (experiment.duration, None);
    if let Some(cut) = point.case.outage {
        thread::sleep(cut.after.to_duration());
        sites.set_cut(cut.path - 1, true)?;
        rest -= cut.after;
        if let Some(lasts) = cut.duration {
            thread::sleep(lasts.to_duration());
            sites.set_cut(cut.path - 1, false)?;
            restored = Some(clock::realtime());
            rest -= lasts;
        }
    }
    thread::sleep(rest.to_duration());
    Ok(restored)
}

/// The segments that leave the sending host, and its gateway where others carry them.
struct LeavingSegments {
    host_departures: ArrivalRecorder,
    gateway_departures: Option<ArrivalRecorder>,
}

impl LeavingSegments {
    fn start(sites: &Sites, point: &MultipathPoint<'_>) -> anyhow::Result<Self> {
        let lower = || ArrivalRecorder::record_leaving(&sites.left, &Sites::path_interface(0));
        let upper = ArrivalRecorder::record_leaving(&sites.a.namespace, Sites::LAN)?;
        Ok(LeavingSegments {
            host_departures: upper,
            gateway_departures: point.contender.plane.lower_congestion_control().map(|_| lower()).transpose()?,
        })
    }

    fn trace(&self, start: Time) -> Vec<TraceSegment> {
        let mut trace = trace_segments(TcpLayer::Upper, &self.host_departures.take_packets().0, start);
        let lower = self
            .gateway_departures
            .iter()
            .flat_map(|lower| trace_segments(TcpLayer::Lower, &lower.take_packets().0, start));
        trace.extend(lower);
        trace
    }
}

/// The counters at one time.
struct CounterSnapshot {
    monotonic_time: Time,
    real_time: Time,
    delivered_bytes: u64,
    retransmitted_packets: u64,
    forwarded_packets: Vec<u64>,
}

impl CounterSnapshot {
    fn take(sites: &Sites, connection: &Traffic) -> anyhow::Result<Self> {
        let (retransmitted, carried) = (retransmitted_segments(&sites.a)?, carried_packets(sites)?);
        let (time, stamp) = (clock::monotonic(), clock::realtime());
        Ok(CounterSnapshot {
            monotonic_time: time,
            real_time: stamp,
            delivered_bytes: connection.received_bytes(),
            retransmitted_packets: retransmitted,
            forwarded_packets: carried,
        })
    }
}

/// The order in which segments of the one connection arrived.
fn segment_order(packets: &[RecordedPacket]) -> Option<Reordering> {
    let (mut meter, mut unwrapped) = (ReorderingMeter::default(), SequenceUnwrapper::default());
    for packet in packets {
        if let PacketContent::Segment { sequence, payload, .. } = packet.content {
            meter.record_arrival(unwrapped.unwrap_sequence(sequence), payload.into());
        }
    }
    Some(meter.summary()).filter(|order| order.packets > 0)
}

/// Payload and length of the packet with most payload.
fn full_segment(packets: &[RecordedPacket]) -> (u64, u64) {
    let segment = |packet: &RecordedPacket| match packet.content {
        PacketContent::Segment { payload, .. } => Some((u64::from(payload), u64::from(packet.bytes))),
        PacketContent::Numbered { .. } => None,
    };
    packets.iter().filter_map(segment).max().unwrap_or_default()
}

/// One-way delays of numbered packets to that port.
fn one_way_delays(packets: &[RecordedPacket], to: u16) -> Option<DelayQuantiles> {
    let delay = |packet: &RecordedPacket| match packet.content {
        PacketContent::Numbered { port, sent, .. } if port == to => Some((packet.stamp - sent).as_secs_f64()),
        _ => None,
    };
    DelayQuantiles::from_seconds(packets.iter().filter_map(delay).collect())
}

/// Of the packets of an echo that were sent in the measured time.
fn round_trips(echo: &UdpEcho, from: Time, to: Time) -> Option<EchoDelays> {
    let EchoedPackets { round_trips, unanswered } = echo.echoed_between(from, to);
    let all = round_trips.len() as u64 + unanswered;
    let round_trips = DelayQuantiles::from_seconds(round_trips.into_iter().map(Span::as_secs_f64).collect())?;
    Some(EchoDelays { round_trips, unanswered_ratio: unanswered as f64 / all as f64 })
}

/// From when the path was back, to the arrival of data that has passed it since.
fn recovery_time(packets: &[RecordedPacket], restored: Time, delay: Span) -> Option<Span> {
    let is_data = |packet: &&RecordedPacket| matches!(packet.content, PacketContent::Segment { .. });
    packets
        .iter()
        .filter(is_data)
        .map(|packet| packet.stamp)
        .find(|stamp| *stamp >= restored + delay)
        .map(|at| at - restored)
}
