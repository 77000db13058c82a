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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_there_is_nothing_to_say() {
        assert_eq!((mean(&[]), median(&[]), range(&[])), (None, None, None));
    }

    #[test]
    fn the_median_ignores_an_outlier_and_the_mean_does_not() {
        let values = [3.0, 1.0, 2.0, 94.0];
        assert_eq!((mean(&values), median(&values), range(&values)), (Some(25.0), Some(2.5), Some((1.0, 94.0))));
        assert_eq!(median(&values[..3]), Some(2.0));
    }
}
