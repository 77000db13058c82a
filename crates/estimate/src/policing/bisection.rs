//! What a policer leaves where it is nearly as fast as what was tried: no rates are far enough apart for a line then, but one that passes
//! the empty bucket whole is available, and no more is than arrived of the one that fell.

use super::fit::ShareLine;
use super::train_rates::PartRates;
use kumade_probe_train::Estimate;
use kumade_units::Rate;

/// A rate passes if no more than this part of it is lost, or one packet.
const MAX_LOST_FRACTION: f64 = 0.01;
/// The first rate, as a part of what arrived of the one that fell: without cross traffic, nearly as much is available.
const FIRST_RATE_PART: f64 = 0.94;
/// The second where that does not pass.
const SECOND_RATE_PART: f64 = 0.75;
/// What passed is close enough to what is available at the most.
const SUFFICIENT_RATE_PART: f64 = 0.95;
const MAX_TRIES: u32 = 5;
/// Where a line is known, so many.
const MAX_TRIES_AROUND: u32 = 3;
/// What a line tells is looked for more closely where the low end of its interval is below this part of the value.
const CLOSE_INTERVAL_PART: f64 = 0.9;
/// No value is given where half the interval's width is more than this part of it.
const MAX_RELATIVE_HALF_WIDTH: f64 = 0.25;

/// A search for what is available; all rates in bit/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateBisection {
    /// The fastest that passed, less what may have been lost of cross traffic, and what chance may have done.
    lower_bound: Option<f64>,
    /// No more is available, but for the same.
    upper_bound: f64,
    /// What was sent of the fastest that passed, and the slowest that did not.
    highest_passed_rate: f64,
    lowest_failed_rate: f64,
    /// What is tried first; none if something has been tried.
    first_rate: Option<f64>,
    tries_left: u32,
    /// No more than this.
    max_cross_rate: f64,
}

impl RateBisection {
    /// So much arrived behind the fall, with this doubt.
    pub(super) fn new(arrived: f64, doubt: f64, cross: f64) -> Self {
        let first = Some(FIRST_RATE_PART * arrived);
        let (low, high) = (None, arrived + doubt);
        RateBisection {
            lower_bound: low,
            upper_bound: high,
            highest_passed_rate: 0.0,
            lowest_failed_rate: arrived,
            first_rate: first,
            tries_left: MAX_TRIES,
            max_cross_rate: cross,
        }
    }

    /// A line tells this, less closely than a search does; none where it does not.
    pub(super) fn around_line(line: &ShareLine, cross: f64) -> Option<Self> {
        let [low, value, high] = [line.available.low, line.available.value, line.available.high].map(Rate::as_f64);
        let (first, tries_left) = (Some(FIRST_RATE_PART * value), MAX_TRIES_AROUND);
        let cross = cross.max(line.cross_rate);
        let bracket = RateBisection {
            lower_bound: None,
            upper_bound: high,
            highest_passed_rate: 0.0,
            lowest_failed_rate: high,
            first_rate: first,
            tries_left,
            max_cross_rate: cross,
        };
        (low < CLOSE_INTERVAL_PART * value).then_some(bracket)
    }

    /// How much cross traffic there may be, in bit/s.
    pub(super) fn cross_traffic_rate(&self) -> f64 {
        self.max_cross_rate
    }

    /// The next rate; none if they tell enough, or no more.
    pub(super) fn next_rate(&self) -> Option<f64> {
        let is_enough = self.highest_passed_rate > SUFFICIENT_RATE_PART * self.lowest_failed_rate;
        (self.tries_left > 0 && !is_enough).then(|| match (self.first_rate, self.lower_bound) {
            (Some(first), _) => first,
            (_, None) => SECOND_RATE_PART * self.lowest_failed_rate,
            (_, Some(_)) => (self.highest_passed_rate + self.lowest_failed_rate) / 2.0,
        })
    }

