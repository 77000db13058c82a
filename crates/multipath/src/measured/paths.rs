use super::ratio::rates_to_ratio;
use super::schedule::{MeasurementSchedule, ScheduleConfig};
use super::steady_rate::SteadyRate;
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span, Time};
use std::collections::VecDeque;

/// What a measurement of a path has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathMeasurement {
    /// The available bandwidth (RFC 5136) in the direction of the packets that are divided.
    pub available: Estimate<Rate>,
    /// What carried traffic took of the path meanwhile: it is the gateway's to divide as well.
    pub own_traffic: Rate,
    /// The least one-way delay, with an offset that is about the same for all paths; `None` where not known.
    pub delay: Option<Span>,
    /// Bytes that were sent for it.
    pub cost_bytes: u64,
}

/// The paths to one remote site, by what measurements tell of them.
///
/// **Rule.** A path's rate is what is available and what is carried, made steady by [`SteadyRate`]. Packets are divided in
/// the ratio of the rates ([`rates_to_ratio`]) among paths whose delays are alike, as nothing puts the packets of a flow in
/// order again: TCP takes a packet for lost that comes later than others by more than a quarter of the round trip (RFC 8985
/// §6.2). So paths are used together whose delays differ by no more than half the least one-way delay of them, or 5 ms; of
/// all such sets, the one that carries most. A path in use stays until its delay differs by half as much again. Paths of
/// which no delay is known count as alike.
///
/// There are no weights until each path has been measured once.
///
/// **Loop contract.** Ask [`start_measurement`](Self::start_measurement) about once a second; measure the path that it names, and tell the result by
/// [`record_measurement`](Self::record_measurement) or [`record_failure`](Self::record_failure), whether the weights are others because of it.
#[derive(Debug, Clone)]
pub struct MeasuredPaths {
    paths: Vec<MeasuredPath>,
    schedule: MeasurementSchedule,
    weights: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Default)]
struct MeasuredPath {
    rate: SteadyRate,
    delays: VecDeque<Span>,
}

/// Delays of which the median is taken.
const MAX_DELAY_SAMPLES: usize = 5;
const MIN_WINDOW_SECONDS: f64 = 0.005;
const RACK_WINDOW_ROUND_TRIPS: f64 = 0.5;
const HYSTERESIS_FACTOR: f64 = 1.5;

impl MeasuredPaths {
    /// Nothing is known yet.
    pub fn new(config: ScheduleConfig, paths: usize, now: Time) -> Self {
        let schedule = MeasurementSchedule::new(config, paths, now);
        MeasuredPaths { paths: vec![MeasuredPath::default(); paths], schedule, weights: None }
    }

    /// The path to measure now, if any. `carried` is what traffic takes of each.
    pub fn start_measurement(&mut self, carried: &[Rate], now: Time) -> Option<usize> {
        let load = |(path, carried): (&MeasuredPath, &Rate)| {
            path.rate.rate().map_or(0.0, |rate| carried.as_f64() / rate.as_f64().max(1.0))
        };
        let loads: Vec<f64> = self.paths.iter().zip(carried).map(load).collect();
        self.schedule.start_measurement(&loads, now)
    }

    /// What came of measuring a path; returns whether the weights have changed.
    pub fn record_measurement(&mut self, path: usize, measured: &PathMeasurement, now: Time) -> bool {
        let known = &mut self.paths[path];
        let add = |rate: Rate| {
            Rate::from_bits_per_second(rate.bits_per_second().saturating_add(measured.own_traffic.bits_per_second()))
        };
        known.rate.record_measurement(measured.available.map(add));
        known.record_delay(measured.delay);
        let (rate, is_uncertain) = (known.rate.rate().unwrap_or_default(), known.rate.is_uncertain());
        self.schedule.record_finished(measured.cost_bytes, rate, is_uncertain, now);
        self.update_weights()
    }

    /// Measuring a path has failed, after so many bytes.
    pub fn record_failure(&mut self, path: usize, bytes: u64, now: Time) {
        self.schedule.record_failed(bytes, self.rate(path), now);
    }

    /// The traffic that a path carries tells what it carries: it need not be measured for a while.
    pub fn postpone_measurement(&mut self, path: usize, now: Time) {
        self.schedule.postpone(path, now);
    }

    /// The paths' weights; `None` until each has been measured.
    pub fn weights(&self) -> Option<&[u32]> {
        self.weights.as_deref()
    }

    /// The rate by which a path is weighed.
    pub fn rate(&self, path: usize) -> Option<Rate> {
        self.paths[path].rate.rate()
    }

    fn update_weights(&mut self) -> bool {
        let rates: Option<Vec<f64>> = self.paths.iter().map(|path| Some(path.rate.rate()?.as_f64())).collect();
        let Some(mut rates) = rates else { return false };
        let used = self.paths_of_like_delay(&rates);
        rates.iter_mut().zip(used).filter(|(_, used)| !used).for_each(|(rate, _)| *rate = 0.0);
        let weights = rates_to_ratio(&rates);
        if weights.iter().all(|weight| *weight == 0) || self.weights.as_ref() == Some(&weights) {
            return false;
        }
        self.weights = Some(weights);
        true
    }

    /// Which paths may share a flow's packets: of the sets with delays that are alike, the one that carries most, and of
    /// equal ones that with less delay.
    fn paths_of_like_delay(&self, rates: &[f64]) -> Vec<bool> {
        let delays: Option<Vec<f64>> = self.paths.iter().map(MeasuredPath::median_delay).collect();
        let Some(delays) = delays else { return vec![true; self.paths.len()] };
        let is_used = |path: usize| self.weights.as_ref().is_some_and(|weights| weights[path] > 0);
        let set = |least: f64| -> Vec<bool> {
            let window = (least * RACK_WINDOW_ROUND_TRIPS).max(MIN_WINDOW_SECONDS);
            let limit = |path| if is_used(path) { window * HYSTERESIS_FACTOR } else { window };
            delays.iter().enumerate().map(|(path, delay)| (0.0..=limit(path)).contains(&(delay - least))).collect()
        };
        let carried =
            |least: f64| -> f64 { rates.iter().zip(set(least)).filter(|(_, used)| *used).map(|(rate, _)| rate).sum() };
        let better = |one: &f64, other: &f64| carried(*one).total_cmp(&carried(*other)).then(other.total_cmp(one));
        delays.iter().copied().max_by(better).map_or_else(Vec::new, set)
    }
}

impl MeasuredPath {
    fn record_delay(&mut self, delay: Option<Span>) {
        self.delays.extend(delay);
        if self.delays.len() > MAX_DELAY_SAMPLES {
            self.delays.pop_front();
        }
    }

    fn median_delay(&self) -> Option<f64> {
        let mut delays: Vec<Span> = self.delays.iter().copied().collect();
        delays.sort();
        delays.get(delays.len() / 2).map(|delay| delay.as_secs_f64())
    }
}
