use crate::error::RunError;
use kumade_units::Span;

/// Where the emulated link delivered more than one packet of a hundred later than this, host scheduling delay has changed the
/// goodputs.
pub(crate) const MAX_LATENESS: Span = Span::from_millis(1);
/// A disturbed run is repeated so many times at most; the last one stays, marked as disturbed.
pub(crate) const MAX_REPEATS: u32 = 2;

/// What one run gave, and how host scheduling delay disturbed it.
pub(crate) struct RunOutcome<R> {
    pub(crate) row: R,
    /// By how much the emulated link was late.
    pub(crate) lateness: Span,
    /// Whether that changed the result.
    pub(crate) disturbed: bool,
}

/// The last of the repetitions of a run.
pub(crate) struct RepeatedRun<R> {
    pub(crate) row: R,
    /// Those before it.
    pub(crate) repeats: u32,
    /// Whether this one was disturbed as well.
    pub(crate) disturbed: bool,
}

/// Repeats a run until it is not disturbed, at most `max_repeats` times; `repeating` hears of each disturbed run, and
/// `stop` is asked whether to leave it at that.
///
/// # Errors
/// Those of `run`.
pub(crate) fn run_until_undisturbed<R>(
    max_repeats: u32,
    mut run: impl FnMut() -> Result<RunOutcome<R>, RunError>,
    mut repeating: impl FnMut(Span),
    stop: &dyn Fn() -> bool,
) -> Result<RepeatedRun<R>, RunError> {
    let mut repeats = 0;
    loop {
        let RunOutcome { row, lateness, disturbed } = run()?;
        if !disturbed || repeats == max_repeats || stop() {
            return Ok(RepeatedRun { row, repeats, disturbed });
        }
        repeats += 1;
        repeating(lateness);
    }
}
