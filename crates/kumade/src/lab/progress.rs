//! What all experiments show while they run, and what comes of them.

use indicatif::{ProgressBar, ProgressStyle};
use kumade_lab::ReportDocument;

/// A report, and the number of its runs.
pub(super) type ReportWithRuns = (Box<dyn ReportDocument>, usize);

/// Of an experiment whose network is built.
pub(super) fn progress_bar(experiment: &str) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?);
    bar.set_message(format!("{experiment}: building the network"));
    Ok(bar)
}
