//! PathTester before the improvement: every wait of a range of powers of two, one train each.

use super::trains::{MAX_PACKETS, MIN_RATE_RATIO, pause_after, plan_train, sending_and_receiving_rates};
use crate::bound::{Bound, BoundKind};
use crate::config::{Budget, Conditions, MethodConfig, Parameter, set_parameter};
use crate::method::{Method, Outcome, Rejection, Step};
use crate::published::ProbeAccount;
use crate::reason::Reason;
use crate::warning::Warning;
use kumade_probe_train::{Estimate, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// How the original tool scans: packets at 2^iunit µs. The paper does not name the unit; with microseconds its table 1
/// comes out, where 0–15 fails below 500 kbit/s and 0–17 is the shortest range that reaches 100 kbit/s.
///
/// The default is the original range, 0–15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathTesterClassicConfig {
    /// The first exponent.
    pub first_iunit: u32,
    /// The last exponent; above [`MAX_IUNIT`](Self::MAX_IUNIT) a train would last too long.
    pub last_iunit: u32,
}

/// Where it must end unless the user says otherwise.
const BUDGET: Budget = Budget { bytes: 2_000_000, time: Span::from_secs(60) };

impl PathTesterClassicConfig {
    /// A train with this exponent lasts 25 s.
    pub const MAX_IUNIT: u32 = 22;
}

impl Default for PathTesterClassicConfig {
    fn default() -> Self {
        PathTesterClassicConfig { first_iunit: 0, last_iunit: 15 }
    }
}

impl MethodConfig for PathTesterClassicConfig {
    const NAME: &'static str = "pathtester-classic";
    const SUMMARY: &'static str = "the original tool: one short train for each power of two of the interval";
    const BUDGET: Option<Budget> = Some(BUDGET);
    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter {
        name: "iunit",
        value: "FIRST-LAST",
        default: "0-15",
        help: "exponents of the intervals between packets, which are 2^N µs",
        set: |config, text| set_parameter(config, iunit_range(text)),
        get: |config| format!("{}-{}", config.first_iunit, config.last_iunit),
    }];

    fn max_packets(&self) -> u32 {
        MAX_PACKETS
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(PathTesterClassic::new(*self, conditions))
    }
}

/// Reads `0-15`.
fn iunit_range(text: &str) -> Result<PathTesterClassicConfig, String> {
    const MAX: u32 = PathTesterClassicConfig::MAX_IUNIT;
    let range = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let range = range.map(|(first_iunit, last_iunit)| PathTesterClassicConfig { first_iunit, last_iunit });
    let within = range.filter(|range| range.first_iunit <= range.last_iunit && range.last_iunit <= MAX);
    within.ok_or(format!("it is not a range within 0-{MAX}"))
}

/// The original tool: "the sending interval moves from the smallest to the largest value in proportion to powers of
/// two", and "the largest sending rate at which sending rate and receiving rate are nearly the same" is the estimate
/// (2.1). It states no confidence, and between two powers of two it knows nothing.
#[derive(Debug)]
pub struct PathTesterClassic {
    config: PathTesterClassicConfig,
    max_packet: u32,
    budget: Budget,
    next_iunit: u32,
    /// Sending and receiving rate of each train.
    rates: Vec<(f64, f64)>,
    account: ProbeAccount,
}

impl PathTesterClassic {
    /// Scans the range once.
    pub fn new(config: PathTesterClassicConfig, conditions: &Conditions) -> Self {
        let (max_packet, budget) = (conditions.max_packet, BUDGET.or_requested(conditions.budget));
        PathTesterClassic {
            config,
            max_packet,
            budget,
            next_iunit: config.first_iunit,
            rates: Vec::new(),
            account: ProbeAccount::default(),
        }
    }

    fn last_iunit(&self) -> u32 {
        self.config.last_iunit.min(PathTesterClassicConfig::MAX_IUNIT)
    }

    /// The fastest train that was not slowed down.
    fn last_fitting_rate(&self) -> Option<f64> {
        let fitting = self.rates.iter().filter(|(sending, receiving)| *receiving >= MIN_RATE_RATIO * sending);
        fitting.map(|&(sending, _)| sending).max_by(f64::total_cmp)
    }

