//! The tight link, where it is not the narrow link.
//!
//! A train at the rate r lengthens the queue of the tight link, whose rate is C, by (r − available) / C seconds a second. Over
//! the rates of many trains, the delay's growth is zero up to the available bandwidth, and rises from there with the slope
//! 1 / C. What a prime shows is the rate of the narrow link, and what it leaves queued there hides what happens at the tight
//! link: these trains are paced from the first packet on.

use super::interval::RateInterval;
use super::packets::{PacketPoint, PrimedTrain};
use super::verification::{self, Verification, VerificationResult};
use crate::stats::{standard_deviation, student_t_95};
use kumade_probe_train::fit::fit_robust_line;

/// Fewer stepped trains do not tell the slope.
const MIN_PACED_TRAINS: usize = 4;

/// By how much more of the narrow link's rate the tight link may be faster, in what a verification leaves possible …
const DECIDED_EXCESS_RATIO: f64 = 1.0;
/// … and where it stayed undecided.
const UNDECIDED_EXCESS_RATIO: f64 = 4.0;

/// Little is left below this part of the narrow link's rate.
pub(super) const MAX_LOW_RATE_PART: f64 = 0.25;

/// The search for the tight link, and the verification of what was found.
#[derive(Debug, Default)]
pub(super) struct TightLinkSearch {
    trains: Vec<PrimedTrain>,
    verifications: Vec<Verification>,
    /// The lowest rate at which the queue was seen to grow although it seemed available, in bit/s.
    ceiling_rate: Option<f64>,
    is_verified: bool,
    /// See [`TightLinkSearch::grew_at_low_rate`].
    grew_at_low_rate: bool,
    least_available: Option<f64>,
    /// What was found below the ceiling.
    pub(super) tight_link: Option<TightLink>,
}

impl TightLinkSearch {
    /// Takes in a train of one rate; `verifies` tells whether it was to verify a value. For `scatter`, see
    /// [`verification::evaluate_verifications`].
    pub(super) fn add_train(&mut self, train: PrimedTrain, verifies: bool, (scatter, narrow): (f64, f64)) {
        if verifies {
            self.verifications.extend(Verification::from_train(&train));
        }
        self.trains.push(train);
        let (verdict, growth) = verification::evaluate_verifications(&self.verifications, scatter, narrow);
        let rate = self.verifications.iter().map(|v| v.rate).fold(f64::INFINITY, f64::min);
        let slower = growth
            * narrow
            * if verdict == VerificationResult::Undecided { UNDECIDED_EXCESS_RATIO } else { DECIDED_EXCESS_RATIO };
        self.least_available =
            (self.verifications.len() >= verification::MIN_VERIFICATION_TRAINS).then_some(rate - slower);
        match verdict {
            VerificationResult::Undecided => {}
            VerificationResult::Available => self.is_verified = true,
            VerificationResult::Grew if rate < MAX_LOW_RATE_PART * narrow => self.grew_at_low_rate = true,
            VerificationResult::Grew => {
                self.ceiling_rate = Some(rate);
                self.verifications.clear();
            }
        }
        self.tight_link = self.ceiling_rate.and_then(|ceiling| TightLink::from_trains(&self.trains, ceiling));
    }

    /// The lowest rate at which the queue was seen to grow although it seemed available, in bit/s.
    pub(super) fn ceiling_rate(&self) -> Option<f64> {
        self.ceiling_rate
    }

    /// Whether the last value is one at which no queue grows.
    pub(super) fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// Whether the queue grew where little seemed available: that may be what connections gave up to the trains, which a search would
    /// push aside further.
    pub(super) fn grew_at_low_rate(&self) -> bool {
        self.grew_at_low_rate
    }

    /// The least that may be available for all that the verification says.
    pub(super) fn least_available_rate(&self) -> Option<f64> {
        self.least_available
    }

    /// The numbers of its trains.
    pub(super) fn train_numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.trains.iter().map(|train| train.number)
    }

    /// The newest train.
    pub(super) fn newest_train(&self) -> Option<&PrimedTrain> {
        self.trains.last()
    }

    /// The rate of the next train, given a random number from 0 to 1; none where there is nothing to search.
    pub(super) fn next_rate(&self, random: f64) -> Option<f64> {
        let ceiling = self.ceiling_rate?;
        let between = |from: f64, to: f64| from + (to - from) * random;
        Some(match self.tight_link {
            Some(tight) if tight.available_error < 0.15 * tight.available => {
                between(0.75 * tight.available, (1.5 * tight.available).min(ceiling))
            }
            Some(tight) => between((0.5 * tight.available).clamp(0.1 * ceiling, 0.4 * ceiling), ceiling),
            None => between(0.2 * ceiling, ceiling),
        })
    }
}

