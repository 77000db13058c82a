use crate::sample::BucketedDelay;
use kumade_units::Span;
use std::iter;

/// How often delays fell into each bucket above each floor.
///
/// Merging adds counts, so that it is associative and commutative to the bit. A route's change gives delays another floor;
/// both stay side by side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sketch {
    parts: Vec<Part>,
}

/// The buckets above one floor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) floor: i64,
    /// Bucket and count, by bucket; no count is zero.
    pub(crate) counts: Vec<(u16, u64)>,
}

/// A figure of delays, with the bounds within which the truth lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    /// The middle of its bucket.
    pub value: Span,
    /// Not above the truth.
    pub low: Span,
    /// Not below the truth.
    pub high: Span,
}

impl Sketch {
    /// Counts a delay `times` times.
    pub fn add(&mut self, delay: BucketedDelay, times: u64) {
        if times == 0 {
            return;
        }
        // Most delays have the floor of the last.
        let place = match self.parts.last() {
            Some(part) if part.floor == delay.floor => Ok(self.parts.len() - 1),
            Some(part) if part.floor < delay.floor => Err(self.parts.len()),
            _ => self.parts.binary_search_by_key(&delay.floor, |part| part.floor),
        };
        let place = place.unwrap_or_else(|place| {
            self.parts.insert(place, Part { floor: delay.floor, counts: Vec::new() });
            place
        });
        let counts = &mut self.parts[place].counts;
        // What is read comes in order.
        if counts.last().is_none_or(|(last, _)| *last < delay.bucket) {
            counts.push((delay.bucket, times));
            return;
        }
        match counts.binary_search_by_key(&delay.bucket, |(bucket, _)| *bucket) {
            Ok(found) => counts[found].1 = counts[found].1.saturating_add(times),
            Err(place) => counts.insert(place, (delay.bucket, times)),
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Sketch) {
        for part in &other.parts {
            match self.parts.binary_search_by_key(&part.floor, |own| own.floor) {
                Ok(place) => merge_counts(&mut self.parts[place].counts, &part.counts),
                Err(place) => self.parts.insert(place, part.clone()),
            }
        }
    }

    /// Number of delays.
    pub fn count(&self) -> u64 {
        self.parts.iter().flat_map(|part| &part.counts).fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The buckets that hold delays, and how many, by floor and bucket: a histogram to draw.
    pub fn buckets(&self) -> impl Iterator<Item = (BucketedDelay, u64)> + '_ {
        let of_part = |part: &'_ Part| {
            let floor = part.floor;
            part.counts.clone().into_iter().map(move |(bucket, count)| (BucketedDelay { floor, bucket }, count))
        };
        self.parts.iter().flat_map(of_part)
    }

    /// The delay that the part `fraction` of all does not exceed: 0.5 is the median. None of no delays.
    pub fn quantile(&self, fraction: f64) -> Option<Quantile> {
        self.quantiles(&[fraction]).pop().flatten()
    }

    /// Several at once, in one pass over the buckets.
    pub fn quantiles(&self, fractions: &[f64]) -> Vec<Option<Quantile>> {
        let count = self.count();
        if count == 0 {
            return vec![None; fractions.len()];
        }
        let ranks = fractions.iter().map(|fraction| {
            let rank = (fraction.clamp(0.0, 1.0) * count as f64).ceil() as u64;
            rank.clamp(1, count)
        });
        // Above one floor, all edges are in the order of the buckets.
        if let [part] = &self.parts[..] {
            return ranks.map(|rank| part.bucket_at_rank(rank).map(Quantile::from)).collect();
        }
        let ranks: Vec<_> = ranks.collect();
        // The k-th delay lies between the k-th of all lower edges and the k-th of all upper ones.
        let value = self.ranked(&ranks, BucketedDelay::middle);
        let low = self.ranked(&ranks, |delay| delay.bounds().0);
        let high = self.ranked(&ranks, |delay| delay.bounds().1);
        let found = iter::zip(value, iter::zip(low, high));
        found.map(|(value, (low, high))| Some(Quantile { value, low, high })).collect()
    }

    /// The least delay.
    pub fn minimum(&self) -> Option<Quantile> {
        self.quantile(0.0)
    }

    /// The greatest.
    pub fn maximum(&self) -> Option<Quantile> {
        self.quantile(1.0)
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> Option<Quantile> {
        let count = i128::from(self.count());
        if count == 0 {
            return None;
        }
        let mean = |delay: &dyn Fn(BucketedDelay) -> Span| {
            let sum: i128 = self.buckets().map(|(at, n)| i128::from(delay(at).as_nanos()) * i128::from(n)).sum();
            Span::from_nanos(sum.div_euclid(count) as i64)
        };
        let high = mean(&|delay| delay.bounds().1) + Span::from_nanos(1);
        Some(Quantile { value: mean(&BucketedDelay::middle), low: mean(&|delay| delay.bounds().0), high })
    }

    /// How many delays are in one bucket.
    pub(crate) fn bucket_count(&self, delay: BucketedDelay) -> u64 {
        let Ok(place) = self.parts.binary_search_by_key(&delay.floor, |part| part.floor) else { return 0 };
        let counts = &self.parts[place].counts;
        counts.binary_search_by_key(&delay.bucket, |(bucket, _)| *bucket).map_or(0, |place| counts[place].1)
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The delays with these ranks (from 1), each bucket at the place that `position` gives it.
    fn ranked(&self, ranks: &[u64], position: impl Fn(BucketedDelay) -> Span) -> Vec<Span> {
        let mut places: Vec<_> = self.buckets().map(|(delay, count)| (position(delay), count)).collect();
        places.sort_unstable();
        let mut sum = 0u64;
        for (_, count) in &mut places {
            sum = sum.saturating_add(*count);
            *count = sum;
        }
        let at_rank = |rank: &u64| places[places.partition_point(|(_, sum)| sum < rank).min(places.len() - 1)].0;
        ranks.iter().map(at_rank).collect()
    }
}

impl Part {
    /// In which bucket the delay with this rank (from 1) is.
    fn bucket_at_rank(&self, rank: u64) -> Option<BucketedDelay> {
        let mut sum = 0u64;
        let reached = self.counts.iter().find(|(_, count)| {
            sum = sum.saturating_add(*count);
            sum >= rank
        });
        reached.map(|(bucket, _)| BucketedDelay { floor: self.floor, bucket: *bucket })
    }
}

impl From<BucketedDelay> for Quantile {
    /// Of a delay of which only the bucket is known.
    fn from(delay: BucketedDelay) -> Self {
        let (low, high) = delay.bounds();
        Quantile { value: delay.middle(), low, high }
    }
}

/// Adds sorted counts to sorted counts.
fn merge_counts(own: &mut Vec<(u16, u64)>, other: &[(u16, u64)]) {
    let mut merged = Vec::with_capacity(own.len().max(other.len()));
    let (mut left, mut right) = (own.iter().peekable(), other.iter().peekable());
    while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
        if a.0 == b.0 {
            merged.push((a.0, a.1.saturating_add(b.1)));
        } else {
            merged.push(a.min(b));
        }
        if a.0 <= b.0 {
            left.next();
        }
        if b.0 <= a.0 {
            right.next();
        }
    }
    merged.extend(left.chain(right));
    *own = merged;
}
