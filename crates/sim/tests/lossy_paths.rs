//! Measurements of paths that lose packets at random, whatever is sent.

use kumade_link::{LinkConfig, Loss};
use kumade_measurement::report::DirectionReport;
use kumade_measurement::{Directions, Measurement, MeasurementPlan, TransportChoice};
use kumade_probe_train::Transport;
use kumade_sim::{PathHop, Stamping, VirtualPath, VirtualPaths};
use kumade_units::{Rate, Span};

/// An idle link of this rate that loses this part.
fn measured(rate: Rate, loss: Loss, transport: Transport, seed: u64) -> DirectionReport {
    let path = |loss| {
        let link = LinkConfig {
            rate: Some(rate),
            queue_bytes: rate.bytes_in(Span::from_millis(100)),
            delay: Span::from_millis(25),
            loss,
            seed,
            ..LinkConfig::default()
        };
        VirtualPath::new(&[PathHop { link, queue: None, cross: Vec::new() }], Stamping::default(), seed).unwrap()
    };
    let mut paths = VirtualPaths { up: path(loss), down: path(Loss::None), passes_udp: true };
    let (directions, transport) = (Directions::Up, TransportChoice::Fixed(transport));
    let plan = MeasurementPlan { directions, transport, seed, ..MeasurementPlan::default() };
    paths.measure(Measurement::new(plan, paths.session()), &mut |_| ()).unwrap().report.up.unwrap()
}

/// On a link of 20 Mbit/s that lost a tenth, a policer was found, and at most 17.5 Mbit/s said to be available.
#[test]
fn random_losses_are_no_policer_and_no_shaper_and_bound_nothing() {
    let rate = Rate::from_mbit(20);
    let losses = [0.1, 0.2].map(Loss::Independent).into_iter().chain([Loss::bursts(0.1, 3.0).unwrap()]);
    for (loss, transport) in
        losses.flat_map(|loss| [Transport::Udp, Transport::Rake].map(|transport| (loss, transport)))
    {
        for seed in 1..5 {
            let report = measured(rate, loss, transport, seed);
            println!("{transport}, {loss:?}, seed {seed}: {report}");
            assert!(report.available_bits_per_second.is_none_or(|found| found.high >= rate));
            assert!(report.at_most_bits_per_second.is_none_or(|most| most >= rate));
            assert!(report.capacity.is_none_or(|capacity| capacity.policer.is_none() && capacity.shaper.is_none()));
        }
    }
}
