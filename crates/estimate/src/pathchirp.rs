//! pathChirp (Ribeiro, Riedi, Baraniuk, Navratil, Cottrell: pathChirp, efficient available bandwidth estimation for
//! network paths, PAM 2003): trains whose rate grows exponentially from packet to packet.
//!
//! A chirp tries many rates with few packets. Its *signature* is the queuing delay over the packets: at rates below the
//! available bandwidth, bursts of cross traffic make *excursions* from which the delay comes back; the last excursion does not
//! end, and where it begins the available bandwidth was exceeded for good. Each packet gives an estimate by the
//! excursion in which it lies; a chirp's estimate is their mean, weighted with the spacings.
//!
//! Written from what is generally known of the method, without the paper's full text at hand: details may differ.

use crate::bound::{Bound, BoundKind};
use crate::config::{Budget, Conditions, MethodConfig};
use crate::method::{Method, Outcome, Rejection, Step};
use crate::published::{Flight, ProbeAccount};
use crate::reason::Reason;
use crate::stats::{mean, standard_deviation};
use crate::warning::Warning;
use kumade_probe_train::{Estimate, Segment, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// Each spacing is the one before it divided by this: the paper's γ.
const SPREAD_FACTOR: f64 = 1.2;
/// An excursion ends where the delay has come down to its highest divided by this: the paper's F.
const DECREASE_FACTOR: f64 = 1.5;
/// Shorter excursions are chance: the paper's L.
const MIN_BUSY_PERIOD_PACKETS: usize = 5;
/// Bytes of each packet, the paper's P.
const PACKET_BYTES: u32 = 1000;
/// A train has no more segments, and each spacing is one.
const MAX_PACKETS: u32 = 60;
/// Packets of the scout.
const SCOUT_PACKETS: u32 = 10;
/// With a scouted rate of 1, the chirps' first range. An excursion must have room above the available bandwidth.
const FIRST_RANGE_RATIOS: (f64, f64) = (0.05, 3.0);
/// How often the range is moved at most.
const MAX_RANGE_MOVES: u32 = 8;
/// Chirps take this part of the scouted rate in the mean.
const LOAD_PART: f64 = 0.1;
/// On paths so slow that the budget would end first, up to this part.
const MAX_LOAD_PART: f64 = 0.5;
/// No path is measured outside of these, in bit/s.
const RATE_LIMITS_BITS_PER_SECOND: (f64, f64) = (2e3, 30e9);

/// What chirps to send, and how many. The default is the mean of eleven chirps, of a range that is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathChirpConfig {
    /// How many chirps the value is the mean of.
    pub chirps: u32,
    /// The lowest and the highest rate of a chirp; none finds them.
    pub range: Option<(Rate, Rate)>,
}

/// Where it must end unless the user says otherwise.
const BUDGET: Budget = Budget { bytes: 2_000_000, time: Span::from_secs(30) };

impl Default for PathChirpConfig {
    fn default() -> Self {
        PathChirpConfig { chirps: 11, range: None }
    }
}

impl MethodConfig for PathChirpConfig {
    const NAME: &'static str = "pathchirp";
    const SUMMARY: &'static str = "trains whose rate grows exponentially";
    const IS_COMPARISON: bool = true;
    const BUDGET: Option<Budget> = Some(BUDGET);

    fn max_packets(&self) -> u32 {
        MAX_PACKETS
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(PathChirp::new(*self, conditions))
    }
}

/// The published estimator, with these differences: the range of rates, unless given, is set around the dispersion rate
/// of a short back-to-back train and moved where the estimates lie at one of its ends; chirps take a tenth of that rate
/// in the mean, and more where the time would not suffice; a chirp with a lost packet is left out. It states no
/// confidence: the interval is one standard deviation between the chirps to both sides.
#[derive(Debug)]
pub struct PathChirp {
    config: PathChirpConfig,
    max_packet: u32,
    budget: Budget,
    /// The dispersion rate, and the chirps' lowest and highest rate, in bit/s.
    scouted_rate: Option<f64>,
    rate_range: Option<(f64, f64)>,
    range_moves: u32,
    /// What each chirp found, in bit/s.
    chirp_estimates: Vec<f64>,
    account: ProbeAccount,
}

