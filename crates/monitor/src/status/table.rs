//! The document in words.

use super::{AgentStatus, LaneDelay, MonitorStatus, PairStatus, RunFigure, UnmeasuredPair};
use kumade_daemon::{UNKNOWN_VALUE, format_age, format_percent, write_table};
use kumade_units::{Rate, Span};
use std::fmt;

impl fmt::Display for MonitorStatus {
    /// A headline, a line for each path, and one for each alert.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.agents.is_empty() { "from" } else { "between agents of" };
        write!(f, "{} paths {word} {}", self.pairs.len(), self.name)?;
        if let Some(leader) = self.leader.as_ref().filter(|leader| !leader.is_this) {
            write!(f, "; this host stands by, {} leads", leader.name)?;
        }
        let heads = ["path to", "state", "delay", "loss", "available up", "available down"];
        write_table(f, "  ", heads, self.pairs.iter().map(|pair| pair.cells(self.time_seconds)))?;
        if !self.agents.is_empty() {
            let cells = self.agents.iter().map(|agent| agent.cells(self.time_seconds));
            let connected = self.agents.iter().filter(|agent| agent.is_connected).count();
            write!(f, "\n{connected} of {} agents are connected", self.agents.len())?;
            write_table(f, "  ", ["agent", "connection", "from", "measured in 24 h"], cells)?;
        }
        for agent in &self.agents {
            agent.faults.iter().try_for_each(|fault| write!(f, "\n{}: {fault}", agent.name))?;
        }
        for UnmeasuredPair { pair, reason } in &self.unmeasured {
            write!(f, "\n{pair} cannot be measured: {reason}")?;
        }
        for alert in &self.alerts.standing {
            let silent = if alert.is_silent { ", silent" } else { "" };
            let age = format_age(self.time_seconds - alert.raised_seconds);
            write!(f, "\nalert for {age}{silent}: {}", alert.text)?;
        }
        for receiver in &self.alerts.receivers {
            if let Some(failure) = &receiver.failure {
                write!(f, "\n{} alerts wait for {}: it {failure}", receiver.waiting, receiver.name)?;
            }
        }
        self.archive_failure.iter().try_for_each(|failure| write!(f, "\nnothing is archived: {failure}"))
    }
}

impl AgentStatus {
    fn cells(&self, now: f64) -> [String; 4] {
        let word = if self.is_connected { "connected" } else { "not connected" };
        let time = self.since_seconds.map(|since| format!(" for {}", format_age(now - since)));
        let address = self.address.clone().unwrap_or_else(|| UNKNOWN_VALUE.to_owned());
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let limit = self.bytes_per_day.map(|limit| format!(" of {}", megabytes(limit))).unwrap_or_default();
        let measured = megabytes(self.used_bytes) + &limit;
        [self.name.clone(), format!("{word}{}", time.unwrap_or_default()), address, measured]
    }
}

impl PairStatus {
    fn cells(&self, now: f64) -> [String; 6] {
        let figure = |figure: fn(&super::RunStatus) -> &Option<RunFigure>| match self.run.as_ref().map(figure) {
            Some(Some(figure)) => figure.to_string(),
            Some(None) => "failed".to_owned(),
            None => UNKNOWN_VALUE.to_owned(),
        };
        [
            self.name.clone(),
            format!("{} for {}", self.state.word, format_age(now - self.state.since_seconds)),
            self.delays.first().map_or_else(|| UNKNOWN_VALUE.to_owned(), LaneDelay::to_string),
            format_percent(self.loss.map(|loss| loss.ratio)),
            figure(|run| &run.up),
            figure(|run| &run.down),
        ]
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
