use crate::plan;
use crate::row::Row;
use crate::runner::{Attempt, RunError, Testbed};
use crate::scenario::{Point, Protocol, Scenario, Transport};
use anyhow::anyhow;
use measure::report::{Cost, DirectionReport};
use measure::{Allowed, MeasureConfig, transport::MAX_PACKET};
use sim::{Hop, Stamping, VirtualPath};
use units::{Rate, Span};
use wire::TransportKind;

/// New cross traffic runs so long before anything is measured.
const SETTLING: Span = Span::from_millis(100);

/// Measures on a virtual path: the same link, cross traffic and estimators under a virtual clock, without sockets or a
/// kernel. A run takes milliseconds, and the same run of the same scenario gives the same row.
#[derive(Debug, Default)]
pub struct VirtualTime;

impl Testbed for VirtualTime {
    fn measure(&mut self, scenario: &Scenario, point: &Point) -> Result<Attempt, RunError> {
        let mut row = Row::new(scenario, point);
        let refused = |protocol| scenario.firewall_for(point.transport).any(|rule| rule.protocol == protocol);
        match carrier(point.transport, refused(Protocol::Udp)) {
            Some(kind) => self.run(scenario, point, kind, &mut row)?,
            None => {
                let least = scenario.bottleneck.rate_of(point.direction).as_f64() - point.cross.as_f64();
                row.truth_bits_per_second = Rate::from_f64(least).bits_per_second();
                row.reason = Some("UDP does not pass: the firewall refuses it".to_owned());
            }
        }
        Ok(Attempt { row, lateness: Span::ZERO })
    }
}

impl VirtualTime {
    fn run(&self, scenario: &Scenario, point: &Point, kind: TransportKind, row: &mut Row) -> Result<(), RunError> {
        if kind == TransportKind::Single {
            return Err(impossible("a virtual path has no congestion window, which is what `single` is about"));
        }
        let pattern = plan::pattern(scenario, point).ok_or_else(|| impossible("a virtual path has no TCP"))?;
        let cross = if point.cross == Rate::ZERO { Vec::new() } else { vec![pattern] };
        let hop = Hop { link: plan::link(scenario, point.direction), cross };
        let seed = u64::from(point.run);
        let path = VirtualPath::new(&[hop], Stamping::default(), seed);
        let mut path = path.map_err(|cause| RunError { doing: "make the virtual path", cause: cause.into() })?;
        path.wait(SETTLING);
        let choice = plan::method(scenario, point);
        let mut method = choice.build(MAX_PACKET, Allowed::default(), seed);
        let run = sim::measure(method.as_mut(), &mut path);
        row.truth_bits_per_second = run.truth.bits_per_second();
        let cost = Cost { packets: run.packets, bytes: run.bytes, duration: run.ended - run.started };
        let connections = if kind == TransportKind::Rake { MeasureConfig::CONNECTIONS.into() } else { 0 };
        row.fill(DirectionReport::new(kind, connections, choice.name(), run.outcome, &cost, Vec::new()));
        Ok(())
    }
}

/// What carries the trains; none where the firewall lets it not.
fn carrier(transport: Transport, udp_refused: bool) -> Option<TransportKind> {
    match transport {
        Transport::Udp if udp_refused => None,
        Transport::Auto if udp_refused => Some(TransportKind::Rake),
        Transport::Auto | Transport::Udp => Some(TransportKind::Udp),
        Transport::Rake => Some(TransportKind::Rake),
        Transport::Single => Some(TransportKind::Single),
    }
}

fn impossible(why: &str) -> RunError {
    RunError { doing: "run this virtually", cause: anyhow!("{why}; run it without --virtual") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Overrides;
    use crate::scenario::BottleneckKind;

    fn rows(overrides: &Overrides) -> Vec<Row> {
        let scenario = crate::load("rake-accuracy").unwrap().measurement().unwrap().overridden(overrides).unwrap();
        crate::run(&scenario, &mut VirtualTime, &mut |_| (), &|| false).unwrap()
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
        let scenario = crate::load("rake-accuracy").unwrap().measurement().unwrap().overridden(&overrides).unwrap();
        let error = crate::run(&scenario, &mut VirtualTime, &mut |_| (), &|| false).unwrap_err();
        assert!(error.to_string().contains("without --virtual"), "{error}");
    }
}
