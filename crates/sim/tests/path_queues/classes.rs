//! Whether the narrow link has queues of its own for ECT(1), as a full measurement finds it. Queue disciplines that look at DSCPs are the
//! kernel's: `crates/kumade/tests/queue_classes.rs`.

use super::measured;
use kumade_measurement::MeasurementPlan;
use kumade_measurement::report::{ClassQueue, QueueClassesReport, QueueCount};
use kumade_units::Span;

/// Of the way up through this queue of 100 ms of room, beside cross traffic of this part of the rate.
fn queue_classes(queue: &str, mbit: u64, cross_part: f64, seed: u64) -> Option<QueueClassesReport> {
    let plan = MeasurementPlan { path: true, queues: true, seed, ..MeasurementPlan::default() };
    let path = measured(queue, mbit, Span::from_millis(100), cross_part, plan);
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