    fn outcome(&self) -> Outcome {
        let mut warnings = vec![Warning::FactorOfTwo];
        if self.next_iunit <= self.last_iunit() {
            warnings.push(Warning::IntervalsLeft);
        }
        let Some(fitting) = self.last_fitting_rate() else {
            let slowest = self.rates.iter().map(|(sending, _)| *sending).fold(f64::INFINITY, f64::min);
            let reason = match slowest.is_finite() {
                true => Reason::SlowestTrainDelayed(Rate::from_f64(slowest)),
                false => Reason::NoTrainArrived,
            };
            let bound = slowest.is_finite().then(|| Bound::AtMost(Rate::from_f64(slowest), BoundKind::RateRange));
            return Outcome { bound, ..self.account.outcome(Err(reason), warnings) };
        };
        let faster = self.rates.iter().map(|(sending, _)| *sending).filter(|sending| *sending > fitting);
        let high = faster.min_by(f64::total_cmp);
        let value = Rate::from_f64(fitting);
        let bound = high.is_none().then_some(Bound::AtLeast(value, BoundKind::RateRange));
        let high = Rate::from_f64(high.unwrap_or(fitting));
        Outcome { bound, ..self.account.outcome(Ok(Estimate { value, low: value, high, confidence: 0.0 }), warnings) }
    }
}

impl Method for PathTesterClassic {
    fn next(&mut self, now: Time) -> Step {
        self.account.begin_measurement(now);
        if self.next_iunit > self.last_iunit() {
            return Step::Done(self.outcome());
        }
        let wait = Span::from_micros(1 << self.next_iunit);
        let train = plan_train(wait, self.max_packet);
        let receiving: Vec<f64> = self.rates.iter().map(|(_, receiving)| *receiving).collect();
        let pause = pause_after(&train, &receiving);
        let step = self.account.send(now, pause, train, &self.budget);
        self.next_iunit += u32::from(step.is_some());
        step.unwrap_or_else(|| Step::Done(self.outcome()))
    }

    fn record(&mut self, record: &TrainRecord) {
        let Some(flight) = self.account.read_record(record) else { return };
        match sending_and_receiving_rates(&flight) {
            Some(both) => {
                self.account.accept();
                self.rates.push(both);
            }
            None => self.account.reject(Rejection::PacketsMissing),
        }
    }

    fn current_estimate(&self) -> Option<Rate> {
        self.last_fitting_rate().map(Rate::from_f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::fluid::{Fluid, measure, nothing};
    use kumade_probe_train::Train;

    fn run(available: f64, capacity: f64, last_iunit: u32) -> (Outcome, Vec<Train>) {
        let mut path = Fluid::new(available, capacity);
        let config = PathTesterClassicConfig { first_iunit: 0, last_iunit };
        measure(&mut PathTesterClassic::new(config, &Conditions::new(1500)), |wait, train| path.send(wait, train))
    }

    #[test]
    fn the_value_is_right_to_a_power_of_two() {
        for available in [1e6, 3e6, 30e6] {
            let (outcome, trains) = run(available, available * 2.0, 15);
            let found = outcome.available.unwrap();
            let [low, high] = [found.low, found.high].map(Rate::as_f64);
            assert!(low <= available * 1.05 && available <= high, "{available}: {found:?}");
            assert!((1.9..2.1).contains(&(high / low)), "{found:?}");
            assert_eq!(trains.len(), 16);
        }
    }

    #[test]
    fn narrow_links_need_the_range_of_table_1() {
        // "0–15 fails below 500 kbit/s"; "0–17 is the shortest range that works" at 100 kbit/s.
        assert!(matches!(run(100e3, 100e3, 15).0.reason, Some(Reason::SlowestTrainDelayed(_))));
        assert!(run(100e3, 100e3, 16).0.available.is_none());
        assert!(run(100e3, 100e3, 17).0.available.is_some());
    }

    #[test]
    fn a_path_that_loses_everything_has_no_value() {
        let mut method = PathTesterClassic::new(PathTesterClassicConfig::default(), &Conditions::new(1500));
        let reason = measure(&mut method, |_, train| nothing(train)).0.reason;
        assert!(matches!(reason, Some(Reason::RejectedInRow(..))), "{reason:?}");
    }
}
