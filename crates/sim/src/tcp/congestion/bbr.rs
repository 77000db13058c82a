//! BBR version 1 (Cardwell, Cheng, Gunn, Yeganeh and Jacobson, "BBR: congestion-based congestion control", 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00), as Linux has it.
//!
//! Left out: the long-term rate that Linux falls back to where it suspects a policer (a fifth of what it sends is lost,
//! twice at the same rate), and the restart after idling.

mod aggregation;
mod bandwidth;
mod cycle;

use super::controller::{Ack, Controller, Reduction};
use super::rounds::RoundCounter;
use super::window::INITIAL_SEGMENTS;
use aggregation::AckAggregation;
use bandwidth::{BandwidthFilter, FullPipeDetector};
use cycle::{GainCycle, InFlightBounds};
use kumade_units::{Rate, Span, Time};

/// 2 / ln 2: the least gain at which the rate doubles in a round trip.
const HIGH_GAIN: f64 = 2.885;
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
const WINDOW_GAIN: f64 = 2.0;
/// It paces a hundredth below its estimate, so that queues drain in the long run.
const PACING_MARGIN: f64 = 0.99;
const MIN_WINDOW_SEGMENTS: u32 = 4;
/// What it takes for the round-trip time before it knows it.
const NOMINAL_ROUND_TRIP: Span = Span::from_millis(1);
/// How long the least round-trip time is believed.
const MIN_ROUND_TRIP_LIFETIME: Span = Span::from_secs(10);
/// How long the queue is left empty to measure it anew.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);
/// Below this rate segments are sent one by one, above two at once or as many as it carries in a 1024th of a second.
const SINGLE_SEGMENT_RATE: Rate = Rate::from_bits_per_second(1_200_000);
/// The most bytes that are sent at once.
const MAX_BURST_BYTES: f64 = 65535.0;
/// The most segments, however small.
const MAX_BURST_SEGMENTS: u32 = 127;

/// Models the path by its bandwidth and least round-trip time, paces at the one and keeps in flight twice the product:
/// see the module's documentation for what it leaves out.
#[derive(Debug, Clone)]
pub struct Bbr {
    segment_bytes: u32,
    window: u32,
    threshold: f64,
    /// Segments per second.
    pacing_segments_per_second: f64,
    mode: BbrMode,
    bandwidth: BandwidthFilter,
    full_pipe: FullPipeDetector,
    aggregation: AckAggregation,
    rounds: RoundCounter,
    has_round_begun: bool,
    round_trip: Option<MinRoundTrip>,
    /// Whether pacing started from a round-trip time that was measured.
    has_measured_round_trip: bool,
    recovery: RecoveryState,
    /// Samples of what was sent until so much had been delivered are of a flow that held back.
    application_limited_until: Option<u64>,
}

#[derive(Debug, Clone)]
enum BbrMode {
    /// Doubles the rate until the bandwidth grows no more.
    Startup,
    /// Drains the queue that this made.
    Drain,
    /// Cycles about the bandwidth.
    ProbeBandwidth(GainCycle),
    /// Empties the path to see its round-trip time.
    ProbeRoundTrip {
        /// When it may end, from when so little was in flight; and whether a round has passed since.
        ends: Option<Time>,
        round_done: bool,
    },
}

#[derive(Debug, Clone)]
struct MinRoundTrip {
    span: Span,
    measured: Time,
}

