use crate::accuracy::experiment::AccuracyExperiment;
use crate::accuracy::row::Row;
use crate::accuracy::scenario::{AccuracyPoint, AccuracyScenario};
use crate::error::RunError;
use crate::run_repetition::{RepeatedRun, RunOutcome, run_until_undisturbed};
use kumade_netns_testbed::MAX_UNDISTURBED_LATENESS;
use kumade_units::Span;

/// A disturbed run is repeated so many times at most; the last one stays, marked as disturbed.
const MAX_REPEATS: u32 = 3;

/// Where measurements are made: a network of real hosts, or one in virtual time.
pub trait Testbed {
    /// Sets up what `point` needs (cross traffic, firewall) and measures once. That a path cannot be measured is a
    /// result, stated in [`Row::reason`].
    ///
    /// # Errors
    /// Where the testbed itself failed, so that no further run makes sense.
    fn measure(&mut self, scenario: &AccuracyScenario, point: &AccuracyPoint) -> Result<MeasurementAttempt, RunError>;
}

/// One measurement, made once.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasurementAttempt {
    /// Its result; the runner counts the repeats.
    pub row: Row,
    /// By how much the emulated link was late at most; zero where it cannot be.
    pub lateness: Span,
}

/// How far an experiment has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AccuracyProgress<'a> {
    /// This point is measured now.
    Measuring {
        /// Counted from zero.
        index: usize,
        /// How many there are.
        total: usize,
        /// Which one it is.
        point: &'a AccuracyPoint,
    },
    /// Host scheduling delay disturbed the run, which is repeated.
    Repeating {
        /// How late the link was.
        lateness: Span,
    },
    /// A point is done.
    Measured(&'a Row),
}

/// Measures every point of every scenario on `testbed`; `stop` is asked before each run and each repetition, and ends
/// the experiment with the rows measured so far.
///
/// # Errors
/// Where the testbed failed.
pub fn run(
    experiment: &AccuracyExperiment,
    testbed: &mut dyn Testbed,
    observer: &mut dyn FnMut(AccuracyProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Row>, RunError> {
    let of = experiment.run_count();
    let mut rows = Vec::with_capacity(of);
    for scenario in &experiment.scenarios {
        for point in scenario.points() {
            if stop() {
                return Ok(rows);
            }
            observer(AccuracyProgress::Measuring { index: rows.len(), total: of, point: &point });
            let row = measure(scenario, &point, testbed, observer, stop)?;
            observer(AccuracyProgress::Measured(&row));
            rows.push(row);
        }
    }
    Ok(rows)
}

fn measure(
    scenario: &AccuracyScenario,
    point: &AccuracyPoint,
    testbed: &mut dyn Testbed,
    observer: &mut dyn FnMut(AccuracyProgress<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<Row, RunError> {
    let run = || {
        let MeasurementAttempt { row, lateness } = testbed.measure(scenario, point)?;
        Ok(RunOutcome { row, lateness, disturbed: lateness > MAX_UNDISTURBED_LATENESS })
    };
    let repeating = |lateness| observer(AccuracyProgress::Repeating { lateness });
    let RepeatedRun { row, repeats, disturbed } = run_until_undisturbed(MAX_REPEATS, run, repeating, stop)?;
    Ok(Row { repeats, disturbed, ..row })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::sample_reports::load_accuracy_experiment;

    /// A testbed whose link is late by these microseconds, run by run, and then never again.
    struct Scripted {
        lateness: Vec<i64>,
        attempts: usize,
    }

    impl Testbed for Scripted {
        fn measure(
            &mut self,
            scenario: &AccuracyScenario,
            point: &AccuracyPoint,
        ) -> Result<MeasurementAttempt, RunError> {
            let lateness = Span::from_micros(self.lateness.get(self.attempts).copied().unwrap_or(0));
            self.attempts += 1;
            Ok(MeasurementAttempt { row: Row::new(scenario, point), lateness })
        }
    }

    fn run_with(lateness: &[i64]) -> (Vec<Row>, usize) {
        let experiment = load_accuracy_experiment("rake-cwnd");
        let mut testbed = Scripted { lateness: lateness.to_vec(), attempts: 0 };
        let rows = run(&experiment, &mut testbed, &mut |_| (), &|| false).unwrap();
        (rows, testbed.attempts)
    }

    #[test]
    fn a_quiet_machine_runs_each_point_once() {
        let (rows, attempts) = run_with(&[]);
        assert_eq!((rows.len(), attempts), (6, 6));
        assert!(rows.iter().all(|row| !row.disturbed && row.repeats == 0));
    }

    #[test]
    fn a_disturbed_run_is_repeated_and_counted() {
        let (rows, attempts) = run_with(&[300, 301, 5_000]);
        assert_eq!((rows.len(), attempts), (6, 8));
        let repeats: Vec<_> = rows.iter().map(|row| (row.repeats, row.disturbed)).collect();
        assert_eq!(repeats[..3], [(0, false), (2, false), (0, false)]);
    }

    #[test]
    fn a_machine_that_disturbs_every_run_does_not_stop_the_experiment() {
        let (rows, attempts) = run_with(&[400; 100]);
        assert_eq!((rows.len(), attempts), (6, 24));
        assert!(rows.iter().all(|row| row.disturbed && row.repeats == 3));
    }

    #[test]
    fn a_stop_waits_for_no_repetition() {
        let experiment = load_accuracy_experiment("rake-cwnd");
        let mut testbed = Scripted { lateness: vec![400; 100], attempts: 0 };
        let disturbed = std::cell::Cell::new(false);
        let mut watch = |progress: AccuracyProgress<'_>| {
            disturbed.set(disturbed.get() || matches!(progress, AccuracyProgress::Repeating { .. }))
        };
        let rows = run(&experiment, &mut testbed, &mut watch, &|| disturbed.get()).unwrap();
        assert_eq!((rows.len(), rows[0].repeats, rows[0].disturbed), (1, 1, true));
    }

    #[test]
    fn a_stop_keeps_what_is_measured() {
        let experiment = load_accuracy_experiment("rake-cwnd");
        let mut testbed = Scripted { lateness: vec![], attempts: 0 };
        let measured = std::cell::Cell::new(0);
        let mut count = |progress: AccuracyProgress<'_>| {
            if matches!(progress, AccuracyProgress::Measured(_)) {
                measured.set(measured.get() + 1);
            }
        };
        let rows = run(&experiment, &mut testbed, &mut count, &|| measured.get() == 2).unwrap();
        assert_eq!(rows.len(), 2);
    }
}
