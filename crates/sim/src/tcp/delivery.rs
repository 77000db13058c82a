use super::congestion::DeliveryRate;
use super::scoreboard::SentSegment;
use kumade_units::{Rate, Span, Time};

/// How fast the network delivers (draft-cheng-iccrg-delivery-rate-estimation): what was delivered from the sending of
/// a segment to its acknowledgement, over that time.
#[derive(Debug)]
pub(super) struct DeliveryRateSampler {
    /// Segments delivered so far.
    pub(super) delivered: u64,
    /// When the last of them was acknowledged.
    pub(super) delivered_at: Time,
    /// When the segment was sent that was acknowledged then.
    pub(super) first_sent: Time,
    /// Until so much has been delivered, the sender had less to send than it might have sent.
    application_limited_until: Option<u64>,
    last_sample: Option<DeliveryRate>,
}

impl DeliveryRateSampler {
    pub(super) fn new() -> Self {
        DeliveryRateSampler {
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent: Time::ZERO,
            application_limited_until: None,
            last_sample: None,
        }
    }

    /// Begins a flight after silence: time without anything in flight does not count.
    pub(super) fn begin_flight(&mut self, now: Time) {
        (self.delivered_at, self.first_sent) = (now, now);
    }

    /// The sender has less to send than it may, besides so many segments in flight.
    pub(super) fn record_application_limit(&mut self, in_flight: u32) {
        self.application_limited_until = Some((self.delivered + u64::from(in_flight)).max(1));
    }

    pub(super) fn is_application_limited(&self) -> bool {
        self.application_limited_until.is_some()
    }

    /// The last sample that the sender did not limit, or a higher one that it did.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.last_sample.map(|last| last.rate)
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
        (self.delivered_at, self.first_sent) = (now, segment.sent);
        self.application_limited_until = self.application_limited_until.filter(|until| self.delivered <= *until);
        let sending = segment.sent - segment.first_sent;
        let acknowledging = now - segment.delivered_at;
        let interval = sending.max(acknowledging);
        // Section 3.3: an interval below the least round trip is an artefact of a retransmission.
        if interval < least || interval <= Span::ZERO {
            return None;
        }
        let bytes = (self.delivered - segment.delivered) * u64::from(segment_bytes);
        let rate = Rate::from_bytes_over(bytes, interval);
        let sample = DeliveryRate { rate, application_limited: segment.is_application_limited };
        if !sample.application_limited || self.last_sample.is_none_or(|last| rate >= last.rate) {
            self.last_sample = Some(sample);
        }
        Some(sample)
    }
}
