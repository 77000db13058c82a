//! The few statistics that reports state. All of them are none for no values.

/// The mean.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The least and the greatest value.
pub(crate) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let greatest = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, greatest))
}

/// The mean of independent values, and how far the true mean lies from it at most with 95 % confidence (Student's t);
/// one value alone tells nothing of that.
pub(crate) fn mean_and_margin(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let mean = mean(values)?;
    let freedom = values.len() - 1;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation_of_mean = (squares / freedom as f64 / values.len() as f64).sqrt();
    Some((mean, (freedom > 0).then(|| student(freedom) * deviation_of_mean)))
}

/// The 97.5 % point of Student's t distribution: from the table, then by its expansion around the normal's.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let n = freedom as f64;
    TABLE.get(freedom - 1).copied().unwrap_or(1.95996 + 2.3723 / n + 2.8225 / n.powi(2) + 2.556 / n.powi(3))
}

/// Jain's fairness index of shares: 1 where all are equal, 1/n where one of n has everything.
pub(crate) fn jain_index(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_there_is_nothing_to_say() {
        assert_eq!((mean(&[]), median(&[]), range(&[])), (None, None, None));
        assert_eq!((mean_and_margin(&[]), jain_index(&[]), jain_index(&[0.0, 0.0])), (None, None, None));
    }

    #[test]
    fn the_median_ignores_an_outlier_and_the_mean_does_not() {
        let values = [3.0, 1.0, 2.0, 94.0];
        assert_eq!((mean(&values), median(&values), range(&values)), (Some(25.0), Some(2.5), Some((1.0, 94.0))));
        assert_eq!(median(&values[..3]), Some(2.0));
    }

    #[test]
    fn the_margin_is_students() {
        // Five values with a standard deviation of 1: 2.776 / sqrt(5).
        let (mean, margin) =
            mean_and_margin(&[9.0, 9.5, 10.0, 10.5, 11.0].map(|v| (v - 10.0) / 0.625f64.sqrt())).unwrap();
        assert!(mean.abs() < 1e-9 && (margin.unwrap() - 1.2415).abs() < 1e-3, "{mean} {margin:?}");
        assert_eq!(mean_and_margin(&[3.0]), Some((3.0, None)));
    }

    #[test]
    fn the_expansion_continues_the_table() {
        for (freedom, point) in [(11, 2.201), (12, 2.179), (20, 2.086), (60, 2.000), (10_000, 1.960)] {
            assert!((student(freedom) - point).abs() < 1e-3, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn jains_index_is_one_for_equals_and_falls_to_one_nth() {
        assert_eq!(jain_index(&[5.0; 20]), Some(1.0));
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[2.0, 1.0]), Some(0.9));
    }
}
