//! One measurement after the other, a line each.

use super::cells::{loaded_round_trip_figures, measured_directions, narrow_available_cell};
use super::summary::SummaryView;
use crate::text::{display_width, sparkline, wrap_text};
use console::measure_text_width;
use kumade_measurement::Report;
use kumade_units::{Direction, Span};
use std::collections::VecDeque;

/// The last so many values are drawn.
const MAX_VALUE_BARS: usize = 20;
/// The widest cell is `18.2 Mbit/s ±> 999 %`.
const MAX_CELL_COLUMNS: usize = 20;
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
    pub fn next_line(&mut self, report: &Report, view: &SummaryView) -> String {
        let styles = &view.styles;
        let time = report.started.get(11..19).unwrap_or(&report.started);
        let mut parts = Vec::new();
        for (direction, found) in measured_directions(report) {
            let estimate = found.available_bits_per_second.map(|estimate| estimate.value);
            let rate = found.at_least_bits_per_second.or(found.at_most_bits_per_second).or(estimate);
            let bars = self.push_value(direction, rate.map(|rate| rate.as_f64()));
            let style = if found.has_result() { &styles.value } else { &styles.fault };
            let cell = format!("{:<MAX_CELL_COLUMNS$}", narrow_available_cell(found));
            parts.push(format!("{direction} {} {bars}", style.apply_to(cell)));
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
    use crate::terminal::{ColorWhen, Styles};
    use kumade_estimate::{Outcome, Reason};
    use kumade_measurement::Cost;
    use kumade_measurement::report::DirectionReport;
    use kumade_probe_train::{Estimate, Transport};
    use kumade_units::Rate;

    fn direction(outcome: Outcome) -> Option<DirectionReport> {
        Some(DirectionReport::new(Transport::Udp, 0, "primed", outcome, None, &Cost::default()))
    }

    /// A wide interval took more room than others, and moved all that stood behind it.
    #[test]
    fn columns_stay_where_they_are_whatever_was_found() {
        let none = || Outcome::without_value(Reason::NoPacketArrived);
        let found = |value, low, high| {
            let [value, low, high] = [value, low, high].map(|kbit: u64| Rate::from_bits_per_second(kbit * 1000));
            let available = Some(Estimate { value, low, high, confidence: 0.95 });
            Outcome { available, reason: None, ..none() }
        };
        let view =
            SummaryView { styles: Styles::new(ColorWhen::Never), width: 200, verbose: false, clock_notes: false };
        let mut history = WatchHistory::new(usize::MAX);
        let mut places = Vec::new();
        for outcome in [found(94_123, 94_000, 94_200), found(18_200, 1_000, 90_000), found(999, 0, 900_000), none()] {
            let report = Report {
                schema: kumade_measurement::report::SCHEMA.to_owned(),
                peer: String::new(),
                started: "2026-11-23T01:00:00.500Z".to_owned(),
                up: direction(outcome),
                down: direction(none()),
                error: None,
                delay: None,
                path: None,
            };
            let line = history.next_line(&report, &view);
            places.push(display_width(line.split("down").next().unwrap()));
        }
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    }

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
