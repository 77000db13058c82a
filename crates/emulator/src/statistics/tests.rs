use super::*;
use proptest::prelude::*;

const MS: Span = Span::from_millis(1);

fn delays(queueing: Span, lateness: Span) -> Delays {
    Delays { queueing, sojourn: queueing + MS * 10, lateness }
}

fn count(packets: u64, bytes: u64) -> TrafficCount {
    TrafficCount { packets, bytes }
}

#[test]
fn a_snapshot_holds_what_was_told_and_the_difference_what_came_after() {
    let mut recorder = Recorder::new();
    assert!(recorder.record_offered(7, 1000), "a new flow");
    recorder.record_delivered(7, 1000, delays(MS, Span::ZERO));
    let first = recorder.snapshot();
    for _ in 0..3 {
        assert!(!recorder.record_offered(7, 500));
    }
    recorder.record_delivered(7, 500, delays(MS * 20, MS));
    recorder.record_marked(7, 500);
    recorder.record_dropped(7, 500, kumade_link::DropCause::QueueFull);
    recorder.record_dropped(7, 500, DropCause::FilteredByRule);
    recorder.set_queued_bytes(77);
    let now = recorder.snapshot();
    let counts = now.counts;
    assert_eq!((counts.offered, counts.delivered, counts.marked), (count(4, 2500), count(2, 1500), count(1, 500)));
    assert_eq!((counts.dropped_for(DropCause::QueueFull), counts.total_dropped()), (count(1, 500), count(2, 1000)));
    let since = now.delta_since(&first);
    let counts = since.counts;
    assert_eq!((counts.offered, counts.delivered, counts.queued_bytes), (count(3, 1500), count(1, 500), 77));
    assert_eq!(since.flows[0].offered, count(3, 1500));
    assert_eq!(since.flows[0].dropped, count(2, 1000));
    assert_eq!((since.sojourn.count(), since.lateness.count_up_to(MS * 2)), (1, 1));
    for (times, expected) in [(since.queueing, MS * 20), (since.sojourn, MS * 30)] {
        let median = times.quantile(0.5).unwrap();
        assert!((median - expected).as_nanos().abs() < 300_000, "{median}");
    }
}

#[test]
fn nothing_yet_has_no_percentiles_and_no_index() {
    let empty = Recorder::new().snapshot();
    assert_eq!((empty.sojourn.quantile(0.5), empty.lateness.mean()), (None, None));
    assert_eq!(fairness_index(&empty.flows), None);
}

#[test]
fn the_index_is_that_of_the_flows_that_send() {
    let flow = |packets, bytes| FlowStatistics {
        offered: count(packets, bytes),
        delivered: count(packets, bytes),
        ..FlowStatistics::default()
    };
    assert_eq!(fairness_index(&[flow(10, 1000), flow(10, 1000), flow(1, 40)]), Some((1.0, 2)));
    let starved = FlowStatistics { offered: count(10, 100), ..FlowStatistics::default() };
    assert_eq!(fairness_index(&[flow(10, 1000), starved]), Some((0.5, 2)));
}

#[test]
fn flows_that_take_turns_are_fair_on_the_average() {
    let mut recorder = Recorder::new();
    let (mut mean, mut before) = (MeanFairness::default(), recorder.snapshot());
    assert_eq!(mean.mean(), None);
    for flow in [1, 2, 2] {
        for _ in 0..20 {
            recorder.record_offered(flow, 100);
            recorder.record_delivered(flow, 100, delays(MS, Span::ZERO));
        }
        let now = recorder.snapshot();
        mean.add_interval(&now.delta_since(&before).flows, MS);
        before = now;
    }
    mean.add_interval(&[], MS * 1000);
    assert_eq!(mean.mean(), Some(1.0));
    assert!(fairness_index(&before.flows).unwrap().0 < 0.91);
}

#[test]
fn heavy_flows_are_kept_through_a_flood_of_flows_with_one_packet() {
    let mut recorder = Recorder::new();
    for packet in 0..200_000u64 {
        recorder.record_offered(packet % 20, 1000);
        recorder.record_offered(1_000_000 + packet, 100);
    }
    let snapshot = recorder.snapshot();
    assert!(snapshot.flows.len() <= 1024);
    for flow in 0..20 {
        let found = snapshot.flows.iter().find(|found| found.flow == flow).unwrap();
        assert_eq!(found.offered, count(10_000, 10_000_000), "flow {flow}");
    }
}

#[test]
fn who_has_fallen_silent_makes_room() {
    let mut recorder = Recorder::new();
    for flow in 0..10_000 {
        recorder.record_offered(flow, u32::MAX);
    }
    for _ in 0..3000 {
        for flow in 20_000..20_100 {
            recorder.record_offered(flow, 1000);
        }
    }
    let snapshot = recorder.snapshot();
    let present = snapshot.flows.iter().filter(|flow| (20_000..20_100).contains(&flow.flow)).count();
    assert_eq!(present, 100);
}

proptest! {
    #[test]
    fn flows_never_have_more_than_the_totals(packets in prop::collection::vec((0u64..5000, 0u32..3000, 0..3), 0..3000)) {
        let mut recorder = Recorder::new();
        let mut middle = recorder.snapshot();
        for (index, (flow, size, fate)) in packets.iter().enumerate() {
            recorder.record_offered(*flow, *size);
            match fate {
                0 => recorder.record_delivered(*flow, *size, delays(Span::from_nanos(i64::from(*size) - 1000), Span::MAX)),
                1 => recorder.record_dropped(*flow, *size, DropCause::Aqm),
                _ => {}
            }
            if index == packets.len() / 2 {
                middle = recorder.snapshot();
            }
        }
        let last = recorder.snapshot();
        for statistics in [&middle, &last, &last.delta_since(&middle)] {
            let sum = |of: fn(&FlowStatistics) -> TrafficCount| {
                statistics.flows.iter().fold(TrafficCount::default(), |sum, flow| sum_counts(sum, of(flow)))
            };
            for (flows, total) in [
                (sum(|flow| flow.offered), statistics.counts.offered),
                (sum(|flow| flow.delivered), statistics.counts.delivered),
                (sum(|flow| flow.dropped), statistics.counts.total_dropped()),
            ] {
                prop_assert!(flows.packets <= total.packets && flows.bytes <= total.bytes);
            }
            prop_assert_eq!(statistics.sojourn.count(), statistics.counts.delivered.packets);
            if let Some((index, active)) = fairness_index(&statistics.flows) {
                prop_assert!(index <= 1.0 + 1e-9 && index * active as f64 >= 1.0 - 1e-9);
            }
        }
    }
}
