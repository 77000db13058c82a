//! What fair share does for senders that expect frequent marks (L4S, RFC 9330).

use crate::queue::packet::QueuedPacket;
use kumade_packet::Ecn;
use kumade_units::Span;

/// A flow of such a sender may be served this many bytes ahead of its share, which are charged to it: as many full packets as it may send
/// before it hears of marks. Beyond that it waits its turn in rounds, as any other.
pub(super) const MAX_LEAD_BYTES: u64 = 32 * 1514;
/// So much of it may wait at a time before those of rounds, lest others of low latency wait for its bursts.
pub(super) const MAX_WAITING_BYTES: u32 = 4 * 1514;
/// By how many bytes ahead of its share a flow begins to be marked, and from how many on all its packets are.
const LEAD_RAMP_BYTES: (f64, f64) = (2.0 * 1514.0, 6.0 * 1514.0);
/// The same for the time that a packet has waited (RFC 9332, appendix A: `minTh` and `range`), but no less than these parts of a
/// packet's transmission: a packet that is on the wire can't be overtaken.
const SOJOURN_RAMP: (Span, Span) = (Span::from_micros(800), Span::from_micros(1200));
const SOJOURN_RAMP_PACKETS: (f64, f64) = (1.5, 2.0);

/// The packet's sender expects frequent marks (RFC 9331). A packet that is CE already may be of any sender: its flow tells.
pub(super) fn is_l4s<P>(packet: &QueuedPacket<P>, flow_is_l4s: bool) -> bool {
    packet.ecn == Ecn::Ect1 || (packet.ecn == Ecn::Ce && flow_is_l4s)
}

/// With which probability a packet is marked that waited for so long in front of a link on which a full packet takes `packet_time`
/// seconds. Its flow is so many bytes ahead of its share; none where nobody else waits for one.
pub(super) fn marking_probability(waited: Span, packet_time: f64, lead_bytes: Option<u64>) -> f64 {
    let sojourn = ramp(
        waited.as_secs_f64(),
        SOJOURN_RAMP.0.as_secs_f64().max(SOJOURN_RAMP_PACKETS.0 * packet_time),
        SOJOURN_RAMP.1.as_secs_f64().max(SOJOURN_RAMP_PACKETS.1 * packet_time),
    );
    let lead = lead_bytes.map_or(0.0, |bytes| ramp(bytes as f64, LEAD_RAMP_BYTES.0, LEAD_RAMP_BYTES.1));
    sojourn.max(lead)
}

/// From 0 at `from` to 1 at `to`.
fn ramp(value: f64, from: f64, to: f64) -> f64 {
    ((value - from) / (to - from)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_begin_where_a_packet_waited_or_its_flow_is_ahead() {
        let holds = |probability: f64, expected: f64| (probability - expected).abs() < 1e-9;
        // A packet takes 0.12 ms at 100 Mbit/s, …
        let fast = |micros, lead| marking_probability(Span::from_micros(micros), 120e-6, lead);
        assert!(holds(fast(800, None), 0.0) && holds(fast(1000, None), 0.5) && holds(fast(1200, None), 1.0));
        assert!(holds(fast(0, Some(3028)), 0.0) && holds(fast(0, Some(6056)), 0.5));
        assert!(holds(fast(0, Some(MAX_LEAD_BYTES)), 1.0) && holds(fast(1000, Some(9084)), 1.0));
        // … and 2.4 ms at 5 Mbit/s.
        let slow = |micros| marking_probability(Span::from_micros(micros), 2400e-6, None);
        assert!(holds(slow(3600), 0.0) && holds(slow(4800), 1.0));
    }
}
