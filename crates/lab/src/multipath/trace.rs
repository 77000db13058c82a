use super::reordering::SequenceUnwrapper;
use kumade_netns_testbed::{PacketContent, RecordedPacket};
use kumade_sim::sites::{SegmentSender, SentSegment};
use kumade_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A segment of a TCP connection as it left, in the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSegment {
    /// Of the flow, or of the connections that carry it.
    pub layer: TcpLayer,
    /// Which of the layer's connections, counted from 0 in the order of their first segments.
    pub connection: u32,
    /// When it left, from the beginning of the measured time on.
    pub seconds: f64,
    /// How many bytes of the connection came before it, from its first segment in that time on.
    pub sequence_bytes: u64,
    /// Its payload.
    pub payload_bytes: u32,
    /// Whether it repeats bytes that had left before.
    pub is_repeat: bool,
}

/// Of two that are stacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[serde(rename = "Layer")]
pub enum TcpLayer {
    /// The flow's.
    Upper,
    /// That of the connections that carry it.
    Lower,
}

/// What is kept of a layer besides repeats: evenly chosen, enough to draw it.
const MAX_SEGMENTS: usize = 3000;

/// The segments of a layer, of those that were captured. All repeats are among them, and as many others as it takes to draw
/// the rest.
pub(super) fn trace_segments(layer: TcpLayer, captured: &[RecordedPacket], start: Time) -> Vec<TraceSegment> {
    let mut connections: BTreeMap<u16, FollowedConnection> = BTreeMap::new();
    let mut all = Vec::new();
    for packet in captured.iter().filter(|packet| packet.stamp >= start) {
        let PacketContent::Segment { port, sequence, payload } = packet.content else { continue };
        let number = connections.len() as u32;
        let followed = connections
            .entry(port)
            .or_insert_with(|| FollowedConnection { connection_number: number, ..FollowedConnection::default() });
        let (sequence_bytes, is_repeat) = followed.locate_segment(sequence, payload);
        let (connection, seconds) = (followed.connection_number, (packet.stamp - start).as_secs_f64());
        all.push(TraceSegment { layer, connection, seconds, sequence_bytes, payload_bytes: payload, is_repeat });
    }
    thin_out(all)
}

/// The same in virtual time, of the flow that was added first.
pub(super) fn virtual_trace(sent: &[SentSegment], start: Time) -> Vec<TraceSegment> {
    let mut trace = Vec::new();
    for layer in [TcpLayer::Upper, TcpLayer::Lower] {
        let mut senders: Vec<(SegmentSender, u64, u64)> = Vec::new();
        let mut all = Vec::new();
        for segment in sent.iter().filter(|segment| segment.time >= start && layer.has_sender(segment.sender)) {
            let SentSegment { sender, sequence_bytes, payload_bytes, .. } = *segment;
            let known = senders.iter().position(|(known, ..)| *known == sender).unwrap_or_else(|| {
                senders.push((sender, sequence_bytes, sequence_bytes));
                senders.len() - 1
            });
            let (_, first, next) = &mut senders[known];
            all.push(TraceSegment {
                layer,
                connection: known as u32,
                seconds: (segment.time - start).as_secs_f64(),
                sequence_bytes: sequence_bytes.saturating_sub(*first),
                payload_bytes,
                is_repeat: sequence_bytes < *next,
            });
            *next = (*next).max(sequence_bytes + u64::from(payload_bytes));
        }
        trace.extend(thin_out(all));
    }
    trace
}

fn thin_out(all: Vec<TraceSegment>) -> Vec<TraceSegment> {
    let step = all.len().div_ceil(MAX_SEGMENTS).max(1);
    let is_kept = |(place, segment): &(usize, TraceSegment)| segment.is_repeat || place % step == 0;
    all.into_iter().enumerate().filter(is_kept).map(|(_, segment)| segment).collect()
}

impl TcpLayer {
    fn has_sender(self, sender: SegmentSender) -> bool {
        match sender {
            SegmentSender::Flow(place) => self == TcpLayer::Upper && place == 0,
            SegmentSender::Tunnel(_) => self == TcpLayer::Lower,
        }
    }
}

/// A connection and how far it is.
#[derive(Debug, Default)]
struct FollowedConnection {
    connection_number: u32,
    unwrapper: SequenceUnwrapper,
    first_sequence: Option<u64>,
    next_sequence: u64,
}

impl FollowedConnection {
    /// Where a segment begins, and whether it repeats something.
    fn locate_segment(&mut self, sequence: u32, payload: u32) -> (u64, bool) {
        let number = self.unwrapper.unwrap_sequence(sequence);
        let first = *self.first_sequence.get_or_insert(number);
        let is_repeat = number < self.next_sequence;
        self.next_sequence = self.next_sequence.max(number + u64::from(payload));
        (number.saturating_sub(first), is_repeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    fn segment(millis: i64, port: u16, sequence: u32) -> RecordedPacket {
        let stamp = Time::ZERO + Span::from_millis(millis);
        RecordedPacket { stamp, bytes: 1052, content: PacketContent::Segment { port, sequence, payload: 1000 } }
    }

    #[test]
    fn each_connection_counts_from_its_first_segment_and_repeats_are_told() {
        let start = Time::ZERO + Span::from_millis(10);
        let wrapping = u32::MAX - 499;
        let captured = [
            segment(0, 1, 0),
            segment(10, 7, wrapping),
            segment(20, 9, 5),
            segment(30, 7, 500),
            segment(40, 7, wrapping),
        ];
        let trace = trace_segments(TcpLayer::Lower, &captured, start);
        let seen: Vec<_> = trace.iter().map(|s| (s.connection, s.sequence_bytes, s.is_repeat)).collect();
        assert_eq!(seen, [(0, 0, false), (1, 0, false), (0, 1000, false), (0, 0, true)]);
        assert!(trace[0].seconds == 0.0 && (trace[3].seconds - 0.03).abs() < 1e-9, "{trace:?}");
    }

    #[test]
    fn a_virtual_trace_has_the_first_flow_and_the_connections_below_it() {
        let sent = |millis, sender, sequence_bytes| SentSegment {
            time: Time::ZERO + Span::from_millis(millis),
            sender,
            sequence_bytes,
            payload_bytes: 1000,
        };
        let (flow, other, below) = (SegmentSender::Flow(0), SegmentSender::Flow(1), SegmentSender::Tunnel(3));
        let segments =
            [sent(0, flow, 0), sent(10, flow, 1000), sent(11, other, 0), sent(12, below, 500), sent(20, flow, 0)];
        let trace = virtual_trace(&segments, Time::ZERO + Span::from_millis(10));
        let seen: Vec<_> = trace.iter().map(|s| (s.layer, s.connection, s.sequence_bytes, s.is_repeat)).collect();
        assert_eq!(
            seen,
            [(TcpLayer::Upper, 0, 0, false), (TcpLayer::Upper, 0, 0, true), (TcpLayer::Lower, 0, 0, false)]
        );
    }

    #[test]
    fn a_long_trace_is_thinned_but_for_repeats() {
        let mut captured: Vec<_> = (0..20_000).map(|n| segment(n, 7, n as u32 * 1000)).collect();
        captured.push(segment(20_000, 7, 5000));
        let trace = trace_segments(TcpLayer::Upper, &captured, Time::ZERO);
        assert!((1000..=MAX_SEGMENTS + 1).contains(&trace.len()), "{}", trace.len());
        assert!(trace.last().unwrap().is_repeat);
    }
}
