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

/// Three digits that say something.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.1.. => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}
