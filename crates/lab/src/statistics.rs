//! The statistics that reports state. All of them are none for no values.

pub(crate) use kumade_probe_train::statistics::median;

/// The mean.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| kumade_probe_train::statistics::mean(values))
}

/// The minimum and the maximum.
pub(crate) fn min_and_max(values: &[f64]) -> Option<(f64, f64)> {
    let min = values.iter().copied().min_by(f64::total_cmp)?;
    let max = values.iter().copied().max_by(f64::total_cmp)?;
    Some((min, max))
}

/// Each once, in the order of their first places.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
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
    fn an_empty_sample_has_no_statistics() {
        assert_eq!((mean(&[]), median(&[]), min_and_max(&[])), (None, None, None));
        assert_eq!((jain_index(&[]), jain_index(&[0.0, 0.0])), (None, None));
    }

    #[test]
    fn the_median_ignores_an_outlier_and_the_mean_does_not() {
        let values = [3.0, 1.0, 2.0, 94.0];
        assert_eq!((mean(&values), median(&values), min_and_max(&values)), (Some(25.0), Some(2.5), Some((1.0, 94.0))));
        assert_eq!(median(&values[..3]), Some(2.0));
    }

    #[test]
    fn jains_index_is_one_for_equals_and_falls_to_one_nth() {
        assert_eq!(jain_index(&[5.0; 20]), Some(1.0));
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[2.0, 1.0]), Some(0.9));
    }
}
