//! What all kinds of experiments have in common: [`Scenario`] is what a file of a kind describes, [`Study`] a series of runs that are
//! alike; [`run`] is the one way in which these are run, [`Experiment`] one of any kind.

pub(crate) mod bounds;
pub(crate) mod checks;
mod experiment;
mod kind;
mod overrides;
pub(crate) mod parallel;
mod progress;
mod run_repetition;
mod runner;

pub use experiment::{AnyScenario, Experiment, ReportWithRuns};
pub use kind::{FindFile, Head, RunRow, Scenario, Study};
pub(crate) use kind::{describe_time, repeatable_rows};
pub use overrides::Overrides;
pub(crate) use overrides::{choose_cases, replace_list};
pub use progress::{Exclusion, Observer, Outcome, Progress};
pub(crate) use run_repetition::MAX_LATENESS;
pub use run_repetition::RunOutcome;
pub use runner::run;