impl PathChirp {
    /// Starts with the given range, or else knowing nothing of the path.
    pub fn new(config: PathChirpConfig, conditions: &Conditions) -> Self {
        let (max_packet, budget) = (conditions.max_packet, BUDGET.or_requested(conditions.budget));
        let range = config.range.map(|(low, high)| (low.as_f64(), high.as_f64()));
        let range = range.map(|(low, high)| {
            (
                low.max(RATE_LIMITS_BITS_PER_SECOND.0),
                high.clamp(RATE_LIMITS_BITS_PER_SECOND.0 * 2.0, RATE_LIMITS_BITS_PER_SECOND.1),
            )
        });
        PathChirp {
            config,
            max_packet,
            budget,
            scouted_rate: None,
            rate_range: range,
            range_moves: 0,
            chirp_estimates: Vec::new(),
            account: ProbeAccount::default(),
        }
    }

    fn packet_bytes(&self) -> u32 {
        PACKET_BYTES.min(self.max_packet)
    }

    /// The next train and how long to wait before it.
    fn plan_chirp(&self, now: Time) -> (Span, Train) {
        let size = self.packet_bytes();
        let Some((low, high)) = self.rate_range else {
            let segment = Segment { count: SCOUT_PACKETS, interval: Span::ZERO, first_size: size, size_step: 0 };
            return (Span::ZERO, Train { segments: vec![segment] });
        };
        let train = chirp_train(low, high, size);
        let bits = train.bytes() as f64 * 8.0;
        let full = self.scouted_rate.unwrap_or(low / LOAD_PART);
        let to_come = self.config.chirps.saturating_sub(self.chirp_estimates.len() as u32).max(1);
        let room = (self.budget.time - self.account.elapsed(now)).as_secs_f64() / f64::from(to_come);
        let cycle = (bits / (LOAD_PART * full)).min(room).max(bits / (MAX_LOAD_PART * full));
        (Span::from_secs_f64(cycle) - train.duration(), train)
    }

    fn read_flight(&mut self, flight: &Flight) -> Result<(), Rejection> {
        let Some((low, high)) = self.rate_range else {
            let rate =
                flight.receiving_rate().filter(|_| flight.loss_fraction() < 0.5).ok_or(Rejection::PacketsMissing)?;
            let rate = rate.clamp(
                RATE_LIMITS_BITS_PER_SECOND.0 / FIRST_RANGE_RATIOS.0,
                RATE_LIMITS_BITS_PER_SECOND.1 / FIRST_RANGE_RATIOS.1,
            );
            self.scouted_rate = Some(rate);
            self.rate_range = Some((rate * FIRST_RANGE_RATIOS.0, rate * FIRST_RANGE_RATIOS.1));
            return Ok(());
        };
        let found = estimate_chirp(flight, self.packet_bytes()).ok_or(Rejection::PacketsMissing)?;
        match self.moved_range(found, low, high) {
            Some(range) => {
                self.rate_range = Some(range);
                self.range_moves += 1;
            }
            None => self.chirp_estimates.push(found),
        }
        Ok(())
    }

    /// A range that fits better, where a chirp's estimate lies at an end of its own.
    fn moved_range(&self, found: f64, low: f64, high: f64) -> Option<(f64, f64)> {
        let free = self.config.range.is_none() && self.range_moves < MAX_RANGE_MOVES;
        match found {
            _ if !free => None,
            f if f > high / SPREAD_FACTOR.powi(MIN_BUSY_PERIOD_PACKETS as i32)
                && high * 2.0 <= RATE_LIMITS_BITS_PER_SECOND.1 =>
            {
                Some((low * 2.0, high * 2.0))
            }
            f if f < low * SPREAD_FACTOR && low / 4.0 >= RATE_LIMITS_BITS_PER_SECOND.0 => Some((low / 4.0, high)),
            _ => None,
        }
    }

    fn outcome(&self) -> Outcome {
        let mut warnings = vec![Warning::ChirpDeviation];
        let (value, deviation) = (mean(&self.chirp_estimates), standard_deviation(&self.chirp_estimates));
        if self.chirp_estimates.len() < self.config.chirps as usize {
            warnings.push(Warning::ChirpsLeft(self.chirp_estimates.len() as u32, self.config.chirps));
        }
        let found = if self.chirp_estimates.is_empty() {
            Err(Reason::NoCompleteChirp)
        } else {
            let [value, low, high] = [value, value - deviation, value + deviation].map(Rate::from_f64);
            Ok(Estimate { value, low, high, confidence: 0.0 })
        };
        let spread = (self.chirp_estimates.len() > 1).then(|| Rate::from_f64(deviation));
        Outcome { bound: self.bound(value), spread, ..self.account.outcome(found, warnings) }
    }

