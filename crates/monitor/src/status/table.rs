//! The document in words.

use super::{LaneDelay, MonitorStatus, PairStatus, RunFigure};
use kumade_units::{Rate, Span};
use std::fmt;

impl fmt::Display for MonitorStatus {
    /// A line for each path below a headline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 6]> = self.pairs.iter().map(|pair| pair.cells(self.time_seconds)).collect();
        let head = ["path to", "state", "delay", "loss", "available up", "available down"].map(str::to_owned);
        let width = |column: usize| {
            let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or_default()
        };
        let widths: [usize; 6] = std::array::from_fn(width);
        for row in [&head].into_iter().chain(&rows) {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        match &self.archive_failure {
            Some(failure) => write!(f, "nothing is archived: {failure}"),
            None => write!(f, "{} paths from {}", self.pairs.len(), self.name),
        }
    }
}

impl PairStatus {
    fn cells(&self, now: f64) -> [String; 6] {
        let figure = |figure: fn(&super::RunStatus) -> &Option<RunFigure>| match self.run.as_ref().map(figure) {
            Some(Some(figure)) => figure.to_string(),
            Some(None) => "failed".to_owned(),
            None => "–".to_owned(),
        };
        [
            self.name.clone(),
            format!("{} for {}", self.state.word, age(now - self.state.since_seconds)),
            self.delays.first().map_or_else(|| "–".to_owned(), LaneDelay::to_string),
            self.loss.map_or_else(|| "–".to_owned(), |loss| format!("{:.2}%", loss.ratio * 100.0)),
            figure(|run| &run.up),
            figure(|run| &run.down),
        ]
    }
}

/// In whole units.
fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

impl fmt::Display for LaneDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, high] = [self.median_seconds, self.quantile_95_seconds].map(Span::from_secs_f64);
        write!(f, "{median} (95% ≤ {high})")
    }
}

impl fmt::Display for RunFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunFigure::Known { value, low, high } => {
                let [value, low, high] = [*value, *low, *high].map(Rate::from_f64);
                write!(f, "{value} ({low} to {high})")
            }
            RunFigure::Unknown { reason } => write!(f, "not known: {reason}"),
        }
    }
}
