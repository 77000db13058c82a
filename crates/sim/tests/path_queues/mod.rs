//! What a full measurement finds out about the queue of the narrow link: which packets it marks, and whether there are several.

mod classes;
mod marking;

use kumade_link::queue::{DisciplineSettings, QueueConfig, QueueLimit};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use kumade_measurement::report::PathReport;
use kumade_measurement::{Measurement, MeasurementPlan};
use kumade_sim::{PathHop, Stamping, VirtualPath, VirtualPaths};
use kumade_units::{Rate, Span, Time};

const DELAY: Span = Span::from_millis(10);

/// Of a path that has this queue on the way up, with so much room, and tail drop down, beside cross traffic of this part of the rate in
/// either direction.
fn measured(queue: &str, mbit: u64, room: Span, cross_part: f64, plan: MeasurementPlan) -> PathReport {
    let (rate, seed) = (Rate::from_mbit(mbit), plan.seed);
    let queue_bytes = rate.bytes_in(room);
    let discipline = queue.parse::<DisciplineSettings>().unwrap().discipline(Some(rate));
    let queue = QueueConfig { limit: QueueLimit::Bytes(queue_bytes), discipline };
    let link = LinkConfig { rate: Some(rate), delay: DELAY, queue_bytes, ..LinkConfig::default() };
    let kind = CrossKind::Poisson { rate: Rate::from_f64(rate.as_f64() * cross_part), sizes: SizeMix::fixed(1000) };
    let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed };
    let cross = if cross_part > 0.0 { vec![cross] } else { Vec::new() };
    let path = |queue| {
        let hop = PathHop { link: link.clone(), queue, cross: cross.clone() };
        VirtualPath::new(&[hop], Stamping::default(), seed).unwrap()
    };
    let mut paths = VirtualPaths { up: path(Some(queue)), down: path(None), passes_udp: true };
    let report = paths.measure(Measurement::new(plan, paths.session()), &mut |_| ()).unwrap().report;
    report.path.unwrap()
}