    /// What is known where `value` lies at an end of the chirps' range.
    fn bound(&self, value: f64) -> Option<Bound> {
        let (low, high) = self.rate_range.filter(|_| !self.chirp_estimates.is_empty())?;
        match value {
            value if value > high / SPREAD_FACTOR.powi(MIN_BUSY_PERIOD_PACKETS as i32) => {
                Some(Bound::AtLeast(Rate::from_f64(value), BoundKind::RateRange))
            }
            value if value < low * SPREAD_FACTOR => Some(Bound::AtMost(Rate::from_f64(value), BoundKind::RateRange)),
            _ => None,
        }
    }
}

impl Method for PathChirp {
    fn next(&mut self, now: Time) -> Step {
        self.account.begin_measurement(now);
        if self.chirp_estimates.len() >= self.config.chirps as usize {
            return Step::Done(self.outcome());
        }
        let (wait, train) = self.plan_chirp(now);
        let wait = wait.max(Span::from_millis(10));
        let step = self.account.send(now, wait, train, &self.budget);
        step.unwrap_or_else(|| Step::Done(self.outcome()))
    }

    fn record(&mut self, record: &TrainRecord) {
        let Some(flight) = self.account.read_record(record) else { return };
        match self.read_flight(&flight) {
            Ok(()) => self.account.accept(),
            Err(why) => self.account.reject(why),
        }
    }

    fn current_estimate(&self) -> Option<Rate> {
        (!self.chirp_estimates.is_empty()).then(|| Rate::from_f64(mean(&self.chirp_estimates)))
    }
}

/// Packets of one size, first at the rate `low`, each spacing shorter than the one before it by the spread factor,
/// until the rate is `high`.
fn chirp_train(low: f64, high: f64, size: u32) -> Train {
    let steps = ((high / low).max(SPREAD_FACTOR).ln() / SPREAD_FACTOR.ln()).ceil() as u32;
    let packets = (steps + 2).min(MAX_PACKETS);
    let bits = f64::from(size) * 8.0;
    let packet = |i: u32| {
        let interval = if i + 1 < packets { bits / (low * SPREAD_FACTOR.powi(i as i32)) } else { 0.0 };
        Segment { count: 1, interval: Span::from_secs_f64(interval), first_size: size, size_step: 0 }
    };
    Train { segments: (0..packets).map(packet).collect() }
}

/// A whole chirp's estimate in bit/s: the mean of the spacings' estimates, weighted with the spacings. None where
/// packets are missing.
fn estimate_chirp(flight: &Flight, size: u32) -> Option<f64> {
    if flight.loss_fraction() > 0.0 || flight.arrived.len() <= MIN_BUSY_PERIOD_PACKETS {
        return None;
    }
    let spacings: Vec<f64> = flight.arrived.windows(2).map(|pair| (pair[1].sent - pair[0].sent).max(1e-9)).collect();
    let rates: Vec<f64> = spacings.iter().map(|spacing| f64::from(size) * 8.0 / spacing).collect();
    let estimates = rate_per_spacing(&flight.delays(), &rates);
    let weighted: f64 = estimates.iter().zip(&spacings).map(|(estimate, spacing)| estimate * spacing).sum();
    Some(weighted / spacings.iter().sum::<f64>())
}

/// The paper's three cases. A spacing in an excursion that ends, with the delay rising, was above the available
/// bandwidth of its moment: its own rate is the estimate. All from the start of an excursion that does not end, and all
/// others, get the rate at which that excursion began; where there is none, the highest rate.
fn rate_per_spacing(delays: &[f64], rates: &[f64]) -> Vec<f64> {
    let excursions = excursions(delays);
    let unended = excursions.iter().find(|e| e.end.is_none()).map(|e| e.start);
    let last = unended.unwrap_or(rates.len() - 1).min(rates.len() - 1);
    let mut estimates = vec![rates[last]; rates.len()];
    for excursion in &excursions {
        let Some(end) = excursion.end else { continue };
        for k in (excursion.start..end).filter(|&k| delays[k] <= delays[k + 1]) {
            estimates[k] = rates[k];
        }
    }
    estimates
}

/// Packets whose delay rose and, where it has an end, came down again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DelayExcursion {
    start: usize,
    end: Option<usize>,
}

