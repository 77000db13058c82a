use super::blocks::WARM_UP;
use super::row::MultipathRow;
use super::scenario::{MultipathExperiment, MultipathPoint, Workload};
use super::testbed::{MultipathAttempt, MultipathTestbed};
use crate::error::RunError;
use crate::run_repetition::{MAX_LATENESS, MAX_REPEATS, RepeatedRun, RunOutcome, run_until_undisturbed};
use kumade_units::Span;

/// How far an experiment on several paths has come.
#[derive(Debug, Clone, PartialEq)]
pub enum MultipathProgress<'a> {
    /// This run begins.
    Running(&'a MultipathPoint<'a>),
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// How late the links were.
        lateness: Span,
    },
    /// A run is done.
    Done(&'a MultipathRow),
}

/// Runs every point of `experiment`; `stop` is asked before each run, and ends the experiment with the rows measured so far.
/// Rows come in the order of [`MultipathExperiment::points`], without those of contenders whose programs this host lacks.
///
/// # Errors
/// Where the testbed itself failed, so that no further run makes sense.
pub fn run(
    experiment: &MultipathExperiment,
    testbed: &mut dyn MultipathTestbed,
    observer: &mut dyn FnMut(MultipathProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<MultipathRow>, RunError> {
    let points = experiment.points();
    let mut rows = Vec::with_capacity(points.len());
    let can_be_run = |point: &&MultipathPoint<'_>| point.contender.missing_requirement().is_none();
    for point in points.iter().filter(can_be_run).take_while(|_| !stop()) {
        observer(MultipathProgress::Running(point));
        let run = || {
            let MultipathAttempt { row, lateness, missed_packets: missed } = testbed.run(experiment, point)?;
            Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_LATENESS || missed > 0 })
        };
        let repeating = |lateness| observer(MultipathProgress::Repeating { lateness });
        let RepeatedRun { row, repeats, disturbed } = run_until_undisturbed(MAX_REPEATS, run, repeating, stop)?;
        let row = MultipathRow { repeats, disturbed, ..row };
        observer(MultipathProgress::Done(&row));
        rows.push(row);
    }
    Ok(rows)
}

/// The number of runs and how long they will take, in words.
pub fn expected_time(experiment: &MultipathExperiment) -> String {
    let points = experiment.points();
    let seconds: f64 = points.iter().map(|point| experiment.traffic_duration(point).as_secs_f64()).sum();
    let runs = points.len();
    match experiment.virtual_time {
        true => format!("{runs} runs of {:.0} s together in virtual time", seconds),
        false => {
            let minutes = (seconds + runs as f64 * SETUP_TIME.as_secs_f64()) / 60.0;
            format!("{runs} runs, about {minutes:.0} minutes in total")
        }
    }
}

/// How long it takes to build the sites and to start the gateways.
const SETUP_TIME: Span = Span::from_millis(1200);

impl MultipathExperiment {
    /// How long the traffic of a run lasts.
    pub(super) fn traffic_duration(&self, point: &MultipathPoint<'_>) -> Span {
        match self.workload {
            Workload::Transfer | Workload::Flood { .. } => self.warm_up + self.duration,
            Workload::Blocks => self.warm_up + (self.duration + WARM_UP) * self.blocks.block_settings().len() as i64,
            Workload::Numbered { packets, .. } => self.packet_interval(point) * packets as i64 + DRAIN_TIME,
        }
    }
}

/// How long after the last packet the run waits for those that are late.
pub(super) const DRAIN_TIME: Span = Span::from_secs(2);
