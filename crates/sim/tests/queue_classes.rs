//! Whether the narrow link has queues of its own for ECT(1), as a full measurement finds it. Queue disciplines that look at DSCPs are the
//! kernel's: `crates/kumade/tests/queue_classes.rs`.

use kumade_link::queue::{DisciplineSettings, QueueConfig, QueueLimit};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use kumade_measurement::report::{ClassQueue, QueueClassesReport, QueueCount};
use kumade_measurement::{Clocks, Measurement, MeasurementPlan, Session};
use kumade_sim::{PathHop, Stamping, VirtualPath, VirtualPaths};
use kumade_units::{Rate, Span, Time};

const DELAY: Span = Span::from_millis(10);

/// Of the way up through this queue of 100 ms of room, beside cross traffic of this part of the rate.
fn queue_classes(queue: &str, mbit: u64, cross_part: f64, seed: u64) -> Option<QueueClassesReport> {
    let rate = Rate::from_mbit(mbit);
    let discipline = queue.parse::<DisciplineSettings>().unwrap().discipline(Some(rate));
    let queue = QueueConfig { limit: QueueLimit::Bytes(mbit * 12_500), discipline };
    let link = LinkConfig { rate: Some(rate), delay: DELAY, queue_bytes: mbit * 12_500, ..LinkConfig::default() };
    let sizes = SizeMix::fixed(1000);
    let kind = CrossKind::Poisson { rate: Rate::from_f64(rate.as_f64() * cross_part), sizes };
    let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed };
    let cross = if cross_part > 0.0 { vec![cross] } else { Vec::new() };
    let path = |queue| {
        let hop = PathHop { link: link.clone(), queue, cross: cross.clone() };
        VirtualPath::new(&[hop], Stamping::default(), seed).unwrap()
    };
    let mut paths = VirtualPaths { up: path(Some(queue)), down: path(None), passes_udp: true };
    let session = Session {
        peer: "192.0.2.1:7272".into(),
        started: "2026-11-22T00:00:00.000Z".into(),
        round_trip: DELAY * 2,
        max_connections: 256,
        clocks: Clocks::default(),
        coalescing: None,
    };
    let plan = MeasurementPlan { path: true, queues: true, seed, ..MeasurementPlan::default() };
    let report = paths.measure(Measurement::new(plan, session), &mut |_| ()).unwrap().report;
    let path = report.path.unwrap();
    assert_ne!(path.down.queue_classes.map(|found| found.queues), Some(QueueCount::Several));
    let is_missing_rate = path.not_known.iter().any(|text| text.contains("the rate of the narrow link is not known"));
    assert_eq!(path.up.queue_classes.is_none(), is_missing_rate, "{:?}", path.not_known);
    path.up.queue_classes
}

#[test]
fn ect1_has_a_queue_of_its_own_behind_dualpi2_and_no_dscp_has() {
    for mbit in [5, 20, 100, 400] {
        for (cross, seed) in [(0.0, 1), (0.3, 2), (0.6, 3)] {
            let name = format!("{mbit} Mbit/s, cross traffic {cross}, seed {seed}");
            let found = queue_classes("dualpi2", mbit, cross, seed).unwrap();
            assert_eq!(found.queues, QueueCount::Several, "{name}: {found:?}");
            for class in &found.classes {
                match class.mark.as_str() {
                    "ECT(1)" => {
                        assert_eq!(class.queue, ClassQueue::WaitsLess, "{name}: {class:?}");
                        let served = class.served.unwrap();
                        assert!(served.packets > 3 * served.best_effort_packets, "{name}: {class:?}");
                    }
                    _ => assert_eq!(class.queue, ClassQueue::AsBestEffort, "{name}: {class:?}"),
                }
            }
        }
    }
}

#[test]
fn one_queue_or_one_for_each_flow_is_one_for_all_codepoints() {
    let mut not_sure = 0;
    for queue in ["tail-drop", "fq-codel", "pie", "red"] {
        for mbit in [5, 20, 100, 400] {
            for (cross, seed) in [(0.0, 1), (0.3, 2), (0.6, 3)] {
                let found = queue_classes(queue, mbit, cross, seed);
                let queues = found.as_ref().map(|found| found.queues);
                assert_ne!(queues, Some(QueueCount::Several), "{queue} {mbit} {cross} {seed}: {found:?}");
                println!("{queue} {mbit} {cross}: {queues:?}");
                not_sure += u32::from(queues != Some(QueueCount::One));
            }
        }
    }
    println!("{not_sure} of 48 not sure");
    assert!(not_sure <= 12, "{not_sure}");
}
