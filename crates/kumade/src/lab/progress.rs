//! What all experiments show while they run.

use crate::output::note;
use indicatif::{ProgressBar, ProgressStyle};
use kumade_lab::{Exclusion, Experiment, Progress};

/// Of an experiment that has not begun, and is to make so many runs.
pub(super) fn progress_bar(experiment: &Experiment, runs: usize) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?;
    let bar = ProgressBar::new(runs as u64).with_style(style);
    bar.set_message(format!("{}: building the network", experiment.head().name));
    Ok(bar)
}

/// Shows how far it has come.
pub(super) fn show_progress(bar: &ProgressBar, name: &str, progress: Progress<'_>) {
    let (message, runs) = match progress {
        Progress::Excluded(Exclusion { kind, reason }, runs) => {
            bar.suspend(|| note!("{name}: {kind} is left out: {reason}"));
            return bar.inc(runs as u64);
        }
        Progress::Recorded(runs) => return bar.inc(runs as u64),
        Progress::Running(label) => (label.to_owned(), 0),
        Progress::Repeating { lateness } => (format!("host scheduling delay of {lateness}, repeating the run"), 0),
        Progress::Done(label, runs) => (label.to_owned(), runs),
    };
    bar.set_message(format!("{name}: {message}"));
    bar.inc(runs as u64);
}
