use super::packet::{OuterContent, OuterPacket, PacketBody, SitePacket};
use kumade_units::Time;
use std::collections::BTreeMap;

/// A TCP segment with data, as it left the first site's host or its gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentSegment {
    /// When.
    pub time: Time,
    /// Whose it is.
    pub sender: SegmentSender,
    /// How many bytes of its connection came before it.
    pub sequence_bytes: u64,
    /// Its payload.
    pub payload_bytes: u32,
}

/// Whose connection a segment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentSender {
    /// That of the flow in this place.
    Flow(usize),
    /// A tunnel's connection, counted from 0.
    Tunnel(usize),
}

/// Notes the segments that leave the first site.
#[derive(Debug, Default)]
pub(super) struct SegmentRecorder {
    segments: Vec<SentSegment>,
    /// Of each connection, where each of its segments begins, and where the next one will.
    connections: BTreeMap<SegmentSender, (Vec<u64>, u64)>,
}

impl SegmentRecorder {
    /// A host sends a packet, of which so many bytes are headers.
    pub(super) fn record_packet(&mut self, packet: &SitePacket, header_bytes: u32, now: Time) {
        if let PacketBody::Data(data) = &packet.body {
            let payload = packet.size.saturating_sub(header_bytes);
            self.record(SegmentSender::Flow(packet.flow as usize), data.number, payload, now);
        }
    }

    /// A gateway sends on a path.
    pub(super) fn record_outer_packet(&mut self, wire: &OuterPacket, now: Time) {
        if let OuterContent::Segment(connection, segment) = &wire.content
            && let Some(data) = &segment.data
        {
            self.record(SegmentSender::Tunnel(connection.index()), data.number, segment.payload_bytes, now);
        }
    }

    pub(super) fn take_segments(&mut self) -> Vec<SentSegment> {
        std::mem::take(&mut self.segments)
    }

    /// Segments leave in the order of their numbers when they leave for the first time.
    fn record(&mut self, sender: SegmentSender, number: u32, payload_bytes: u32, time: Time) {
        let (starts, next) = self.connections.entry(sender).or_default();
        let sequence_bytes = match starts.get(number as usize) {
            Some(start) => *start,
            None => {
                let start = *next;
                starts.push(start);
                *next += u64::from(payload_bytes);
                start
            }
        };
        self.segments.push(SentSegment { time, sender, sequence_bytes, payload_bytes });
    }
}