/// What of loss recovery matters here.
#[derive(Debug, Clone, Default)]
struct RecoveryState {
    phase: RecoveryPhase,
    /// Whether a segment is sent for each delivered, no more.
    packet_conservation: bool,
    /// The window before it, or before the path was emptied.
    window_before: u32,
    timed_out: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum RecoveryPhase {
    #[default]
    Open,
    Fast,
    Timeout,
}

impl Bbr {
    /// At the start of a connection that sends segments of `segment_bytes`.
    pub fn new(segment_bytes: u32) -> Self {
        Bbr {
            segment_bytes: segment_bytes.max(1),
            window: INITIAL_SEGMENTS,
            threshold: f64::INFINITY,
            pacing_segments_per_second: initial_pacing(INITIAL_SEGMENTS, NOMINAL_ROUND_TRIP),
            mode: BbrMode::Startup,
            bandwidth: BandwidthFilter::default(),
            full_pipe: FullPipeDetector::default(),
            aggregation: AckAggregation::default(),
            rounds: RoundCounter::default(),
            has_round_begun: false,
            round_trip: None,
            has_measured_round_trip: false,
            recovery: RecoveryState::default(),
            application_limited_until: None,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match &self.mode {
            BbrMode::Startup => HIGH_GAIN,
            BbrMode::Drain => DRAIN_GAIN,
            BbrMode::ProbeBandwidth(cycle) => cycle.gain(),
            BbrMode::ProbeRoundTrip { .. } => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            BbrMode::Startup | BbrMode::Drain => HIGH_GAIN,
            BbrMode::ProbeBandwidth(_) => WINDOW_GAIN,
            BbrMode::ProbeRoundTrip { .. } => 1.0,
        }
    }

    /// Segments that are sent at once, on a host that leaves the cutting to its network card.
    fn burst_segments(&self) -> u32 {
        let bytes_per_second = self.pacing_segments_per_second * f64::from(self.segment_bytes);
        let least = if bytes_per_second * 8.0 < SINGLE_SEGMENT_RATE.as_f64() { 1 } else { 2 };
        let bytes = (bytes_per_second / 1024.0).min(MAX_BURST_BYTES);
        ((bytes / f64::from(self.segment_bytes)) as u32).clamp(least, MAX_BURST_SEGMENTS)
    }

    /// Segments that `gain` times the product of bandwidth and round-trip time holds.
    fn bandwidth_delay_product(&self, gain: f64) -> f64 {
        let Some(round_trip) = &self.round_trip else { return f64::from(INITIAL_SEGMENTS) };
        (self.bandwidth.get() * round_trip.span.as_secs_f64() * gain).ceil()
    }

    /// `segments`, and what both ends need to keep them moving: bursts, delayed acknowledgements, and enough to ask for
    /// more on the smallest paths.
    fn with_quanta(&self, segments: f64) -> u32 {
        let window = (segments as u32).saturating_add(3 * self.burst_segments());
        let even = window.saturating_add(window % 2);
        let probes = matches!(&self.mode, BbrMode::ProbeBandwidth(cycle) if cycle.is_probing());
        if probes { even.saturating_add(2) } else { even }
    }

    fn update_bandwidth(&mut self, ack: &Ack) {
        self.has_round_begun = false;
        let Some(delivery) = ack.delivery.filter(|delivery| delivery.rate > Rate::ZERO) else { return };
        self.has_round_begun = self.rounds.begins_round(ack);
        if self.has_round_begun {
            self.bandwidth.begin_round();
            self.recovery.packet_conservation = false;
        }
        let held_back = delivery.application_limited
            || self.application_limited_until.is_some_and(|until| ack.delivered_when_sent <= until);
        self.bandwidth.add_sample(delivery.rate.as_f64() / 8.0 / f64::from(self.segment_bytes), held_back);
        if ack.delivered > 0 {
            let bandwidth = self.bandwidth.get();
            self.aggregation.record_delivered(ack.now, ack.delivered, self.has_round_begun, bandwidth, self.window);
        }
        if self.has_round_begun && !held_back {
            self.full_pipe.end_round(self.bandwidth.get());
        }
    }

    fn update_cycle(&mut self, ack: &Ack) {
        let BbrMode::ProbeBandwidth(cycle) = &self.mode else { return };
        let Some(round_trip) = &self.round_trip else { return };
        let gain = cycle.gain();
        // The burst that goes next counts where more is asked for.
        let next = if cycle.is_probing() { self.burst_segments() } else { 0 };
        let in_flight = InFlightBounds {
            segments: ack.was_in_flight.saturating_add(next),
            max_segments: self.with_quanta(self.bandwidth_delay_product(gain)),
            min_segments: self.with_quanta(self.bandwidth_delay_product(1.0)),
        };
        let mut cycle = cycle.clone();
        cycle.advance(ack.now, round_trip.span, ack.lost > 0, &in_flight);
        self.mode = BbrMode::ProbeBandwidth(cycle);
    }

    fn check_drained(&mut self, ack: &Ack) {
        if matches!(self.mode, BbrMode::Startup) && self.full_pipe.is_reached() {
            self.mode = BbrMode::Drain;
            self.threshold = f64::from(self.with_quanta(self.bandwidth_delay_product(1.0)));
        }
        if matches!(self.mode, BbrMode::Drain) && ack.in_flight <= self.with_quanta(self.bandwidth_delay_product(1.0)) {
            self.mode = BbrMode::ProbeBandwidth(GainCycle::begin(ack.now));
        }
    }

    fn update_round_trip(&mut self, ack: &Ack) {
        let expired = self.round_trip.as_ref().is_some_and(|least| ack.now - least.measured > MIN_ROUND_TRIP_LIFETIME);
        if let Some(span) = ack.round_trip
            && (expired || self.round_trip.as_ref().is_none_or(|least| span <= least.span))
        {
            self.round_trip = Some(MinRoundTrip { span, measured: ack.now });
        }
        if expired && !matches!(self.mode, BbrMode::ProbeRoundTrip { .. }) {
            self.mode = BbrMode::ProbeRoundTrip { ends: None, round_done: false };
            self.recovery.window_before = self.recovery.window_before.max(self.window);
        }
        if let BbrMode::ProbeRoundTrip { ends, round_done } = self.mode {
            self.application_limited_until = Some(ack.total_delivered.saturating_add(u64::from(ack.in_flight)));
            self.probe_round_trip(ack, ends, round_done);
        }
    }

    fn probe_round_trip(&mut self, ack: &Ack, ends: Option<Time>, round_done: bool) {
        let Some(end) = ends else {
            if ack.in_flight <= MIN_WINDOW_SEGMENTS {
                self.mode = BbrMode::ProbeRoundTrip { ends: Some(ack.now + PROBE_RTT_DURATION), round_done: false };
                self.rounds.restart(ack);
            }
            return;
        };
        let round_done = round_done || self.has_round_begun;
        self.mode = BbrMode::ProbeRoundTrip { ends, round_done };
        if !round_done || ack.now <= end {
            return;
        }
        if let Some(least) = &mut self.round_trip {
            least.measured = ack.now;
        }
        self.window = self.window.max(self.recovery.window_before);
        self.mode = if self.full_pipe.is_reached() {
            BbrMode::ProbeBandwidth(GainCycle::begin(ack.now))
        } else {
            BbrMode::Startup
        };
    }

    fn set_pacing(&mut self, smoothed_round_trip: Span) {
        if !self.has_measured_round_trip && smoothed_round_trip > Span::ZERO {
            self.has_measured_round_trip = true;
            self.pacing_segments_per_second = initial_pacing(self.window, smoothed_round_trip);
        }
        let pacing = self.pacing_gain() * PACING_MARGIN * self.bandwidth.get();
        if self.full_pipe.is_reached() || pacing > self.pacing_segments_per_second {
            self.pacing_segments_per_second = pacing;
        }
    }

    fn set_window(&mut self, ack: &Ack) {
        if ack.delivered > 0 {
            self.update_recovery(ack);
            if !self.recovery.packet_conservation {
                self.approach_target(ack);
            }
        }
        if matches!(self.mode, BbrMode::ProbeRoundTrip { .. }) {
            self.window = self.window.min(MIN_WINDOW_SEGMENTS);
        }
    }

    /// In the first round of recovery it sends a segment for each delivered; later at most two; afterwards the window
    /// is what it was.
    fn update_recovery(&mut self, ack: &Ack) {
        self.window = self.window.saturating_sub(ack.lost).max(1);
        let delivered = ack.in_flight.saturating_add(ack.delivered);
        let phase = self.recovery.next_phase(ack);
        let before = std::mem::replace(&mut self.recovery.phase, phase);
        if phase == RecoveryPhase::Fast && before != RecoveryPhase::Fast {
            self.recovery.packet_conservation = true;
            self.rounds.restart(ack);
            self.window = delivered;
        } else if phase == RecoveryPhase::Open && before != RecoveryPhase::Open {
            self.recovery.packet_conservation = false;
            self.window = self.window.max(self.recovery.window_before);
        }
        if self.recovery.packet_conservation {
            self.window = self.window.max(delivered);
        }
    }

    fn approach_target(&mut self, ack: &Ack) {
        let product = self.bandwidth_delay_product(self.window_gain());
        let grown = self.window.saturating_add(ack.delivered);
        if self.full_pipe.is_reached() {
            let allowance = self.aggregation.extra_segments(self.bandwidth.get());
            self.window = grown.min(self.with_quanta(product + allowance));
        } else if self.window < self.with_quanta(product) || ack.total_delivered < u64::from(INITIAL_SEGMENTS) {
            self.window = grown;
        }
        self.window = self.window.max(MIN_WINDOW_SEGMENTS);
    }

    /// Keeps the window for after the recovery. If one is under way, or the path is being emptied, it is cut already.
    fn save_window(&mut self) {
        let whole = self.recovery.phase == RecoveryPhase::Open && !matches!(self.mode, BbrMode::ProbeRoundTrip { .. });
        let kept = if whole { 0 } else { self.recovery.window_before };
        self.recovery.window_before = self.window.max(kept);
    }
}

impl RecoveryState {
    fn next_phase(&self, ack: &Ack) -> RecoveryPhase {
        if self.timed_out {
            RecoveryPhase::Timeout
        } else if ack.reduction == Some(Reduction::Loss) {
            RecoveryPhase::Fast
        } else {
            RecoveryPhase::Open
        }
    }
}

impl Controller for Bbr {
    fn window(&self) -> f64 {
        f64::from(self.window)
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let bits = self.pacing_segments_per_second * f64::from(self.segment_bytes) * 8.0;
        Some(Rate::from_f64(bits.max(1.0)))
    }

    fn sets_window_in_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.update_bandwidth(ack);
        self.update_cycle(ack);
        self.check_drained(ack);
        self.update_round_trip(ack);
        self.set_pacing(ack.smoothed_round_trip);
        self.set_window(ack);
    }

    fn on_congestion(&mut self, _now: Time, _in_flight: u32) {
        self.save_window();
    }

    fn on_recovery_end(&mut self, _now: Time) {
        self.recovery.timed_out = false;
    }

    fn on_retransmission_timeout(&mut self, _now: Time, in_flight: u32, _again: bool) {
        self.save_window();
        self.recovery.timed_out = true;
        self.recovery.phase = RecoveryPhase::Timeout;
        self.recovery.packet_conservation = false;
        self.full_pipe.restart();
        self.window = in_flight.saturating_add(1);
    }

    fn on_spurious_reduction(&mut self, _now: Time) {
        self.recovery.timed_out = false;
        self.full_pipe.restart();
    }
}

/// The rate at which slow start sends, in segments per second.
fn initial_pacing(window: u32, round_trip: Span) -> f64 {
    HIGH_GAIN * PACING_MARGIN * f64::from(window) / round_trip.as_secs_f64()
}

#[cfg(test)]
mod tests;
