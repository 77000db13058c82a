//! One measurement after the other, a line each.

use super::cells::{available, directions, loaded_round_trip};
use super::summary::View;
use crate::text::sparkline;
use measurement::Report;
use std::collections::VecDeque;
use units::{Direction, Span};

/// The last so many values are drawn.
const MAX_BARS: usize = 20;

/// What was found before.
#[derive(Debug, Default)]
pub struct History {
    /// Available bandwidths up and down in bit/s.
    values: [VecDeque<Option<f64>>; 2],
}

impl History {
    /// The line of the next report: `12:00:05  up 18.2 Mbit/s ▇▇█  down 94.1 Mbit/s ▇█▇  RTT 25 ms → 28 ms`.
    pub fn line(&mut self, report: Report, view: &View) -> String {
        let styles = &view.styles;
        let time = report.started.get(11..19).unwrap_or(&report.started);
        let mut parts = vec![styles.label.apply_to(time).to_string()];
        for (direction, found) in directions(&report) {
            let estimate = found.available_bits_per_second.map(|estimate| estimate.value);
            let rate = found.at_least_bits_per_second.or(found.at_most_bits_per_second).or(estimate);
            let bars = self.push(direction, rate.map(|rate| rate.as_f64()));
            let style = if found.has_result() { &styles.value } else { &styles.bad };
            parts.push(format!("{direction} {} {bars}", style.apply_to(format!("{:<20}", available(found)))));
        }
        if let Some(error) = &report.error {
            parts.push(styles.bad.apply_to(&error.message).to_string());
        }
        parts.extend(report.delay.as_ref().and_then(|delay| {
            let idle = Span::from_secs_f64(delay.round_trip.as_ref()?.median_seconds.value);
            let loaded = Direction::BOTH.iter().filter_map(|&direction| loaded_round_trip(delay, direction));
            let most = loaded
                .map(|figures| figures.median_seconds.value)
                .fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))));
            Some(match most {
                Some(loaded) => format!("RTT {idle} → {}", Span::from_secs_f64(loaded)),
                None => format!("RTT {idle}"),
            })
        }));
        parts.join("  ")
    }

    fn push(&mut self, direction: Direction, value: Option<f64>) -> String {
        let values = &mut self.values[direction as usize];
        values.push_back(value);
        if values.len() > MAX_BARS {
            values.pop_front();
        }
        format!("{:<MAX_BARS$}", sparkline(values.iter().copied()))
    }
}