/// The paper's segmentation: an excursion starts at i where the delay rises, and ends at the first j where it is less
/// above that of i than the highest since, divided by the decrease factor. It counts if it is at least `MIN_BUSY_PERIOD_PACKETS`
/// long.
fn excursions(delays: &[f64]) -> Vec<DelayExcursion> {
    let mut out = Vec::new();
    let mut i = 0;
    while i + 1 < delays.len() {
        if delays[i + 1] <= delays[i] {
            i += 1;
            continue;
        }
        let end = excursion_end(delays, i);
        if end.unwrap_or(delays.len()) - i >= MIN_BUSY_PERIOD_PACKETS {
            out.push(DelayExcursion { start: i, end });
        }
        match end {
            Some(end) => i = end,
            None => break,
        }
    }
    out
}

fn excursion_end(delays: &[f64], start: usize) -> Option<usize> {
    let mut highest = 0.0_f64;
    (start + 1..delays.len()).find(|&j| {
        let above = delays[j] - delays[start];
        highest = highest.max(above);
        above < highest / DECREASE_FACTOR
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::fluid::{Fluid, measure, nothing};

    fn run(available: f64, capacity: f64, config: PathChirpConfig) -> (Outcome, Vec<Train>) {
        let mut path = Fluid::new(available, capacity);
        measure(&mut PathChirp::new(config, &Conditions::new(1500)), |wait, train| path.send(wait, train))
    }

    #[test]
    fn rates_grow_by_the_spread_factor_over_the_range() {
        let train = chirp_train(1e6, 20e6, 1000);
        train.check(1500).unwrap();
        let offsets: Vec<f64> = train.packets().map(|p| p.offset.as_secs_f64()).collect();
        let spacings: Vec<f64> = offsets.windows(2).map(|w| w[1] - w[0]).collect();
        assert!((spacings[0] - 0.008).abs() < 1e-9);
        assert!(spacings.windows(2).all(|w| (w[0] / w[1] - SPREAD_FACTOR).abs() < 1e-3));
        assert!(8000.0 / spacings[spacings.len() - 1] >= 20e6 * 0.999);
    }

    #[test]
    fn an_excursion_ends_where_the_delay_has_come_down() {
        //            0    1    2    3    4    5    6    7    8    9    10   11   12   13
        let delays = [0.0, 0.0, 2.0, 4.0, 6.0, 5.0, 4.5, 3.0, 0.0, 1.0, 3.0, 5.0, 8.0, 9.0];
        let found = excursions(&delays);
        assert_eq!(found, [DelayExcursion { start: 1, end: Some(7) }, DelayExcursion { start: 8, end: None }]);
        // Rates of their own where the delay rose in the one that ended; elsewhere that of the one that did not.
        let rates: Vec<f64> = (0..13).map(f64::from).collect();
        assert_eq!(rate_per_spacing(&delays, &rates), [8., 1., 2., 3., 8., 8., 8., 8., 8., 8., 8., 8., 8.]);
    }

    #[test]
    fn short_excursions_are_chance() {
        assert_eq!(excursions(&[0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0]), []);
        let rates: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(rate_per_spacing(&[0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0], &rates), [7.0; 8]);
    }

    #[test]
    fn a_steady_path_is_known_to_the_spread_factor() {
        for (available, capacity) in [(100e6, 100e6), (30e6, 100e6), (5e6, 100e6), (4e6, 5e6), (700e6, 1e9)] {
            let (outcome, _) = run(available, capacity, PathChirpConfig::default());
            let ratio = outcome.available.unwrap().value.as_f64() / available;
            assert!(
                (1.0 / SPREAD_FACTOR..=SPREAD_FACTOR * 1.01).contains(&ratio),
                "{available} of {capacity}: {ratio}, {outcome:?}"
            );
        }
    }

    #[test]
    fn a_given_range_is_kept_and_its_ends_are_named() {
        let range = Some((Rate::from_mbit(1), Rate::from_mbit(20)));
        let (outcome, trains) = run(50e6, 100e6, PathChirpConfig { range, ..PathChirpConfig::default() });
        assert_eq!(trains.len(), 11);
        assert!(outcome.bound.unwrap().lower_bound().is_some(), "{outcome:?}");
    }

    #[test]
    fn a_path_that_loses_everything_has_no_value() {
        let mut method = PathChirp::new(PathChirpConfig::default(), &Conditions::new(1500));
        let reason = measure(&mut method, |_, train| nothing(train)).0.reason;
        assert!(matches!(reason, Some(Reason::RejectedInRow(..))), "{reason:?}");
    }
}
