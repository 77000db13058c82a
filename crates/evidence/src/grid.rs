//! Integrals over the parameters of a model, by grids that close in on the mass.

/// A parameter: a priori, it lies anywhere between two values with equal probability, or its logarithm does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    points: usize,
    is_logarithmic: bool,
}

impl Axis {
    pub(crate) fn linear(low: f64, high: f64, points: usize) -> Self {
        Axis { low, high, points, is_logarithmic: false }
    }

    pub(crate) fn logarithmic(low: f64, high: f64, points: usize) -> Self {
        Axis { low: low.ln(), high: high.ln(), points, is_logarithmic: true }
    }

    /// The value below which this part of the axis lies.
    #[cfg(test)]
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let place = self.low + part * (self.high - self.low);
        if self.is_logarithmic { place.exp() } else { place }
    }

    fn cell(&self) -> f64 {
        (self.high - self.low) / self.points as f64
    }

    fn value(&self, index: usize) -> f64 {
        let place = self.low + (index as f64 + 0.5) * self.cell();
        if self.is_logarithmic { place.exp() } else { place }
    }
}

/// A point of a grid, and the logarithm of the likelihood there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GridPoint {
    pub(crate) parameters: Vec<f64>,
    pub(crate) ln_likelihood: f64,
}

/// What a model comes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Integral {
    /// The logarithm of the likelihood, integrated over the prior.
    pub(crate) ln_evidence: f64,
    /// The points of the last grid, of equal prior weight.
    pub(crate) points: Vec<GridPoint>,
}

/// The first grids are too coarse for narrow peaks: a large scatter would seem to explain what is only that a peak lies between two values. So what
/// is seen is taken to scatter by these parts of its own size more, at first, …
const EXTRA_SCATTER: [f64; 4] = [0.12, 0.03, 0.008, 0.002];
/// … and so many grids in all get from the whole of an axis to a thousandth of it with room.
const MAX_GRIDS: usize = 8;
/// Planes of the grid that hold less than this part of the fullest plane's mass are left out of the next one, but for those beside others: what is lost
/// is no more.
const NEGLIGIBLE_MASS: f64 = 1e-3;
/// A grid that would shrink by less than this factor, in all dimensions together, is fine enough.
const MIN_SHRINKING: f64 = 0.7;

/// The integral of the likelihood over these axes, if what is seen does not scatter more than the model says: by a part of zero.
pub(crate) fn integrate(axes: Vec<Axis>, ln_likelihood: impl Fn(&[f64], f64) -> f64) -> Integral {
    let mut now = axes;
    let mut ln_volume = 0.0;
    for round in 0.. {
        let extra = EXTRA_SCATTER.get(round).copied().unwrap_or(0.0);
        let (points, planes) = evaluate(&now, &|parameters: &[f64]| ln_likelihood(parameters, extra));
        let highest = points.iter().map(|p| p.ln_likelihood).fold(f64::NEG_INFINITY, f64::max);
        let next: Vec<Axis> = now.iter().zip(&planes).map(|(axis, masses)| shrink(axis, masses)).collect();
        let shrinking: f64 =
            now.iter().zip(&next).map(|(old, new)| (new.high - new.low) / (old.high - old.low)).product();
        let is_fine = round >= EXTRA_SCATTER.len() && shrinking > MIN_SHRINKING;
        if round + 1 == MAX_GRIDS || is_fine || !highest.is_finite() {
            let sum: f64 = points.iter().map(|p| (p.ln_likelihood - highest).exp()).sum();
            return Integral { ln_evidence: highest + (sum / points.len() as f64).ln() + ln_volume, points };
        }
        ln_volume += shrinking.ln();
        now = next;
    }
    unreachable!("the last grid ends the loop")
}

/// The points, and the mass of each plane of each axis relative to the highest point.
fn evaluate(axes: &[Axis], ln_likelihood: &impl Fn(&[f64]) -> f64) -> (Vec<GridPoint>, Vec<Vec<f64>>) {
    let count: usize = axes.iter().map(|axis| axis.points).product();
    let values: Vec<Vec<f64>> = axes.iter().map(|axis| (0..axis.points).map(|i| axis.value(i)).collect()).collect();
    let indices = |mut number: usize| {
        let place = |axis: &Axis| {
            let index = number % axis.points;
            number /= axis.points;
            index
        };
        axes.iter().map(place).collect::<Vec<usize>>()
    };
    let point = |number: usize| {
        let parameters: Vec<f64> = indices(number).iter().zip(&values).map(|(&index, axis)| axis[index]).collect();
        GridPoint { ln_likelihood: ln_likelihood(&parameters), parameters }
    };
    let points: Vec<GridPoint> = (0..count).map(point).collect();
    let highest = points.iter().map(|p| p.ln_likelihood).fold(f64::NEG_INFINITY, f64::max);
    let mut planes: Vec<Vec<f64>> = axes.iter().map(|axis| vec![0.0; axis.points]).collect();
    for (number, point) in points.iter().enumerate() {
        let mass = (point.ln_likelihood - highest).exp();
        for (plane, index) in planes.iter_mut().zip(indices(number)) {
            plane[index] += mass;
        }
    }
    (points, planes)
}

/// The part of an axis that holds the mass, and half a cell more on either side.
fn shrink(axis: &Axis, masses: &[f64]) -> Axis {
    let fullest = masses.iter().copied().fold(0.0, f64::max);
    let holds = |mass: &f64| *mass > NEGLIGIBLE_MASS * fullest;
    let (Some(first), Some(last)) = (masses.iter().position(holds), masses.iter().rposition(holds)) else {
        return *axis;
    };
    let low = (axis.low + (first as f64 - 0.5) * axis.cell()).max(axis.low);
    let high = (axis.low + (last as f64 + 1.5) * axis.cell()).min(axis.high);
    Axis { low, high, ..*axis }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_peak_is_found_and_integrated() {
        // A Cauchy-like peak, as Student tails have it, a thousandth of the axis wide.
        let (place, width) = (0.3217, 1e-3_f64);
        let ln_likelihood = |p: &[f64], extra: f64| {
            let width = width.hypot(extra);
            -2.5 * ((p[0] - place) / width).powi(2).ln_1p() - 20.0 * (p[1] - 0.5).powi(2)
        };
        let axes = vec![Axis::linear(0.0, 1.0, 25), Axis::linear(0.0, 1.0, 7)];
        let found = integrate(axes, ln_likelihood);
        // ∫(1+x²)^(−5/2) = 4/3; a Gaussian of that width within (0, 1) is 0.3959.
        let expected = (4.0 / 3.0 * width * 0.3959_f64).ln();
        assert!((found.ln_evidence - expected).abs() < 0.05, "{} is not {expected}", found.ln_evidence);
        let weight = |p: &GridPoint| p.ln_likelihood.exp();
        let total: f64 = found.points.iter().map(weight).sum();
        let mean = found.points.iter().map(|p| p.parameters[0] * weight(p)).sum::<f64>() / total;
        assert!((mean - place).abs() < 0.1 * width, "{mean}");
    }
}
