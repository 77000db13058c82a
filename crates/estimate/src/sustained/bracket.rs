//! What a policer leaves where it is nearly as fast as what was tried: no rates are far enough apart for a line then, but one that passes
//! the empty bucket whole is available, and no more is than arrives of one that does not.

use super::reading::Rates;
use train::Estimate;
use units::Rate;

/// A rate passes if no more than this part of it is lost, or one packet, …
const MAX_LOST: f64 = 0.01;
/// … and does not if more than this part is.
const MIN_LOST: f64 = 0.05;
/// The first rate, as a part of what arrived of the one that fell: without cross traffic, nearly as much is available.
const FIRST_PART: f64 = 0.94;
/// The second where that does not pass.
const SECOND_PART: f64 = 0.75;
/// What passed is close enough to what is available at the most.
const ENOUGH_PART: f64 = 0.95;
const MAX_TRIES: u32 = 5;
/// No value is given where half the interval's width is more than this part of it.
const MAX_HALF_WIDTH: f64 = 0.25;

/// A search for what is available; all rates in bit/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bracket {
    /// The fastest that passed, less what may have been lost of cross traffic, and what chance may have done.
    low: Option<f64>,
    /// No more is available, but for the same.
    high: f64,
    /// What was sent of the fastest that passed, and the slowest that did not.
    passed: f64,
    not_passed: f64,
    tries_left: u32,
}

impl Bracket {
    /// So much arrived behind the fall, with this doubt.
    pub(super) fn new(arrived: f64, doubt: f64) -> Self {
        Bracket { low: None, high: arrived + doubt, passed: 0.0, not_passed: arrived, tries_left: MAX_TRIES }
    }

    /// The next rate; none if they tell enough, or no more.
    pub(super) fn next(&self) -> Option<f64> {
        let is_enough = self.passed > ENOUGH_PART * self.not_passed;
        (self.tries_left > 0 && !is_enough).then(|| match (self.tries_left, self.low) {
            (MAX_TRIES, _) => FIRST_PART * self.not_passed,
            (_, None) => SECOND_PART * self.not_passed,
            (_, Some(_)) => (self.passed + self.not_passed) / 2.0,
        })
    }

    /// A rate was tried with the bucket empty, while connections may have sent `again` what was lost before.
    pub(super) fn add(self, rates: &Rates, doubt: f64, again: f64) -> Self {
        let tried = Bracket { tries_left: self.tries_left.saturating_sub(1), ..self };
        let sent_packets = rates.packets as f64 / (1.0 - rates.lost);
        if rates.lost * sent_packets <= (MAX_LOST * sent_packets).max(1.0) {
            let low = rates.sent * (1.0 - 2.0 * MAX_LOST) - doubt;
            let low = Some(self.low.map_or(low, |before| before.max(low)));
            return Bracket { low, passed: rates.sent.max(self.passed), ..tried };
        }
        let high = if rates.lost > MIN_LOST { self.high.min(rates.arrived + doubt + again) } else { self.high };
        Bracket { high, not_passed: rates.sent.min(self.not_passed), ..tried }
    }

    /// A try told nothing.
    pub(super) fn missed(self) -> Self {
        Bracket { tries_left: self.tries_left.saturating_sub(1), ..self }
    }

    /// What is available; none where that is not known closely.
    pub(super) fn available(&self) -> Option<Estimate<Rate>> {
        let low = self.low?.max(0.0);
        let high = self.high.max(self.passed);
        let value = (self.passed + self.not_passed).min(2.0 * high) / 2.0;
        let is_close = high - low <= 2.0 * MAX_HALF_WIDTH * value;
        let [value, low, high] = [value.clamp(low, high), low, high].map(Rate::from_f64);
        is_close.then_some(Estimate { value, low, high, confidence: 0.95 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a policer does that leaves so much, with this part of its packets lost besides.
    fn found(tried: f64, available: f64, cross: f64, lost: f64) -> (Bracket, usize) {
        let rates = |sent: f64| {
            let passed = ((available + cross) / (sent + cross)).min(1.0) * (1.0 - lost);
            Rates {
                sent,
                arrived: sent * passed,
                packets: (200.0 * passed) as usize,
                lost: 1.0 - passed,
                growth: 0.0,
                wander: 0.0,
            }
        };
        let mut bracket = Bracket::new(rates(tried).arrived, 2e5);
        let mut tries = 0;
        while let Some(rate) = bracket.next() {
            bracket = bracket.add(&rates(rate), 2e5, 0.0);
            tries += 1;
        }
        (bracket, tries)
    }

    #[test]
    fn what_passes_and_what_does_not_are_the_ends_of_an_interval() {
        for (tried, available, cross) in [(48e6, 40e6, 0.0), (48e6, 30e6, 10e6), (60e6, 40e6, 20e6), (48e6, 46e6, 2e6)]
        {
            let (bracket, tries) = found(tried, available, cross, 0.0);
            let value = bracket.available().unwrap_or_else(|| panic!("{available}: {bracket:?}"));
            assert_eq!(value.covers(Rate::from_f64(available)), Some(true), "{value:?}");
            assert!((value.value.as_f64() / available - 1.0).abs() < 0.05 && tries <= 5, "{value:?} of {available}");
        }
    }

    #[test]
    fn where_nothing_passes_whole_there_is_no_value() {
        assert_eq!(found(48e6, 48e6, 0.0, 0.1).0.available(), None);
    }
}
