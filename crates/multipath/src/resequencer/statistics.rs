use kumade_units::Span;

/// What a [`Resequencer`](crate::Resequencer) has done since it was made. Packets, unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResequencerStatistics {
    /// Delivered in order, at once or after waiting.
    pub in_order: u64,
    /// Delivered at once because they were sent as needing no order.
    pub unordered: u64,
    /// Declared lost: later ones were delivered before them. Some may have come after that; see `late`.
    pub lost: u64,
    /// Delivered although later ones had been. TCP can use them: they spare a retransmission, or undo its effect
    /// (RFC 2883, RFC 3522).
    pub late: u64,
    /// Dropped because they had been delivered, or were copies so late that nobody knows.
    pub duplicates: u64,
    /// Gaps that ended by the timer and not by what paths delivered.
    pub expired: u64,
    /// Gaps that ended because memory was needed.
    pub evicted: u64,
    /// The most packets of one bucket that waited at once: the reorder depth.
    pub max_depth: u32,
    /// How long packets waited.
    pub waits: WaitStatistics,
}

/// The distribution of waits. Only packets that waited are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStatistics {
    /// Packets that waited.
    pub count: u64,
    /// All their waits.
    pub total_wait: Span,
    /// The longest wait.
    pub max_wait: Span,
    /// How many waited for so long, by [`bucket_index`].
    histogram: WaitHistogram,
}

/// An array of its own for the sake of `Default`, which arrays of this length lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WaitHistogram([u64; BUCKET_COUNT]);

/// Of each doubling of the time.
const BUCKETS_PER_DOUBLING: usize = 4;
/// Up to 2 s, and one for longer waits; the longest that are configured are shorter.
const BUCKET_COUNT: usize = 1 + 21 * BUCKETS_PER_DOUBLING;

impl Default for WaitHistogram {
    fn default() -> Self {
        WaitHistogram([0; BUCKET_COUNT])
    }
}

impl ResequencerStatistics {
    /// Counts what another one has done.
    pub fn add_statistics(&mut self, other: &ResequencerStatistics) {
        self.in_order += other.in_order;
        self.unordered += other.unordered;
        self.lost += other.lost;
        self.late += other.late;
        self.duplicates += other.duplicates;
        self.expired += other.expired;
        self.evicted += other.evicted;
        self.max_depth = self.max_depth.max(other.max_depth);
        self.waits.add_waits(&other.waits);
    }
}

impl WaitStatistics {
    fn add_waits(&mut self, other: &WaitStatistics) {
        self.count += other.count;
        self.total_wait += other.total_wait;
        self.max_wait = self.max_wait.max(other.max_wait);
        self.histogram.0.iter_mut().zip(other.histogram.0).for_each(|(count, more)| *count += more);
    }

    pub(super) fn record_wait(&mut self, wait: Span) {
        if wait <= Span::ZERO {
            return;
        }
        self.count += 1;
        self.total_wait += wait;
        self.max_wait = self.max_wait.max(wait);
        self.histogram.0[bucket_index(wait)] += 1;
    }

    /// So long waited at most this part of the packets that waited, from 0 to 1: at most a quarter too long. `None` if none
    /// waited.
    pub fn quantile(&self, ratio: f64) -> Option<Span> {
        let rank = ((self.count as f64 * ratio).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        let place = self.histogram.0.iter().position(|count| {
            below += count;
            below >= rank
        });
        place.map(|place| bucket_upper_bound(place).min(self.max_wait))
    }

    /// How many waited for less than this, which is a power of two in microseconds.
    pub fn count_within(&self, span: Span) -> u64 {
        self.histogram.0[..bucket_index(span)].iter().sum()
    }
}

/// Waits of less than 1 µs are in the first one; a doubling from there on is divided into four equal parts.
fn bucket_index(wait: Span) -> usize {
    let micros = (wait.as_nanos() / 1000) as usize;
    let Some(doubling) = micros.checked_ilog2() else { return 0 };
    let part = ((micros * BUCKETS_PER_DOUBLING) >> doubling) % BUCKETS_PER_DOUBLING;
    (1 + doubling as usize * BUCKETS_PER_DOUBLING + part).min(BUCKET_COUNT - 1)
}

/// All waits in the bucket are shorter.
fn bucket_upper_bound(bucket: usize) -> Span {
    match bucket.checked_sub(1) {
        None => Span::from_micros(1),
        Some(place) if bucket < BUCKET_COUNT - 1 => {
            let (doubling, part) = (place / BUCKETS_PER_DOUBLING, place % BUCKETS_PER_DOUBLING);
            let nanos = (1000 << doubling) * (BUCKETS_PER_DOUBLING + part + 1) / BUCKETS_PER_DOUBLING;
            Span::from_nanos(nanos as i64)
        }
        Some(_) => Span::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wait_of_nothing_is_none_and_the_longest_has_its_place() {
        let mut waits = WaitStatistics::default();
        assert_eq!(waits.quantile(0.5), None);
        for nanos in [0, 999, 1000, 1999, 2000, 3999, 4000, i64::MAX / 2] {
            waits.record_wait(Span::from_nanos(nanos));
        }
        assert_eq!((waits.count, waits.max_wait), (7, Span::from_nanos(i64::MAX / 2)));
        let within = |micros| waits.count_within(Span::from_micros(micros));
        assert_eq!([within(1), within(2), within(4), within(8), within(1 << 20)], [1, 3, 5, 6, 6]);
        assert_eq!(waits.quantile(1.0), Some(waits.max_wait));
    }

    proptest! {
        #[test]
        fn a_quantile_is_the_waits_of_its_rank_or_up_to_a_quarter_more(
            mut nanos in prop::collection::vec(1000i64..1_900_000_000, 1..50),
            ratio in 0.0..=1.0f64,
        ) {
            let mut waits = WaitStatistics::default();
            nanos.iter().for_each(|nanos| waits.record_wait(Span::from_nanos(*nanos)));
            nanos.sort_unstable();
            let rank = ((nanos.len() as f64 * ratio).ceil() as usize).max(1);
            let exact = nanos[rank - 1];
            let told = waits.quantile(ratio).unwrap().as_nanos();
            prop_assert!((exact..=exact + exact / 4 + 1000).contains(&told), "{} {}", exact, told);
        }
    }
}
