//! Whether trains are such as a model expects: without this, the least bad of several wrong models would be believed.
//!
//! A model whose scatter is free explains any single deviation, but not that deviations go with something: with what was sent before, with time, or
//! with the rate. So there are several looks, and the least of their probabilities counts, times their number (Bonferroni).

use crate::model::PathModel;
use crate::noise::{deviation, normal_distribution, normal_square};
use crate::observations::{Fact, Observation, Observations};
use crate::student;

/// Larger deviations count as so many scales: a single disturbed train is no pattern.
const MAX_DEVIATION: f64 = 3.0;

/// A train of one rate.
#[derive(Clone, Copy)]
struct BodyDeviation<'o> {
    body: &'o Observation,
    /// In scales.
    deviation: f64,
}

/// The probability of trains that deviate by as much from what the model expects at these parameters.
pub(crate) fn fit_probability(model: &dyn PathModel, parameters: &[f64], seen: &Observations) -> f64 {
    let of_segment = |segment: &Observation| deviation(&model.expect(parameters, segment), segment);
    let squares: Vec<f64> = seen.segments.iter().map(|s| normal_square(of_segment(s))).collect();
    let all_bodies: Vec<BodyDeviation> = seen
        .segments
        .iter()
        .filter(|s| s.fact == Fact::Growth)
        .map(|body| BodyDeviation { body, deviation: of_segment(body).clamp(-MAX_DEVIATION, MAX_DEVIATION) })
        .collect();
    let later = &all_bodies[all_bodies.len() / 2..];
    // What an empty queue explains tells nothing of the rest.
    let bodies: Vec<BodyDeviation> = all_bodies.iter().copied().filter(|b| b.deviation != 0.0).collect();
    let (behind_heads, without_heads): (Vec<_>, Vec<_>) = bodies.iter().copied().partition(|b| b.body.is_behind_head);
    let looks = [
        scatter_probability(&squares, parameters.len()),
        mean_probability(later),
        mean_probability(&behind_heads),
        mean_probability(&without_heads),
        trend_probability(&bodies),
    ];
    let least = looks.iter().copied().fold(1.0, f64::min);
    (looks.len() as f64 * least).min(1.0)
}

/// Of a sum of squares as large, by χ² with a degree of freedom less for each parameter (Wilson and Hilferty: The Distribution of Chi-Square, 1931).
fn scatter_probability(squares: &[f64], parameters: usize) -> f64 {
    let degrees = squares.len().saturating_sub(parameters).max(1) as f64;
    let ratio = (squares.iter().sum::<f64>() / degrees).cbrt();
    let variance = 2.0 / (9.0 * degrees);
    normal_distribution(-(ratio - (1.0 - variance)) / variance.sqrt())
}

/// Of a mean as far from zero, on either side.
fn mean_probability(bodies: &[BodyDeviation]) -> f64 {
    let sum: f64 = bodies.iter().map(|b| b.deviation).sum();
    2.0 * normal_distribution(-sum.abs() / (bodies.len().max(1) as f64).sqrt())
}

/// Of deviations that go with the rate as closely: two queues, and links whose rate is another one for trains of another rate, do that. By Student's t
/// of the correlation, whose own scatter needs no model.
fn trend_probability(bodies: &[BodyDeviation]) -> f64 {
    let n = bodies.len() as f64;
    if bodies.len() < MIN_TREND_BODIES {
        return 1.0;
    }
    let rates: Vec<f64> = bodies.iter().map(|b| (b.body.bits / b.body.duration).ln()).collect();
    let [mean_rate, mean] = [rates.iter().sum::<f64>() / n, bodies.iter().map(|b| b.deviation).sum::<f64>() / n];
    let (mut of_rates, mut of_both, mut of_deviations) = (0.0, 0.0, 0.0);
    for (rate, body) in rates.iter().zip(bodies) {
        let (x, y) = (rate - mean_rate, body.deviation - mean);
        of_rates += x * x;
        of_both += x * y;
        of_deviations += y * y;
    }
    let squared = of_both * of_both / (of_rates * of_deviations).max(f64::MIN_POSITIVE);
    let t = (squared * (n - 2.0) / (1.0 - squared).max(1e-12)).sqrt();
    // With four degrees of freedom, the tails are no lighter than with as many as there are.
    2.0 * student::distribution(-t)
}

/// Student's t with four degrees of freedom is that of so many.
const MIN_TREND_BODIES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn body(rate: f64, is_behind_head: bool) -> Observation {
        Observation {
            fact: Fact::Growth,
            bits: rate * 0.01,
            duration: 0.01,
            growth: 0.0,
            idle: 0.0,
            first_wait: 0.0,
            host_variance: 0.0,
            is_behind_head,
            weight: 1.0,
        }
    }

    #[test]
    fn deviations_that_go_with_the_rate_are_a_trend_and_others_are_none() {
        let bodies: Vec<Observation> = (0..12).map(|i| body(1e6 * f64::from(10 + i), false)).collect();
        let probability = |deviation: &dyn Fn(usize) -> f64| {
            let all = bodies.iter().enumerate().map(|(i, body)| BodyDeviation { body, deviation: deviation(i) });
            trend_probability(&all.collect::<Vec<_>>())
        };
        let scatter = |i: usize| if i.is_multiple_of(2) { 0.4 } else { -0.4 };
        assert!(probability(&scatter) > 0.3);
        assert!(probability(&|i| 0.2 * (5.5 - i as f64) + scatter(i)) < 0.01);
    }

    #[test]
    fn a_mean_that_is_off_shows_though_no_single_train_does() {
        let (body, deviation) = (body(1e7, true), -1.1);
        let of_mean = |trains: usize| mean_probability(&vec![BodyDeviation { body: &body, deviation }; trains]);
        assert!(of_mean(2) > 0.1 && of_mean(9) < 0.002);
        // χ² of 10.89 with six degrees of freedom.
        let of_scatter = scatter_probability(&[deviation * deviation; 9], 3);
        assert!((of_scatter - 0.092).abs() < 0.005, "{of_scatter}");
    }
}
