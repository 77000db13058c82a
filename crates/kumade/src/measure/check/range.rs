//! Ranges of the Monitoring Plugins' guidelines: <https://www.monitoring-plugins.org/doc/guidelines.html#THRESHOLDFORMAT>.

use std::fmt::{self, Display, Formatter};

/// Values that alert: those outside `start … end`, or, where it is inverted (`@`), those inside; ends belong to the inside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlertRange {
    start: f64,
    end: f64,
    is_inverted: bool,
}

/// How much of an interval alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alerting {
    /// Nothing of it.
    Nothing,
    /// Some of it.
    Some,
    /// All of it.
    All,
}

impl AlertRange {
    /// `10` (0 to 10), `10:` (10 and more), `~:10` (10 and less), `10:20`, `@10:20` (inverted), with numbers as `parse_number` reads them.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str, parse_number: impl Fn(&str) -> Result<f64, String>) -> Result<Self, String> {
        let (is_inverted, range) = text.strip_prefix('@').map_or((false, text), |range| (true, range));
        let (start, end) = range.split_once(':').unwrap_or(("0", range));
        let start = match start {
            "~" => f64::NEG_INFINITY,
            "0" | "" => 0.0,
            start => parse_number(start)?,
        };
        let end = match end {
            "" if range.contains(':') => f64::INFINITY,
            end => parse_number(end)?,
        };
        if start > end {
            return Err(format!("`{text}` is no range: its start is above its end"));
        }
        Ok(AlertRange { start, end, is_inverted })
    }

    /// How much of `low … high` alerts.
    pub fn alerting(&self, low: f64, high: f64) -> Alerting {
        let (is_inside, is_outside) = (self.start <= low && high <= self.end, high < self.start || self.end < low);
        match (is_inside, is_outside, self.is_inverted) {
            (true, _, false) | (_, true, true) => Alerting::Nothing,
            (_, true, false) | (true, _, true) => Alerting::All,
            (false, false, _) => Alerting::Some,
        }
    }

    /// Whether a value alerts.
    pub fn alerts(&self, value: f64) -> bool {
        self.alerting(value, value) == Alerting::All
    }
}

impl Display for AlertRange {
    /// As in performance data: numbers without units, and no start that is zero.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_inverted { "@" } else { "" })?;
        match self.start {
            f64::NEG_INFINITY => f.write_str("~:")?,
            0.0 if self.end.is_finite() => {}
            start => write!(f, "{start}:")?,
        }
        if self.end.is_finite() { write!(f, "{}", self.end) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(text: &str) -> AlertRange {
        AlertRange::parse(text, |number| number.parse().map_err(|_| number.to_owned())).unwrap()
    }

    /// The examples of the guidelines.
    #[test]
    fn values_alert_as_the_guidelines_say() {
        for (text, alerting, silent) in [
            ("10", &[-1.0, 10.5][..], &[0.0, 10.0][..]),
            ("10:", &[9.9, -3.0], &[10.0, 1e12]),
            ("~:10", &[10.1], &[-1e12, 0.0, 10.0]),
            ("10:20", &[9.9, 20.1], &[10.0, 15.0, 20.0]),
            ("@10:20", &[10.0, 15.0, 20.0], &[9.9, 20.1]),
        ] {
            let range = range(text);
            assert!(alerting.iter().all(|value| range.alerts(*value)), "{text}");
            assert!(!silent.iter().any(|value| range.alerts(*value)), "{text}");
            assert_eq!(range.to_string(), text);
        }
        for bad in ["", "20:10", "x", "10:x", "@", "~", "1:2:3"] {
            let read = AlertRange::parse(bad, |number| number.parse().map_err(|_| number.to_owned()));
            assert!(read.is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_interval_alerts_as_its_values_do(start in -9..9, length in 0..9, low in -20..20, width in 0..20, inverted: bool) {
            let sign = if inverted { "@" } else { "" };
            let range = range(&format!("{sign}{start}:{}", start + length));
            // Halves, so that values between whole numbers are seen as well.
            let values = (2 * low..=2 * (low + width)).map(|half| range.alerts(f64::from(half) / 2.0));
            let expected = match values.fold((true, false), |(all, some), alerts| (all && alerts, some || alerts)) {
                (true, _) => Alerting::All,
                (_, true) => Alerting::Some,
                _ => Alerting::Nothing,
            };
            prop_assert_eq!(range.alerting(f64::from(low), f64::from(low + width)), expected);
        }
    }
}
