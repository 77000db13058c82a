//! Whether one stream's one-way delays rise: the pairwise comparison test and the pairwise difference test on the
//! medians of groups (Jain, Dovrolis 2003, section IV).

use crate::stats::median;

/// What a stream says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DelayTrend {
    /// "Type I": its rate was above the available bandwidth.
    Increasing,
    /// "Type N": it was below.
    NonIncreasing,
    /// The tests contradict each other or say nothing: the stream is discarded.
    Ambiguous,
}

/// Fewer medians than these show no trend.
const MIN_GROUPS: usize = 3;

/// The pairwise comparison test says increasing above the first, not increasing below the second.
const PCT_THRESHOLDS: (f64, f64) = (0.66, 0.54);
/// The pairwise difference test likewise.
const PDT_THRESHOLDS: (f64, f64) = (0.55, 0.45);

/// The trend of the one-way delays of one stream, in the order of sending.
pub(super) fn delay_trend(delays: &[f64]) -> DelayTrend {
    let medians = group_medians(delays);
    if medians.len() < MIN_GROUPS {
        return DelayTrend::Ambiguous;
    }
    match (
        classify_metric(pairwise_comparison_test(&medians), PCT_THRESHOLDS),
        classify_metric(pairwise_difference_test(&medians), PDT_THRESHOLDS),
    ) {
        (a, b) if a == b => a,
        (DelayTrend::Ambiguous, said) | (said, DelayTrend::Ambiguous) => said,
        _ => DelayTrend::Ambiguous,
    }
}

fn classify_metric(metric: f64, (increasing, non_increasing): (f64, f64)) -> DelayTrend {
    match metric {
        m if m > increasing => DelayTrend::Increasing,
        m if m < non_increasing => DelayTrend::NonIncreasing,
        _ => DelayTrend::Ambiguous,
    }
}

/// The K delays in √K groups, each by its median: robust against single late packets.
fn group_medians(delays: &[f64]) -> Vec<f64> {
    let group = (delays.len() as f64).sqrt() as usize;
    delays.chunks_exact(group.max(1)).filter_map(median).collect()
}

/// The part of consecutive medians that rise: 0.5 where they are independent, 1 on a strong rise.
fn pairwise_comparison_test(medians: &[f64]) -> f64 {
    let rising = medians.windows(2).filter(|pair| pair[1] > pair[0]).count();
    rising as f64 / (medians.len() - 1) as f64
}

/// From the first median to the last, against all the way that lies between: 0 where they are independent, 1 on a
/// strong rise.
fn pairwise_difference_test(medians: &[f64]) -> f64 {
    let way: f64 = medians.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
    if way > 0.0 { (medians[medians.len() - 1] - medians[0]) / way } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_is_seen_through_noise_and_single_late_packets() {
        let noise = |i: usize| ((i * 37) % 11) as f64;
        let rising: Vec<f64> = (0..100).map(|i| i as f64 + noise(i)).collect();
        assert_eq!(delay_trend(&rising), DelayTrend::Increasing);
        let mut flat: Vec<f64> = (0..100).map(|_| 5.0).collect();
        assert_eq!(delay_trend(&flat), DelayTrend::NonIncreasing);
        flat[95] = 1000.0;
        assert_eq!(delay_trend(&flat), DelayTrend::NonIncreasing);
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert_eq!(delay_trend(&falling), DelayTrend::NonIncreasing);
    }

    #[test]
    fn the_published_thresholds_decide() {
        assert_eq!(
            [0.67, 0.6, 0.53].map(|m| classify_metric(m, PCT_THRESHOLDS)),
            [DelayTrend::Increasing, DelayTrend::Ambiguous, DelayTrend::NonIncreasing]
        );
        assert_eq!(
            [0.56, 0.5, 0.44].map(|m| classify_metric(m, PDT_THRESHOLDS)),
            [DelayTrend::Increasing, DelayTrend::Ambiguous, DelayTrend::NonIncreasing]
        );
        // Each median a little higher, and then back down: seven of nine rise, but the way leads nowhere.
        let medians = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 3.0, 1.0];
        let delays: Vec<f64> = medians.iter().flat_map(|&m| [m; 10]).collect();
        assert!(
            pairwise_comparison_test(&medians) > PCT_THRESHOLDS.0
                && pairwise_difference_test(&medians) < PDT_THRESHOLDS.1
        );
        assert_eq!(delay_trend(&delays), DelayTrend::Ambiguous);
    }

    #[test]
    fn too_little_has_no_trend() {
        for few in [&[][..], &[1.0], &[1.0, 2.0]] {
            assert_eq!(delay_trend(few), DelayTrend::Ambiguous);
        }
    }
}
