//! How figures are written.

use crate::report::decimals;

/// The unit that all rates of a report are written in, so that columns can be compared.
#[derive(Clone, Copy)]
pub(super) struct RateUnit {
    /// Its name.
    pub(super) name: &'static str,
    /// How many bits per second it is.
    pub(super) bits_per_unit: f64,
}

pub(super) const MEGABIT: RateUnit = RateUnit { name: "Mbit/s", bits_per_unit: 1e6 };

impl RateUnit {
    /// The unit that fits a bottleneck of that rate.
    pub(super) fn for_rate(bits_per_second: u64) -> Self {
        match bits_per_second {
            0..1_000_000 => RateUnit { name: "kbit/s", bits_per_unit: 1e3 },
            _ => MEGABIT,
        }
    }

    pub(super) fn format_rate(self, bits_per_second: f64) -> String {
        let value = bits_per_second / self.bits_per_unit;
        format!("{value:.*}", rate_decimals(value))
    }

    pub(super) fn format_signed(self, bits_per_second: f64) -> String {
        let value = bits_per_second / self.bits_per_unit;
        let text = format!("{value:+.*}", rate_decimals(value));
        if text == "-0.00" { "+0.00".to_owned() } else { text }
    }
}

/// Two, and below 1 as many as three digits take: a small error is none of zero. What five do not show is none.
fn rate_decimals(value: f64) -> usize {
    if value.abs() < 0.000_05 { 2 } else { decimals(value).max(2) }
}

/// A ratio, in percent.
pub(super) fn format_percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// A size in the unit that it was set in: a scenario's `256kb` are 256 KiB, as in `tc`.
pub(super) fn format_size(bytes: u64) -> String {
    match bytes {
        1024.. if bytes.is_multiple_of(1024) => format!("{} KiB", bytes / 1024),
        _ => format!("{bytes} bytes"),
    }
}

/// A figure, and whether it is within its limit.
pub(super) fn format_with_limit(figure: f64, limit: Option<f64>, write: impl Fn(f64) -> String) -> String {
    match limit {
        None => write(figure),
        Some(limit) if figure <= limit => format!("{} (limit {})", write(figure), write(limit)),
        Some(limit) => format!("{} (exceeds the limit of {})", write(figure), write(limit)),
    }
}

/// A small ratio, in percent.
pub(super) fn format_small_percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

/// A figure, or a dash where there is none.
pub(super) fn format_or_dash(figure: Option<f64>, write: impl Fn(f64) -> String) -> String {
    figure.map_or("–".to_owned(), write)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 5 Mbit/s, a mean error of 0.0041 Mbit/s was 0.00.
    #[test]
    fn small_rates_have_three_digits() {
        let written = [15.6e6, 999_990.0, 985e3, -15e3, 4.1e3, 20.0, 0.0].map(|bits| MEGABIT.format_rate(bits));
        assert_eq!(written, ["15.60", "1.00", "0.985", "-0.0150", "0.00410", "0.00", "0.00"]);
        let signed = [15.6e6, -15e3, -20.0, -0.0].map(|bits| MEGABIT.format_signed(bits));
        assert_eq!(signed, ["+15.60", "-0.0150", "+0.00", "+0.00"]);
    }

    #[test]
    fn a_figure_that_exceeds_its_limit_is_marked() {
        let judged = |figure| format_with_limit(figure, Some(0.1), format_small_percent);
        assert_eq!(judged(0.1), "10.00 % (limit 10.00 %)");
        assert_eq!(judged(0.11), "11.00 % (exceeds the limit of 10.00 %)");
    }
}
