use super::l4s;
use crate::queue::flow_codel::SHORTEST_GAP_DIVISOR;
use kumade_units::{Span, Time};

/// What concerns the queue as a whole.
#[derive(Debug)]
pub(super) struct QueueState {
    pub(super) last_update: Time,
    /// Bytes that have left since then, and those of them that are of flows which had to pay a short while ago.
    served_bytes: u64,
    signalled_bytes: u64,
    /// The link's rate lately while busy, and the most that it was, which fades; in bytes per second.
    recent_rate: f64,
    pub(super) peak_rate: f64,
    /// What part of the peak rate was used lately.
    load: f64,
    /// Whether the link was idle since the last update, and when a flow last had to pay.
    pub(super) was_idle: bool,
    pub(super) last_drop: Time,
    /// When a flow last began to pay.
    pub(super) last_signal_start: Time,
    /// How many targets of delay a flow may keep.
    pub(super) target_scale: f64,
}

/// A full packet of Ethernet.
pub(super) const FULL_PACKET_BYTES: u64 = 1514;
/// A link is slow that has less than this part of its peak rate.
const SLOW_RATE_RATIO: f64 = 0.5;
/// How many bytes must have left for a rate, over how many targets it is smoothed, and for how many windows the peak is remembered.
const MIN_RATE_SAMPLE_BYTES: u64 = 4 * FULL_PACKET_BYTES;
const RATE_SMOOTHING_TARGETS: f64 = 0.5;
const PEAK_MEMORY_WINDOWS: f64 = 2.0;
/// How much the delay that flows may keep rises for each window of the link's time that such flows use while the link falls idle
/// in between, how much it falls in each window, and the maximum in targets.
const TARGET_SCALE_INCREASE: f64 = 60.0;
const TARGET_SCALE_DECREASE: f64 = 0.06;
const MAX_TARGET_SCALE: f64 = 5.0;
/// Who has slowed down too much still uses half of the link. Where less than this is used, over the longest round trip, those for whom
/// the delay has risen are gone: it falls as fast as it has risen.
const MIN_LOAD: f64 = 0.25;
const ABSENT_SCALE_DECREASE: f64 = 10.0;

impl QueueState {
    /// Of an empty queue.
    pub(super) fn new() -> Self {
        QueueState {
            last_update: Time::ZERO,
            served_bytes: 0,
            signalled_bytes: 0,
            recent_rate: 0.0,
            peak_rate: 0.0,
            load: 0.0,
            was_idle: false,
            last_drop: Time::ZERO,
            last_signal_start: Time::ZERO,
            target_scale: 1.0,
        }
    }

    /// By what lead and credit of L4S flows are measured.
    pub(super) fn l4s_lead_scale(&self, target: Span) -> u64 {
        l4s::lead_scale_bytes(self.recent_rate, target)
    }

    /// What a full packet takes on the link; nothing before its rate is known.
    pub(super) fn packet_time(&self) -> Span {
        if self.recent_rate > 0.0 {
            Span::from_secs_f64(FULL_PACKET_BYTES as f64 / self.recent_rate)
        } else {
            Span::ZERO
        }
    }

    /// Whether the link has far less than its rate of a short while ago.
    pub(super) fn is_slow(&self) -> bool {
        self.recent_rate < SLOW_RATE_RATIO * self.peak_rate
    }

    /// A packet leaves that is of a flow which had to pay a short while ago, or of another one.
    pub(super) fn record_departure(&mut self, size: u32, is_signalled: bool) {
        self.served_bytes += u64::from(size);
        self.signalled_bytes += if is_signalled { size.into() } else { 0 };
    }

    /// Takes account of what has happened since the last update, if that is half a target ago.
    ///
    /// A link that is idle is wasted only if those still send who had to slow down: what they send in the meantime raises the
    /// target, and an idle link on which they send nothing does not.
    pub(super) fn update_target_scale(&mut self, now: Time, target: Span, window: Span) {
        let elapsed = now - self.last_update;
        if elapsed < target / 2 || (self.served_bytes < MIN_RATE_SAMPLE_BYTES && !self.was_idle) {
            return;
        }
        self.last_update = now;
        let (seconds, target, window) = (elapsed.as_secs_f64(), target.as_secs_f64(), window.as_secs_f64());
        let served = std::mem::take(&mut self.served_bytes) as f64;
        let signalled = std::mem::take(&mut self.signalled_bytes) as f64;
        let idled = std::mem::take(&mut self.was_idle);
        self.peak_rate *= kept_part(seconds, window * PEAK_MEMORY_WINDOWS);
        if !idled {
            let kept = kept_part(seconds, target * RATE_SMOOTHING_TARGETS);
            self.recent_rate = served / seconds + kept * (self.recent_rate - served / seconds);
        }
        self.peak_rate = self.peak_rate.max(self.recent_rate);
        if self.peak_rate <= 0.0 {
            // It was never busy: nobody has had to pay.
            return;
        }
        let load = served / (self.peak_rate * seconds);
        self.load = load + kept_part(seconds, window / SHORTEST_GAP_DIVISOR as f64) * (self.load - load);
        let rise = if idled { TARGET_SCALE_INCREASE * signalled / (self.peak_rate * window) } else { 0.0 };
        let fall = if self.load < MIN_LOAD { ABSENT_SCALE_DECREASE } else { TARGET_SCALE_DECREASE };
        let scale = self.target_scale * (1.0 + rise) * kept_part(seconds * fall, window);
        self.target_scale = scale.clamp(1.0, MAX_TARGET_SCALE);
    }
}

/// What remains after a time of what fades within `memory`: close to an exponential where the steps are short, and the same on all
/// machines.
fn kept_part(elapsed: f64, memory: f64) -> f64 {
    memory / (memory + elapsed)
}
