//! What a full measurement says where the stamps of the host that measures scatter, and it knows by how much: whether intervals hold the truth.

use kumade_estimate::{CapacityReason, Reason};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use kumade_measurement::report::{DirectionReport, Report};
use kumade_measurement::{Clocks, Directions, Measurement, MeasurementPlan, Session};
use kumade_probe_train::Estimate;
use kumade_sim::{PathHop, Stamping, VirtualPath, VirtualPaths};
use kumade_units::{Rate, Span, Time};

const DELAY: Span = Span::from_millis(5);
const SEEDS: u64 = 12;
/// Of a uniform distribution, 95 % are within as much of its width.
const KNOWN_PART: f64 = 0.95;

/// A report on the way down, and what was available there.
fn measure(rate: Rate, load: f64, scatter: Span, seed: u64) -> (Report, Rate) {
    measure_with_jitter(rate, load, Span::ZERO, scatter, seed)
}

fn measure_with_jitter(rate: Rate, load: f64, jitter: Span, scatter: Span, seed: u64) -> (Report, Rate) {
    let jitter = jitter.into();
    let link =
        LinkConfig { rate: Some(rate), delay: DELAY, queue_bytes: 200_000, jitter, seed, ..LinkConfig::default() };
    let kind = CrossKind::Poisson { rate: Rate::from_f64(rate.as_f64() * load), sizes: SizeMix::fixed(1500) };
    let cross = (load > 0.0).then_some(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed });
    let hop = PathHop { link, queue: None, cross: cross.into_iter().collect() };
    let path = |receive_jitter| {
        let stamping = Stamping { receive_jitter, ..Stamping::default() };
        VirtualPath::new(std::slice::from_ref(&hop), stamping, seed).expect("a path that can be")
    };
    let mut paths =
        VirtualPaths { up: path(Stamping::default().receive_jitter), down: path(scatter), passes_udp: true };
    let stamp_scatter = Span::from_secs_f64(scatter.as_secs_f64() * KNOWN_PART);
    let session = Session { clocks: Clocks { stamp_scatter, ..Clocks::default() }, ..paths.session() };
    let plan = MeasurementPlan { directions: Directions::Down, seed, ..MeasurementPlan::default() };
    let measured = paths.measure(Measurement::new(plan, session), &mut |_| ()).unwrap();
    (measured.report, measured.truth[1].unwrap_or(rate))
}

fn holds(found: Estimate<Rate>, truth: Rate) -> bool {
    (found.low..=found.high).contains(&truth)
}

fn width<T>(found: Estimate<T>, number: impl Fn(T) -> f64) -> f64 {
    number(found.high) - number(found.low)
}

/// Intervals that were as narrow as with exact stamps did not hold the capacity where these scattered.
#[test]
fn intervals_of_values_and_capacities_hold_where_stamps_scatter() {
    let (mut values, mut held, mut capacities, mut held_capacities) = (0, 0, 0, 0);
    for (mbit, micros, load) in [20, 100].into_iter().flat_map(|mbit| {
        [50, 200, 1_000].into_iter().flat_map(move |micros| [0.0, 0.4, 0.8].map(move |load| (mbit, micros, load)))
    }) {
        let rate = Rate::from_mbit(mbit);
        for seed in 0..SEEDS {
            let (report, truth) = measure(rate, load, Span::from_micros(micros), seed);
            let DirectionReport { available_bits_per_second: available, capacity, .. } = report.down.unwrap();
            values += usize::from(available.is_some());
            let is_held = available.is_none_or(|found| holds(found, truth));
            held += usize::from(available.is_some() && is_held);
            let capacity = capacity.and_then(|capacity| capacity.bottleneck_bits_per_second);
            capacities += usize::from(capacity.is_some());
            let is_capacity_held = capacity.is_none_or(|found| holds(found, rate));
            held_capacities += usize::from(capacity.is_some() && is_capacity_held);
            if !(is_held && is_capacity_held) {
                println!("{rate}, {micros} µs, load {load}, seed {seed}: {available:?} of {truth}, {capacity:?}");
            }
        }
    }
    println!("{held} of {values} values, {held_capacities} of {capacities} capacities held");
    // As seen with these seeds: all of 142, and all of 68. Of fewer it would be vain that they hold; of as many, where intervals hold in 95 of 100 cases,
    // one set of 150 has more than 8 that do not, or of 200 more than 14 (binomial distribution).
    assert!(values >= 120 && values - held <= 14, "{held} of {values}");
    assert!(capacities >= 60 && capacities - held_capacities <= 8, "{held_capacities} of {capacities}");
}

