//! IGI and PTR: Hu and Steenkiste, Evaluation and Characterization of Available Bandwidth Probing Techniques (IEEE JSAC
//! 21(6), 2003), after the paper; its authors' program differs in details that the paper leaves open.

use crate::config::{Budget, Conditions, MethodConfig};
use crate::method::{Method, Outcome, Rejection, Step};
use crate::published::{Flight, ProbeAccount};
use crate::reason::Reason;
use crate::stats::{mean, median};
use crate::warning::Warning;
use kumade_probe_train::{Estimate, Segment, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// "60 packets" of "700 bytes": long enough to average over bursts, short enough not to flood the path.
const PACKETS: u32 = 60;
const PACKET_BYTES: u32 = 700;
/// The first gap is half the bottleneck's, and each further one an eighth of that longer.
const FIRST_GAP_RATIO: f64 = 0.5;
const GAP_STEP_RATIO: f64 = 0.125;
/// The average gaps at both ends are equal up to this part: the turning point.
const EQUAL_GAPS_PART: f64 = 0.05;
/// A gap counts as increased by more than this part of the bottleneck's: stamps scatter.
const INCREASED_GAP_PART: f64 = 0.02;
/// Searches, whose mean is the value.
const MAX_SEARCHES: usize = 3;
/// Where it must end unless the user says otherwise.
const BUDGET: Budget = Budget { bytes: 4_000_000, time: Span::from_secs(30) };

/// Initial gap increasing: what cross traffic adds to the gaps at the turning point is subtracted from the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgiConfig;

/// Packet transmission rate: the rate of the train at the turning point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PtrConfig;

impl MethodConfig for IgiConfig {
    const NAME: &'static str = "igi";
    const SUMMARY: &'static str = "initial gap increasing: the capacity less what lengthens gaps at the turning point";
    const IS_COMPARISON: bool = true;
    const BUDGET: Option<Budget> = Some(BUDGET);

    fn max_packets(&self) -> u32 {
        PACKETS
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(Igi::new(IgiFormula::Igi, conditions))
    }
}

impl MethodConfig for PtrConfig {
    const NAME: &'static str = "ptr";
    const SUMMARY: &'static str =
        "packet transmission rate: that of the first train which arrives as fast as it was sent";
    const IS_COMPARISON: bool = true;
    const BUDGET: Option<Budget> = Some(BUDGET);

    fn max_packets(&self) -> u32 {
        PACKETS
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(Igi::new(IgiFormula::Ptr, conditions))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IgiFormula {
    Igi,
    Ptr,
}

/// Either method: they differ in what they make of the train at the turning point only.
#[derive(Debug)]
struct Igi {
    formula: IgiFormula,
    size: u32,
    budget: Budget,
    /// In seconds, between packets sent back to back; none before they were.
    bottleneck_gap: Option<f64>,
    /// Of the next train, in seconds.
    next_gap: f64,
    /// Of the searches that are over, in bit/s.
    values: Vec<f64>,
    slowest_rate: f64,
    account: ProbeAccount,
}

impl Igi {
    fn new(formula: IgiFormula, conditions: &Conditions) -> Self {
        Igi {
            formula,
            size: PACKET_BYTES.min(conditions.max_packet),
            budget: BUDGET.or_requested(conditions.budget),
            bottleneck_gap: None,
            next_gap: 0.0,
            values: Vec::new(),
            slowest_rate: f64::INFINITY,
            account: ProbeAccount::default(),
        }
    }

    fn packet_bits(&self) -> f64 {
        f64::from(self.size) * 8.0
    }

    fn read_flight(&mut self, flight: &Flight) -> Option<()> {
        let gaps = flight.gaps();
        self.slowest_rate = self.slowest_rate.min(flight.receiving_rate()?);
        let output: Vec<f64> = gaps.iter().map(|gap| gap.1).collect();
        let Some(bottleneck_gap) = self.bottleneck_gap else {
            let gap = median(&output).filter(|&gap| gap > 0.0)?;
            self.bottleneck_gap = Some(gap);
            self.next_gap = FIRST_GAP_RATIO * gap;
            return Some(());
        };
        let input = mean(&gaps.iter().map(|gap| gap.0).collect::<Vec<_>>());
        if mean(&output) > (1.0 + EQUAL_GAPS_PART) * input {
            self.next_gap += GAP_STEP_RATIO * bottleneck_gap;
        } else {
            self.values.push(self.available_bandwidth(&output, input, bottleneck_gap));
            self.next_gap = FIRST_GAP_RATIO * bottleneck_gap;
        }
        Some(())
    }

    /// What is available, by the gaps of the train at the turning point.
    fn available_bandwidth(&self, output: &[f64], input: f64, bottleneck_gap: f64) -> f64 {
        let all: f64 = output.iter().sum();
        if self.formula == IgiFormula::Ptr {
            return output.len() as f64 * self.packet_bits() / all;
        }
        // B_O · Σ (g⁺ − g_B) / Σ g is the cross traffic's rate (section III, equation 2).
        let is_increased = |gap: &&f64| **gap > input.max(bottleneck_gap) + INCREASED_GAP_PART * bottleneck_gap;
        let added: f64 = output.iter().filter(is_increased).map(|gap| gap - bottleneck_gap).sum();
        self.packet_bits() / bottleneck_gap * (1.0 - added / all)
    }

    fn outcome(&self) -> Outcome {
        let name = if self.formula == IgiFormula::Igi { IgiConfig::NAME } else { PtrConfig::NAME };
        let warnings = vec![Warning::SearchInterval(name, MAX_SEARCHES as u32)];
        let extreme = |pick: fn(f64, f64) -> f64| self.values.iter().copied().reduce(pick);
        let found = match (extreme(f64::min), extreme(f64::max)) {
            (Some(low), Some(high)) => {
                let [value, low, high] = [mean(&self.values), low, high].map(Rate::from_f64);
                Ok(Estimate { value, low, high, confidence: 0.0 })
            }
            _ => Err(Reason::NoFittingTrain),
        };
        let capacity = self.bottleneck_gap.map(|gap| Rate::from_f64(self.packet_bits() / gap));
        Outcome { capacity, ..self.account.outcome(found, warnings) }
    }
}

impl Method for Igi {
    fn next(&mut self, now: Time) -> Step {
        self.account.begin_measurement(now);
        if self.values.len() >= MAX_SEARCHES {
            return Step::Done(self.outcome());
        }
        let interval = Span::from_secs_f64(self.next_gap).clamp(Span::ZERO, Train::MAX_DURATION);
        let segment = Segment { count: PACKETS, interval, first_size: self.size, size_step: 0 };
        let train = Train { segments: vec![segment] };
        let drain = Span::from_secs_f64((f64::from(PACKETS) * self.packet_bits() / self.slowest_rate).min(2.0));
        let step = self.account.send(now, drain.max(Span::from_millis(10)), train, &self.budget);
        step.unwrap_or_else(|| Step::Done(self.outcome()))
    }

    fn record(&mut self, record: &TrainRecord) {
        let Some(flight) = self.account.read_record(record) else { return };
        match self.read_flight(&flight) {
            Some(()) if flight.loss_fraction() < 0.5 => self.account.accept(),
            _ => self.account.reject(Rejection::PacketsMissing),
        }
    }

    fn current_estimate(&self) -> Option<Rate> {
        (!self.values.is_empty()).then(|| Rate::from_f64(mean(&self.values)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::fluid::{Fluid, measure, nothing};

    fn run(formula: IgiFormula, available: f64, capacity: f64) -> Outcome {
        let mut path = Fluid::new(available, capacity);
        measure(&mut Igi::new(formula, &Conditions::new(1500)), |wait, train| path.send(wait, train)).0
    }

    #[test]
    fn the_turning_point_is_found_on_a_fluid_path() {
        for (available, capacity) in [(100e6, 100e6), (70e6, 100e6), (2e6, 5e6)] {
            let found = run(IgiFormula::Ptr, available, capacity).available.unwrap().value.as_f64();
            // The gap grows by an eighth of the bottleneck's at each step.
            assert!((found / available - 1.0).abs() < 0.2, "{available} of {capacity}: {found}");
        }
    }

    #[test]
    fn an_idle_path_has_its_capacity_left() {
        let outcome = run(IgiFormula::Igi, 50e6, 50e6);
        let found = outcome.available.unwrap();
        assert!((found.value.as_f64() / 50e6 - 1.0).abs() < 0.05 && found.confidence == 0.0, "{found:?}");
        assert_eq!(outcome.trains_used, 1 + 3 * 5, "half the gap, and four steps");
    }

    #[test]
    fn a_path_that_delivers_nothing_has_a_reason() {
        let (outcome, trains) =
            measure(&mut Igi::new(IgiFormula::Igi, &Conditions::new(1500)), |_, train| nothing(train));
        assert!(outcome.available.is_none() && outcome.reason.is_some());
        assert_eq!((trains.len(), trains[0].packet_count()), (8, 60));
    }
}
