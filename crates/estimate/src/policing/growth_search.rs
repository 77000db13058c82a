//! Trains at slower rates, where a queue keeps growing at the one that short trains showed: by how much it grows at each tells what is
//! available, whichever link it is at.
//!
//! A train at the rate r lengthens the queue of the tight link, whose rate is C, by (r − A) / C seconds a second where A is available, and
//! not at all where r is less (TOPP: Melander, Björkman, Gunningberg, GLOBECOM 2000). Which A and C are credible follows from all trains by
//! Bayes' theorem, where each one's growth is known as far as it varies from part to part of the train. Unlike a line through the trains
//! it also counts that no queue grew at some rates, and it needs few of them.

use super::config::PolicingConfig;
use super::plan::{MIN_FIRST_TRAIN_PACKETS, PacketSpacing, TrainSection};
use super::result::PolicingResult;
use super::train_rates::part_rates;
use super::trend::QueueTrend;
use crate::packet_timing::PacketTiming;
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span, Time};

/// A train lasts so long, …
const TRAIN_SECONDS: f64 = 0.1;
/// … with so many bytes at least and at most, …
const MIN_TRAIN_BYTES: f64 = 5e5;
const MAX_TRAIN_BYTES: f64 = 1e6;
/// … but no longer than this.
const MAX_TRAIN_SECONDS: f64 = 1.0;
/// So many trains at least and at most, …
const MIN_TRAINS: usize = 5;
const MAX_TRAINS: usize = 12;
/// … until half the interval is no wider than this part of the value.
const TARGET_RELATIVE_HALF_WIDTH: f64 = 0.04;
/// Before the end, a train is sent at this part of the interval's low end, unless one was no slower than the other part: no queue is to grow
/// there.
const BELOW_LOW_END_RATIO: f64 = 0.97;
const MIN_BELOW_LOW_END_RATIO: f64 = 0.9;
/// No train is slower than this part of the first.
const MIN_RATE_PART: f64 = 0.1;
/// Nothing is told where the low end of the interval is below this part of its high end.
const MIN_LOW_TO_HIGH_RATIO: f64 = 0.25;
/// Less than this part of the narrow link may be what TCP connections give up to the trains.
const MAX_YIELDED_LINK_PART: f64 = 0.25;
/// More of a train than this part is lost only where a queue is full, so that it does not show how fast it grows.
const MAX_LOST_FRACTION: f64 = 0.01;
/// A train leaves so long after the queue of the one before has drained, …
const DRAIN_PAUSE: Span = Span::from_millis(5);
/// … but no queue is waited for that takes longer to drain than this.
const MAX_PAUSE: Span = Span::from_secs(2);

/// So many values of the available bandwidth are compared, up to the narrow link's rate and this many times that of the first train, …
const GRID_POINTS: usize = 300;
const MAX_AVAILABLE_RATIO: f64 = 1.1;
/// … and so many of the tight link's rate, which is from this part of that to so many times as much, as far as they are credible: within so
/// many standard deviations.
const CAPACITY_GRID_POINTS: u32 = 24;
const CAPACITY_RATIO_RANGE: [f64; 2] = [0.7, 200.0];
const MAX_STANDARD_DEVIATIONS: f64 = 5.0;
/// What a growth varies by is this at least, and may be so many times what its train shows: as where the trains are on no line.
const MIN_GROWTH_ERROR: f64 = 2e-4;
const ERROR_SCALES: [f64; 7] = [1.0, 1.4, 2.0, 4.0, 8.0, 16.0, 32.0];
/// The first ones may be chance. With the others, more than one queue grows, and a line through all trains has too high a beginning.
const CHANCE_SCALE_COUNT: usize = 4;
const MAX_MISFIT_PROBABILITY: f64 = 0.5;
/// The interval is no narrower than this part of the value to either side.
const MIN_RELATIVE_HALF_WIDTH: f64 = 0.01;

/// The trains so far.
#[derive(Debug)]
pub(super) struct GrowthSearch {
    /// The rate at which a queue was seen to grow first, in bit/s.
    rate: f64,
    steps: Vec<GrowthStep>,
    /// The newest train, and when it ends.
    newest: TrainSection,
    newest_end: Time,
    trains_left: usize,
    /// What is found if these trains do not tell.
    fallback_result: PolicingResult,
}

/// A train, and how the delay grew.
#[derive(Debug)]
struct GrowthStep {
    /// In bit/s.
    rate: f64,
    trend: QueueTrend,
}

impl GrowthSearch {
    /// Those that follow this one, which ended then.
    pub(super) fn new(look: TrainSection, train: &[PacketTiming], ended: Time, otherwise: PolicingResult) -> Self {
        let (rate, steps, left) = (look.rate, Vec::new(), MAX_TRAINS);
        let mut slower = GrowthSearch {
            rate,
            steps,
            newest: look,
            newest_end: ended,
            trains_left: left,
            fallback_result: otherwise,
        };
        slower.add_train(train);
        slower
    }