    /// A rate was tried with the bucket empty.
    pub(super) fn add_train(self, rates: &PartRates, doubt: f64) -> Self {
        let tried = self.train_missed();
        let sent_packets = rates.packets as f64 / (1.0 - rates.lost_part);
        if rates.lost_part * sent_packets > (MAX_LOST_FRACTION * sent_packets).max(1.0) {
            return RateBisection { lowest_failed_rate: rates.sending_rate.min(self.lowest_failed_rate), ..tried };
        }
        let low = rates.sending_rate - 2.0 * MAX_LOST_FRACTION * (rates.sending_rate + self.max_cross_rate) - doubt;
        let low = Some(self.lower_bound.map_or(low, |before| before.max(low)));
        RateBisection {
            lower_bound: low,
            highest_passed_rate: rates.sending_rate.max(self.highest_passed_rate),
            ..tried
        }
    }

    /// A try told nothing.
    pub(super) fn train_missed(self) -> Self {
        RateBisection { first_rate: None, tries_left: self.tries_left.saturating_sub(1), ..self }
    }

    /// What a line tells, but no less than passed. (Where cross traffic comes in bursts and the bucket is small, packets are lost at rates that are
    /// available, so that these tell nothing.)
    pub(super) fn narrow_estimate(&self, line: Estimate<Rate>) -> Estimate<Rate> {
        let low = self.lower_bound.map_or(line.low, |low| line.low.max(Rate::from_f64(low.max(0.0))));
        if low > line.high { line } else { Estimate { value: line.value.max(low), low, ..line } }
    }

    /// What is available; none where that is not known closely.
    pub(super) fn available(&self) -> Option<Estimate<Rate>> {
        let low = self.lower_bound?.max(0.0);
        let high = self.upper_bound.max(self.highest_passed_rate);
        let value = (self.highest_passed_rate + self.lowest_failed_rate).min(2.0 * high) / 2.0;
        let is_close = high - low <= 2.0 * MAX_RELATIVE_HALF_WIDTH * value;
        let [value, low, high] = [value.clamp(low, high), low, high].map(Rate::from_f64);
        is_close.then_some(Estimate { value, low, high, confidence: 0.95 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a policer does that leaves so much, with this part of its packets lost besides.
    fn bisect_rates(tried: f64, available: f64, cross: f64, lost: f64) -> (RateBisection, usize) {
        let rates = |sent: f64| {
            let passed = ((available + cross) / (sent + cross)).min(1.0) * (1.0 - lost);
            PartRates {
                sending_rate: sent,
                arrival_rate: sent * passed,
                packets: (200.0 * passed) as usize,
                lost_part: 1.0 - passed,
                delay_growth: 0.0,
                passed_count_variance: 0.0,
            }
        };
        let mut bracket = RateBisection::new(rates(tried).arrival_rate, 2e5, cross);
        let mut tries = 0;
        while let Some(rate) = bracket.next_rate() {
            bracket = bracket.add_train(&rates(rate), 2e5);
            tries += 1;
        }
        (bracket, tries)
    }

    #[test]
    fn what_passes_and_what_does_not_are_the_ends_of_an_interval() {
        for (tried, available, cross) in [(48e6, 40e6, 0.0), (48e6, 30e6, 10e6), (60e6, 40e6, 20e6), (48e6, 46e6, 2e6)]
        {
            let (bracket, tries) = bisect_rates(tried, available, cross, 0.0);
            let value = bracket.available().unwrap_or_else(|| panic!("{available}: {bracket:?}"));
            assert_eq!(value.covers(Rate::from_f64(available)), Some(true), "{value:?}");
            assert!((value.value.as_f64() / available - 1.0).abs() < 0.05 && tries <= 5, "{value:?} of {available}");
        }
    }

    #[test]
    fn where_nothing_passes_whole_there_is_no_value() {
        assert_eq!(bisect_rates(48e6, 48e6, 0.0, 0.1).0.available(), None);
    }
}
