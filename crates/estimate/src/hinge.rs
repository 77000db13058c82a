//! By how much a queue grows at which rate: not at all up to the available bandwidth, and in proportion to what exceeds it.
//!
//! A train at the rate r lengthens the queue of the tight link, whose rate is C, by (r − available) / C seconds a second. Over the rates
//! of several trains, the delay's growth is zero up to the available bandwidth, and rises from there with the slope 1 / C.

use crate::stats::{standard_deviation, student_t_95};

/// A train of one rate, and how the delay grew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// In bit/s.
    pub(crate) rate: f64,
    /// In seconds a second.
    pub(crate) growth: f64,
    pub(crate) weight: f64,
}

/// What several trains show of the link at which the queue grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hinge {
    /// The rate above which it grows, in bit/s.
    pub(crate) available: f64,
    /// Its standard error.
    pub(crate) error: f64,
    /// By how many seconds a second the delay grows for each bit/s more: one over the rate of the tight link.
    pub(crate) slope: f64,
    /// Its standard error.
    slope_error: f64,
    pub(crate) trains: usize,
}

impl Hinge {
    /// The one of least squares. None where all trains have one rate, or there are fewer than three.
    pub(crate) fn of(steps: &[Step]) -> Option<Self> {
        let trains = steps.len();
        if trains < 3 {
            return None;
        }
        let corner = Corner::through(steps)?;
        // The jackknife needs no assumption on how traffic varies.
        let without = |i: usize| Corner::through(&[&steps[..i], &steps[i + 1..]].concat());
        let others: Vec<Corner> = (0..trains).map(without).collect::<Option<_>>()?;
        let n = trains as f64;
        let error = |of: fn(&Corner) -> f64| {
            standard_deviation(&others.iter().map(of).collect::<Vec<_>>()) * (n - 1.0) / n.sqrt()
        };
        let Corner { start: available, slope } = corner;
        Some(Hinge { available, error: error(|it| it.start), slope, slope_error: error(|it| it.slope), trains })
    }

    /// Half the width of the 95 % interval.
    pub(crate) fn half(&self) -> f64 {
        let few = 1.0 + 5.0 / self.trains as f64;
        (few * student_t_95(self.trains) * self.error).hypot(self.available * 0.01)
    }

    /// Not where the slope may as well be zero, or hardly anything is known.
    pub(crate) fn is_told(&self) -> bool {
        self.slope > 2.0 * self.slope_error && self.half() < self.available
    }
}

/// Where growth begins, and with which slope.
#[derive(Debug, Clone, Copy)]
struct Corner {
    start: f64,
    slope: f64,
}

impl Corner {
    /// The one of least squares. None where all steps have one rate.
    fn through(steps: &[Step]) -> Option<Self> {
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
            let rest = |s: &Step| s.weight * (s.growth - slope * (s.rate - start).max(0.0)).powi(2);
            (steps.iter().map(rest).sum::<f64>(), Corner { start, slope })
        };
        const PLACES: u32 = 400;
        let places = (0..PLACES).map(|i| highest * f64::from(i) / f64::from(PLACES));
        let best = places.map(at).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (highest > lowest).then_some(best.1)
    }
}
