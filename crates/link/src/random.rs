use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// An exponential variate of mean 1 by von Neumann's method (1951): comparisons of uniform variates only, so that it
/// is the same on every machine, which the logarithm of a platform's mathematical library is not.
pub(crate) fn exponential(rng: &mut Pcg64Mcg) -> f64 {
    let mut whole = 0.0;
    loop {
        let first: f64 = rng.random();
        let (mut least, mut run) = (first, 1u32);
        loop {
            let next: f64 = rng.random();
            if next >= least {
                break;
            }
            least = next;
            run += 1;
        }
        if run % 2 == 1 {
            return whole + first;
        }
        whole += 1.0;
    }
}

/// Spreads a number over all 64 bits (the finaliser of SplitMix64).
pub(crate) fn mix_bits(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A generator for one of the things that are random in a link. Each has its own, so that none of them draws other
/// numbers because another is switched on.
pub(crate) fn random_stream(seed: u64, purpose: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(mix_bits(seed ^ mix_bits(purpose)))
}

/// Draws nothing where there is nothing to decide.
pub(crate) fn happens(rng: &mut Pcg64Mcg, probability: f64) -> bool {
    probability > 0.0 && rng.random::<f64>() < probability
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_mean_variance_and_tail_are_those_of_the_exponential_law() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let n = 400_000;
        let values: Vec<f64> = (0..n).map(|_| exponential(&mut rng)).collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        let square = values.iter().map(|v| v * v).sum::<f64>() / n as f64;
        let above_three = values.iter().filter(|v| **v > 3.0).count() as f64 / n as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((square - 2.0).abs() < 0.05, "{square}");
        assert!((above_three - (-3f64).exp()).abs() < 0.001, "{above_three}");
    }
}
