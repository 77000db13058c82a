//! What trains have in common that fill the queue of the narrow link for a moment.

use kumade_probe_train::{DsFieldPacket, DsFieldRecord, DsFieldTrain, Segment};
use kumade_units::{Rate, Span, Time};

/// The queueing delay that a burst is to reach: beyond the thresholds of L4S (RFC 9332: 1 ms), and the targets of CoDel and PIE (5 and 15 ms), …
const TARGET_DELAY: Span = Span::from_millis(40);
/// … unless that takes more packets than this: 380 kB of full ones, which reach 23 ms at 100 Mbit/s.
const MAX_PACKETS: i64 = 256;
/// So many at least, to see a threshold by.
const MIN_PACKETS: i64 = 32;
/// They are sent so many times as fast as the link serves them, at which the queue grows by three quarters of what is sent.
pub(super) const OVERLOAD: i64 = 4;
/// On slow links, packets are shorter, so that each adds no more delay than this, …
const MAX_TRANSMISSION: Span = Span::from_micros(250);
/// … but no shorter than this, in bytes.
const MIN_PACKET_BYTES: u32 = 200;
const MAX_PACKET_BYTES: u32 = 1500;
/// Packets that are to find no queue, …
pub(super) const LEAD_PACKETS: u32 = 8;
/// … so far apart at least, and as long as the link takes for as many as this.
const MIN_LEAD_INTERVAL: Span = Span::from_millis(1);
const LEAD_TRANSMISSIONS: i64 = 4;

/// Trains that fill a queue, one after the other.
pub(crate) trait QueueFillingProbe {
    /// The next train, and how long to wait before; none once all have been sent that help.
    fn next_train(&mut self) -> Option<(Span, DsFieldTrain)>;

    /// Takes what became of the train that was requested last.
    fn record_train(&mut self, record: &DsFieldRecord);
}

/// How a queue is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OverloadPlan {
    packet_bytes: u32,
    packets: i64,
    /// The time that the link takes for a packet.
    pub(super) transmission: Span,
}

impl OverloadPlan {
    /// For a link that serves packets at this rate, or leaves it, with packets of so many bytes at most.
    pub(super) fn new(rate: Rate, max_packet: u32) -> Self {
        let largest = max_packet.clamp(MIN_PACKET_BYTES, MAX_PACKET_BYTES);
        let per_packet = (rate.as_f64() * MAX_TRANSMISSION.as_secs_f64() / 8.0) as u32;
        let packet_bytes = per_packet.clamp(MIN_PACKET_BYTES, largest);
        let transmission = rate.time_for(u64::from(packet_bytes)).max(Span::from_nanos(1));
        let growth = (transmission - transmission / OVERLOAD).max(Span::from_nanos(1));
        let packets = (TARGET_DELAY.as_nanos() / growth.as_nanos()).clamp(MIN_PACKETS, MAX_PACKETS);
        OverloadPlan { packet_bytes, packets, transmission }
    }

    /// So many packets, so far apart.
    pub(super) fn segment(&self, count: u32, interval: Span) -> Segment {
        Segment { count, interval, first_size: self.packet_bytes, size_step: 0 }
    }

    /// Packets that find no queue.
    pub(super) fn lead(&self) -> Segment {
        self.segment(LEAD_PACKETS, (self.transmission * LEAD_TRANSMISSIONS).max(MIN_LEAD_INTERVAL))
    }

    /// Packets of which each waits longer than the one before.
    pub(super) fn burst(&self) -> Segment {
        self.segment(self.packets as u32, self.transmission / OVERLOAD)
    }

    /// The rate at which packets arrive at these times, in order; none where they are too few.
    pub(super) fn served_rate(&self, arrivals: &[Time]) -> Option<Rate> {
        let (first, last) = (arrivals.first()?, arrivals.last()?);
        let is_enough = arrivals.len() as i64 >= MIN_PACKETS / 2 && last > first;
        is_enough.then(|| Rate::from_bytes_over(self.bytes(arrivals.len() as u32 - 1), *last - *first))
    }

    /// What so many packets have, in bytes.
    pub(super) fn bytes(&self, packets: u32) -> u64 {
        u64::from(packets) * u64::from(self.packet_bytes)
    }

    /// The time that the link takes for so many packets.
    pub(super) fn service_time(&self, packets: u32) -> Span {
        self.transmission * i64::from(packets)
    }
}

/// From the sending of a packet to its arrival, by two clocks; none where one of them has no stamp of it.
pub(super) fn one_way_delay(packet: &DsFieldPacket) -> Option<(Time, Span)> {
    let sent = packet.sent?;
    Some((sent, packet.arrival?.received? - sent))
}
