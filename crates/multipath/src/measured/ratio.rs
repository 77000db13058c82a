/// The most packets in one turn of a ratio that is made of measured rates: finer ones would follow noise.
pub const MAX_RATIO_SUM: u32 = 128;
/// A ratio that carries so much of the sum of the rates is fine enough.
const SUFFICIENT_RATE_FRACTION: f64 = 0.97;

/// The integer ratio in which packets are divided among paths that carry so many bits per second.
///
/// **Rule.** Packets divided in the ratio `w₁:w₂:…` fill that path first of which `rᵢ/wᵢ` is least, so that all together
/// carry `Σw · min rᵢ/wᵢ`. Of the ratios whose sum is at most [`MAX_RATIO_SUM`] this is the one with the least sum that
/// carries 97 % of the sum of the rates; where none does, the one that carries most. So few packets in a row take one path,
/// and a path that would add less than 3 % takes none.
///
/// All parts are 0 where no path has a rate.
pub fn rates_to_ratio(rates: &[f64]) -> Vec<u32> {
    let total: f64 = rates.iter().sum();
    let mut parts = vec![0; rates.len()];
    let mut best = (0.0, parts.clone());
    for sum in 1..=MAX_RATIO_SUM {
        // Highest averages (D'Hondt): no other parts of this sum have a greater least rate per part.
        let average = |path: &usize| rates[*path] / f64::from(parts[*path] + 1);
        let Some(next) = (0..rates.len()).max_by(|one, other| average(one).total_cmp(&average(other))) else { break };
        parts[next] += 1;
        let carried = f64::from(sum) * min_rate_per_part(rates, &parts);
        if carried > best.0 {
            best = (carried, parts.clone());
        }
        if carried >= SUFFICIENT_RATE_FRACTION * total {
            break;
        }
    }
    best.1
}

fn min_rate_per_part(rates: &[f64], parts: &[u32]) -> f64 {
    let used = rates.iter().zip(parts).filter(|(_, part)| **part > 0);
    used.map(|(rate, part)| rate / f64::from(*part)).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ratios_are_as_coarse_as_the_paths_bear() {
        for (rates, ratio) in [
            (&[8e6, 8e6][..], &[1, 1][..]),
            (&[100e6, 25e6], &[4, 1]),
            (&[100e6, 25.5e6], &[4, 1]),
            (&[8e6, 1.5e6], &[6, 1]),
            (&[300e6, 80e6], &[4, 1]),
            (&[2e6, 8e6, 2e6], &[1, 4, 1]),
            (&[200e6, 2e6], &[1, 0]),
            (&[0.0, 8e6], &[0, 1]),
            (&[0.0, 0.0], &[0, 0]),
            (&[], &[]),
        ] {
            assert_eq!(rates_to_ratio(rates), ratio, "{rates:?}");
        }
    }

    proptest! {
        #[test]
        fn a_ratio_carries_nearly_the_sum_of_the_rates(rates in prop::collection::vec(1e5f64..1e9, 1..17)) {
            let ratio = rates_to_ratio(&rates);
            let sum: u32 = ratio.iter().sum();
            prop_assert!((1..=MAX_RATIO_SUM).contains(&sum));
            let carried = f64::from(sum) * min_rate_per_part(&rates, &ratio);
            // Highest averages leave at most one part per path unused.
            let bound = f64::from(MAX_RATIO_SUM) / (f64::from(MAX_RATIO_SUM) + rates.len() as f64);
            prop_assert!(carried >= bound.min(SUFFICIENT_RATE_FRACTION) * rates.iter().sum::<f64>() * 0.999_999);
        }

        #[test]
        fn the_faster_path_never_gets_fewer_packets(rates in prop::collection::vec(1e5f64..1e9, 2..6)) {
            let ratio = rates_to_ratio(&rates);
            for (one, other) in (0..rates.len()).zip(1..rates.len()) {
                prop_assert!(rates[one] < rates[other] || ratio[one] >= ratio[other], "{rates:?}: {ratio:?}");
            }
        }
    }
}
