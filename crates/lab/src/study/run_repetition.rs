use super::progress::{Observer, Progress};
use crate::error::RunError;
use kumade_units::Span;

/// Where the emulated link delivered more than one packet of a hundred later than this, host scheduling delay has changed the
/// goodputs.
pub(crate) const MAX_LATENESS: Span = Span::from_millis(1);
/// As often as most studies repeat a disturbed run.
pub(super) const MAX_REPEATS: u32 = 2;

/// What one run gave, and how host scheduling delay disturbed it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome<R> {
    /// The result.
    pub row: R,
    /// By how much the emulated link was late.
    pub lateness: Span,
    /// Whether that changed the result.
    pub disturbed: bool,
}

/// Repeats a run until it is not disturbed, at most `max_repeats` times; `stop` is asked whether to leave it at that. Returns the
/// last row, the number of repetitions before it, and whether it was disturbed as well.
///
/// # Errors
/// Those of `run`.
pub(super) fn run_until_undisturbed<R>(
    max_repeats: u32,
    mut run: impl FnMut() -> Result<RunOutcome<R>, RunError>,
    observer: &mut Observer<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<(R, u32, bool), RunError> {
    let mut repeats = 0;
    loop {
        let RunOutcome { row, lateness, disturbed } = run()?;
        if !disturbed || repeats == max_repeats || stop() {
            return Ok((row, repeats, disturbed));
        }
        repeats += 1;
        observer(Progress::Repeating { lateness });
    }
}
