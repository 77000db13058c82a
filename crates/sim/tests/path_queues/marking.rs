//! Which packets the queue of the narrow link marks with CE, and from which queueing delay on, as a full measurement finds it, for queue
//! disciplines whose parameters are known.

use super::measured;
use kumade_measurement::MeasurementPlan;
use kumade_measurement::report::{
    CodepointMarkingReport, LastingQueueKind, LastingQueueReport, QueueMarkingKind, QueueMarkingReport,
};
use kumade_units::Span;

const MBIT: [u64; 4] = [5, 20, 100, 500];

/// What the report says of the way up through this queue, of a second of room, beside cross traffic of this part of the rate.
fn marking(queue: &str, mbit: u64, cross_part: f64, seed: u64) -> Option<QueueMarkingReport> {
    let plan = MeasurementPlan { path: true, seed, ..MeasurementPlan::default() };
    let path = measured(queue, mbit, Span::from_secs(1), cross_part, plan);
    assert_eq!(
        path.down.queue_marking.map(|found| found.kind),
        Some(QueueMarkingKind::NoneSeen),
        "{:?}",
        path.not_known
    );
    path.up.queue_marking
}

fn codepoint<'r>(report: &'r QueueMarkingReport, mark: &str) -> &'r CodepointMarkingReport {
    report.codepoints.iter().find(|found| found.mark == mark).unwrap()
}

/// Each case, by its name, with the time in milliseconds that the link takes for two packets of the cross traffic.
fn for_each_case(queue: &str, mut check: impl FnMut(&str, &QueueMarkingReport, f64)) {
    let mut unknown = 0;
    for mbit in MBIT {
        for (cross, seed) in [(0.0, 1), (0.3, 2), (0.6, 3), (0.6, 4)] {
            let name = format!("{queue}, {mbit} Mbit/s, cross traffic {cross}, seed {seed}");
            let found = marking(queue, mbit, cross, seed).unwrap_or_else(|| panic!("{name}"));
            // Where cross traffic keeps a queue on a slow link, hardly a packet is below the threshold.
            match found.kind == QueueMarkingKind::NotSure && mbit == 5 && cross > 0.0 {
                true => unknown += 1,
                false => check(&name, &found, 16.0 / mbit as f64),
            }
        }
    }
    assert!(unknown <= 3, "{queue}: {unknown}");
}

/// The interval has the threshold, in milliseconds, and is no wider than this.
fn assert_threshold(name: &str, found: &CodepointMarkingReport, threshold: f64, max_width: f64) {
    let from = found.marked_from.unwrap_or_else(|| panic!("{name}: {found:?}"));
    let [low, high] = [from.low_seconds, from.high_seconds].map(|seconds| seconds * 1e3);
    assert!(low <= threshold && threshold <= high && high - low <= max_width, "{name}: {found:?}");
}

#[test]
fn a_threshold_is_found_for_all_of_ect_or_for_l4s_alone() {
    for_each_case("ce-threshold:threshold=1500us", |name, found, resolution| {
        assert_eq!(found.kind, QueueMarkingKind::Shallow, "{name}: {found:?}");
        for mark in ["ECT(0)", "ECT(1)"] {
            assert_threshold(name, codepoint(found, mark), 1.5, 1.4 + resolution);
        }
        assert_eq!(codepoint(found, "Not-ECT").marked, 0);
    });
    for_each_case("ce-threshold:threshold=1ms:l4s=on", |name, found, resolution| {
        assert_eq!(found.kind, QueueMarkingKind::L4s, "{name}: {found:?}");
        assert_threshold(name, codepoint(found, "ECT(1)"), 1.0, 1.4 + resolution);
    });
}

#[test]
fn the_step_of_dualpi2_is_l4s() {
    for_each_case("dualpi2", |name, found, resolution| {
        assert_eq!(found.kind, QueueMarkingKind::L4s, "{name}: {found:?}");
        assert_threshold(name, codepoint(found, "ECT(1)"), 1.0, 1.4 + resolution);
    });
}

#[test]
fn classic_queues_mark_what_waits_for_longer_than_trains_last() {
    let mut not_sure = 0;
    for queue in ["codel:ecn=on", "fq-codel", "pie:ecn=on", "tail-drop"] {
        for_each_case(queue, |name, found, _| {
            // One or two packets of those that last longest.
            let is_any_marked = found.codepoints.iter().any(|found| found.marked > 0);
            let expected = if is_any_marked { QueueMarkingKind::NotSure } else { QueueMarkingKind::NoneSeen };
            assert_eq!(found.kind, expected, "{name}: {found:?}");
            not_sure += u32::from(is_any_marked);
            let reached = codepoint(found, "ECT(0)").max_queueing_delay_seconds.unwrap();
            assert!((0.001..0.1).contains(&reached), "{name}: {reached}");
        });
    }
    assert!(not_sure <= 6, "{not_sure} of 64");
}

/// What the report says of packets that wait for long in this queue on the way up.
fn lasting(queue: &str, mbit: u64, cross_part: f64, seed: u64) -> Option<LastingQueueReport> {
    let load = Some(Span::from_secs(1));
    let plan = MeasurementPlan { path: true, load, seed, ..MeasurementPlan::default() };
    let path = measured(queue, mbit, Span::from_secs(1), cross_part, plan);
    assert_ne!(path.down.lasting_queue.map(|found| found.kind), Some(LastingQueueKind::Marked), "tail drop");
    path.up.lasting_queue
}

const CASES: [(f64, u64); 4] = [(0.0, 1), (0.3, 2), (0.6, 3), (0.6, 4)];

#[test]
fn classic_aqms_mark_what_waits_for_long() {
    let mut not_sure = 0;
    for queue in ["codel:ecn=on", "fq-codel", "pie:ecn=on", "red:ecn=on"] {
        for (mbit, (cross, seed)) in [2, 5, 20, 100].into_iter().flat_map(|mbit| CASES.map(|case| (mbit, case))) {
            let found = lasting(queue, mbit, cross, seed);
            println!("{queue}, {mbit} Mbit/s, cross traffic {cross}, seed {seed}: {found:?}");
            let kind = found.as_ref().map(|found| found.kind);
            assert_ne!(kind, Some(LastingQueueKind::NotMarked), "{queue} {mbit} {cross} {seed}");
            not_sure += u32::from(kind != Some(LastingQueueKind::Marked));
        }
    }
    println!("{not_sure} of 64 not sure");
    // Four are RED's at 20 Mbit/s, whose average the trains before have raised: it marks packets that find no queue, which others might.
    assert!(not_sure <= 12, "{not_sure}");
}

#[test]
fn queues_without_ecn_mark_nothing_that_waits_for_long() {
    let mut not_sure = 0;
    for queue in ["tail-drop", "codel", "pie"] {
        for (mbit, (cross, seed)) in [2, 5, 20, 100].into_iter().flat_map(|mbit| CASES.map(|case| (mbit, case))) {
            let found = lasting(queue, mbit, cross, seed);
            println!("{queue}, {mbit} Mbit/s, cross traffic {cross}, seed {seed}: {found:?}");
            let kind = found.as_ref().map(|found| found.kind);
            assert_ne!(kind, Some(LastingQueueKind::Marked), "{queue} {mbit} {cross} {seed}");
            not_sure += u32::from(kind != Some(LastingQueueKind::NotMarked));
        }
    }
    println!("{not_sure} of 48 not sure");
    assert!(not_sure <= 8, "{not_sure}");
}
