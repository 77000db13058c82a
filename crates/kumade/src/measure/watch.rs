//! One measurement after the other, a line each.

use super::cells::{available_cell, loaded_round_trip_figures, measured_directions};
use super::summary::SummaryView;
use crate::text::{display_width, sparkline, wrap_text};
use console::measure_text_width;
use kumade_measurement::Report;
use kumade_units::{Direction, Span};
use std::collections::VecDeque;

/// The last so many values are drawn.
const MAX_VALUE_BARS: usize = 20;
/// Between two parts of a line.
const PART_SEPARATOR: &str = "  ";

/// What was found before.
#[derive(Debug)]
pub struct WatchHistory {
    /// Maximum columns of a line.
    width: usize,
    /// Available bandwidths up and down in bit/s.
    values: [VecDeque<Option<f64>>; 2],
}

impl WatchHistory {
    /// For lines of at most so many columns.
    pub fn new(width: usize) -> Self {
        WatchHistory { width, values: Default::default() }
    }

    /// The line of the next report: `12:00:05  up 18.2 Mbit/s ▇▇█  down 94.1 Mbit/s ▇█▇  RTT 25 ms → 28 ms`. What has no room goes
    /// on below.
    pub fn next_line(&mut self, report: Report, view: &SummaryView) -> String {
        let styles = &view.styles;
        let time = report.started.get(11..19).unwrap_or(&report.started);
        let mut parts = Vec::new();
        for (direction, found) in measured_directions(&report) {
            let estimate = found.available_bits_per_second.map(|estimate| estimate.value);
            let rate = found.at_least_bits_per_second.or(found.at_most_bits_per_second).or(estimate);
            let bars = self.push_value(direction, rate.map(|rate| rate.as_f64()));
            let style = if found.has_result() { &styles.value } else { &styles.fault };
            parts.push(format!("{direction} {} {bars}", style.apply_to(format!("{:<20}", available_cell(found)))));
        }
        if let Some(error) = &report.error {
            let lines =
                wrap_text(&error.message, self.width.saturating_sub(display_width(time) + PART_SEPARATOR.len()));
            parts.extend(lines.iter().map(|line| styles.fault.apply_to(line).to_string()));
        }
        parts.extend(report.delay.as_ref().and_then(|delay| {
            let idle = Span::from_secs_f64(delay.round_trip.as_ref()?.median_seconds.value);
            let loaded = Direction::BOTH.iter().filter_map(|&direction| loaded_round_trip_figures(delay, direction));
            let most = loaded
                .map(|figures| figures.median_seconds.value)
                .fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))));
            Some(match most {
                Some(loaded) => format!("RTT {idle} → {}", Span::from_secs_f64(loaded)),
                None => format!("RTT {idle}"),
            })
        }));
        self.join_parts(styles.label.apply_to(time).to_string(), &parts)
    }

    /// The parts behind a label, and those that have no room below each other.
    fn join_parts(&self, label: String, parts: &[String]) -> String {
        let indent = measure_text_width(&label);
        let (mut line, mut used) = (label, indent);
        for (number, part) in parts.iter().enumerate() {
            let columns = PART_SEPARATOR.len() + measure_text_width(part);
            if number > 0 && used + columns > self.width {
                line.push_str(&format!("\n{}", " ".repeat(indent)));
                used = indent;
            }
            line.extend([PART_SEPARATOR, part]);
            used += columns;
        }
        line
    }

    fn push_value(&mut self, direction: Direction, value: Option<f64>) -> String {
        let values = &mut self.values[direction as usize];
        values.push_back(value);
        if values.len() > MAX_VALUE_BARS {
            values.pop_front();
        }
        format!("{:<MAX_VALUE_BARS$}", sparkline(values.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_goes_below_and_no_number_is_parted() {
        let parts = ["up 3.44 Gbit/s ██".to_owned(), "down 4.19 Gbit/s █".to_owned(), "RTT 25 ms → 28 ms".to_owned()];
        let lines = |width| WatchHistory::new(width).join_parts("23:20:16".into(), &parts);
        let wide = "23:20:16  up 3.44 Gbit/s ██  down 4.19 Gbit/s █  RTT 25 ms → 28 ms";
        assert_eq!(lines(usize::MAX), wide);
        assert_eq!(lines(display_width(wide)), wide);
        let narrow = "23:20:16  up 3.44 Gbit/s ██\n          down 4.19 Gbit/s █\n          RTT 25 ms → 28 ms";
        assert_eq!(lines(30), narrow);
    }
}
