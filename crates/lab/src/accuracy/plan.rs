//! What a scenario means as links, traffic and a measurement, in real and in virtual time.

use crate::accuracy::keywords::{CrossKind, Transport};
use crate::accuracy::path::{DownstreamHop, Shaper};
use crate::accuracy::scenario::{AccuracyPoint, AccuracyScenario};
use crate::study::bounds::MAX_RUNS;
use kumade_estimate::{MethodSettings, RequestedBudget};
use kumade_link::{CrossConfig, LinkConfig, Medium, PeriodLengths, SizeMix, TokenBucket};
use kumade_measurement::{Directions, MeasurementPlan, TransportChoice};
use kumade_units::Direction;
use kumade_units::{Rate, Span, Time};

/// Bytes of the packets that measure the delay of the idle path.
pub(crate) const DELAY_PROBE_BYTES: u64 = 64;

/// The bottleneck as a link of this direction.
pub(crate) fn link_config(scenario: &AccuracyScenario, direction: Direction) -> LinkConfig {
    let bottleneck = &scenario.bottleneck;
    let rate = bottleneck.rate_in(direction);
    let medium = |Shaper { burst_bytes, .. }| Medium::TokenBucket(TokenBucket { rate, burst_bytes });
    LinkConfig {
        rate: Some(bottleneck.line_rate_in(direction)),
        medium: bottleneck.shaper().map(medium),
        queue_bytes: bottleneck.queue,
        delay: bottleneck.delay,
        seed: 1,
        ..LinkConfig::default()
    }
}

/// The link behind it, if there is one.
pub(crate) fn downstream_link(scenario: &AccuracyScenario, direction: Direction) -> Option<LinkConfig> {
    let hop = scenario.downstream_hop?;
    let rate = hop.rate(scenario.bottleneck.rate_in(direction));
    let (queue_bytes, delay) = (hop.queue, hop.delay);
    Some(LinkConfig { rate: Some(rate), queue_bytes, delay, seed: 2, ..LinkConfig::default() })
}

/// The delay of a small packet without any queueing: propagation, and its transmission on each link.
pub(crate) fn min_delay(scenario: &AccuracyScenario, direction: Direction) -> Span {
    let rate = scenario.bottleneck.rate_in(direction);
    let at_bottleneck = scenario.bottleneck.line_rate_in(direction).time_for(DELAY_PROBE_BYTES);
    let behind = |hop: DownstreamHop| hop.delay + hop.rate(rate).time_for(DELAY_PROBE_BYTES);
    scenario.propagation_delay() + at_bottleneck + scenario.downstream_hop.map_or(Span::ZERO, behind)
}

/// What is measured at a point in these directions; the same in real time and virtually.
pub(crate) fn measurement_plan(
    scenario: &AccuracyScenario,
    point: &AccuracyPoint,
    directions: Directions,
    seed: u64,
) -> MeasurementPlan {
    MeasurementPlan {
        directions,
        transport: match point.transport {
            Transport::Auto => TransportChoice::Auto,
            Transport::Udp => TransportChoice::Fixed(kumade_probe_train::Transport::Udp),
            Transport::Rake => TransportChoice::Fixed(kumade_probe_train::Transport::Rake),
            Transport::Single => TransportChoice::Fixed(kumade_probe_train::Transport::Single),
        },
        method: method_settings(scenario, point),
        connections: MeasurementPlan::DEFAULT_CONNECTIONS,
        budget: RequestedBudget::default(),
        capacity: scenario.makes_full_measurement,
        idle_delay: scenario.makes_full_measurement,
        min_idle_packets: 0,
        load: None,
        path: false,
        trace: false,
        ports: Vec::new(),
        idle_timeouts: None,
        queues: false,
        seed,
    }
}

/// The estimator, adapted to the bottleneck's rate.
fn method_settings(scenario: &AccuracyScenario, point: &AccuracyPoint) -> MethodSettings {
    point.method.adapted_to_rate(scenario.bottleneck.rate_in(point.direction))
}

/// The pattern of the cross traffic; none where the kernel's TCP decides it. Each run has another phase and seed; the
/// same run of the same scenario has the same.
pub(crate) fn cross_traffic_pattern(scenario: &AccuracyScenario, point: &AccuracyPoint) -> Option<CrossConfig> {
    let of = scenario.bottleneck.rate_in(point.direction);
    cross_traffic_source(scenario.cross.kind, point.cross, scenario.cross.packet_bytes, of, point.run)
}

/// The pattern of the cross traffic on the downstream hop; none where there is none.
pub(crate) fn downstream_pattern(scenario: &AccuracyScenario, point: &AccuracyPoint) -> Option<CrossConfig> {
    let hop = scenario.downstream_hop.filter(|hop| hop.load > 0.0)?;
    let bottleneck = scenario.bottleneck.rate_in(point.direction);
    // A seed of its own, so that it is independent of the bottleneck's cross traffic in every run.
    let run = point.run + MAX_RUNS;
    cross_traffic_source(
        hop.kind,
        hop.cross_traffic_rate(bottleneck),
        scenario.cross.packet_bytes,
        hop.rate(bottleneck),
        run,
    )
}

/// Of the intervals of [`CrossKind::Jittered`].
const INTERVAL_JITTER_FRACTION: f64 = 0.05;

/// Packets of `size` at the mean `rate` on a link of the rate `of`.
fn cross_traffic_source(kind: CrossKind, rate: Rate, size: u32, of: Rate, run: u32) -> Option<CrossConfig> {
    let kind = match kind {
        CrossKind::Constant => kumade_link::CrossKind::Constant { rate, size },
        CrossKind::Jittered => kumade_link::CrossKind::Jittered { rate, size, jitter: INTERVAL_JITTER_FRACTION },
        CrossKind::Poisson => kumade_link::CrossKind::Poisson { rate, sizes: SizeMix::fixed(size) },
        CrossKind::OnOff => {
            let on = Span::from_millis(20);
            let burst = (rate.as_f64() + of.as_f64()) / 2.0;
            let off = Span::from_secs_f64(on.as_secs_f64() * (burst / rate.as_f64() - 1.0));
            kumade_link::CrossKind::OnOff {
                rate: Rate::from_f64(burst),
                size,
                on,
                off,
                periods: PeriodLengths::Exponential,
            }
        }
        CrossKind::Tcp => return None,
    };
    // The golden ratio's multiples lie evenly between 0 and 1.
    let phase = (f64::from(run) * 0.618_033_988_749_895).fract();
    Some(CrossConfig { kind, start: Time::ZERO, phase, seed: u64::from(run) << 40 | rate.bits_per_second() })
}
