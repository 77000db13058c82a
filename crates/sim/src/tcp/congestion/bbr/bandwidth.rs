use std::collections::VecDeque;

/// For how many round trips a sample may be the greatest: a cycle of gains and a bit.
const FILTER_ROUNDS: u64 = 10;
/// The bandwidth must grow so much in a round to count as growing.
const MIN_GROWTH_RATIO: f64 = 1.25;
/// After so many rounds without, the pipe is full.
const MAX_STALLED_ROUNDS: u32 = 3;

/// The greatest delivery rate of the last round trips, in segments per second.
#[derive(Debug, Clone, Default)]
pub(super) struct BandwidthFilter {
    round: u64,
    /// Falling rates with the rounds of which each is the greatest since the one ahead: at most one for each round.
    greatest: VecDeque<(u64, f64)>,
}

impl BandwidthFilter {
    /// Zero before the first sample.
    pub(super) fn get(&self) -> f64 {
        self.greatest.front().map_or(0.0, |(_, rate)| *rate)
    }

    pub(super) fn begin_round(&mut self) {
        self.round = self.round.saturating_add(1);
    }

    /// Takes in a sample. One of a flow that held back counts only if it shows more than is known.
    pub(super) fn add_sample(&mut self, rate: f64, held_back: bool) {
        if held_back && rate < self.get() {
            return;
        }
        while self.greatest.back().is_some_and(|(_, last)| *last <= rate) {
            self.greatest.pop_back();
        }
        if self.greatest.back().is_none_or(|(round, _)| *round != self.round) {
            self.greatest.push_back((self.round, rate));
        }
        while self.greatest.front().is_some_and(|(round, _)| self.round - round > FILTER_ROUNDS) {
            self.greatest.pop_front();
        }
    }
}

/// Tells when sending faster brings no more.
#[derive(Debug, Clone, Default)]
pub(super) struct FullPipeDetector {
    best_bandwidth: f64,
    stalled_rounds: u32,
    is_reached: bool,
}

impl FullPipeDetector {
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// A round has ended in which the flow did not hold back, with this bandwidth.
    pub(super) fn end_round(&mut self, bandwidth: f64) {
        if self.is_reached {
            return;
        }
        if bandwidth >= self.best_bandwidth * MIN_GROWTH_RATIO {
            self.best_bandwidth = bandwidth;
            self.stalled_rounds = 0;
        } else {
            self.stalled_rounds += 1;
            self.is_reached = self.stalled_rounds >= MAX_STALLED_ROUNDS;
        }
    }

    /// Compares anew from now on; what was reached stays.
    pub(super) fn restart(&mut self) {
        self.best_bandwidth = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_believed_for_ten_rounds() {
        let mut bandwidth = BandwidthFilter::default();
        bandwidth.add_sample(100.0, false);
        for _ in 0..10 {
            bandwidth.begin_round();
            bandwidth.add_sample(40.0, false);
            assert_eq!(bandwidth.get(), 100.0);
        }
        bandwidth.begin_round();
        bandwidth.add_sample(30.0, false);
        assert_eq!(bandwidth.get(), 40.0);
    }

    #[test]
    fn a_flow_that_holds_back_shows_only_that_there_is_more() {
        let mut bandwidth = BandwidthFilter::default();
        bandwidth.add_sample(100.0, false);
        for round in 0..100 {
            bandwidth.begin_round();
            bandwidth.add_sample(99.0 - f64::from(round), true);
        }
        assert_eq!(bandwidth.get(), 100.0);
        bandwidth.add_sample(101.0, true);
        assert_eq!(bandwidth.get(), 101.0);
    }

    #[test]
    fn the_pipe_is_full_after_three_rounds_with_less_than_a_quarter_more() {
        let mut pipe = FullPipeDetector::default();
        for bandwidth in [100.0, 125.0, 150.0, 157.0, 156.3] {
            pipe.end_round(bandwidth);
        }
        // 157 is a quarter more than 125: only one round has stalled since.
        assert!(!pipe.is_reached());
        pipe.end_round(160.0);
        pipe.end_round(190.0);
        assert!(pipe.is_reached());
    }
}
