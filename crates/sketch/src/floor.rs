use crate::buckets::{END_QUANTA, QUANTUM_NANOS, bucket_index};
use crate::sample::{BucketedDelay, FLOOR_STEP_QUANTA, Lane, Sample, TICK_NANOS};
use crate::{HOUR_NANOS, Outcome};
use kumade_units::{Span, Time};

/// Delays are kept within ± 2^41 quanta (two and a half days): clocks that differ by more are no clocks.
const MAX_QUANTA: i64 = 1 << 41;

/// As long as all delays are far above the floor before it is raised: routes that are longer for moments, and queues that
/// stand, are no new floor.
const RAISE_AFTER_NANOS: i64 = 300_000_000_000;

/// The floor is raised when the least delay is this many grid steps above it. Nearer, it costs little accuracy.
const MIN_RAISE_STEPS: i64 = 4;

/// The grid doubles at most this often, to 26 s.
const MAX_DOUBLINGS: u8 = 18;

/// The floor of one lane of a pair: a little below the least delay that its route has now.
///
/// It lies on a grid of 102 µs, which doubles with each change within an hour: clocks that drift, or a peer that makes
/// delays up, cause at most some twenty floors an hour, and floors that meet again on later days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FloorTracker {
    floor: Option<i64>,
    doublings: u8,
    hour: i64,
    window_began: i64,
    window_least: Option<i64>,
}

/// The floors of all lanes of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairFloors {
    lanes: [FloorTracker; 3],
}

impl PairFloors {
    /// The sample as it is kept.
    pub fn quantise(&mut self, sample: &Sample) -> Sample<BucketedDelay> {
        let sent = Time::from_nanos(sample.sent.as_nanos().div_euclid(TICK_NANOS).saturating_mul(TICK_NANOS));
        sample.map(sent, |lane, delay| self.lanes[lane as usize].quantise(sent, delay))
    }

    /// Takes the floors of a sample that was kept before: after a restart the trackers go on with them.
    pub fn resume(&mut self, sample: &Sample<BucketedDelay>) {
        let mut resume = |lane: Lane, delay: BucketedDelay| {
            let tracker = &mut self.lanes[lane as usize];
            tracker.floor = Some(delay.floor);
            tracker.hour = sample.sent.as_nanos().div_euclid(HOUR_NANOS);
        };
        match sample.outcome {
            Outcome::Answered { up, down } => {
                resume(Lane::Up, up);
                resume(Lane::Down, down);
            }
            Outcome::RoundTrip(delay) => resume(Lane::RoundTrip, delay),
            Outcome::Lost(_) => {}
        }
    }
}

impl FloorTracker {
    /// A delay in its bucket above the floor, which follows it.
    pub fn quantise(&mut self, sent: Time, delay: Span) -> BucketedDelay {
        let quanta = to_quanta(delay);
        let floor = self.follow(sent.as_nanos(), quanta);
        let above = quanta - floor * FLOOR_STEP_QUANTA;
        BucketedDelay { floor, bucket: bucket_index(above as u64) }
    }

    /// The floor after this delay, in steps.
    fn follow(&mut self, now: i64, quanta: i64) -> i64 {
        let hour = now.div_euclid(HOUR_NANOS);
        if hour > self.hour {
            self.doublings = self.doublings.saturating_sub(if self.floor.is_some() { 1 } else { 0 });
            self.hour = hour;
        }
        let Some(floor) = self.floor else { return self.set_floor(now, quanta) };
        let above = quanta - floor * FLOOR_STEP_QUANTA;
        if !(0..END_QUANTA as i64).contains(&above) {
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
            return self.set_floor(now, quanta);
        }
        let least = self.window_least.map_or(quanta, |least| least.min(quanta));
        self.window_least = Some(least);
        if now - self.window_began >= RAISE_AFTER_NANOS || now < self.window_began {
            if least - floor * FLOOR_STEP_QUANTA >= MIN_RAISE_STEPS * (FLOOR_STEP_QUANTA << self.doublings) {
                let raised = self.set_floor(now, least);
                self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
                return raised;
            }
            (self.window_began, self.window_least) = (now, None);
        }
        floor
    }

    fn set_floor(&mut self, now: i64, least: i64) -> i64 {
        let grid = 1i64 << self.doublings;
        // Half a step lower, so that what is a little faster does not change it again.
        let below = least - (FLOOR_STEP_QUANTA << self.doublings) / 2;
        let floor = below.div_euclid(FLOOR_STEP_QUANTA << self.doublings) * grid;
        self.floor = Some(floor);
        (self.window_began, self.window_least) = (now, None);
        floor
    }
}

/// The nearest quantum within the range that is kept.
fn to_quanta(delay: Span) -> i64 {
    let nanos = delay.as_nanos();
    nanos.saturating_add(QUANTUM_NANOS / 2).div_euclid(QUANTUM_NANOS).clamp(-MAX_QUANTA, MAX_QUANTA)
}
