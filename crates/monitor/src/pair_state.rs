//! What the last minutes say of a pair.

use crate::status::LossStatus;
use kumade_estimate::delay::loss_ratio;
use kumade_sketch::{BucketedDelay, Lane, Outcome, Sample, Summary};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// The judgement of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairState {
    /// Probes are answered.
    Up,
    /// More than [`MAX_LOSS_RATIO`] of the probes are lost, as sure as 95 %.
    Lossy,
    /// The last probes have all been lost.
    Down,
    /// No result of a probe of late.
    NoData,
}

/// Follows the light probes of a pair.
#[derive(Debug)]
pub struct PairMonitor {
    /// Within which a result is expected.
    max_silence: Span,
    /// By the number of the minute. Times are those of the monotonic clock.
    minutes: BTreeMap<i64, Summary>,
    /// All of these.
    recent: Summary,
    /// Since the last one that was answered.
    lost_in_a_row: u32,
    /// When the last one was sent that was lost, …
    last_lost: Option<Time>,
    /// … and the last that was answered.
    last_answered: Option<Time>,
    last_result: Option<Time>,
    state: PairState,
    /// By the clock of the day.
    since: Time,
}

/// Probes in a row that are lost before a path counts as down: three of four at random are lost once in 64 losses.
const MIN_LOST_IN_A_ROW: u32 = 4;
/// From which loss on a path counts as impaired: TCP feels it on any path that is not short.
pub const MAX_LOSS_RATIO: f64 = 0.01;
/// Minutes that are looked at.
const KEPT_MINUTES: i64 = 15;
/// Probe intervals without any result, beyond the time that replies are waited for, after which there is no data. Of Poisson times, an
/// interval in 10⁴ is longer than nine means; those here are cut at four.
const MAX_SILENT_INTERVALS: i64 = 10;

impl PairMonitor {
    /// Without data. `interval` is the mean interval of probes, `lost_after` the time that replies are waited for;
    /// `utc` is the time of the day.
    pub fn new(interval: Span, lost_after: Span, utc: Time) -> Self {
        PairMonitor {
            max_silence: interval * MAX_SILENT_INTERVALS + lost_after,
            minutes: BTreeMap::new(),
            recent: Summary::default(),
            lost_in_a_row: 0,
            last_lost: None,
            last_answered: None,
            last_result: None,
            state: PairState::NoData,
            since: utc,
        }
    }

    /// Probes are sent, and waited for, otherwise from now on; parameters as of [`new`](Self::new).
    pub fn set_interval(&mut self, interval: Span, lost_after: Span) {
        self.max_silence = interval * MAX_SILENT_INTERVALS + lost_after;
    }

    /// Takes what became of a probe: `sent` is when it was sent and `now` the present, by the monotonic clock. Results come in any order; one that
    /// is older than the minutes that are looked at, as agents deliver after an absence, says nothing of the present.
    pub fn add_sample(&mut self, sample: &Sample<BucketedDelay>, sent: Time, now: Time) {
        self.forget_old(now);
        if minute(sent) <= minute(now) - KEPT_MINUTES {
            return;
        }
        self.minutes.entry(minute(sent)).or_default().add_sample(sample);
        self.recent.add_sample(sample);
        let is_lost = matches!(sample.outcome, Outcome::Lost(_));
        if !is_lost {
            self.last_answered = self.last_answered.max(Some(sent));
            if self.last_lost < Some(sent) {
                self.lost_in_a_row = 0;
            }
        } else if self.last_answered < Some(sent) {
            self.last_lost = self.last_lost.max(Some(sent));
            self.lost_in_a_row = self.lost_in_a_row.saturating_add(1);
        }
        self.last_result = Some(now);
    }

    fn forget_old(&mut self, now: Time) {
        let first = minute(now) - KEPT_MINUTES + 1;
        if self.minutes.first_key_value().is_some_and(|(oldest, _)| *oldest < first) {
            self.minutes = self.minutes.split_off(&first);
            self.recent = Summary::default();
            self.minutes.values().for_each(|minute| self.recent.merge(minute));
        }
    }

    /// Judges anew: `now` by the monotonic clock, `utc` by the clock of the day. Returns the state where it has changed.
    pub fn update(&mut self, now: Time, utc: Time) -> Option<PairState> {
        self.forget_old(now);
        let state = self.judged(now);
        let has_changed = state != self.state;
        if has_changed {
            (self.state, self.since) = (state, utc);
        }
        has_changed.then_some(state)
    }

