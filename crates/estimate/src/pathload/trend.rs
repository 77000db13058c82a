//! Whether one stream's one-way delays rise: the pairwise comparison test and the pairwise difference test on the
//! medians of groups (Jain, Dovrolis 2003, section IV).

use crate::stats::median;

/// What a stream says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trend {
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
const PCT: (f64, f64) = (0.66, 0.54);
/// The pairwise difference test likewise.
const PDT: (f64, f64) = (0.55, 0.45);

/// The trend of the one-way delays of one stream, in the order of sending.
pub(super) fn trend(delays: &[f64]) -> Trend {
    let medians = group_medians(delays);
    if medians.len() < MIN_GROUPS {
        return Trend::Ambiguous;
    }
    match (judge(pct(&medians), PCT), judge(pdt(&medians), PDT)) {
        (a, b) if a == b => a,
        (Trend::Ambiguous, said) | (said, Trend::Ambiguous) => said,
        _ => Trend::Ambiguous,
    }
}

fn judge(metric: f64, (increasing, non_increasing): (f64, f64)) -> Trend {
    match metric {
        m if m > increasing => Trend::Increasing,
        m if m < non_increasing => Trend::NonIncreasing,
        _ => Trend::Ambiguous,
    }
}

/// The K delays in √K groups, each by its median: robust against single late packets.
fn group_medians(delays: &[f64]) -> Vec<f64> {
    let group = (delays.len() as f64).sqrt() as usize;
    delays.chunks_exact(group.max(1)).filter_map(median).collect()
}

/// The part of consecutive medians that rise: 0.5 where they are independent, 1 on a strong rise.
fn pct(medians: &[f64]) -> f64 {
    let rising = medians.windows(2).filter(|pair| pair[1] > pair[0]).count();
    rising as f64 / (medians.len() - 1) as f64
}

/// From the first median to the last, against all the way that lies between: 0 where they are independent, 1 on a
/// strong rise.
fn pdt(medians: &[f64]) -> f64 {
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
        assert_eq!(trend(&rising), Trend::Increasing);
        let mut flat: Vec<f64> = (0..100).map(|_| 5.0).collect();
        assert_eq!(trend(&flat), Trend::NonIncreasing);
        flat[95] = 1000.0;
        assert_eq!(trend(&flat), Trend::NonIncreasing);
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert_eq!(trend(&falling), Trend::NonIncreasing);
    }

    #[test]
    fn the_published_thresholds_decide() {
        assert_eq!(
            [0.67, 0.6, 0.53].map(|m| judge(m, PCT)),
            [Trend::Increasing, Trend::Ambiguous, Trend::NonIncreasing]
        );
        assert_eq!(
            [0.56, 0.5, 0.44].map(|m| judge(m, PDT)),
            [Trend::Increasing, Trend::Ambiguous, Trend::NonIncreasing]
        );
        // Each median a little higher, and then back down: seven of nine rise, but the way leads nowhere.
        let medians = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 3.0, 1.0];
        let delays: Vec<f64> = medians.iter().flat_map(|&m| [m; 10]).collect();
        assert!(pct(&medians) > PCT.0 && pdt(&medians) < PDT.1);
        assert_eq!(trend(&delays), Trend::Ambiguous);
    }

    #[test]
    fn too_little_has_no_trend() {
        for few in [&[][..], &[1.0], &[1.0, 2.0]] {
            assert_eq!(trend(few), Trend::Ambiguous);
        }
    }
}
