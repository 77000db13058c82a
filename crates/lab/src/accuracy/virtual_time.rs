use crate::accuracy::keywords::{Protocol, Transport};
use crate::accuracy::plan;
use crate::accuracy::row::Row;
use crate::accuracy::scenario::{AccuracyPoint, AccuracyScenario};
use crate::error::RunError;
use anyhow::anyhow;
use kumade_measurement::{Failure, Measurement};
use kumade_sim::{PathHop, Stamping, VirtualPath, VirtualPaths};
use kumade_units::{Direction, Rate, Span};

/// New cross traffic runs so long before anything is measured.
const CROSS_TRAFFIC_WARM_UP: Span = Span::from_millis(100);

/// Measures on a virtual path: the same link, cross traffic and estimators under a virtual clock, without sockets or a
/// kernel. A run takes milliseconds, and the same run of the same scenario gives the same row.
///
/// # Errors
/// The simulator refuses a setting.
pub(super) fn measure(scenario: &AccuracyScenario, point: &AccuracyPoint) -> Result<Row, RunError> {
    if point.transport == Transport::Single {
        return Err(impossible_run("a virtual path has no congestion window, which is what `single` is about"));
    }
    let mut row = Row::new(scenario, point);
    let mut paths = VirtualPaths {
        up: virtual_path(scenario, point, Direction::Up)?,
        down: virtual_path(scenario, point, Direction::Down)?,
        passes_udp: !scenario.firewall_for(point.transport).any(|rule| rule.protocol == Protocol::Udp),
    };
    let plan = plan::measurement_plan(scenario, point, point.direction.into(), u64::from(point.run));
    match paths.measure(Measurement::new(plan, paths.session()), &mut |_| ()) {
        Ok(measured) => {
            let truth = measured.truth[point.direction as usize].unwrap_or_else(|| mean_available(scenario, point));
            row.truth_bits_per_second = truth.bits_per_second();
            row.fill_report(scenario, point.direction, measured.report);
        }
        Err(Failure::TransportUnavailable { transport, reason }) => {
            row.truth_bits_per_second = mean_available(scenario, point).bits_per_second();
            row.reason = Some(format!("cannot measure over {transport}: {reason}"));
        }
        Err(Failure::ConnectionsKeepBreaking { .. }) => row.reason = Some("the connections kept breaking".to_owned()),
    }
    Ok(row)
}

/// The path of that direction, with the cross traffic where it is the one that is measured. Where everything is measured,
/// both ends read one clock, as in the lab's network; the estimator does not know that.
fn virtual_path(
    scenario: &AccuracyScenario,
    point: &AccuracyPoint,
    direction: Direction,
) -> Result<VirtualPath, RunError> {
    let one_clock = Stamping { clock_offset: Span::ZERO, clock_skew: 0.0, ..Stamping::default() };
    let stamping = if scenario.makes_full_measurement { one_clock } else { Stamping::default() };
    let pattern =
        plan::cross_traffic_pattern(scenario, point).ok_or_else(|| impossible_run("a virtual path has no TCP"))?;
    let measured = direction == point.direction;
    let cross = (measured && point.cross > Rate::ZERO).then_some(pattern);
    let mut hops =
        vec![PathHop { link: plan::link_config(scenario, direction), queue: None, cross: cross.into_iter().collect() }];
    if let Some(link) = plan::downstream_link(scenario, direction) {
        let cross = plan::downstream_pattern(scenario, point).filter(|_| measured);
        hops.push(PathHop { link, queue: None, cross: cross.into_iter().collect() });
    }
    let path = VirtualPath::new(&hops, stamping, point.run.into());
    let mut path = path.map_err(RunError::during("make the virtual path"))?;
    path.wait(CROSS_TRAFFIC_WARM_UP);
    Ok(path)
}

/// On average, from what is set.
fn mean_available(scenario: &AccuracyScenario, point: &AccuracyPoint) -> Rate {
    Rate::from_f64(scenario.bottleneck.rate_in(point.direction).as_f64() - point.cross.as_f64())
}

fn impossible_run(why: &str) -> RunError {
    RunError { doing: "run this virtually", cause: anyhow!("{why}; run it without --virtual") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::{AccuracyExperiment, BottleneckKind};
    use crate::scenario::load;
    use crate::study::{Overrides, run};

    fn rows(overrides: &Overrides) -> Vec<Row> {
        let experiment = load("rake-accuracy", overrides).unwrap().into_scenario::<AccuracyExperiment>().unwrap();
        run(&experiment, &mut |_| (), &|| false).unwrap().rows
    }

    #[test]
    fn the_papers_experiment_takes_no_time_and_repeats_itself() {
        let overrides = Overrides { runs: Some(2), bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        let first = rows(&overrides);
        assert_eq!(first.len(), 10 * 2 * 2 * 2);
        for row in first.iter().filter(|row| row.method == "primed") {
            let error = row.error_bits_per_second.unwrap_or_else(|| panic!("no value: {:?}", row.reason));
            assert!(error.abs() < 1_000_000, "{row:?}");
        }
        assert_eq!(first, rows(&overrides));
    }

    #[test]
    fn what_a_virtual_path_has_not_is_refused() {
        let overrides = Overrides { transports: vec![Transport::Single], ..Overrides::default() };
        let experiment = load("rake-accuracy", &overrides).unwrap().into_scenario::<AccuracyExperiment>().unwrap();
        let scenario = &experiment.scenarios[0];
        let error = measure(scenario, &scenario.points()[0]).unwrap_err();
        assert!(error.to_string().contains("without --virtual"), "{error}");
    }
}