#[test]
fn intervals_widen_with_the_scatter_and_what_is_too_coarse_is_refused() {
    let rate = Rate::from_mbit(20);
    let [exact, coarse, withdrawn, useless] =
        [3, 100, 700, 20_000].map(|micros| measure(rate, 0.0, Span::from_micros(micros), 3).0);
    let capacity = |report: &Report| report.down.as_ref().unwrap().capacity.clone().unwrap();
    let bottleneck = |report: &Report| capacity(report).bottleneck_bits_per_second;
    let (narrow, wide) = (bottleneck(&exact).unwrap(), bottleneck(&coarse).unwrap());
    // Both at the ends of 4 ms.
    assert!(width(wide, Rate::as_f64) > width(narrow, Rate::as_f64) + 0.05 * rate.as_f64(), "{narrow:?} {wide:?}");
    let refused = capacity(&useless);
    assert_eq!(refused.bottleneck_bits_per_second, None);
    // Bursts tell so little then that others refuse it first.
    let withdrawn = capacity(&withdrawn);
    assert!(matches!(withdrawn.reason, Some(CapacityReason::CoarseStamps(..))), "{withdrawn:?}");
    let delay = |report: &Report| report.delay.clone().unwrap();
    let minimum = |report: &Report| delay(report).round_trip.unwrap().minimum_seconds;
    assert!(width(minimum(&coarse), |it| it) > width(minimum(&exact), |it| it) + 180e-6);
    let says = |report: &Report| delay(report).warnings.iter().any(|warning| warning.to_string().contains("scatter"));
    assert!(says(&coarse) && says(&exact));
}

/// Less what the stamps scatter by, such delays did not vary.
#[test]
fn delays_that_vary_are_told_where_stamps_scatter_as_well() {
    let jitter = Span::from_millis(1);
    for seed in 0..SEEDS {
        for scatter in [Span::ZERO, jitter] {
            let found = measure_with_jitter(Rate::from_mbit(100), 0.0, jitter, scatter, seed).0.down.unwrap();
            let (available, reason) = (found.available_bits_per_second, found.reason);
            assert!(
                available.is_none() && matches!(reason, Some(Reason::IdleDelaysVary(_))),
                "{scatter}, seed {seed}: {available:?} {reason:?}"
            );
        }
    }
}

/// What a few packets arrived at that the path's own jitter had arrive together was taken for the rate of the link, of which stamps of the host left
/// nothing: they were blamed for it.
#[test]
fn jitter_of_the_path_is_not_blamed_on_stamps_of_the_host() {
    let (rate, scatter) = (Rate::from_mbit(100), Span::from_micros(30));
    let (mut values, mut held) = (0, 0);
    for (micros, seed) in [500, 1000].into_iter().flat_map(|micros| (0..SEEDS / 2).map(move |seed| (micros, seed))) {
        let (report, truth) = measure_with_jitter(rate, 0.4, Span::from_micros(micros), scatter, seed);
        let DirectionReport { available_bits_per_second: available, reason, .. } = report.down.unwrap();
        println!("{micros} µs, seed {seed}: {available:?} of {truth}, {reason:?}");
        assert!(!matches!(reason, Some(Reason::CoarseStamps(..))), "{micros} µs, seed {seed}: {reason:?}");
        values += usize::from(available.is_some());
        held += usize::from(available.is_some_and(|found| holds(found, truth)));
    }
    assert!(values >= 6 && held + 1 >= values, "{held} of {values}");
}

/// An idle link was said to be a fair share with certainty, where stamps alone made bursts seem faster than trains; and where bursts can be as
/// long as stamps need, there was no value.
#[test]
fn scattered_stamps_make_no_fair_share_of_an_idle_link() {
    let measured = |mbit, micros, jitter, seed| {
        let [jitter, scatter] = [jitter, micros].map(Span::from_micros);
        let (report, truth) = measure_with_jitter(Rate::from_mbit(mbit), 0.0, jitter, scatter, seed);
        let DirectionReport { available_bits_per_second: available, reason, .. } = report.down.unwrap();
        println!("{mbit} Mbit/s, {scatter}, {jitter}, seed {seed}: {available:?} {reason:?}");
        assert!(available.is_none_or(|found| holds(found, truth)));
        assert_ne!(reason, Some(Reason::FairShareOfFlow));
        available
    };
    for seed in 0..SEEDS {
        assert!(measured(20, 300, 0, seed).is_some());
        for (mbit, micros, jitter) in [(20, 300, 200), (100, 100, 100), (100, 300, 0)] {
            measured(mbit, micros, jitter, seed);
        }
    }
}