    /// How long to wait for the next train, and what it is; none where no other is needed. `random` is from 0 to 1.
    pub(super) fn next_train(
        &mut self,
        now: Time,
        config: &PolicingConfig,
        random: f64,
    ) -> Option<(Span, TrainSection)> {
        let credible = CredibleRates::from_steps(&self.steps, self.rate, narrow_link_rate(config));
        let is_precise = self.steps.len() >= MIN_TRAINS && credible.is_precise();
        if self.trains_left == 0 || is_precise && self.has_train_below(&credible) {
            return None;
        }
        self.trains_left -= 1;
        let rate = if is_precise { self.rate_below(&credible) } else { self.next_rate(&credible, random) };
        let bits = f64::from(config.max_packet) * 8.0;
        let wanted = (rate * TRAIN_SECONDS).clamp(MIN_TRAIN_BYTES * 8.0, MAX_TRAIN_BYTES * 8.0);
        let packets = (wanted.min(rate * MAX_TRAIN_SECONDS) / bits) as u32;
        let section = TrainSection {
            packets: packets.max(MIN_FIRST_TRAIN_PACKETS).min(config.max_packets),
            rate,
            spacing: PacketSpacing::Even,
        };
        let wait = (self.newest_end + self.drain_time(credible.quantile(0.5), config) + DRAIN_PAUSE - now)
            .clamp(Span::ZERO, MAX_PAUSE);
        self.newest = section;
        self.newest_end = now + wait + section.duration(config.max_packet);
        Some((wait, section))
    }

    /// In turn close to what is credible, where growth begins, and above it, where the slope shows.
    fn next_rate(&self, credible: &CredibleRates, random: f64) -> f64 {
        let [from, to] = [credible.quantile(0.1), credible.quantile(0.9)];
        let margin = (0.5 * (to - from)).max(0.05 * to);
        let (from, to) =
            if self.trains_left.is_multiple_of(2) { (to, self.rate) } else { (from - margin, to + margin) };
        (from + (to - from) * random).clamp(MIN_RATE_PART * self.rate, self.rate)
    }

    /// Whether a train was a little slower than what is credible: above, where queues of two links grow, the line begins too high.
    fn has_train_below(&self, credible: &CredibleRates) -> bool {
        let low = credible.quantile(0.025);
        self.steps.iter().any(|step| (MIN_BELOW_LOW_END_RATIO * low..low).contains(&step.rate))
    }

    /// At which no queue grows if the line is right.
    fn rate_below(&self, credible: &CredibleRates) -> f64 {
        (BELOW_LOW_END_RATIO * credible.quantile(0.025)).clamp(MIN_RATE_PART * self.rate, self.rate)
    }

    /// How long what the newest train has left in the queue takes to leave it, where so much is available.
    fn drain_time(&self, available: f64, config: &PolicingConfig) -> Span {
        let excess = (self.newest.rate / available.max(0.1 * self.rate) - 1.0).max(0.0);
        Span::from_secs_f64(self.newest.duration(config.max_packet).as_secs_f64() * excess)
    }

    /// Takes in the newest train.
    pub(super) fn add_train(&mut self, train: &[PacketTiming]) {
        let (Some(trend), Some(seen)) = (QueueTrend::from_train(train), part_rates(train)) else { return };
        if seen.lost_part <= MAX_LOST_FRACTION {
            self.steps.push(GrowthStep { rate: seen.sending_rate, trend });
        }
    }

    /// What they tell.
    pub(super) fn into_result(self, config: &PolicingConfig) -> PolicingResult {
        match self.available(config) {
            None => self.fallback_result,
            available => PolicingResult::Overloads { rate: Rate::from_f64(self.rate), available },
        }
    }

    /// The rate above which a queue grows; none where they do not tell.
    fn available(&self, config: &PolicingConfig) -> Option<Estimate<Rate>> {
        let credible = CredibleRates::from_steps(&self.steps, self.rate, narrow_link_rate(config));
        let [low, value, high] = [0.025, 0.5, 0.975].map(|part| credible.quantile(part));
        let least = MIN_RELATIVE_HALF_WIDTH * value;
        let [low, value, high] = [low.min(value - least), value, high.max(value + least)].map(Rate::from_f64);
        let is_told = self.steps.len() >= MIN_TRAINS && credible.misfit_probability < MAX_MISFIT_PROBABILITY;
        let is_vague = low.as_f64() < MIN_LOW_TO_HIGH_RATIO * high.as_f64();
        // More is no queue that grew at the rate, but a token bucket that longer trains use up, or chance.
        let range = MAX_YIELDED_LINK_PART * narrow_link_rate(config)..self.rate;
        (is_told && !is_vague && range.contains(&value.as_f64())).then_some(Estimate {
            value,
            low,
            high,
            confidence: 0.95,
        })
    }

