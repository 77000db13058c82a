use crate::buckets::{QUANTUM_NANOS, bucket_edges, bucket_middle};
use kumade_units::{Span, Time};

/// Times of probes are kept in units of this: a sixteenth of a second, which divides a minute. Probes of one unit keep their
/// order.
pub const TICK_NANOS: i64 = 62_500_000;

/// One light probe. Its delays are spans, as measured, or buckets, as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<D = Span> {
    /// When it was sent, in nanoseconds since 1970 (UTC), rounded down to [`TICK_NANOS`] once it is kept.
    pub sent: Time,
    /// What became of it.
    pub outcome: Outcome<D>,
    /// It was answered after the time that a probe is waited for. It has a delay, and is not lost.
    pub late: bool,
    /// Answers besides the first.
    pub duplicates: u8,
    /// An exclusive run used a host or a link of the pair meanwhile.
    pub disturbed: bool,
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<D = Span> {
    /// The one-way delays of both directions are known, each with the clocks' unknown offset in it.
    Answered {
        /// From the pair's source to its target.
        up: D,
        /// Back.
        down: D,
    },
    /// An answer of a host that tells no times, such as an ICMP echo reply: the round-trip delay.
    RoundTrip(D),
    /// No answer in time.
    Lost(LostIn),
}

/// Where a probe, or its answer, was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostIn {
    /// On the way up: the target says that it did not receive it.
    Up,
    /// On the way down: the target received it.
    Down,
    /// In one of the two directions.
    EitherWay,
    /// In a round trip to a host that can't tell the directions apart.
    RoundTrip,
}

/// What a delay is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// One-way, from source to target.
    Up,
    /// One-way, from target to source.
    Down,
    /// The round trip, where one-way delays aren't known.
    RoundTrip,
}

/// A delay in its bucket above a floor, as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketedDelay {
    /// In units of 102.4 µs; below zero where clocks differ.
    pub floor: i64,
    /// The bucket above the floor, below 512.
    pub bucket: u16,
}

impl<D> Sample<D> {
    /// A probe that was neither late, duplicated nor disturbed.
    pub const fn new(sent: Time, outcome: Outcome<D>) -> Self {
        Sample { sent, outcome, late: false, duplicates: 0, disturbed: false }
    }

    /// The same with other delays.
    pub(crate) fn map<E>(self, sent: Time, mut delay: impl FnMut(Lane, D) -> E) -> Sample<E> {
        let outcome = match self.outcome {
            Outcome::Answered { up, down } => {
                Outcome::Answered { up: delay(Lane::Up, up), down: delay(Lane::Down, down) }
            }
            Outcome::RoundTrip(round_trip) => Outcome::RoundTrip(delay(Lane::RoundTrip, round_trip)),
            Outcome::Lost(lost) => Outcome::Lost(lost),
        };
        Sample { sent, outcome, late: self.late, duplicates: self.duplicates, disturbed: self.disturbed }
    }
}

impl Sample<BucketedDelay> {
    /// With the delays that stand for the buckets.
    pub fn to_spans(self) -> Sample {
        let sent = self.sent;
        self.map(sent, |_, delay| delay.middle())
    }

    /// The number of its [tick](TICK_NANOS).
    pub(crate) fn tick(&self) -> i64 {
        self.sent.as_nanos().div_euclid(TICK_NANOS)
    }
}

impl Lane {
    /// All, in the order in which they are stored.
    pub const ALL: [Lane; 3] = [Lane::Up, Lane::Down, Lane::RoundTrip];
}

/// What floors are multiples of, in quanta.
pub(crate) const FLOOR_STEP_QUANTA: i64 = 1024;

impl BucketedDelay {
    /// The delay that stands for the bucket.
    pub fn middle(self) -> Span {
        self.above_floor(bucket_middle(self.bucket))
    }

    /// The least delay of the bucket, and the least of the next.
    pub fn bounds(self) -> (Span, Span) {
        let (low, high) = bucket_edges(self.bucket);
        (self.above_floor(low), self.above_floor(high))
    }

    fn above_floor(self, quanta: u64) -> Span {
        let floor = self.floor.saturating_mul(FLOOR_STEP_QUANTA);
        Span::from_nanos(floor.saturating_add(quanta as i64).saturating_mul(QUANTUM_NANOS))
    }
}
