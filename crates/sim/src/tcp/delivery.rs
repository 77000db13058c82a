use super::congestion::DeliveryRate;
use super::scoreboard::Segment;
use units::{Rate, Span, Time};

/// How fast the network delivers (draft-cheng-iccrg-delivery-rate-estimation): what was delivered from the sending of
/// a segment to its acknowledgement, over that time.
#[derive(Debug)]
pub(super) struct Delivery {
    /// Segments delivered so far.
    pub(super) total: u64,
    /// When the last of them was acknowledged.
    pub(super) time: Time,
    /// When the segment was sent that was acknowledged then.
    pub(super) first_sent: Time,
}

impl Delivery {
    pub(super) fn new() -> Self {
        Delivery { total: 0, time: Time::ZERO, first_sent: Time::ZERO }
    }

    /// Begins a flight after silence: time without anything in flight does not count.
    pub(super) fn begin_flight(&mut self, now: Time) {
        (self.time, self.first_sent) = (now, now);
    }

    /// After an acknowledgement whose deliveries were counted into the total. Of them `segment` was sent last; `least` is
    /// the least round trip known.
    pub(super) fn sample(
        &mut self,
        segment: &Segment,
        now: Time,
        least: Span,
        segment_bytes: u32,
    ) -> Option<DeliveryRate> {
        (self.time, self.first_sent) = (now, segment.sent);
        let sending = segment.sent - segment.first_sent;
        let acknowledging = now - segment.delivered_at;
        let interval = sending.max(acknowledging);
        // Section 3.3: an interval below the least round trip is an artefact of a retransmission.
        if interval < least || interval <= Span::ZERO {
            return None;
        }
        let bytes = (self.total - segment.delivered) * u64::from(segment_bytes);
        // The sources either have data or are at their end, when only what was sent before is acknowledged.
        Some(DeliveryRate { rate: Rate::from_bytes_over(bytes, interval), application_limited: false })
    }
}
