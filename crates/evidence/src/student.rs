//! Student's t with four degrees of freedom: tails as heavy as stalls and bursts need, and a distribution function without special functions.

/// The logarithm of its density at `u`.
pub(crate) fn ln_density(u: f64) -> f64 {
    // (3/8) · (1 + u²/4)^(−5/2)
    const LN_PEAK: f64 = -0.980_829_253_011_726_2;
    LN_PEAK - 2.5 * (u * u / 4.0).ln_1p()
}

/// The probability of less than `u` (Abramowitz and Stegun, 26.7.4, for four degrees).
pub(crate) fn distribution(u: f64) -> f64 {
    if u < -50.0 {
        // The difference of two nearly equal numbers would lose its digits: 3 u⁻⁴ is the tail's first term.
        return 3.0 / u.powi(4);
    }
    let spread = 1.0 + u * u / 4.0;
    0.5 + 0.375 * u / spread.sqrt() * (1.0 - u * u / spread / 12.0)
}

/// The probability of a value between these two, of which the second is the greater.
pub(crate) fn probability_between(low: f64, high: f64) -> f64 {
    // On the side where both are small.
    if low > 0.0 { distribution(-low) - distribution(-high) } else { distribution(high) - distribution(low) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_those_of_the_tables() {
        for (probability, u) in [(0.5, 0.0), (0.9, 1.533), (0.975, 2.776), (0.995, 4.604), (0.9995, 8.610)] {
            assert!((distribution(u) - probability).abs() < 2e-4, "{u}: {}", distribution(u));
            assert!((distribution(-u) - (1.0 - probability)).abs() < 2e-4);
        }
        assert!((distribution(-49.99) / distribution(-50.01) - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_density_is_the_slope_of_the_distribution() {
        for u in [-60.0, -8.0, -1.0, 0.0, 0.5, 3.0, 20.0_f64] {
            let h = 1e-3 * (1.0 + u.abs());
            let slope = probability_between(u - h, u + h) / (2.0 * h);
            assert!((slope.ln() - ln_density(u)).abs() < 0.01, "{u}");
        }
    }
}
