//! How figures are written.

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
        format!("{:.2}", bits_per_second / self.bits_per_unit)
    }

    pub(super) fn format_signed(self, bits_per_second: f64) -> String {
        let text = format!("{:+.2}", bits_per_second / self.bits_per_unit);
        if text == "-0.00" { "+0.00".to_owned() } else { text }
    }
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

    #[test]
    fn a_figure_that_exceeds_its_limit_is_marked() {
        let judged = |figure| format_with_limit(figure, Some(0.1), format_small_percent);
        assert_eq!(judged(0.1), "10.00 % (limit 10.00 %)");
        assert_eq!(judged(0.11), "11.00 % (exceeds the limit of 10.00 %)");
    }
}
