//! What is known of a path's rate, for all threads that send on it.

use crate::rate::PathRate;
use kumade_units::{Rate, Span, Time};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// What a [`PathRate`] has last come to. Each value is right by itself, and none waits for another: a reader may see some of
/// a report and some of the one before.
#[derive(Debug)]
pub(crate) struct RateView {
    /// As the bits of a float.
    capacity: AtomicU64,
    pace: AtomicU64,
    drained: AtomicI64,
    queue: AtomicI64,
    /// [`UNKNOWN_DELAY`] as long as it is not known.
    base_delay: AtomicI64,
    /// As the bits of a float.
    loss: AtomicU64,
    found: AtomicBool,
    max: f64,
}

const UNKNOWN_DELAY: i64 = i64::MIN;
const UNFOUND_FACTOR: f64 = 64.0;
const UNFOUND_LEAD: f64 = 2.0;

impl RateView {
    pub fn new(rate: &PathRate) -> Self {
        let view = RateView {
            capacity: AtomicU64::default(),
            pace: AtomicU64::default(),
            drained: AtomicI64::default(),
            queue: AtomicI64::default(),
            base_delay: AtomicI64::default(),
            loss: AtomicU64::default(),
            found: AtomicBool::default(),
            max: rate.max(),
        };
        view.publish(rate);
        view
    }

    /// Has all threads see what the rate is now.
    pub fn publish(&self, rate: &PathRate) {
        self.capacity.store(rate.exact_capacity().to_bits(), Relaxed);
        self.pace.store(rate.pace().bits_per_second(), Relaxed);
        self.drained.store(rate.drained().as_nanos(), Relaxed);
        self.queue.store(rate.queue().as_nanos(), Relaxed);
        self.base_delay.store(rate.base_delay().map_or(UNKNOWN_DELAY, Span::as_nanos), Relaxed);
        self.loss.store(rate.loss().to_bits(), Relaxed);
        self.found.store(rate.is_found(), Relaxed);
    }

    /// What the path carries, as far as is known.
    pub fn capacity(&self) -> Rate {
        Rate::from_f64(self.exact_capacity())
    }

    fn exact_capacity(&self) -> f64 {
        f64::from_bits(self.capacity.load(Relaxed))
    }

    /// What it may carry: where the path has never been full, far more than it ever did, and more than any other, of which
    /// the fastest carries `fastest`.
    pub fn potential(&self, fastest: Rate) -> Rate {
        if self.found.load(Relaxed) {
            return self.capacity();
        }
        let potential = (self.exact_capacity() * UNFOUND_FACTOR).max(fastest.as_f64() * UNFOUND_LEAD);
        Rate::from_f64(potential.min(self.max))
    }

    /// The rate at which to send.
    pub fn pace(&self) -> Rate {
        Rate::from_bits_per_second(self.pace.load(Relaxed))
    }

    /// When sending may go on after the queue was longer than intended.
    pub fn drained(&self) -> Time {
        Time::from_nanos(self.drained.load(Relaxed))
    }

    /// How long packets wait in the path's own queue.
    pub fn queue(&self) -> Span {
        Span::from_nanos(self.queue.load(Relaxed))
    }

    /// One-way delay of a full packet on the empty path, with the offset of the two ends' clocks.
    pub fn base_delay(&self) -> Option<Span> {
        Some(self.base_delay.load(Relaxed)).filter(|nanos| *nanos != UNKNOWN_DELAY).map(Span::from_nanos)
    }

    /// The ratio of packets that are lost whatever the rate.
    pub fn loss(&self) -> f64 {
        f64::from_bits(self.loss.load(Relaxed))
    }
}