    /// The state by the last update.
    pub fn state(&self) -> PairState {
        self.state
    }

    /// Since when it is so.
    pub fn since(&self) -> Time {
        self.since
    }

    /// The last minutes' probes: of the round trip, or of either direction where that is what is known. Those during measurements are
    /// left out.
    pub fn recent(&self) -> &Summary {
        &self.recent
    }

    fn judged(&self, now: Time) -> PairState {
        if self.last_result.is_none_or(|last| now - last > self.max_silence) {
            return PairState::NoData;
        }
        if self.lost_in_a_row >= MIN_LOST_IN_A_ROW {
            return PairState::Down;
        }
        if self.last_answered.is_none() {
            return PairState::NoData;
        }
        let is_lossy = path_loss(&self.recent).is_some_and(|loss| loss.low > MAX_LOSS_RATIO);
        if is_lossy { PairState::Lossy } else { PairState::Up }
    }
}

fn minute(time: Time) -> i64 {
    time.as_nanos().div_euclid(kumade_sketch::MINUTE_NANOS)
}

/// The share of probes that was lost in either direction. None without probes.
pub fn path_loss(summary: &Summary) -> Option<LossStatus> {
    // Each probe counts in the one or in the other.
    let [whole, up] = [Lane::RoundTrip, Lane::Up].map(|lane| &summary[lane].idle);
    loss_status(whole.sent() + up.sent(), whole.lost + whole.unknown + up.lost + up.unknown, 0)
}

/// The share of probes that was lost in this lane; probes of which nobody knows in which direction they were lost widen the interval.
/// None without probes.
pub fn lane_loss(summary: &Summary, lane: Lane) -> Option<LossStatus> {
    let tally = &summary[lane].idle;
    loss_status(tally.sent(), tally.lost, tally.unknown)
}

