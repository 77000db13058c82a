//! What several kinds of experiments are checked for.

use super::bounds::{MAX_DELAY, MAX_RATE, MAX_RUNS, MIN_RATE};
use kumade_units::{Rate, Span};

/// A name becomes a directory's, and must not lead out of the reports' directory.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    reject_if(name.is_empty() || !name.chars().all(plain), || {
        "its name may only have letters, digits, `-` and `_`, as it becomes the name of a directory".into()
    })
}

pub(crate) fn check_runs(runs: u32) -> Result<(), String> {
    reject_if(runs > MAX_RUNS, || format!("{runs} runs of each point; the maximum is {MAX_RUNS}"))
}

/// `of` names the link in the error.
pub(crate) fn check_rate(of: &str, rate: Rate) -> Result<(), String> {
    reject_if(!(MIN_RATE..=MAX_RATE).contains(&rate), || format!("{of} of {rate}; choose {MIN_RATE} to {MAX_RATE}"))
}

/// `of` names whose delay it is in the error.
pub(crate) fn check_delay(of: &str, delay: Span) -> Result<(), String> {
    reject_if(!(Span::ZERO..=MAX_DELAY).contains(&delay), || format!("{of} of {delay}; choose 0 to {MAX_DELAY}"))
}

/// An error with this reason where `wrong` holds.
pub(crate) fn reject_if(wrong: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if wrong { Err(reason()) } else { Ok(()) }
}
