use super::blocks::WARM_UP;
use super::numbered_packets::DRAIN_TIME;
use super::report::MultipathReport;
use super::row::MultipathRow;
use super::scenario::{MultipathExperiment, MultipathPoint, Workload};
use super::{realtime, virtual_time};
use crate::error::RunError;
use crate::study::{Exclusion, Outcome, RunOutcome, Study, describe_time, repeatable_rows};
use kumade_units::Span;

repeatable_rows!(MultipathRow);

/// How long it takes to build the sites and to start the gateways.
const SETUP_TIME: Span = Span::from_millis(1200);

impl Study for MultipathExperiment {
    type Point<'a> = MultipathPoint<'a>;
    type Row = MultipathRow;
    type Testbed = ();
    type Report = MultipathReport;

    /// Runs come outermost, so that a disturbance of some minutes spoils one run of many points and not all runs of one.
    fn points(&self) -> Vec<MultipathPoint<'_>> {
        let mut points = Vec::new();
        for run in 1..=self.runs {
            for case in &self.cases {
                points.extend(case.contenders.iter().map(|contender| MultipathPoint { case, contender, run }));
            }
        }
        points
    }

    fn describe_point(&self, point: &MultipathPoint<'_>) -> String {
        format!("{}, {}", point.contender, point.case.label)
    }

    fn expected_time(&self) -> String {
        let points = self.points();
        let seconds: f64 = points.iter().map(|point| self.traffic_duration(point).as_secs_f64()).sum();
        describe_time(points.len(), seconds, self.virtual_time, SETUP_TIME)
    }

    fn longest_run(&self) -> Option<Span> {
        let longest = self.points().iter().map(|point| self.traffic_duration(point)).max();
        longest.filter(|_| !self.virtual_time).map(|longest| longest + SETUP_TIME)
    }

    fn run_virtually(&self, point: &MultipathPoint<'_>) -> Result<MultipathRow, RunError> {
        virtual_time::run(self, point)
    }

    fn testbed(&self) -> Result<(), RunError> {
        Ok(())
    }

    fn run_really(&self, (): &mut (), point: &MultipathPoint<'_>) -> Result<RunOutcome<MultipathRow>, RunError> {
        realtime::run(self, point)
    }

    /// Of contenders whose programs this host lacks.
    fn missing_requirement(&self, (): &mut (), point: &MultipathPoint<'_>) -> Option<Exclusion> {
        let reason = point.contender.missing_requirement()?;
        Some(Exclusion { kind: point.contender.to_string(), reason })
    }

    fn report(&self, started: String, outcome: Outcome<MultipathRow>) -> MultipathReport {
        MultipathReport::new(self, started, outcome.rows)
    }
}

impl MultipathExperiment {
    /// How long the traffic of a run lasts.
    fn traffic_duration(&self, point: &MultipathPoint<'_>) -> Span {
        match self.workload {
            Workload::Transfer | Workload::Flood { .. } => self.warm_up + self.duration,
            Workload::Blocks => self.warm_up + (self.duration + WARM_UP) * self.blocks.block_settings().len() as i64,
            Workload::Numbered { packets, .. } => self.packet_interval(point) * packets as i64 + DRAIN_TIME,
        }
    }
}
