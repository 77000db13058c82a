//! The tight link, where it is not the narrow link.
//!
//! A train at the rate r lengthens the queue of the tight link, whose rate is C, by (r − available) / C seconds a second. Over
//! the rates of many trains, the delay's growth is zero up to the available bandwidth, and rises from there with the slope
//! 1 / C. What a prime shows is the rate of the narrow link, and what it leaves queued there hides what happens at the tight
//! link: these trains are paced from the first packet on.

use super::interval::RateInterval;
use super::packets::{PacketPoint, PrimedTrain};
use super::verification::{self, Verification, VerificationResult};
use crate::stats::student_t_95;
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
            VerificationResult::Undecided | VerificationResult::NotShown => {}
            // What was not shown is in the low end.
            VerificationResult::Available | VerificationResult::Inconclusive => self.is_verified = true,
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

    /// Whether the last value is one at which no queue was seen to grow, and no more trains are to show that.
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
        let HingeFit { start: available, start_error, slope, slope_error } = HingeFit::fit_steps(&steps)?;
        let near = steps.iter().filter(|s| (0.85 * available..1.25 * available).contains(&s.rate)).count();
        Some(TightLink { available, available_error: start_error, slope, slope_error, trains: n, near_trains: near })
    }

    /// Half the interval's width.
    pub(super) fn half_width(&self) -> f64 {
        (profile_quantile(self.trains) * self.available_error).hypot(self.available * 0.01)
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
    /// Its standard error, by the farther end of the interval of [`HingeFit::fit_steps`].
    start_error: f64,
    slope: f64,
    slope_error: f64,
}

/// Two parameters are fitted.
fn profile_quantile(trains: usize) -> f64 {
    student_t_95(trains.saturating_sub(1))
}

impl HingeFit {
    /// The one of least squares. The start's interval has all starts for which the best slope leaves no more than 1 + t²/(n − 2) times the least
    /// sum of squares (profile likelihood: the start is no smooth function of the data, which rules out a jackknife). None where all steps have
    /// one rate.
    fn fit_steps(steps: &[GrowthStep]) -> Option<Self> {
        let lowest = steps.iter().map(|s| s.rate).fold(f64::INFINITY, f64::min);
        let highest = steps.iter().map(|s| s.rate).fold(0.0, f64::max);
        const GRID_POINTS: u32 = 400;
        let starts: Vec<f64> = (0..GRID_POINTS).map(|i| highest * f64::from(i) / f64::from(GRID_POINTS)).collect();
        let profile: Vec<Hinge> = starts.iter().map(|start| Hinge::with_start(steps, *start)).collect();
        let best = profile.iter().min_by(|a, b| a.squares.total_cmp(&b.squares))?;
        let degrees = steps.len().checked_sub(2).filter(|degrees| *degrees > 0)? as f64;
        let quantile = profile_quantile(steps.len());
        let limit = best.squares * (1.0 + quantile * quantile / degrees);
        let as_good =
            profile.iter().filter(|hinge| hinge.squares <= limit).map(|hinge| (hinge.start - best.start).abs());
        // The interval ends between two places of the grid.
        let half = as_good.fold(0.0, f64::max) + highest / f64::from(GRID_POINTS);
        (highest > lowest).then(|| HingeFit {
            start: best.start,
            start_error: half / quantile,
            slope: best.slope,
            slope_error: (best.squares / degrees / best.squared_excess.max(f64::MIN_POSITIVE)).sqrt(),
        })
    }
}

/// A hinge that starts at a rate, with the slope of least squares.
#[derive(Debug, Clone, Copy)]
struct Hinge {
    start: f64,
    slope: f64,
    /// The weighted sum of squares that it leaves.
    squares: f64,
    /// That of the rates' excess over the start.
    squared_excess: f64,
}

impl Hinge {
    fn with_start(steps: &[GrowthStep], start: f64) -> Self {
        let (mut squared_excess, mut product) = (0.0, 0.0);
        for s in steps {
            let excess = (s.rate - start).max(0.0);
            squared_excess += s.weight * excess * excess;
            product += s.weight * excess * s.growth;
        }
        let slope = if squared_excess > 0.0 { product / squared_excess } else { 0.0 };
        let rest = |s: &GrowthStep| s.weight * (s.growth - slope * (s.rate - start).max(0.0)).powi(2);
        Hinge { start, slope, squares: steps.iter().map(rest).sum(), squared_excess }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random;

    /// The jackknife's interval covered the truth in too few cases where trains were few, but for a factor without a source.
    #[test]
    fn the_interval_of_the_start_covers_it() {
        let (available, slope, error) = (5e7, 1.0 / 2e8, 0.03);
        let mut state = 3;
        let mut covers = |trains: usize| {
            let mut step = || {
                let rate = 2.5e7 + 5e7 * random(&mut state);
                let normal: f64 = (0..12).map(|_| random(&mut state) - 0.5).sum();
                GrowthStep { rate, growth: slope * (rate - available).max(0.0) + error * normal, weight: 1.0 }
            };
            let steps: Vec<GrowthStep> = (0..trains).map(|_| step()).collect();
            let found = HingeFit::fit_steps(&steps).unwrap();
            (found.start - available).abs() <= profile_quantile(trains) * found.start_error
        };
        for trains in [7, 12, 30] {
            let covered = (0..1000).filter(|_| covers(trains)).count();
            // 95 % less three standard deviations of such a count, and more since the farther end counts on both sides.
            assert!((930..=1000).contains(&covered), "{covered} of 1000 with {trains} trains");
        }
    }
}
