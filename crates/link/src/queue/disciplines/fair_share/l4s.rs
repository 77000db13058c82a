//! What fair share does for senders that expect frequent marks (L4S, RFC 9330).

use crate::queue::packet::QueuedPacket;
use kumade_packet::Ecn;
use kumade_units::Span;

/// So much of a flow of such a sender may wait at a time before those of rounds, lest others of low latency wait for its bursts.
pub(super) const MAX_WAITING_BYTES: u32 = 4 * 1514;
/// A flow begins to be marked when it is this many bytes ahead of its share, …
const LEAD_RAMP_START_BYTES: f64 = 2.0 * 1514.0;
/// … and all its packets are when it is [`lead_scale_bytes`] ahead: what the link serves in a target, but no less than this.
const MIN_LEAD_SCALE_BYTES: f64 = 24.0 * 1514.0;
/// So many times that it may be ahead, before it waits its turn in rounds as any other: it hears of marks a round trip late, and follows
/// them over several.
const MAX_LEAD_SCALES: u64 = 2;
/// And this part of it that it has left of its share it may catch up on without a mark, else it would get less in the end, as its rate
/// goes up and down. More of that makes it go up and down more.
const CREDIT_SCALE_DIVISOR: u64 = 4;
/// The same for the time that a packet has waited (RFC 9332, appendix A: `minTh` and `range`), but no less than these parts of a
/// packet's transmission: a packet that is on the wire can't be overtaken.
const SOJOURN_RAMP: (Span, Span) = (Span::from_micros(800), Span::from_micros(1200));
const SOJOURN_RAMP_PACKETS: (f64, f64) = (2.0, 3.0);

/// The packet's sender expects frequent marks (RFC 9331). A packet that is CE already may be of any sender: its flow tells.
pub(super) fn is_l4s<P>(packet: &QueuedPacket<P>, flow_is_l4s: bool) -> bool {
    packet.ecn == Ecn::Ect1 || (packet.ecn == Ecn::Ce && flow_is_l4s)
}

/// What lead and credit are measured by, on a link of this rate in bytes per second.
pub(super) fn lead_scale_bytes(rate: f64, target: Span) -> u64 {
    (rate * target.as_secs_f64()).max(MIN_LEAD_SCALE_BYTES) as u64
}

/// The most by which a flow may be ahead of its share and yet leave first.
pub(super) fn max_lead_bytes(scale_bytes: u64) -> u64 {
    scale_bytes * MAX_LEAD_SCALES
}

/// What a flow may have left of its share and catch up on.
pub(super) fn credit_bytes(scale_bytes: u64) -> u64 {
    scale_bytes / CREDIT_SCALE_DIVISOR
}

/// With which probability a packet is marked that waited for so long in front of a link on which a full packet takes `packet_time`
/// seconds. Its flow is so many bytes ahead of its share; none where nobody else waits for one.
pub(super) fn marking_probability(waited: Span, packet_time: f64, lead_bytes: Option<u64>, scale_bytes: u64) -> f64 {
    let sojourn = ramp(
        waited.as_secs_f64(),
        SOJOURN_RAMP.0.as_secs_f64().max(SOJOURN_RAMP_PACKETS.0 * packet_time),
        SOJOURN_RAMP.1.as_secs_f64().max(SOJOURN_RAMP_PACKETS.1 * packet_time),
    );
    let lead = lead_bytes.map_or(0.0, |bytes| ramp(bytes as f64, LEAD_RAMP_START_BYTES, scale_bytes as f64));
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
        let fast = |micros, lead| marking_probability(Span::from_micros(micros), 120e-6, lead, 125_000);
        assert!(holds(fast(800, None), 0.0) && holds(fast(1000, None), 0.5) && holds(fast(1200, None), 1.0));
        assert!(holds(fast(0, Some(3028)), 0.0) && holds(fast(0, Some(64_014)), 0.5));
        assert!(holds(fast(0, Some(125_000)), 1.0) && holds(fast(1000, Some(0)), 0.5));
        // … and 2.4 ms at 5 Mbit/s.
        let slow = |micros| marking_probability(Span::from_micros(micros), 2400e-6, None, 36_336);
        assert!(holds(slow(4800), 0.0) && holds(slow(7200), 1.0));
    }

    #[test]
    fn lead_is_measured_by_what_the_link_serves_in_a_target() {
        let scale = |rate| lead_scale_bytes(rate, Span::from_millis(10));
        assert_eq!((scale(12_500_000.0), scale(625_000.0), scale(0.0)), (125_000, 36_336, 36_336));
        assert_eq!((max_lead_bytes(125_000), credit_bytes(125_000)), (250_000, 31_250));
    }
}
