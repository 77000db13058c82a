//! Settings that change at given times, from a file.
//!
//! ```text
//! # time  what changes
//! 10s     rate 5mbit
//! 20s     up rate 1mbit loss 1% down rate 20mbit
//! 30s     repeat
//! ```
//!
//! Times count from the start and never decrease. `repeat` is the last line: at that time the schedule begins anew, with the
//! settings that are then in force.

use crate::settings::{SettingError, Settings, SettingsChange};

use kumade_units::{Span, parse};
use std::io;
use std::path::Path;
use thiserror::Error;

/// Longer files are refused.
const MAX_STEPS: usize = 1_000_000;

/// Changes and their times.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    steps: Vec<(Span, SettingsChange)>,
    period: Option<Span>,
    /// How far it has been followed: how often it began anew, and the next step.
    cycle: i64,
    next_step: usize,
}

/// A line that is wrong.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("line {line}: {reason}")]
pub struct ScheduleError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// The text of a schedule's file.
///
/// # Errors
/// It cannot be read, is no text, or is too long to be a schedule.
pub fn read_file(path: &Path) -> io::Result<String> {
    kumade_files::read_text(path)
}

impl Schedule {
    /// Reads a schedule, and tries each change on what was set `before` and by the lines above. Names of files are relative to `directory`.
    ///
    /// # Errors
    /// A line makes no sense, or asks for what cannot be.
    pub fn parse(text: &str, directory: &Path, before: &Settings) -> Result<Self, ScheduleError> {
        let mut schedule = Schedule::default();
        let mut settings = before.clone();
        let lines = || text.lines().enumerate().map(|(index, line)| (index + 1, strip_comment(line)));
        for (line, words) in lines().filter(|(_, words)| !words.is_empty()) {
            schedule
                .push_line(words, directory)
                .and_then(|()| schedule.validate_last_step(&mut settings).map_err(|error| error.to_string()))
                .map_err(|reason| ScheduleError { line, reason })?;
        }
        if schedule.period.is_some() {
            schedule.validate_repetition(&settings, lines())?;
        }
        Ok(schedule)
    }

    /// The time since the start at which the next change is due; `None` where there is none any more.
    pub fn next_change_time(&self) -> Option<Span> {
        let (at, _) = self.steps.get(self.next_step)?;
        Some(self.period.unwrap_or(Span::ZERO) * self.cycle + *at)
    }

    /// The next change, if it is due so long after the start.
    pub fn take_due(&mut self, elapsed: Span) -> Option<SettingsChange> {
        if self.next_change_time()? > elapsed {
            return None;
        }
        let change = self.steps[self.next_step].1.clone();
        self.next_step += 1;
        if self.next_step == self.steps.len() && self.period.is_some() {
            (self.next_step, self.cycle) = (0, self.cycle + 1);
        }
        Some(change)
    }

    fn push_line(&mut self, words: &str, directory: &Path) -> Result<(), String> {
        if self.period.is_some() {
            return Err("`repeat` must be the last line".to_owned());
        }
        let (time, change) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let time = parse::span(time).map_err(|error| error.to_string())?;
        let last = self.steps.last().map_or(Span::ZERO, |(at, _)| *at);
        if time < last {
            return Err(format!("{time} is before {last} of the line above; sort the lines by time"));
        }
        if change.trim() == "repeat" {
            return self.set_period(time);
        }
        if self.steps.len() == MAX_STEPS {
            return Err(format!("there are more than {MAX_STEPS} changes; use a shorter file, or `repeat`"));
        }
        let mut change = SettingsChange::parse(change).map_err(|error| error.to_string())?;
        change.make_paths_absolute(directory);
        if change.is_empty() {
            return Err("no setting follows the time; write it like `10s rate 5mbit`".to_owned());
        }
        self.steps.push((time, change));
        Ok(())
    }

    fn set_period(&mut self, time: Span) -> Result<(), String> {
        // Else it would be played without end at one moment.
        if self.steps.is_empty() || time < Span::from_millis(1) {
            return Err("`repeat` needs changes above it, and a time of 1ms or more".to_owned());
        }
        self.period = Some(time);
        Ok(())
    }

    fn validate_last_step(&self, settings: &mut Settings) -> Result<(), SettingError> {
        if let (Some((_, change)), None) = (self.steps.last(), self.period) {
            *settings = settings.change(change)?;
        }
        Ok(())
    }

