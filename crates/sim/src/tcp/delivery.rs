use super::congestion::DeliveryRate;
use super::scoreboard::SentSegment;
use kumade_units::{Rate, Span, Time};

/// How fast the network delivers (draft-cheng-iccrg-delivery-rate-estimation): what was delivered from the sending of
/// a segment to its acknowledgement, over that time.
#[derive(Debug)]
pub(super) struct DeliveryRateSampler {
    /// Segments delivered so far.
    pub(super) total: u64,
    /// When the last of them was acknowledged.
    pub(super) time: Time,
    /// When the segment was sent that was acknowledged then.
    pub(super) first_sent: Time,
    /// Until so much has been delivered, the sender had less to send than it might have sent.
    limited_until: Option<u64>,
    last: Option<DeliveryRate>,
}

impl DeliveryRateSampler {
    pub(super) fn new() -> Self {
        DeliveryRateSampler { total: 0, time: Time::ZERO, first_sent: Time::ZERO, limited_until: None, last: None }
    }

    /// Begins a flight after silence: time without anything in flight does not count.
    pub(super) fn begin_flight(&mut self, now: Time) {
        (self.time, self.first_sent) = (now, now);
    }

    /// The sender has less to send than it may, besides so many segments in flight.
    pub(super) fn record_application_limit(&mut self, in_flight: u32) {
        self.limited_until = Some((self.total + u64::from(in_flight)).max(1));
    }

    pub(super) fn is_application_limited(&self) -> bool {
        self.limited_until.is_some()
    }

    /// The last sample that the sender did not limit, or a higher one that it did.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.last.map(|last| last.rate)
    }

    /// After an acknowledgement whose deliveries were counted into the total. Of them `segment` was sent last; `least` is
    /// the least round trip known.
    pub(super) fn sample(
        &mut self,
        segment: &SentSegment,
        now: Time,
        least: Span,
        segment_bytes: u32,
    ) -> Option<DeliveryRate> {
        (self.time, self.first_sent) = (now, segment.sent);
        self.limited_until = self.limited_until.filter(|until| self.total <= *until);
        let sending = segment.sent - segment.first_sent;
        let acknowledging = now - segment.delivered_at;
        let interval = sending.max(acknowledging);
        // Section 3.3: an interval below the least round trip is an artefact of a retransmission.
        if interval < least || interval <= Span::ZERO {
            return None;
        }
        let bytes = (self.total - segment.delivered) * u64::from(segment_bytes);
        let rate = Rate::from_bytes_over(bytes, interval);
        let sample = DeliveryRate { rate, application_limited: segment.application_limited };
        if !sample.application_limited || self.last.is_none_or(|last| rate >= last.rate) {
            self.last = Some(sample);
        }
        Some(sample)
    }
}
