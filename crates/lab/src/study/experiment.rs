use super::kind::{Head, Scenario, Study};
use super::progress::Observer;
use super::runner::run;
use crate::error::RunError;
use crate::report::{ReportDocument, Statement, now_utc};
use anyhow::anyhow;
use std::any::Any;
use std::fmt::Debug;

/// An experiment of any kind, read from its file and validated.
#[derive(Debug)]
pub struct Experiment {
    scenario: Box<dyn AnyScenario>,
    warning: Option<String>,
    statements: Vec<Statement>,
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
    /// Runs it. `stop` ends it with the runs so far.
    ///
    /// # Errors
    /// A run failed, so that no further one makes sense.
    fn run(&self, observer: &mut Observer<'_>, stop: &(dyn Fn() -> bool + Sync)) -> Result<ReportWithRuns, RunError>;
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

    fn run(&self, observer: &mut Observer<'_>, stop: &(dyn Fn() -> bool + Sync)) -> Result<ReportWithRuns, RunError> {
        let started = now_utc();
        let found = self.find_points(observer, stop)?;
        let study = found.as_ref().unwrap_or(self);
        let outcome = run(study, observer, stop)?;
        if outcome.rows.is_empty() && !stop() {
            let cause = anyhow!("choose other parts of it with the options of kumade lab run, or add --virtual");
            return Err(RunError { doing: "run any of it here", cause });
        }
        // Those before the points are known count with them.
        let before = Study::run_count(self).saturating_sub(study.points().len());
        let measured = if outcome.rows.is_empty() { 0 } else { before + outcome.rows.len() };
        Ok((Box::new(study.report(started, outcome)), measured))
    }
}

impl Experiment {
    pub(crate) fn new(scenario: Box<dyn AnyScenario>, warning: Option<String>, statements: Vec<Statement>) -> Self {
        Experiment { scenario, warning, statements }
    }

    /// What is to be changed in its file, although it still can be run.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Its name, its question, and whether it runs in virtual time.
    pub fn head(&self) -> Head<'_> {
        self.scenario.head()
    }

    /// How many runs it has.
    pub fn run_count(&self) -> usize {
        self.scenario.run_count()
    }

    /// The number of runs and how long they take, in words.
    pub fn expected_time(&self) -> String {
        self.scenario.expected_time()
    }

    /// Runs it; returns its report, and the number of runs that it is about. `stop` is asked before each run, and ends the experiment
    /// with the runs so far.
    ///
    /// # Errors
    /// A run failed, so that no further one makes sense.
    pub fn run(
        &self,
        observer: &mut Observer<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<ReportWithRuns, RunError> {
        let (mut report, measured) = self.scenario.run(observer, stop)?;
        report.compare_statements(&self.statements);
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
