//! The default method under conditions that have misled it, or well might: each path here is a regression test.

use kumade_estimate::{Conditions, MethodSettings, Outcome};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Loss};
use kumade_sim::{MethodRun, PathHop, Stamping, VirtualPath, measure};
use kumade_units::{Rate, Span, Time};

const SEEDS: u64 = 10;

/// A link of this rate under constant cross traffic, and what is special about it.
fn hop(rate: Rate, load: f64, seed: u64, special: impl Fn(&mut LinkConfig)) -> PathHop {
    let mut link = LinkConfig {
        rate: Some(rate),
        queue_bytes: 200_000,
        delay: Span::from_millis(5),
        seed,
        ..LinkConfig::default()
    };
    special(&mut link);
    let kind = CrossKind::Constant { rate: Rate::from_f64(rate.as_f64() * load), size: 1500 };
    let phase = (seed as f64 * 0.618).fract();
    PathHop { link, queue: None, cross: vec![CrossConfig { kind, start: Time::ZERO, phase, seed }] }
}

fn run(hop: PathHop, seed: u64) -> MethodRun {
    run_stamped(hop, Stamping::default(), seed)
}

fn run_stamped(hop: PathHop, stamping: Stamping, seed: u64) -> MethodRun {
    let mut path = VirtualPath::new(&[hop], stamping, seed).expect("a path that can be");
    path.wait(Span::from_millis(500));
    measure(&mut *MethodSettings::default().build(&Conditions { seed, ..Conditions::new(1500) }), &mut path)
}

/// The error as a part of the link's rate.
fn error(run: &MethodRun, rate: Rate) -> f64 {
    let value = run.outcome.available.unwrap_or_else(|| panic!("no value: {:?}", run.outcome.reason)).value;
    (value.as_f64() - run.truth.as_f64()) / rate.as_f64()
}

#[test]
fn a_queue_that_overflows_is_not_taken_for_bandwidth() {
    // A full queue neither grows nor empties: a train far too fast looks as if it fitted, but for its losses.
    let rate = Rate::from_mbit(100);
    for (queue_bytes, load) in [(30_000, 0.9), (15_000, 0.3), (15_000, 0.6)] {
        for seed in 0..SEEDS {
            let run = run(hop(rate, load, seed, |link| link.queue_bytes = queue_bytes), seed);
            let error = error(&run, rate);
            assert!(error.abs() < 0.01, "queue {queue_bytes}, load {load}, seed {seed}: {error:.3}, {:?}", run.outcome);
        }
    }
}

#[test]
fn losses_of_the_path_are_not_taken_for_a_full_queue() {
    let rate = Rate::from_mbit(100);
    for loss in [0.001, 0.01, 0.05] {
        for seed in 0..SEEDS {
            let run = run(hop(rate, 0.4, seed, |link| link.loss = Loss::Independent(loss)), seed);
            assert!(error(&run, rate).abs() < 0.01, "loss {loss}, seed {seed}: {:?}", run.outcome);
        }
    }
}

#[test]
fn slow_and_far_paths_are_measured_too() {
    // At 100 kbit/s a single packet of others is a tenth of a train.
    let paths = [(100, 20, 15.0, 0.1), (1_000, 300, 12.0, 0.025), (50_000, 300, 12.0, 0.02)];
    for (kbit, delay_ms, most_seconds, most_error) in paths {
        let rate = Rate::from_bits_per_second(kbit * 1_000);
        for seed in 0..SEEDS {
            let run = run(hop(rate, 0.3, seed, |link| link.delay = Span::from_millis(delay_ms)), seed);
            let seconds = (run.ended - run.started).as_secs_f64();
            assert!(error(&run, rate).abs() < most_error, "{rate}, {delay_ms} ms, seed {seed}: {:?}", run.outcome);
            assert!(seconds < most_seconds, "{rate}, {delay_ms} ms, seed {seed}: {seconds} s");
        }
    }
}

#[test]
fn devices_that_report_packets_in_batches_cost_some_exactness_only() {
    for (mbit, micros, most) in [(100, 100, 0.025), (1000, 20, 0.06), (1000, 50, 0.06), (1000, 125, 0.08)] {
        let rate = Rate::from_mbit(mbit);
        let stamping = Stamping { batching: Span::from_micros(micros), ..Stamping::default() };
        for (seed, load) in (0..SEEDS).flat_map(|seed| [0.0, 0.3, 0.6].map(|load| (seed, load))) {
            let run = run_stamped(hop(rate, load, seed, |_| {}), stamping, seed);
            let error = error(&run, rate);
            assert!(error.abs() < most, "{rate}, batches of {micros} µs, load {load}, seed {seed}: {:?}", run.outcome);
        }
    }
}

#[test]
fn a_single_stall_is_left_out_and_counted() {
    let rate = Rate::from_mbit(100);
    let mut path = VirtualPath::new(&[hop(rate, 0.5, 1, |_| {})], Stamping::default(), 1).expect("a path that can be");
    let outcome = measure_with_stall(&mut path);
    let value = outcome.available.expect("a value").value.as_f64();
    assert!((value - 50e6).abs() < 0.5e6, "{outcome:?}");
    assert_eq!(outcome.trains_rejected.values().sum::<u32>(), 1, "{outcome:?}");
}

/// All that is on its way during the fifth train arrives 3 ms later, from its middle on.
fn measure_with_stall(path: &mut VirtualPath) -> Outcome {
    use kumade_estimate::Step;
    let mut method = MethodSettings::default().build(&Conditions::new(1500));
    for number in 0.. {
        match method.next(path.now()) {
            Step::Send { wait, train } => {
                path.wait(wait);
                let mut record = path.send(&train);
                if number == 5 {
                    let middle = record.packets.len() * 2 / 3;
                    let late = record.packets[middle..].iter_mut().filter_map(|p| p.received.as_mut());
                    late.for_each(|at| *at += Span::from_millis(3));
                }
                method.record(&record);
            }
            Step::Done(outcome) => return outcome,
        }
    }
    unreachable!("a method ends")
}