/// What paced trains show of the link at which the queue grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct TightLink {
    /// The rate above which it grows, in bit/s.
    pub(super) available: f64,
    /// Its standard error.
    pub(super) available_error: f64,
    /// By how many seconds a second the delay grows for each bit/s more: one over the rate of the tight link.
    pub(super) slope: f64,
    /// Its standard error.
    pub(super) slope_error: f64,
    pub(super) trains: usize,
    /// Those of them whose rate was near the available bandwidth.
    pub(super) near_trains: usize,
}

/// One rate, and how the delay grew.
#[derive(Debug, Clone, Copy)]
struct GrowthStep {
    rate: f64,
    growth: f64,
    weight: f64,
}

impl TightLink {
    /// From trains no faster than `ceiling`. None from too few of them, or from rates all alike.
    pub(super) fn from_trains(trains: &[PrimedTrain], ceiling: f64) -> Option<Self> {
        let steps: Vec<GrowthStep> = trains.iter().filter_map(growth_step).collect();
        let steps: Vec<GrowthStep> = steps.into_iter().filter(|s| s.rate <= 1.02 * ceiling).collect();
        let n = steps.len();
        if steps.len() < MIN_PACED_TRAINS {
            return None;
        }
        let hinge = HingeFit::fit_steps(&steps)?;
        // The jackknife needs no assumption on how traffic varies.
        let without = |i: usize| HingeFit::fit_steps(&[&steps[..i], &steps[i + 1..]].concat());
        let others: Vec<HingeFit> = (0..n).map(without).collect::<Option<_>>()?;
        let error = |of: fn(&HingeFit) -> f64| {
            standard_deviation(&others.iter().map(of).collect::<Vec<_>>()) * (n as f64 - 1.0) / (n as f64).sqrt()
        };
        let (available, slope) = (hinge.start, hinge.slope);
        let near = steps.iter().filter(|s| (0.85 * available..1.25 * available).contains(&s.rate)).count();
        Some(TightLink {
            available,
            available_error: error(|h| h.start),
            slope,
            slope_error: error(|h| h.slope),
            trains: n,
            near_trains: near,
        })
    }

    /// Half the interval's width.
    pub(super) fn half_width(&self) -> f64 {
        // The jackknife of few trains finds too small an error.
        let few = 1.0 + 9.0 / self.trains as f64;
        (few * student_t_95(self.trains) * self.available_error).hypot(self.available * 0.01)
    }

    /// None where the slope may as well be zero, or hardly anything is known.
    pub(super) fn interval(&self) -> Option<RateInterval> {
        let told = self.slope > 2.0 * self.slope_error && self.half_width() < self.available;
        let spread = self.available_error * (self.trains as f64).sqrt();
        told.then(|| RateInterval {
            value: self.available,
            half_width: self.half_width(),
            low: self.available - self.half_width(),
            spread,
        })
    }
}

/// No growth up to a rate, and from there on growth in proportion to what is above.
#[derive(Debug, Clone, Copy)]
struct HingeFit {
    start: f64,
    slope: f64,
}

impl HingeFit {
    /// The one of least squares. None where all steps have one rate.
    fn fit_steps(steps: &[GrowthStep]) -> Option<Self> {
        let lowest = steps.iter().map(|s| s.rate).fold(f64::INFINITY, f64::min);
        let highest = steps.iter().map(|s| s.rate).fold(0.0, f64::max);
        let at = |start: f64| {
            let (mut above, mut product) = (0.0, 0.0);
            for s in steps {
                let excess = (s.rate - start).max(0.0);
                above += s.weight * excess * excess;
                product += s.weight * excess * s.growth;
            }
            let slope = if above > 0.0 { product / above } else { 0.0 };
            let rest = |s: &GrowthStep| s.weight * (s.growth - slope * (s.rate - start).max(0.0)).powi(2);
            (steps.iter().map(rest).sum::<f64>(), HingeFit { start, slope })
        };
        const GRID_POINTS: u32 = 400;
        let places = (0..GRID_POINTS).map(|i| highest * f64::from(i) / f64::from(GRID_POINTS));
        let best = places.map(at).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (highest > lowest).then_some(best.1)
    }
}

fn growth_step(train: &PrimedTrain) -> Option<GrowthStep> {
    let points: Vec<&PacketPoint> = train.body().collect();
    let (start, end) = (points.first()?, points.last()?);
    let duration = end.sent - start.sent;
    if points.len() < 4 || duration <= 0.0 {
        return None;
    }
    let rate = (end.sent_bits - start.sent_bits) / duration;
    let delays: Vec<(f64, f64)> = points.iter().map(|p| (p.sent, p.delay)).collect();
    Some(GrowthStep { rate, growth: fit_robust_line(&delays)?.slope, weight: duration })
}
