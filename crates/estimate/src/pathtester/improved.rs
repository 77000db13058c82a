//! PathTester, improved: the receiving rate of each train decides the wait in the next one.

use super::trains::{MAX_PACKETS, MIN_RATE_RATIO, PACKET_BYTES, pause_after, plan_train, sending_and_receiving_rates};
use crate::config::{Budget, Conditions, MethodConfig};
use crate::method::{Method, Outcome, Rejection, Step};
use crate::published::ProbeAccount;
use crate::reason::Reason;
use crate::stats::{mean, median, standard_deviation};
use crate::warning::Warning;
use kumade_probe_train::{Estimate, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// "Begins with an endlessly small value (in fact 10 microseconds)" (3.1).
const FIRST_PACKET_INTERVAL: Span = Span::from_micros(10);
/// So much of the samples lies within three standard deviations of the mean (3.1).
const CONFIDENCE_LEVEL: f64 = 0.9973;

/// How the improved tool measures. The default has the paper's numbers, which suit 100 kbit/s and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathTesterConfig {
    /// "About ten" trains (3.1).
    pub trains: u32,
}

/// Where it must end unless the user says otherwise.
const BUDGET: Budget = Budget { bytes: 2_000_000, time: Span::from_secs(30) };

impl Default for PathTesterConfig {
    fn default() -> Self {
        PathTesterConfig { trains: 10 }
    }
}

impl MethodConfig for PathTesterConfig {
    const NAME: &'static str = "pathtester";
    const SUMMARY: &'static str = "the improved tool: ten short trains, steered by the rate at which they arrive";
    const BUDGET: Option<Budget> = Some(BUDGET);

    fn max_packets(&self) -> u32 {
        MAX_PACKETS
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(PathTester::new(*self, conditions))
    }
}

/// The improved tool: the receiving rate of each train decides the wait in the next one; the value is the mean of the
/// receiving rates without outliers, its interval three standard deviations to both sides (3.1, equation 1).
///
/// The paper draws the state machine of the wait in its figure 3, whose labels are lost. This one follows what the text
/// says of it, "by comparing the receiving rate with the sending rate": as long as trains arrive at a lower rate
/// than they were sent, the next one is sent at the rate at which the last one arrived; once one was not slowed down, the
/// wait is searched between that train's and the last one that was too short.
#[derive(Debug)]
pub struct PathTester {
    config: PathTesterConfig,
    max_packet: u32,
    budget: Budget,
    steering: IntervalSearch,
    rates: Vec<f64>,
    account: ProbeAccount,
}

/// The waits, in seconds, that the next train is chosen from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum IntervalSearch {
    /// Every train so far was slowed down: this wait next, after one that was too short.
    Slower { wait: f64, short: f64 },
    /// This wait next, between one that was too short and one that was long enough.
    Bisecting { wait: f64, short: f64, long: f64 },
}

impl PathTester {
    /// Starts with the shortest wait.
    pub fn new(config: PathTesterConfig, conditions: &Conditions) -> Self {
        let wait = FIRST_PACKET_INTERVAL.as_secs_f64();
        let steering = IntervalSearch::Slower { wait, short: wait };
        let (max_packet, budget) = (conditions.max_packet, BUDGET.or_requested(conditions.budget));
        PathTester { config, max_packet, budget, steering, rates: Vec::new(), account: ProbeAccount::default() }
    }

    fn outcome(&self) -> Outcome {
        let kept = without_outliers(&self.rates);
        let mut warnings = vec![Warning::ThreeDeviations];
        let dropped = self.rates.len() - kept.len();
        if dropped > 0 {
            warnings.push(Warning::Outliers(dropped as u32));
        }
        if self.rates.len() < self.config.trains as usize {
            warnings.push(Warning::TrainsLeft(self.rates.len() as u32, self.config.trains));
        }
        let (value, deviation) = (mean(&kept), standard_deviation(&kept));
        let found = if kept.len() < 3 {
            Err(Reason::FewerThanThreeTrains)
        } else {
            let [value, low, high] = [value, value - 3.0 * deviation, value + 3.0 * deviation].map(Rate::from_f64);
            Ok(Estimate { value, low, high, confidence: CONFIDENCE_LEVEL })
        };
        let spread = found.is_ok().then(|| Rate::from_f64(deviation));
        Outcome { spread, ..self.account.outcome(found, warnings) }
    }
}

impl Method for PathTester {
    fn next(&mut self, now: Time) -> Step {
        self.account.begin_measurement(now);
        if self.rates.len() >= self.config.trains as usize {
            return Step::Done(self.outcome());
        }
        let train = plan_train(self.steering.packet_interval(), self.max_packet);
        let pause = pause_after(&train, &self.rates);
        let step = self.account.send(now, pause, train, &self.budget);
        step.unwrap_or_else(|| Step::Done(self.outcome()))
    }

    fn record(&mut self, record: &TrainRecord) {
        let Some(flight) = self.account.read_record(record) else { return };
        match sending_and_receiving_rates(&flight) {
            Some((sending, receiving)) => {
                self.account.accept();
                self.rates.push(receiving);
                let packet_bits = f64::from(PACKET_BYTES.min(self.max_packet)) * 8.0;
                self.steering =
                    self.steering.after_train(receiving >= MIN_RATE_RATIO * sending, packet_bits / receiving);
            }
            None => self.account.reject(Rejection::PacketsMissing),
        }
    }

