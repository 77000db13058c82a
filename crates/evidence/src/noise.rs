//! How what is seen of a segment scatters around what is expected of it.
//!
//! Cross traffic's sum over a train is nearly normal, and its mean is what is asked for: a density with heavy tails alone would take rare large
//! values for outliers, and so bias what is skewed (bursts). That its variance isn't known makes the posterior Student's, since it is integrated over.
//! Hosts that stall are the outliers: a small part of all segments, of which nothing is known but an order of magnitude.

use crate::assumptions::DISTURBED_SCALE;
use crate::model::Expected;
use crate::observations::Observation;
use crate::student;

/// The part of segments that hosts disturb (one in a hundred trains on a busy two-core machine: `kumade lab run rake-accuracy`, disturbed
/// runs).
const DISTURBED_PART: f64 = 0.01;
/// The logarithm of the density of a segment's growth.
pub(crate) fn ln_density(expected: &Expected, segment: &Observation) -> f64 {
    let idle = if expected.may_idle { segment.idle } else { 0.0 };
    let of_noise = |growth: f64, variance: f64| {
        let scale = (variance + segment.host_variance).sqrt();
        density((segment.growth - growth) / scale, idle / scale) / scale
    };
    let found = match expected.silence {
        None => of_noise(expected.growth, expected.variance),
        Some(silence) => {
            let (growth, variance) = expected.beside_silence(&silence);
            silence.probability * of_noise(silence.growth, 0.0)
                + (1.0 - silence.probability) * of_noise(growth, variance)
        }
    };
    found.max(f64::MIN_POSITIVE).ln()
}

/// The density at so many scales, or its mean over so many below that. Where a queue may have been empty for up to some time, it was for any part
/// of that.
fn density(above: f64, idle: f64) -> f64 {
    // The difference of two nearly equal probabilities would lose its digits.
    if idle < 1e-3 {
        let u = above - idle / 2.0;
        let disturbed = student::ln_density(u / DISTURBED_SCALE).exp() / DISTURBED_SCALE;
        return (1.0 - DISTURBED_PART) * normal_density(u) + DISTURBED_PART * disturbed;
    }
    let normal = normal_between(above - idle, above);
    let disturbed = student::probability_between((above - idle) / DISTURBED_SCALE, above / DISTURBED_SCALE);
    ((1.0 - DISTURBED_PART) * normal + DISTURBED_PART * disturbed) / idle
}

fn normal_density(u: f64) -> f64 {
    (-u * u / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

fn normal_between(low: f64, high: f64) -> f64 {
    if low > 0.0 {
        normal_distribution(-low) - normal_distribution(-high)
    } else {
        normal_distribution(high) - normal_distribution(low)
    }
}

/// The standard normal distribution, to 1e-7 (Abramowitz and Stegun, 26.2.17).
pub(crate) fn normal_distribution(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, c| t * (c + sum));
    let tail = normal_density(z) * polynomial;
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// By how many scales a segment deviates from what is expected, at whichever time its queue may have been empty.
pub(crate) fn deviation(expected: &Expected, segment: &Observation) -> f64 {
    let scale = (expected.variance + segment.host_variance).sqrt();
    let above = (segment.growth - expected.growth) / scale;
    let idle = if expected.may_idle { segment.idle / scale } else { 0.0 };
    if above > idle { above - idle } else { above.min(0.0) }
}

/// The square of a standard normal deviate that is as improbable as this deviation: beyond some, it is a disturbance.
pub(crate) fn normal_square(deviation: f64) -> f64 {
    let u = deviation.abs();
    if u < 3.0 {
        return u * u;
    }
    let tail =
        (1.0 - DISTURBED_PART) * normal_distribution(-u) + DISTURBED_PART * student::distribution(-u / DISTURBED_SCALE);
    // The inverse of the normal tail φ(z)/z, to its first order.
    let log = -2.0 * (tail * std::f64::consts::TAU.sqrt()).ln();
    log - log.max(1.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Silence;
    use crate::observations::Fact;

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        for (z, probability) in [(0.0, 0.5), (1.959_964, 0.975), (-2.326_348, 0.01), (3.0, 0.998_650)] {
            assert!((normal_distribution(z) - probability).abs() < 1e-6, "{z}");
        }
    }

    #[test]
    fn densities_add_up_to_one_with_and_without_silence() {
        let segment = |growth| Observation {
            fact: Fact::Growth,
            bits: 1e5,
            duration: 1.0,
            growth,
            idle: 0.3,
            first_wait: 0.0,
            host_variance: 1e-4,
            is_behind_head: true,
            weight: 1.0,
        };
        for silence in [None, Some(Silence { probability: 0.4, growth: -1.0 })] {
            let expected = Expected { growth: 0.2, variance: 3.0, may_idle: true, silence };
            let step = 1e-3;
            let points: Vec<(f64, f64)> = (-100_000..100_000)
                .map(|i| f64::from(i) * step)
                .map(|g| (g, ln_density(&expected, &segment(g)).exp() * step))
                .collect();
            let total: f64 = points.iter().map(|p| p.1).sum();
            let mean: f64 = points.iter().map(|p| p.0 * p.1).sum();
            assert!((total - 1.0).abs() < 1e-3, "{total}");
            // Half of the time in which it may have been empty comes on top.
            assert!((mean - 0.35).abs() < 0.01, "{mean}");
        }
    }
}
