//! What all kinds of experiments have in common: [`Scenario`] is what a file of a kind describes, [`Study`] a series of runs that are
//! alike; [`run`] is the one way in which these are run, [`Experiment`] one of any kind, [`RunRecord`] what is kept of its finished runs.

pub(crate) mod bounds;
#[cfg(target_os = "linux")]
mod checked_kind;
pub(crate) mod checks;
mod experiment;
mod kind;
mod overrides;
pub(crate) mod parallel;
mod progress;
mod record;
mod record_file;
mod run_repetition;
mod runner;
mod shard;
mod source;

#[cfg(target_os = "linux")]
pub use checked_kind::CheckedKind;
pub use experiment::{AnyScenario, Experiment, ReportWithRuns};
pub use kind::{FindFile, Head, RunRow, Scenario, Study};
pub(crate) use kind::{describe_time, repeatable_rows};
pub use overrides::Overrides;
pub(crate) use overrides::{choose_cases, replace_list};
pub use progress::{Exclusion, Observer, Outcome, Progress};
pub use record::RunRecord;
pub(crate) use run_repetition::MAX_LATENESS;
pub use run_repetition::RunOutcome;
pub use runner::run;
pub use shard::Shard;
pub(crate) use source::ScenarioSource;
