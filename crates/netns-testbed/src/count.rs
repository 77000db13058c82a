use kumade_units::Time;
use std::collections::VecDeque;

/// Bytes and when they came, so that those of any recent time can be told.
#[derive(Debug, Default)]
pub(crate) struct ByteCount {
    /// All bytes up to and including each entry's.
    cumulative_bytes: VecDeque<(Time, u64)>,
    total: u64,
    /// Of those that are in `log` no more.
    bytes_before_log: u64,
}

impl ByteCount {
    /// Bytes came at `time`, which no earlier entry is later than.
    pub(crate) fn add_bytes(&mut self, time: Time, bytes: u64) {
        self.total += bytes;
        self.cumulative_bytes.push_back((time, self.total));
    }

    /// From `from` up to but not including `to`.
    pub(crate) fn bytes_between(&self, from: Time, to: Time) -> u64 {
        self.bytes_before(to).saturating_sub(self.bytes_before(from))
    }

    /// Forgets older entries, so that memory stays bounded.
    pub(crate) fn forget_before(&mut self, time: Time) {
        while self.cumulative_bytes.front().is_some_and(|(at, _)| *at < time) {
            self.bytes_before_log = self.cumulative_bytes.pop_front().map_or(0, |(_, total)| total);
        }
    }

    fn bytes_before(&self, time: Time) -> u64 {
        let index = self.cumulative_bytes.partition_point(|(at, _)| *at < time);
        index.checked_sub(1).map_or(self.bytes_before_log, |last| self.cumulative_bytes[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_changes_no_later_answer() {
        let at = Time::from_nanos;
        let mut count = ByteCount::default();
        for (time, bytes) in [(10, 1), (20, 2), (20, 4), (30, 8)] {
            count.add_bytes(at(time), bytes);
        }
        let asked = [(0, 100), (10, 20), (20, 30), (20, 31), (31, 100), (30, 10)];
        assert_eq!(asked.map(|(from, to)| count.bytes_between(at(from), at(to))), [15, 1, 6, 14, 0, 0]);
        count.forget_before(at(20));
        assert_eq!(asked[2..].iter().map(|&(from, to)| count.bytes_between(at(from), at(to))).sum::<u64>(), 20);
        count.forget_before(at(40));
        assert_eq!(count.bytes_between(at(40), at(50)), 0);
    }
}
