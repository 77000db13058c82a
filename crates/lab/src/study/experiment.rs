use super::kind::{Head, Scenario, Study};
use super::progress::Observer;
use super::record::RunRecord;
use super::record_file::{RecordHead, VERSION};
use super::runner::run_missing;
use super::shard::Shard;
use super::source::ScenarioSource;
use crate::error::{RecordError, RunError};
use crate::report::{Interruption, ReportDocument, Statement, VIRTUAL_START, describe_options, now_utc};
use anyhow::anyhow;
use kumade_units::Span;
use std::any::Any;
use std::fmt::Debug;
use std::path::Path;

/// An experiment of any kind, read from its file and validated.
#[derive(Debug)]
pub struct Experiment {
    scenario: Box<dyn AnyScenario>,
    source: ScenarioSource,
    warning: Option<String>,
    statements: Vec<Statement>,
    is_publishable: bool,
}

/// A report, and the number of its runs.
pub type ReportWithRuns = (Box<dyn ReportDocument>, usize);

/// What can be asked of a scenario whatever its kind.
pub trait AnyScenario: Any + Debug + Send + Sync {
    /// See [`Scenario::head`].
    fn head(&self) -> Head<'_>;
    /// How many runs it has.
    fn run_count(&self) -> usize;
    /// The number of runs and how long they take, in words.
    fn expected_time(&self) -> String;
    /// The longest that one run takes, where that is known.
    fn longest_run(&self) -> Option<Span>;
    /// Whether parts of its runs can be made by several machines.
    fn is_divisible(&self) -> bool;
    /// Whether what a paper states can be judged by its report.
    ///
    /// # Errors
    /// Says which statement cannot, and why.
    fn check_statements(&self, statements: &[Statement]) -> Result<(), String>;
    /// Makes the runs that `record` lacks, and a report of all that it has then. `stop` ends it with the runs so far. Returns besides whether
    /// all were tried, and it did not end early.
    ///
    /// # Errors
    /// A run failed, so that no further one makes sense.
    fn run(
        &self,
        record: &mut RunRecord,
        observer: &mut Observer<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(ReportWithRuns, bool), RunError>;
}

impl<S: Study> AnyScenario for S {
    fn head(&self) -> Head<'_> {
        Scenario::head(self)
    }

    fn run_count(&self) -> usize {
        Study::run_count(self)
    }

    fn expected_time(&self) -> String {
        Study::expected_time(self)
    }

    fn longest_run(&self) -> Option<Span> {
        Study::longest_run(self)
    }

    fn is_divisible(&self) -> bool {
        Study::is_divisible(self)
    }

    fn check_statements(&self, statements: &[Statement]) -> Result<(), String> {
        self.report(String::new(), Vec::new().into()).check_statements(statements)
    }

    fn run(
        &self,
        record: &mut RunRecord,
        observer: &mut Observer<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(ReportWithRuns, bool), RunError> {
        let found = self.find_points(observer, stop)?;
        let (study, is_found) = found.as_ref().map_or((self, true), |(study, is_whole)| (study, *is_whole));
        let (outcome, is_run) = run_missing(study, record, observer, stop)?;
        let is_whole = is_found && is_run;
        // A part may be as small as that.
        if outcome.rows.is_empty() && !record.is_part() && is_whole {
            let cause = anyhow!("choose other parts of it with the options of kumade lab run, or add --virtual");
            return Err(RunError { doing: "run any of it here", cause });
        }
        // Those before the points are known count with them, once these are.
        let before = if is_found { Study::run_count(self).saturating_sub(study.points().len()) } else { 0 };
        let measured = if outcome.rows.is_empty() { 0 } else { before + outcome.rows.len() };
        let report = study.report(record.head().started.clone(), outcome);
        Ok(((Box::new(report), measured), is_whole))
    }
}

impl Experiment {
    pub(crate) fn new(
        scenario: Box<dyn AnyScenario>,
        source: ScenarioSource,
        warning: Option<String>,
        statements: Vec<Statement>,
        is_publishable: bool,
    ) -> Self {
        Experiment { scenario, source, warning, statements, is_publishable }
    }

    /// What is to be changed in its file, although it still can be run.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Its name, its question, and whether it runs in virtual time.
    pub fn head(&self) -> Head<'_> {
        self.scenario.head()
    }

    /// What its report is called: its name, and another one where it is run as published, so that neither replaces the other.
    pub fn report_name(&self) -> String {
        let suffix = if self.source.overrides.as_published { "-as-published" } else { "" };
        format!("{}{suffix}", self.head().name)
    }

    /// How many runs it has.
    pub fn run_count(&self) -> usize {
        self.scenario.run_count()
    }

    /// The number of runs and how long they take, in words.
    pub fn expected_time(&self) -> String {
        self.scenario.expected_time()
    }

    /// The longest that one run takes, where that is known.
    pub fn longest_run(&self) -> Option<Span> {
        self.scenario.longest_run()
    }

    /// Whether its file says how it was published.
    pub fn is_publishable(&self) -> bool {
        self.is_publishable
    }

    /// Whether parts of its runs can be made by several machines.
    pub fn is_divisible(&self) -> bool {
        self.scenario.is_divisible()
    }

    /// The finished runs in `directory`, to which further ones are added: all, or those of one part.
    ///
    /// # Errors
    /// The directory has runs of other settings, another process adds to them, or the system refuses something.
    pub fn open_record(&self, directory: &Path, shard: Option<Shard>) -> Result<RunRecord, RecordError> {
        RunRecord::open(self.record_head(shard), directory)
    }

    /// A record in memory alone.
    pub fn new_record(&self) -> RunRecord {
        RunRecord::in_memory(self.record_head(None))
    }

    fn record_head(&self, shard: Option<Shard>) -> RecordHead {
        let head = self.head();
        RecordHead {
            version: VERSION.to_owned(),
            experiment: head.name.to_owned(),
            source: self.source.clone(),
            started: if head.is_virtual { VIRTUAL_START.to_owned() } else { now_utc() },
            shard,
        }
    }

    /// Makes the runs that `record` lacks; returns the report of all that it has then, and their number. `stop` is asked before each run,
    /// and ends the experiment with the runs so far, which the report says then.
    ///
    /// # Errors
    /// A run failed, so that no further one makes sense; or it cannot be recorded; or the record was made elsewhere and lacks runs.
    pub fn run(
        &self,
        record: &mut RunRecord,
        observer: &mut Observer<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<ReportWithRuns, RunError> {
        let ((mut report, measured), is_whole) = self.scenario.run(record, observer, stop)?;
        let of_runs = record.head().shard.map_or(self.run_count(), |shard| shard.run_count(self.run_count()));
        let interrupted = (!is_whole).then_some(Interruption { runs: measured, of_runs });
        let overrides = &self.source.overrides;
        let replaced = if overrides.as_published { overrides.given_options() } else { Vec::new() };
        report.set_differences(interrupted, describe_options(&replaced));
        report.compare_statements(&self.statements, &replaced);
        Ok((report, measured))
    }

    /// What its paper states, where it is run as published.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// The scenario, if it is of that kind.
    pub fn scenario<S: Scenario>(&self) -> Option<&S> {
        let scenario: &dyn Any = &*self.scenario;
        scenario.downcast_ref()
    }

    /// The same as a value.
    pub fn into_scenario<S: Scenario>(self) -> Option<S> {
        let scenario: Box<dyn Any> = self.scenario;
        scenario.downcast().ok().map(|scenario| *scenario)
    }
}
