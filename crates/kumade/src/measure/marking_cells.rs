//! What the queue of the narrow link does to marks, for people.

use kumade_measurement::report::{
    CodepointMarkingReport, LastingQueueKind, LastingQueueReport, QueueMarkingKind, QueueMarkingReport,
};
use kumade_units::Span;

/// In a cell of the table.
pub fn marking_cell(found: &QueueMarkingReport) -> String {
    match found.kind {
        QueueMarkingKind::NoQueue => "none (no queue built up)".to_owned(),
        QueueMarkingKind::NoneSeen => format!("none{}", reached(shortest_delay(found))),
        kind => {
            let marked: Vec<_> = found.codepoints.iter().filter(|found| found.marked > 0).map(codepoint_cell).collect();
            format!("{kind}: {}", marked.join("; "))
        }
    }
}

/// Of a queue that lasts, in a cell of the table.
pub fn lasting_queue_cell(found: &LastingQueueReport) -> String {
    let [lasted, median] = [Some(found.duration_seconds), found.median_queueing_delay_seconds]
        .map(|seconds| seconds.map_or_else(|| "0".to_owned(), |seconds| Span::from_secs_f64(seconds).to_string()));
    let LastingQueueReport { mark, arrived, marked, .. } = found;
    match (found.kind, found.first_mark) {
        (LastingQueueKind::Marked, Some(first)) => {
            let [after, delay] = [first.after_seconds, first.queueing_delay_seconds].map(Span::from_secs_f64);
            format!("{mark}: {marked} of {arrived}, the first after {after}, which waited {delay}")
        }
        (LastingQueueKind::NotMarked, _) => format!("none in {lasted} of {median} in the queue"),
        (LastingQueueKind::NotSure, _) if found.marked_without_queue > 0 => {
            format!("not sure (CE on {} packets that did not wait)", found.marked_without_queue)
        }
        (LastingQueueKind::NotSure, _) | (LastingQueueKind::Marked, None) => {
            format!("not sure ({marked} of {arrived}; the queue lasted {lasted}, of {median})")
        }
    }
}

/// For who wants all details.
pub fn marking_text(found: &QueueMarkingReport) -> String {
    let parts: Vec<_> = found.codepoints.iter().map(codepoint_text).collect();
    format!("{}: {}", found.kind, parts.join("; "))
}

fn codepoint_cell(found: &CodepointMarkingReport) -> String {
    let CodepointMarkingReport { mark, arrived, marked, .. } = found;
    match found.marked_from {
        Some(from) => {
            let [low, high] = [from.low_seconds, from.high_seconds].map(Span::from_secs_f64);
            format!("{mark} from {low} … {high} on")
        }
        None => format!("{mark} at no known delay ({marked} of {arrived})"),
    }
}

fn codepoint_text(found: &CodepointMarkingReport) -> String {
    match found.marked_from {
        Some(from) => format!("{} ({} of {} above)", codepoint_cell(found), from.marked_above, from.packets_above),
        None if found.marked == 0 => format!("{} none{}", found.mark, reached(found.max_queueing_delay_seconds)),
        None => codepoint_cell(found),
    }
}

fn shortest_delay(found: &QueueMarkingReport) -> Option<f64> {
    found.codepoints.iter().filter_map(|codepoint| codepoint.max_queueing_delay_seconds).reduce(f64::min)
}

fn reached(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!(" up to {} in the queue", Span::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_measurement::report::FirstMarkReport;
    use kumade_measurement::report::MarkingThresholdReport;

    #[test]
    fn what_is_marked_is_told_with_its_delay_and_what_is_not_with_how_far_it_came() {
        let codepoint = |mark: &str, marked_from: Option<MarkingThresholdReport>| CodepointMarkingReport {
            mark: mark.to_owned(),
            sent: 228,
            arrived: 228,
            marked: marked_from.map_or(0, |from| from.marked_above),
            max_queueing_delay_seconds: Some(0.04),
            marked_from,
        };
        let from = MarkingThresholdReport {
            low_seconds: 0.0008,
            high_seconds: 0.0012,
            is_gradual: false,
            packets_above: 200,
            marked_above: 199,
        };
        let codepoints = vec![codepoint("ECT(1)", Some(from)), codepoint("ECT(0)", None)];
        let mut found = QueueMarkingReport { kind: QueueMarkingKind::L4s, codepoints };
        assert_eq!(marking_cell(&found), "L4S: ECT(1) from 800 µs … 1.2 ms on");
        assert_eq!(
            marking_text(&found),
            "L4S: ECT(1) from 800 µs … 1.2 ms on (199 of 200 above); ECT(0) none up to 40 ms in the queue"
        );
        found = QueueMarkingReport { kind: QueueMarkingKind::NoneSeen, codepoints: vec![codepoint("ECT(0)", None)] };
        assert_eq!(marking_cell(&found), "none up to 40 ms in the queue");
    }

    #[test]
    fn what_a_lasting_queue_does_is_said_with_when_it_begins() {
        let found = LastingQueueReport {
            kind: LastingQueueKind::Marked,
            mark: "ECT(0)".to_owned(),
            sent: 900,
            arrived: 899,
            marked: 12,
            marked_without_queue: 0,
            duration_seconds: 0.95,
            median_queueing_delay_seconds: Some(0.05),
            first_mark: Some(FirstMarkReport { after_seconds: 0.101, queueing_delay_seconds: 0.042 }),
        };
        assert_eq!(lasting_queue_cell(&found), "ECT(0): 12 of 899, the first after 101 ms, which waited 42 ms");
        let none =
            LastingQueueReport { kind: LastingQueueKind::NotMarked, marked: 0, first_mark: None, ..found.clone() };
        assert_eq!(lasting_queue_cell(&none), "none in 950 ms of 50 ms in the queue");
        let unsure =
            LastingQueueReport { kind: LastingQueueKind::NotSure, median_queueing_delay_seconds: None, ..none };
        assert_eq!(lasting_queue_cell(&unsure), "not sure (0 of 899; the queue lasted 950 ms, of 0)");
        let others = LastingQueueReport { marked_without_queue: 3, ..unsure };
        assert_eq!(lasting_queue_cell(&others), "not sure (CE on 3 packets that did not wait)");
    }
}