/// With the 95 % interval of the ratio behind it (Wilson 1927).
fn loss_status(sent: u64, lost: u64, unknown: u64) -> Option<LossStatus> {
    let (low, high) = (loss_ratio(lost, sent).low, loss_ratio(lost + unknown, sent).high);
    (sent > 0).then(|| LossStatus { sent, ratio: lost as f64 / sent as f64, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_sketch::{LostIn, PairFloors};

    const INTERVAL: Span = Span::from_secs(1);

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    /// Results of probes, one each second from `first` on; true for an answer.
    fn add(monitor: &mut PairMonitor, first: i64, answered: impl IntoIterator<Item = bool>) -> i64 {
        let mut floors = PairFloors::default();
        let mut second = first;
        for answered in answered {
            let outcome =
                if answered { Outcome::RoundTrip(Span::from_millis(20)) } else { Outcome::Lost(LostIn::RoundTrip) };
            monitor.add_sample(&floors.quantise(&Sample::new(after(second), outcome)), after(second), after(second));
            second += 1;
        }
        second
    }

    fn judged(monitor: &mut PairMonitor, second: i64) -> PairState {
        monitor.update(after(second), after(second));
        monitor.state()
    }

    #[test]
    fn a_path_is_down_after_four_losses_and_up_with_the_first_answer() {
        let mut monitor = PairMonitor::new(INTERVAL, Span::from_secs(4), after(0));
        assert_eq!(judged(&mut monitor, 1), PairState::NoData);
        let second = add(&mut monitor, 1, [false, false, false]);
        assert_eq!(judged(&mut monitor, second), PairState::NoData, "nothing was ever answered, and four are not lost");
        let second = add(&mut monitor, second, [false]);
        assert_eq!(judged(&mut monitor, second), PairState::Down);
        let second = add(&mut monitor, second, [true]);
        assert_ne!(judged(&mut monitor, second), PairState::Down);
        assert_eq!(monitor.since(), after(second));
    }

    #[test]
    fn silence_is_no_loss() {
        let mut monitor = PairMonitor::new(INTERVAL, Span::from_secs(4), after(0));
        let second = add(&mut monitor, 0, [true; 60]);
        assert_eq!(judged(&mut monitor, second), PairState::Up);
        assert_eq!(judged(&mut monitor, second + 13), PairState::Up);
        assert_eq!(judged(&mut monitor, second + 14), PairState::NoData);
    }

    #[test]
    fn loss_counts_once_it_is_sure() {
        let mut monitor = PairMonitor::new(INTERVAL, Span::from_secs(4), after(0));
        let one_of = |each: usize| (0..600).map(move |number| number % each != 0);
        let second = add(&mut monitor, 0, one_of(200));
        assert_eq!(judged(&mut monitor, second), PairState::Up, "half a percent");
        let second = add(&mut monitor, second, one_of(20));
        assert_eq!(judged(&mut monitor, second), PairState::Lossy, "five percent");
        // Twenty minutes later nothing of it is left.
        let second = add(&mut monitor, second, [true; 1200]);
        assert_eq!(judged(&mut monitor, second), PairState::Up);
    }

    /// Probes that became this.
    fn summary(outcomes: impl IntoIterator<Item = (u64, Outcome)>) -> Summary {
        let (mut floors, mut summary) = (PairFloors::default(), Summary::default());
        for (count, outcome) in outcomes {
            (0..count).for_each(|_| summary.add_sample(&floors.quantise(&Sample::new(after(0), outcome))));
        }
        summary
    }

    #[test]
    fn the_interval_of_loss_covers_the_ratio_behind_it() {
        let of = |lost, answered| {
            path_loss(&summary([(lost, Outcome::Lost(LostIn::RoundTrip)), (answered, Outcome::RoundTrip(INTERVAL))]))
        };
        assert_eq!(of(0, 0), None);
        let LossStatus { ratio, low, high, .. } = of(0, 100).unwrap();
        assert_eq!((ratio, low), (0.0, 0.0));
        assert!((0.03..0.04).contains(&high), "{high}");
        let LossStatus { ratio, low, high, .. } = of(5, 95).unwrap();
        assert!(low < ratio && ratio < high && low > 0.02 && high < 0.12, "{low} {high}");
    }

    #[test]
    fn a_path_loses_what_either_direction_loses() {
        let answered = Outcome::Answered { up: INTERVAL, down: INTERVAL };
        let [up, down, either] = [LostIn::Up, LostIn::Down, LostIn::EitherWay].map(Outcome::Lost);
        // The clocks were not known at first.
        let summary = summary([(20, Outcome::RoundTrip(INTERVAL)), (70, answered), (4, up), (3, down), (3, either)]);
        let path = path_loss(&summary).unwrap();
        assert_eq!((path.sent, path.ratio), (100, 0.1));
        let up = lane_loss(&summary, Lane::Up).unwrap();
        assert_eq!((up.sent, up.ratio), (80, 4.0 / 80.0));
        let down = lane_loss(&summary, Lane::Down).unwrap();
        assert_eq!((down.sent, down.ratio), (76, 3.0 / 76.0));
        assert!(down.high > loss_ratio(3, 76).high, "three may have been lost on this way, too");
    }

    /// Where it is not known in which direction, either.
    #[test]
    fn a_path_that_loses_in_an_unknown_direction_is_lossy() {
        let mut monitor = PairMonitor::new(INTERVAL, Span::from_secs(4), after(0));
        let mut floors = PairFloors::default();
        for second in 0..300 {
            let answered = Outcome::Answered { up: INTERVAL, down: INTERVAL };
            let outcome = if second % 10 == 5 { Outcome::Lost(LostIn::EitherWay) } else { answered };
            monitor.add_sample(&floors.quantise(&Sample::new(after(second), outcome)), after(second), after(second));
        }
        assert_eq!(judged(&mut monitor, 300), PairState::Lossy);
    }

    #[test]
    fn what_comes_late_says_nothing_of_the_present() {
        let mut monitor = PairMonitor::new(INTERVAL, Span::from_secs(4), after(0));
        let second = add(&mut monitor, 3600, [true; 300]);
        let mut floors = PairFloors::default();
        let lost = floors.quantise(&Sample::new(after(0), Outcome::Lost(LostIn::RoundTrip)));
        // What an agent has kept while its coordinator was away, the newest first.
        (0..1800).rev().for_each(|sent| monitor.add_sample(&lost, after(sent), after(second)));
        assert_eq!((judged(&mut monitor, second), path_loss(monitor.recent()).unwrap().sent), (PairState::Up, 300));
        // Of those that are recent, the last that was answered is later.
        (3600 - 200..3600).for_each(|sent| monitor.add_sample(&lost, after(sent), after(second)));
        assert_eq!(judged(&mut monitor, second), PairState::Lossy);
        // Nothing has come for twenty minutes.
        monitor.update(after(second + 1200), after(second + 1200));
        assert_eq!(path_loss(monitor.recent()), None);
    }
}