    /// The newest train.
    pub(super) fn newest_section(&self) -> TrainSection {
        self.newest
    }
}

/// The rate of the narrow link, as far as it is known.
fn narrow_link_rate(config: &PolicingConfig) -> f64 {
    config.rate.as_f64() + config.max_cross_rate.as_f64()
}

/// How credible each value of the available bandwidth is.
struct CredibleRates {
    /// Of equally spaced values from 0 on; 1 in all.
    weights: Vec<f64>,
    /// From one to the next, in bit/s.
    step: f64,
    /// How credible it is that the trains are on no line.
    misfit_probability: f64,
}

impl CredibleRates {
    fn from_steps(steps: &[GrowthStep], rate: f64, narrow: f64) -> Self {
        let step = narrow.max(MAX_AVAILABLE_RATIO * rate) / GRID_POINTS as f64;
        let slopes = CAPACITY_RATIO_RANGE.map(|part| 1.0 / (part * rate));
        let place = |place: usize| step * (place as f64 + 0.5);
        let of = |number| {
            ERROR_SCALES.map(|scale| {
                GrowthLikelihood::at_available(steps, place(number), scale).log_likelihood_over_slopes(slopes)
            })
        };
        let logarithms: Vec<[f64; ERROR_SCALES.len()]> = (0..GRID_POINTS).map(of).collect();
        let sum = log_sum(logarithms.iter().flatten().copied());
        let part = |of: &[f64]| (log_sum(of.iter().copied()) - sum).exp();
        let misfit = logarithms.iter().map(|all| part(&all[CHANCE_SCALE_COUNT..])).sum();
        CredibleRates { weights: logarithms.iter().map(|all| part(all)).collect(), step, misfit_probability: misfit }
    }

    /// The value that with this probability is not exceeded, in bit/s.
    fn quantile(&self, probability: f64) -> f64 {
        let mut below = 0.0;
        for (place, weight) in self.weights.iter().enumerate() {
            if below + weight >= probability {
                return self.step * (place as f64 + (probability - below) / weight.max(f64::MIN_POSITIVE));
            }
            below += weight;
        }
        self.step * self.weights.len() as f64
    }

    fn is_precise(&self) -> bool {
        self.quantile(0.975) - self.quantile(0.025) <= 2.0 * TARGET_RELATIVE_HALF_WIDTH * self.quantile(0.5)
    }
}

/// How likely it is what trains show where so much is available, by the slope at which growth rises from there: the logarithm is a parabola.
struct GrowthLikelihood {
    /// Where the slope is the most likely one.
    max_log_likelihood: f64,
    slope: f64,
    /// The inverse of its variance.
    precision: f64,
}

impl GrowthLikelihood {
    fn at_available(steps: &[GrowthStep], available: f64, scale: f64) -> Self {
        let (mut precision, mut product, mut squares, mut most) = (0.0, 0.0, 0.0, 0.0);
        for step in steps {
            let error = scale * step.trend.error().hypot(MIN_GROWTH_ERROR);
            let (excess, growth) = ((step.rate - available).max(0.0) / error, step.trend.growth() / error);
            precision += excess * excess;
            product += excess * growth;
            squares += growth * growth;
            most -= error.ln();
        }
        let slope = if precision > 0.0 { product / precision } else { 0.0 };
        GrowthLikelihood { max_log_likelihood: most - 0.5 * (squares - slope * product), slope, precision }
    }

    /// The logarithm over all slopes from the second one to the first, whose logarithms are equally likely before.
    fn log_likelihood_over_slopes(&self, [highest, least]: [f64; 2]) -> f64 {
        let away = MAX_STANDARD_DEVIATIONS / self.precision.sqrt();
        let from = (self.slope.min(highest) - away).max(least);
        let to = (self.slope.max(least) + away).min(highest);
        let ratio = (to / from).max(1.0).ln() / f64::from(CAPACITY_GRID_POINTS);
        let slope = |number: u32| from * ((f64::from(number) + 0.5) * ratio).exp();
        let of = |slope: f64| self.max_log_likelihood - 0.5 * self.precision * (slope - self.slope).powi(2);
        log_sum((0..CAPACITY_GRID_POINTS).map(|number| of(slope(number)))) + ratio.max(f64::MIN_POSITIVE).ln()
    }
}

/// The logarithm of the sum of numbers whose logarithms these are.
fn log_sum(logarithms: impl IntoIterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = logarithms.into_iter().collect();
    let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logarithms.iter().map(|logarithm| (logarithm - most).exp()).sum::<f64>().ln()
}
