use super::overrides::Overrides;
use super::progress::{Exclusion, Observer, Outcome};
use super::run_repetition::{MAX_REPEATS, RunOutcome};
use crate::error::RunError;
use crate::paper::Paper;
use crate::report::ReportDocument;
use kumade_units::Span;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Finds the text of a file beside the scenario's.
pub type FindFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// What a scenario file of one kind describes.
pub trait Scenario: Debug + Sized + Send + Sync + 'static {
    /// The kind, as files call it.
    const KIND: &'static str;
    /// What they are, in an error: `experiments on fairness`.
    const ABOUT: &'static str;
    /// The command line's options that they have, besides `--bottleneck`.
    const OPTIONS: &'static [&'static str];

    /// The file as it is written.
    type File: DeserializeOwned;

    /// What the file describes, with parts replaced.
    ///
    /// # Errors
    /// What of it contradicts itself or exceeds a limit, and what to change.
    fn from_file(file: Self::File, given: &Overrides, beside: FindFile<'_>) -> Result<Self, String>;

    /// What it has in common with others.
    fn head(&self) -> Head<'_>;
}

/// What all scenarios have.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Its name, which is also that of the report's directory.
    pub name: &'a str,
    /// The question in one line.
    pub title: &'a str,
    /// The published experiment that it repeats.
    pub paper: Option<&'a Paper>,
    /// Whether it runs in virtual time, so that no network is built.
    pub is_virtual: bool,
}

/// A series of runs that are alike, each of which gives a row of the report.
pub trait Study: Scenario {
    /// One run.
    type Point<'a>: Sync;
    /// What a run comes to.
    type Row: RunRow;
    /// What runs in real time share: what was loaded, or built and may serve again.
    #[cfg(target_os = "linux")]
    type Testbed;
    /// What the rows come to.
    type Report: ReportDocument + 'static;

    /// A disturbed run is repeated so many times at most; the last one stays, marked as disturbed.
    const MAX_REPEATS: u32 = MAX_REPEATS;

    /// Every run, in the order of running and of the report.
    fn points(&self) -> Vec<Self::Point<'_>>;

    /// A run in a few words, while it lasts.
    fn describe_point(&self, point: &Self::Point<'_>) -> String;

    /// The number of runs and how long they take, in words.
    fn expected_time(&self) -> String;

    /// One run in virtual time; the same run always gives the same row.
    ///
    /// # Errors
    /// The simulator refuses something.
    fn run_virtually(&self, point: &Self::Point<'_>) -> Result<Self::Row, RunError>;

    /// What runs in real time need before the first one.
    ///
    /// # Errors
    /// The system refuses something.
    #[cfg(target_os = "linux")]
    fn testbed(&self) -> Result<Self::Testbed, RunError>;

    /// One run in real time.
    ///
    /// # Errors
    /// The system refuses something, so that no further run makes sense. That something cannot be measured is a result.
    #[cfg(target_os = "linux")]
    fn run_really(
        &self,
        testbed: &mut Self::Testbed,
        point: &Self::Point<'_>,
    ) -> Result<RunOutcome<Self::Row>, RunError>;

    /// What came of it. `started` is UTC in RFC 3339.
    fn report(&self, started: String, outcome: Outcome<Self::Row>) -> Self::Report;

    /// The longest that one run takes, where that is known: in real time, and if it is not repeated.
    fn longest_run(&self) -> Option<Span> {
        None
    }

    /// How many runs there are, with those before the points are known.
    fn run_count(&self) -> usize {
        self.points().len()
    }

    /// Whether parts of its runs can be made by several machines.
    fn is_divisible(&self) -> bool {
        true
    }

    /// The study whose points are run, where these must be found first; and whether all were, and `stop` did not end it before.
    ///
    /// # Errors
    /// As for a run.
    fn find_points(
        &self,
        _observer: &mut Observer<'_>,
        _stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<(Self, bool)>, RunError> {
        Ok(None)
    }

    /// What its file asks for and cannot be run.
    fn exclusions(&self) -> Vec<Exclusion> {
        Vec::new()
    }

    /// What this machine lacks for that run in real time; the same for runs that lack the same.
    #[cfg(target_os = "linux")]
    fn missing_requirement(&self, _testbed: &mut Self::Testbed, _point: &Self::Point<'_>) -> Option<Exclusion> {
        None
    }

    /// What is said of a run in real time that failed after others had not, where those are to go on.
    fn excluded_by_failure(&self, _point: &Self::Point<'_>, _error: &RunError) -> Option<Exclusion> {
        None
    }
}

/// The result of a run, which is the same again when it is read from what it is written to.
pub trait RunRow: Send + Serialize + DeserializeOwned {
    /// Notes how often the run was repeated, and whether its last repetition was disturbed as well.
    fn set_repetition(&mut self, repeats: u32, disturbed: bool);
}

/// Rows note repetitions in fields `repeats` and `disturbed`.
macro_rules! repeatable_rows {
    ($row:ty) => {
        impl crate::study::RunRow for $row {
            fn set_repetition(&mut self, repeats: u32, disturbed: bool) {
                (self.repeats, self.disturbed) = (repeats, disturbed);
            }
        }
    };
}
pub(crate) use repeatable_rows;

/// The number of runs and how long they take, in words: so many seconds together, and this for each in real time.
pub(crate) fn describe_time(runs: usize, seconds: f64, is_virtual: bool, setup_time: Span) -> String {
    if is_virtual {
        return format!("{runs} runs of {seconds:.0} s together in virtual time");
    }
    let minutes = (seconds + runs as f64 * setup_time.as_secs_f64()) / 60.0;
    format!("{runs} runs, about {minutes:.0} minutes in total")
}
