use kumade_units::{Rate, Span, Time};
use std::fmt;

/// What a controller learns from an acknowledgement that reports something new.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// When it reached the sender.
    pub now: Time,
    /// Segments newly acknowledged in sequence.
    pub acked: u32,
    /// Segments newly reported as delivered: in sequence or by SACK.
    pub delivered: u32,
    /// Of these, the segments that queues have marked, for a controller that [counts marks](Controller::counts_marks); else none.
    pub marked: u32,
    /// Segments that the sender newly considers lost.
    pub lost: u32,
    /// Round-trip time of the newest segment acknowledged, unless that was sent twice (Karn's rule).
    pub round_trip: Option<Span>,
    /// The sender's smoothed round-trip time (RFC 6298).
    pub smoothed_round_trip: Span,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// Segments in flight just before it.
    pub was_in_flight: u32,
    /// Whether the window limited the sender in this flight (RFC 7661); windows grow only then.
    pub window_limited: bool,
    /// Why the sender is currently reducing its window, if it is. After a timeout it is not: windows grow again at once.
    pub reduction: Option<Reduction>,
    /// The delivery rate, if the acknowledgement gave a sample (draft-cheng-iccrg-delivery-rate-estimation).
    pub delivery: Option<DeliveryRate>,
    /// Segments delivered since the connection began.
    pub total_delivered: u64,
    /// What [`Ack::total_delivered`] was when the newest segment acknowledged was sent: a round trip has passed when it
    /// reaches what it was at the round's beginning.
    pub delivered_when_sent: u64,
}

/// Why a sender reduces its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// In response to an ECN mark; nothing is retransmitted.
    Mark,
    /// In fast recovery.
    Loss,
}

/// A sample of the delivery rate.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryRate {
    /// IP-layer bits per second.
    pub rate: Rate,
    /// Whether the sender had nothing more to send then, so that the path may carry more.
    pub application_limited: bool,
}

/// A congestion controller.
pub trait Controller: fmt::Debug {
    /// Segments that may be in flight.
    fn window(&self) -> f64;

    /// The slow-start threshold in segments; infinite before the first loss.
    fn threshold(&self) -> f64;

    /// The rate at which to space segments, in IP-layer bits per second; `None` sends whatever the window allows at once.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether the controller sets its window in recovery too.
    fn sets_window_in_recovery(&self) -> bool {
        false
    }

    /// Whether the controller is told how many segments were marked and answers that itself; else the sender treats a mark as a loss,
    /// once a round trip (RFC 3168).
    fn counts_marks(&self) -> bool {
        false
    }

    /// Something new was acknowledged.
    fn on_ack(&mut self, ack: &Ack);

    /// A loss, or an echoed mark, begins a recovery: at most once per round trip.
    fn on_congestion(&mut self, now: Time, in_flight: u32);

    /// All that was in flight when the recovery began is acknowledged.
    fn on_recovery_end(&mut self, now: Time);

    /// The retransmission timer ran out: all that should have arrived counts as lost, and `in_flight` is the rest. `again`
    /// says that it did so for the same segment before.
    fn on_retransmission_timeout(&mut self, now: Time, in_flight: u32, again: bool);

    /// The recovery or timeout was not called for: what was taken for lost arrived (RFC 3522, RFC 8985). The controller
    /// may take its reduction back.
    fn on_spurious_reduction(&mut self, now: Time) {
        let _ = now;
    }
}
