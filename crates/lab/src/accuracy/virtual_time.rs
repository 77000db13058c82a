use crate::accuracy::plan;
use crate::accuracy::row::Row;
use crate::accuracy::runner::{Attempt, Testbed};
use crate::accuracy::scenario::{Point, Scenario};
use crate::accuracy::words::{Protocol, Transport};
use crate::error::RunError;
use anyhow::anyhow;
use estimate::delay::{ClockModel, Crossing, Way};
use estimate::{Capacity, CapacityConfig, CapacityProbe, Conditions, Shaping, Step};
use measure::report::{CapacityReport, Cost, DelayFigures, DirectionReport};
use measure::{MeasureConfig, transport::MAX_PACKET};
use sim::{Hop, Stamping, VirtualPath};
use train::{Segment, Train};
use units::Direction;
use units::{Rate, Span};
use wire::TransportKind;

/// New cross traffic runs so long before anything is measured.
const SETTLING: Span = Span::from_millis(100);
/// Trains each way that show the idle path's delay.
const IDLE_ROUNDS: usize = 4;

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
        let seed = u64::from(point.run);
        let mut path = path(scenario, point, point.direction, Stamping::default())?;
        let found = scenario.whole.then(|| find_capacity(&mut path, seed));
        let shaping = found.as_ref().map_or(Shaping::Unknown, |(capacity, _)| capacity.shaping());
        let choice = plan::method(scenario, point);
        let mut method = choice.build(&Conditions { shaping, seed, ..Conditions::new(MAX_PACKET) });
        let run = sim::measure(method.as_mut(), &mut path);
        let outcome = found.iter().fold(run.outcome, |outcome, (capacity, _)| capacity.refute(outcome));
        let capacity = found.map(|(capacity, cost)| CapacityReport::new(capacity, &cost));
        row.truth_bits_per_second = lasting(scenario, point.direction, run.truth).bits_per_second();
        let cost = Cost { packets: run.packets, bytes: run.bytes, duration: run.ended - run.started };
        let connections = if kind == TransportKind::Rake { MeasureConfig::CONNECTIONS.into() } else { 0 };
        let measured = DirectionReport::new(kind, connections, choice.name(), outcome, &cost, Vec::new());
        row.fill(DirectionReport { capacity, ..measured });
        if scenario.whole {
            row.fill_delays(scenario, idle_delays(scenario, point)?);
        }
        Ok(())
    }
}

/// The path of that direction, with the others' traffic where it is the one that is measured.
fn path(scenario: &Scenario, point: &Point, direction: Direction, stamping: Stamping) -> Result<VirtualPath, RunError> {
    let pattern = plan::pattern(scenario, point).ok_or_else(|| impossible("a virtual path has no TCP"))?;
    let measured = direction == point.direction;
    let cross = (measured && point.cross > Rate::ZERO).then_some(pattern);
    let mut hops = vec![Hop { link: plan::link(scenario, direction), cross: cross.into_iter().collect() }];
    if let Some(link) = plan::later(scenario, direction) {
        let cross = plan::later_pattern(scenario, point).filter(|_| measured);
        hops.push(Hop { link, cross: cross.into_iter().collect() });
    }
    let path = VirtualPath::new(&hops, stamping, point.run.into());
    let mut path = path.map_err(|cause| RunError { doing: "make the virtual path", cause: cause.into() })?;
    path.wait(SETTLING);
    Ok(path)
}

/// What a path's truth is where its line's rate holds for a burst only.
fn lasting(scenario: &Scenario, direction: Direction, available: Rate) -> Rate {
    let beyond = scenario.bottleneck.line_of(direction).as_f64() - scenario.bottleneck.rate_of(direction).as_f64();
    Rate::from_f64(available.as_f64() - beyond)
}

fn find_capacity(path: &mut VirtualPath, seed: u64) -> (Capacity, Cost) {
    let mut probe = CapacityProbe::new(CapacityConfig { seed, ..CapacityConfig::new(MAX_PACKET) });
    let (started, mut ended, mut cost) = (path.now(), path.now(), Cost::default());
    loop {
        match probe.next(path.now()) {
            Step::Send { wait, train } => {
                // The wait counts from the last packet of the train before; what came of it may be known later only.
                path.wait((ended + wait - path.now()).max(Span::ZERO));
                cost.packets += u64::from(train.count());
                cost.bytes += train.bytes();
                let record = path.send(&train);
                ended = path.now();
                path.wait(path.delay());
                probe.record(&record);
            }
            Step::Done(found) => {
                cost.duration = ended - started;
                return (found, cost);
            }
        }
    }
}

/// The least delay up and down, as a few small trains by turns show it. As in the lab's network, both ends read one clock,
/// which the estimator does not know.
fn idle_delays(scenario: &Scenario, point: &Point) -> Result<[Option<DelayFigures>; 2], RunError> {
    let segment =
        Segment { count: 8, interval: Span::from_millis(3), first_size: plan::DELAY_PROBE_BYTES as u32, size_step: 0 };
    let train = Train { segments: vec![segment] };
    let stamping = Stamping { clock_offset: Span::ZERO, clock_skew: 0.0, ..Stamping::default() };
    let mut paths = [
        (Way::Forward, path(scenario, point, Direction::Up, stamping)?),
        (Way::Backward, path(scenario, point, Direction::Down, stamping)?),
    ];
    let mut crossings = Vec::new();
    let mut now = paths[0].1.now();
    for _ in 0..IDLE_ROUNDS {
        for (way, path) in &mut paths {
            path.wait(now - path.now());
            let record = path.send(&train);
            now = path.now();
            let arrived = record.packets.iter().filter_map(|packet| Some((packet.sent?, packet.received?)));
            crossings.extend(arrived.map(|(sent, received)| Crossing { way: *way, sent, received }));
        }
    }
    let model = ClockModel::fit(&crossings, &[]).ok();
    let figures = |way| model.as_ref().and_then(|model| DelayFigures::of(model, way, |_| true));
    Ok([figures(Way::Forward), figures(Way::Backward)])
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
    use crate::accuracy::runner::run;
    use crate::accuracy::words::BottleneckKind;
    use crate::scenario::{Overrides, load};

    fn rows(overrides: &Overrides) -> Vec<Row> {
        let experiment = load("rake-accuracy", overrides).unwrap().accuracy().unwrap();
        run(&experiment, &mut VirtualTime, &mut |_| (), &|| false).unwrap()
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
        let experiment = load("rake-accuracy", &overrides).unwrap().accuracy().unwrap();
        let error = run(&experiment, &mut VirtualTime, &mut |_| (), &|| false).unwrap_err();
        assert!(error.to_string().contains("without --virtual"), "{error}");
    }
}
