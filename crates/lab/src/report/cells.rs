//! Figures as cells of tables; a dash where there is none.

use kumade_probe_train::Estimate;

/// In this unit, with so many decimals.
pub(crate) fn format_number(value: Option<f64>, unit: f64, decimals: usize) -> String {
    value.map_or("–".into(), |value| format!("{:.decimals$}", value / unit))
}

/// A mean, with its margin where it has one.
pub(crate) fn format_mean(value: Option<Estimate<f64>>, unit: f64, decimals: usize) -> String {
    value.map_or("–".into(), |value| {
        let margin = value.margin().map(|margin| format!("±{:.decimals$}", margin / unit));
        format!("{:.decimals$}{}", value.value / unit, margin.unwrap_or_default())
    })
}

/// A part in percent.
pub(crate) fn format_part(part: Option<f64>, decimals: usize) -> String {
    format_number(part.map(|part| part * 100.0), 1.0, decimals)
}

/// The decimals with which a figure has three digits, as it is rounded: 99.96 is written 100.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs() {
        99.95.. => 0,
        9.995.. => 1,
        0.999_5.. => 2,
        0.099_95.. => 3,
        0.009_995.. => 4,
        _ => 5,
    }
}

/// Three digits that say something. Below 0.001, a power of ten takes the place of zeros.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.000_999_5.. => format!("{value:.*}", decimals(value)),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.9996 was 1.000, and 0.00002 was 0.0000.
    #[test]
    fn three_digits_are_three_whatever_the_figure() {
        let written = [1234.4, 99.96, 9.996, 0.9996, 0.5, -0.0123, 0.001_23, 0.000_02, 0.0].map(three_digits);
        assert_eq!(written, ["1234", "100", "10.0", "1.00", "0.500", "-0.0123", "0.00123", "2.00e-5", "0"]);
    }
}
