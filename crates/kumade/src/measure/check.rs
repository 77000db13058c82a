//! `--check`: a result against thresholds, for Nagios, Icinga and other systems that run plugins. State, line and performance data are
//! those of the Monitoring Plugins' guidelines: <https://www.monitoring-plugins.org/doc/guidelines.html>.

mod range;
mod threshold;

use crate::output::StandardOutput;
use kumade_lab::printable;
use kumade_measurement::Report;
use kumade_units::Direction;
use range::Alerting;
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::Write;
use std::process::ExitCode;
use threshold::{Finding, findings};

pub use threshold::{Threshold, packets_to_tell_loss};

/// What the system is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The critical threshold is not crossed for sure, and the warning threshold is not, or not for sure.
    Ok,
    /// The warning threshold is crossed for sure, or the critical one is, but not for sure.
    Warning,
    /// The critical threshold is crossed for sure.
    Critical,
    /// Nothing is known that tells.
    Unknown,
}

impl State {
    /// The exit status of a plugin.
    pub fn exit_status(self) -> u8 {
        match self {
            State::Ok => 0,
            State::Warning => 1,
            State::Critical => 2,
            State::Unknown => 3,
        }
    }

    /// The state of two checks together: an alert counts more than what is not known, as in the Monitoring Plugins' `max_state`.
    fn worse(self, other: State) -> State {
        let order = [State::Ok, State::Unknown, State::Warning, State::Critical];
        order.into_iter().rfind(|state| [self, other].contains(state)).unwrap_or(State::Unknown)
    }
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Ok => "OK",
            State::Warning => "WARNING",
            State::Critical => "CRITICAL",
            State::Unknown => "UNKNOWN",
        })
    }
}

/// Prints the line, and returns the exit status. `outcome`: the report, or why there is none.
pub fn print_verdict(thresholds: &[Threshold], directions: &[Direction], outcome: Result<&Report, &str>) -> ExitCode {
    let (state, line) = verdict(thresholds, directions, outcome);
    // What nobody can read is not known.
    let state = writeln!(StandardOutput, "{line}").map_or(State::Unknown, |()| state);
    ExitCode::from(state.exit_status())
}

/// The state and the line: `KUMADE OK: available up 94.1 Mbit/s (93.9 Mbit/s … 94.4 Mbit/s) | 'available_up'=94100000;…`.
fn verdict(thresholds: &[Threshold], directions: &[Direction], outcome: Result<&Report, &str>) -> (State, String) {
    let report = match outcome {
        Ok(report) => report,
        Err(reason) => return (State::Unknown, format!("KUMADE UNKNOWN: {}", one_line(reason))),
    };
    let (mut state, mut texts, mut data) = (State::Ok, Vec::new(), String::new());
    for threshold in thresholds {
        for finding in findings(threshold, report, directions) {
            let (found, words) = finding_state(threshold, &finding);
            state = state.worse(found);
            texts.push(format!("{finding}{words}"));
            data += &finding.performance_data(threshold);
        }
    }
    (state, format!("KUMADE {state}: {} |{data}", one_line(&texts.join(", "))))
}

/// The state of one figure, and how it is told. A threshold counts as crossed if the whole interval is beyond it; if only the value is, the
/// state is the one below. OK leaves no room for what is critical.
fn finding_state(threshold: &Threshold, finding: &Finding) -> (State, &'static str) {
    let Some((low, high)) = finding.interval else { return (State::Unknown, "") };
    let [warning, critical] = [threshold.warning, threshold.critical].map(|range| {
        range.map_or((Alerting::Nothing, false), |range| {
            (range.alerting(low, high), finding.value.is_some_and(|value| range.alerts(value)))
        })
    });
    match (critical, warning) {
        ((Alerting::All, _), _) => (State::Critical, " is critical"),
        ((_, true), _) => (State::Warning, " is critical, but not for sure"),
        (_, (Alerting::All, _)) => (State::Warning, " is beyond the warning threshold"),
        ((Alerting::Some, _), _) | (_, (Alerting::Some, _)) if finding.value.is_none() => {
            (State::Unknown, ", which does not tell whether that is enough")
        }
        ((Alerting::Some, _), _) => (State::Unknown, ", which leaves open whether it is critical"),
        (_, (_, true)) => (State::Ok, " is beyond the warning threshold, but not for sure"),
        (_, (Alerting::Some, _)) => (State::Ok, " may be beyond the warning threshold"),
        _ => (State::Ok, ""),
    }
}

/// Without what ends the line, or the text in it.
fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '|'], " ")
}

impl Finding {
    /// `'label'=value;warning;critical;minimum;maximum`, each behind a space; besides, the ends of the interval.
    fn performance_data(&self, threshold: &Threshold) -> String {
        let metric = threshold.metric;
        let [warning, critical] = [threshold.warning, threshold.critical]
            .map(|range| range.map_or_else(String::new, |range| range.to_string()));
        let (label, unit, limits) = (&self.label, metric.unit(), metric.limits());
        let number = |value: Option<f64>| match value.filter(|value| value.is_finite()) {
            Some(value) => format!("{value}{unit}"),
            None => "U".to_owned(),
        };
        let mut text = format!(" '{label}'={};{warning};{critical};{limits}", number(self.value));
        let (low, high) = self.interval.unzip();
        for (end, value) in [("low", low), ("high", high)] {
            // A string takes everything.
            let _ = write!(text, " '{label}_{end}'={};;;{limits}", number(value));
        }
        text
    }
}

#[cfg(test)]
mod tests;
