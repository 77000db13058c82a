//! Which packets have a queue of their own, for people.

use kumade_measurement::report::{
    ClassQueue, ClassQueueReport, PathReport, QueueClassesReport, QueueCount, ServedPackets,
};
use kumade_units::{Direction, Span};

/// In a cell of the table.
pub fn queues_cell(found: &QueueClassesReport) -> String {
    let names = |queue| with_queue(found, queue).map(|class| class.mark.as_str()).collect::<Vec<_>>().join(", ");
    match found.queues {
        QueueCount::One => format!("one (by {} codepoints)", found.classes.len()),
        QueueCount::NotSure => "not sure".to_owned(),
        QueueCount::Several => {
            let groups = [ClassQueue::WaitsLess, ClassQueue::WaitsLonger];
            let listed = groups.map(|queue| (queue, names(queue))).into_iter().filter(|(_, names)| !names.is_empty());
            listed.map(|(queue, names)| format!("{names}: {queue}")).collect::<Vec<_>>().join("; ")
        }
    }
}

/// How long those wait that have another queue than best effort, and what they get.
pub fn queue_sentences(path: &PathReport) -> Vec<String> {
    let directions = [(Direction::Up, &path.up), (Direction::Down, &path.down)];
    let sentences = directions.into_iter().flat_map(|(direction, found)| {
        let classes = found.queue_classes.iter().flat_map(|found| &found.classes);
        let others = classes.filter(|class| matches!(class.queue, ClassQueue::WaitsLess | ClassQueue::WaitsLonger));
        others.map(move |class| format!("{direction}: {}.", class_text(class)))
    });
    sentences.collect()
}

/// For who wants all details.
pub fn class_texts(found: &QueueClassesReport) -> String {
    found.classes.iter().map(class_text).collect::<Vec<_>>().join("; ")
}

fn with_queue(found: &QueueClassesReport, queue: ClassQueue) -> impl Iterator<Item = &ClassQueueReport> {
    found.classes.iter().filter(move |class| class.queue == queue)
}

fn class_text(class: &ClassQueueReport) -> String {
    let ClassQueueReport { mark, sent, arrived, queue, .. } = class;
    let span = |seconds: Option<f64>| seconds.map(Span::from_secs_f64);
    let waits = match (span(class.queueing_delay_seconds), span(class.best_effort_queueing_delay_seconds)) {
        (Some(own), Some(best_effort)) => format!("{mark} waits {own} where best effort waits {best_effort} ({queue}"),
        _ => format!("{mark}: {arrived} of {sent} arrived, while best effort hardly waited ({queue}"),
    };
    let served = class.served.map(|ServedPackets { packets, best_effort_packets }| {
        format!("; of {} packets that were served while both waited, {packets} had it", packets + best_effort_packets)
    });
    format!("{waits}{})", served.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(mark: &str, queue: ClassQueue, served: Option<ServedPackets>) -> ClassQueueReport {
        ClassQueueReport {
            mark: mark.to_owned(),
            sent: 24,
            arrived: 24,
            queue,
            queueing_delay_seconds: Some(0.0003),
            best_effort_queueing_delay_seconds: Some(0.042),
            served,
        }
    }

    #[test]
    fn those_with_another_queue_are_listed_with_what_they_wait_and_get() {
        let served = ServedPackets { packets: 148, best_effort_packets: 2 };
        let classes = vec![
            class("EF", ClassQueue::WaitsLess, Some(served)),
            class("LE", ClassQueue::WaitsLonger, None),
            class("AF41", ClassQueue::AsBestEffort, None),
        ];
        let mut found = QueueClassesReport { queues: QueueCount::Several, classes };
        assert_eq!(queues_cell(&found), "EF: another queue, waits less; LE: another queue, waits longer");
        assert_eq!(
            class_text(&found.classes[0]),
            "EF waits 300 µs where best effort waits 42 ms (another queue, waits less; of 150 packets that were served while both \
             waited, 148 had it)"
        );
        found.queues = QueueCount::One;
        assert_eq!(queues_cell(&found), "one (by 3 codepoints)");
    }
}
