//! What is known of a path's rate, for all threads that send on it.

use crate::congestion_control::control::PathCongestionControl;
use kumade_units::{Rate, Span, Time};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// What a [`PathCongestionControl`] has last come to. Each value is right by itself, and none waits for another: a reader may see some of
/// a report and some of the one before.
#[derive(Debug)]
pub(crate) struct SharedRateView {
    /// As the bits of a float.
    capacity: AtomicU64,
    pacing_rate: AtomicU64,
    drained_at: AtomicI64,
    queue_delay: AtomicI64,
    target_queue_delay: AtomicI64,
    /// [`UNKNOWN_DELAY_NANOS`] as long as it is not known.
    base_delay: AtomicI64,
    /// As the bits of a float.
    loss_ratio: AtomicU64,
    is_capacity_known: AtomicBool,
    max_capacity: f64,
}

const UNKNOWN_DELAY_NANOS: i64 = i64::MIN;
const UNKNOWN_CAPACITY_FACTOR: f64 = 64.0;
const UNFOUND_LEAD_FACTOR: f64 = 2.0;

impl SharedRateView {
    pub fn new(rate: &PathCongestionControl) -> Self {
        let view = SharedRateView {
            capacity: AtomicU64::default(),
            pacing_rate: AtomicU64::default(),
            drained_at: AtomicI64::default(),
            queue_delay: AtomicI64::default(),
            target_queue_delay: AtomicI64::default(),
            base_delay: AtomicI64::default(),
            loss_ratio: AtomicU64::default(),
            is_capacity_known: AtomicBool::default(),
            max_capacity: rate.max_bits_per_second(),
        };
        view.publish(rate);
        view
    }

    /// Has all threads see what the rate is now.
    pub fn publish(&self, rate: &PathCongestionControl) {
        self.capacity.store(rate.capacity_bits_per_second().to_bits(), Relaxed);
        self.pacing_rate.store(rate.pacing_rate().bits_per_second(), Relaxed);
        self.drained_at.store(rate.drained_at().as_nanos(), Relaxed);
        self.queue_delay.store(rate.queue_delay().as_nanos(), Relaxed);
        self.target_queue_delay.store(rate.target_queue_delay().as_nanos(), Relaxed);
        self.base_delay.store(rate.base_delay().map_or(UNKNOWN_DELAY_NANOS, Span::as_nanos), Relaxed);
        self.loss_ratio.store(rate.loss_ratio().to_bits(), Relaxed);
        self.is_capacity_known.store(rate.is_capacity_found(), Relaxed);
    }

    /// What the path carries, as far as is known.
    pub fn capacity(&self) -> Rate {
        Rate::from_f64(self.capacity_bits_per_second())
    }

    fn capacity_bits_per_second(&self) -> f64 {
        f64::from_bits(self.capacity.load(Relaxed))
    }

    /// What it may carry: where the path has never been full, far more than it ever did, and more than any other, of which
    /// the fastest carries `fastest`.
    pub fn potential_rate(&self, fastest: Rate) -> Rate {
        if self.is_capacity_known.load(Relaxed) {
            return self.capacity();
        }
        let potential =
            (self.capacity_bits_per_second() * UNKNOWN_CAPACITY_FACTOR).max(fastest.as_f64() * UNFOUND_LEAD_FACTOR);
        Rate::from_f64(potential.min(self.max_capacity))
    }

    /// The rate at which to send.
    pub fn pacing_rate(&self) -> Rate {
        Rate::from_bits_per_second(self.pacing_rate.load(Relaxed))
    }

    /// When sending may go on after the queue was longer than intended.
    pub fn drained_at(&self) -> Time {
        Time::from_nanos(self.drained_at.load(Relaxed))
    }

    /// How long packets wait in the path's own queue.
    pub fn queue_delay(&self) -> Span {
        Span::from_nanos(self.queue_delay.load(Relaxed))
    }

    /// How long they are to wait there.
    pub fn target_queue_delay(&self) -> Span {
        Span::from_nanos(self.target_queue_delay.load(Relaxed))
    }

    /// One-way delay of a full packet on the empty path, with the offset of the two ends' clocks.
    pub fn base_delay(&self) -> Option<Span> {
        Some(self.base_delay.load(Relaxed)).filter(|nanos| *nanos != UNKNOWN_DELAY_NANOS).map(Span::from_nanos)
    }

    /// The ratio of packets that are lost whatever the rate.
    pub fn loss_ratio(&self) -> f64 {
        f64::from_bits(self.loss_ratio.load(Relaxed))
    }
}