    /// What went together in the first round may not in the second, which begins where the first has ended.
    fn validate_repetition<'l>(
        &self,
        settings: &Settings,
        lines: impl Iterator<Item = (usize, &'l str)>,
    ) -> Result<(), ScheduleError> {
        let mut settings = settings.clone();
        let lines = lines.filter(|(_, words)| !words.is_empty());
        for ((line, _), (_, change)) in lines.zip(&self.steps) {
            let again = |error: SettingError| ScheduleError { line, reason: format!("when it is repeated, {error}") };
            settings = settings.change(change).map_err(again)?;
        }
        Ok(())
    }
}

/// The line without its comment.
fn strip_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Span = Span::from_secs(1);

    fn schedule(text: &str) -> Result<Schedule, ScheduleError> {
        Schedule::parse(text, Path::new("/"), &Settings::new(&SettingsChange::default()).unwrap())
    }

    #[test]
    fn changes_come_at_their_times() {
        let mut schedule = schedule("# slow\n1s rate 5mbit\n\n 2s up rate 1mbit # slower\n2s delay 5ms").unwrap();
        assert_eq!((schedule.next_change_time(), schedule.take_due(SECOND / 2)), (Some(SECOND), None));
        assert_eq!(schedule.take_due(SECOND), Some(SettingsChange::parse("rate 5mbit").unwrap()));
        assert_eq!(schedule.take_due(SECOND), None);
        // Who comes late gets all that was due, in order.
        assert_eq!(schedule.take_due(SECOND * 9), Some(SettingsChange::parse("up rate 1mbit").unwrap()));
        assert_eq!(schedule.take_due(SECOND * 9), Some(SettingsChange::parse("delay 5ms").unwrap()));
        assert_eq!((schedule.next_change_time(), schedule.take_due(Span::MAX)), (None, None));
    }

    #[test]
    fn a_repeated_schedule_never_ends() {
        let mut schedule = schedule("0s rate 5mbit\n1s rate 1mbit\n4s repeat").unwrap();
        let times: Vec<_> =
            (0..5).map(|_| (schedule.next_change_time(), schedule.take_due(Span::MAX)).0.unwrap()).collect();
        assert_eq!(times, [0, 1, 4, 5, 8].map(Span::from_secs));
    }

    #[test]
    fn a_line_that_cannot_be_followed_is_named() {
        for (text, line, reason) in [
            ("1s rate 5mbit\nsoon rate 1mbit", 2, "`soon` is not a time"),
            ("1s", 1, "no setting follows the time"),
            ("5 rate 1mbit", 1, "it has no unit; the units are s, ms"),
            ("2s rate 1mbit\n1s rate 2mbit", 2, "1 s is before 2 s"),
            ("1s rate 0", 1, "lets nothing pass"),
            ("1s speed 3", 1, "there is no setting `speed`"),
            ("1s repeat", 1, "needs changes above it"),
            ("0s rate 1mbit\n0s repeat", 2, "needs changes above it"),
            ("1s rate 1mbit\n2s repeat\n3s rate 2mbit", 3, "must be the last line"),
            ("1s rate 1gbit\n2s delay 60s", 2, "on their way"),
            ("1s seed 7", 1, "when the link starts"),
            ("\n1s rate 1mbit\n2s target 5ms", 3, "the queue discipline tail-drop has no parameter"),
            ("1s queue codel\n2s target 5ms\n3s queue tail-drop\n4s delay 1ms\n5s repeat", 0, ""),
            (
                "1s up rate unlimited\n2s delay 60s\n3s rate 1gbit delay 0s\n4s delay 1s\n5s repeat",
                2,
                "repeated, cannot set up the link: delay",
            ),
        ] {
            match schedule(text) {
                Ok(_) => assert_eq!(line, 0, "{text}"),
                Err(error) => {
                    assert_eq!(error.line, line, "{error}");
                    assert!(error.reason.contains(reason), "{error}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "([0-9]{1,3}(s|ms) (rate|delay|repeat|up) ?[0-9a-z]{0,6}\n){0,5}.{0,20}") {
            if let Ok(mut schedule) = schedule(&text) {
                let mut last = Span::ZERO;
                for _ in 0..20 {
                    let Some(at) = schedule.next_change_time() else { break };
                    prop_assert!(at >= last && schedule.take_due(at).is_some());
                    last = at;
                }
            }
        }
    }
}
