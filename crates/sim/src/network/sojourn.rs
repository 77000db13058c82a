use kumade_units::Span;

/// The distribution of sojourn times (RFC 8289) in a queue, of packets that were transmitted: number, mean, and any
/// percentile to 3 %.
#[derive(Debug, Clone)]
pub struct SojournHistogram {
    /// Sixteen steps to each doubling.
    buckets: Vec<u64>,
    count: u64,
    sum: i128,
}

/// 64 doublings.
const BUCKET_COUNT: usize = 64 * 16;

impl Default for SojournHistogram {
    fn default() -> Self {
        SojournHistogram { buckets: vec![0; BUCKET_COUNT], count: 0, sum: 0 }
    }
}

impl SojournHistogram {
    pub(super) fn record(&mut self, span: Span) {
        let nanos = span.as_nanos().max(0) as u64;
        self.buckets[bucket_index(nanos)] += 1;
        self.count += 1;
        self.sum += i128::from(nanos);
    }

    /// Packets.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero without packets.
    pub fn mean(&self) -> Span {
        Span::from_nanos((self.sum / i128::from(self.count.max(1))) as i64)
    }

    /// The quantile of this order, from 0 to 1; zero without packets.
    pub fn quantile(&self, part: f64) -> Span {
        let rank = (self.count as f64 * part).ceil() as u64;
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= rank && seen > 0
        };
        self.buckets.iter().position(reaches).map_or(Span::ZERO, |index| Span::from_nanos(bucket_middle_nanos(index)))
    }

    /// Adds what another one has.
    pub fn add(&mut self, other: &SojournHistogram) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, theirs)| *own += theirs);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// What was added since `earlier`, a copy of this taken before.
    #[must_use]
    pub fn since(&self, earlier: &SojournHistogram) -> SojournHistogram {
        let buckets = self.buckets.iter().zip(&earlier.buckets).map(|(now, then)| now.saturating_sub(*then)).collect();
        SojournHistogram { buckets, count: self.count.saturating_sub(earlier.count), sum: self.sum - earlier.sum }
    }
}

fn bucket_index(nanos: u64) -> usize {
    if nanos < 16 {
        return nanos as usize;
    }
    let doubling = nanos.ilog2();
    let step = (nanos >> (doubling - 4)) & 15;
    (doubling as usize - 3) * 16 + step as usize
}

fn bucket_middle_nanos(index: usize) -> i64 {
    if index < 16 {
        return index as i64;
    }
    let (doubling, step) = (index / 16 + 3, index as i64 % 16);
    let width = 1i64 << (doubling - 4);
    (16 + step) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_percent() {
        let mut sojourn = SojournHistogram::default();
        assert_eq!((sojourn.mean(), sojourn.quantile(0.5)), (Span::ZERO, Span::ZERO));
        for micros in 1..=1000 {
            sojourn.record(Span::from_micros(micros));
        }
        assert_eq!(sojourn.mean(), Span::from_nanos(500_500));
        for (part, micros) in [(0.5, 500.0), (0.95, 950.0), (1.0, 1000.0), (0.0, 1.0)] {
            let found = sojourn.quantile(part).as_nanos() as f64 / 1000.0;
            assert!((found / micros - 1.0).abs() < 0.032, "{part}: {found} for {micros}");
        }
        let earlier = sojourn.clone();
        sojourn.record(Span::from_secs(1000));
        assert_eq!(sojourn.since(&earlier).count(), 1);
        assert!(sojourn.since(&earlier).quantile(0.5) > Span::from_secs(970));
    }
}