    fn current_estimate(&self) -> Option<Rate> {
        let kept = without_outliers(&self.rates);
        (!kept.is_empty()).then(|| Rate::from_f64(mean(&kept)))
    }
}

impl IntervalSearch {
    fn packet_interval(self) -> Span {
        let (IntervalSearch::Slower { wait, .. } | IntervalSearch::Bisecting { wait, .. }) = self;
        // Six such waits are as long as any train may last.
        Span::from_secs_f64(wait.min(5.0))
    }

    /// The next wait; `received` is the mean interval between arrivals.
    fn after_train(self, as_sent: bool, received: f64) -> Self {
        match self {
            IntervalSearch::Slower { wait, .. } if !as_sent => {
                IntervalSearch::Slower { wait: received.max(wait), short: wait }
            }
            IntervalSearch::Slower { wait, short } => IntervalSearch::bisect(short, wait),
            IntervalSearch::Bisecting { wait, short, .. } if as_sent => IntervalSearch::bisect(short, wait),
            // There was room at this rate, and now there is none.
            IntervalSearch::Bisecting { wait, long, .. } if wait > MIN_RATE_RATIO * long => {
                IntervalSearch::Slower { wait: received.max(wait), short: wait }
            }
            IntervalSearch::Bisecting { wait, long, .. } => IntervalSearch::bisect(wait, long),
        }
    }

    fn bisect(short: f64, long: f64) -> Self {
        IntervalSearch::Bisecting { wait: (short + long) / 2.0, short, long }
    }
}

/// The samples "except those that are extremely off" (3.1): three robust standard deviations from the median, and at
/// least a twentieth of it.
fn without_outliers(rates: &[f64]) -> Vec<f64> {
    let Some(middle) = median(rates) else { return Vec::new() };
    let off: Vec<f64> = rates.iter().map(|rate| (rate - middle).abs()).collect();
    let most = (3.0 * 1.4826 * median(&off).unwrap_or(0.0)).max(0.05 * middle);
    rates.iter().copied().filter(|rate| (rate - middle).abs() <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::fluid::{Fluid, measure, nothing};
    use kumade_probe_train::Train;

    fn run(available: f64, capacity: f64) -> (Outcome, Vec<Train>) {
        let mut path = Fluid::new(available, capacity);
        let mut method = PathTester::new(PathTesterConfig::default(), &Conditions::new(1500));
        measure(&mut method, |wait, train| path.send(wait, train))
    }

    #[test]
    fn the_first_train_is_the_papers() {
        let (_, trains) = run(5e6, 5e6);
        let packets: Vec<_> = trains[0].packets().collect();
        assert_eq!((packets.len(), packets[1].size, packets[1].offset), (7, 1400, Span::from_micros(10)));
        assert_eq!(trains.len(), 10);
    }

    #[test]
    fn receiving_rates_gather_around_the_available_bandwidth() {
        for (available, capacity) in [(100e3, 100e3), (5e6, 5e6), (2e6, 5e6), (70e6, 100e6)] {
            let found = run(available, capacity).0.available.unwrap();
            let error = found.value.as_f64() / available - 1.0;
            assert!(error.abs() < 0.1, "{available} of {capacity}: {found:?}");
            assert_eq!(found.confidence, 0.9973);
        }
    }

    #[test]
    fn the_wait_follows_the_receiving_rate_and_then_closes_in() {
        let first = IntervalSearch::Slower { wait: 1.0, short: 1.0 };
        let slower = first.after_train(false, 4.0);
        assert_eq!(slower, IntervalSearch::Slower { wait: 4.0, short: 1.0 });
        let fitted = slower.after_train(true, 4.0);
        assert_eq!(fitted, IntervalSearch::Bisecting { wait: 2.5, short: 1.0, long: 4.0 });
        assert_eq!(fitted.after_train(false, 3.0), IntervalSearch::Bisecting { wait: 3.25, short: 2.5, long: 4.0 });
        assert_eq!(fitted.after_train(true, 2.5), IntervalSearch::Bisecting { wait: 1.75, short: 1.0, long: 2.5 });
        let closed = IntervalSearch::Bisecting { wait: 3.95, short: 3.9, long: 4.0 };
        assert_eq!(closed.after_train(false, 8.0), IntervalSearch::Slower { wait: 8.0, short: 3.95 });
    }

    #[test]
    fn extreme_samples_are_dropped_and_the_rest_kept() {
        assert_eq!(without_outliers(&[10.0, 11.0, 9.0, 10.0, 50.0]), [10.0, 11.0, 9.0, 10.0]);
        assert_eq!(without_outliers(&[10.0, 10.0, 10.4]), [10.0, 10.0, 10.4]);
    }

    #[test]
    fn a_path_that_loses_everything_has_no_value() {
        let mut method = PathTester::new(PathTesterConfig::default(), &Conditions::new(1500));
        let (outcome, trains) = measure(&mut method, |_, train| nothing(train));
        assert!(outcome.available.is_none() && matches!(outcome.reason, Some(Reason::RejectedInRow(..))));
        assert_eq!(trains.len(), 8);
    }
}
