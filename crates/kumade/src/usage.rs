use crate::output::note;
use std::fmt::Display;
use std::process::ExitCode;

/// Exit status of an invalid request.
const USAGE_STATUS: u8 = 2;

/// Says what is wrong with a request; returns the exit status.
pub fn usage_error(reason: &dyn Display) -> ExitCode {
    note!("kumade: {reason}");
    ExitCode::from(USAGE_STATUS)
}
