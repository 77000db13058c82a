use crate::accuracy::row::TimelinePacket;
use kumade_measurement::Event;
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::{Train, TrainRecord};
use kumade_units::{Direction, Time};

/// What a measurement reports of itself while it runs. Sender and receiver read the same machine's clock here, so that
/// their stamps, and the link's, can be compared.
#[derive(Debug)]
pub(crate) struct ObservedTrains {
    direction: Direction,
    observed_interval: Option<(Time, Time)>,
    /// None where it is not asked for.
    first_train: Option<Vec<TimelinePacket>>,
}

impl ObservedTrains {
    /// Nothing seen yet of trains of this direction; `timeline` asks for the first one's packets.
    pub(crate) fn new(timeline: bool, direction: Direction) -> Self {
        ObservedTrains { direction, observed_interval: None, first_train: timeline.then(Vec::new) }
    }

    /// Takes note of a train.
    pub(crate) fn record_event(&mut self, event: &Event) {
        match event {
            Event::Train { direction, train, record, .. } if *direction == self.direction => {
                self.record_train(train, record);
            }
            _ => {}
        }
    }

    /// What the value of this report is an average over: its `window_seconds` from `window_start_seconds` after the first packet of the method's
    /// trains on. Where it has none, from that packet to the last one received of these trains. None without time stamps.
    pub(crate) fn truth_window(&self, report: Option<&DirectionReport>) -> Option<(Time, Time)> {
        let (from, last) = self.observed_interval?;
        let (from, to) = report.and_then(|report| report.value_window(from)).unwrap_or((from, last));
        (to > from).then_some((from, to))
    }

    /// The packets of the first train; empty where they were not asked for.
    pub(crate) fn timeline(self) -> Vec<TimelinePacket> {
        self.first_train.unwrap_or_default()
    }

    fn record_train(&mut self, train: &Train, record: &TrainRecord) {
        for time in record.packets.iter().flat_map(|packet| [packet.sent, packet.received]).flatten() {
            let (from, to) = self.observed_interval.unwrap_or((time, time));
            self.observed_interval = Some((from.min(time), to.max(time)));
        }
        if let Some(first) = self.first_train.as_mut().filter(|packets| packets.is_empty()) {
            *first = train_timeline(train, record);
        }
    }
}

fn train_timeline(train: &Train, record: &TrainRecord) -> Vec<TimelinePacket> {
    let start = record.packets.iter().find_map(|packet| packet.sent);
    let since_start = |time: Option<Time>| Some((time? - start?).as_secs_f64());
    let packets = train.packets().zip(&record.packets).map(|(planned, packet)| TimelinePacket {
        size_bytes: packet.size,
        planned_seconds: planned.offset.as_secs_f64(),
        sent_seconds: since_start(packet.sent),
        received_seconds: since_start(packet.received),
    });
    packets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_estimate::{Outcome, Reason};
    use kumade_measurement::Cost;
    use kumade_probe_train::{PacketRecord, Segment, Transport};
    use kumade_units::Span;

    fn train() -> Train {
        Train { segments: vec![Segment { count: 3, interval: Span::from_millis(1), first_size: 100, size_step: 0 }] }
    }

    /// Sent and received in milliseconds.
    fn record(packets: [(Option<i64>, Option<i64>); 3]) -> TrainRecord {
        let at = |ms: Option<i64>| ms.map(|ms| Time::ZERO + Span::from_millis(ms));
        let packet =
            |(sent, received)| PacketRecord { size: 100, sent: at(sent), submitted: None, received: at(received) };
        TrainRecord { packets: packets.map(packet).to_vec() }
    }

    #[test]
    fn the_window_is_that_of_the_report_or_of_all_trains_of_the_method() {
        let mut observed = ObservedTrains::new(false, Direction::Up);
        assert_eq!(observed.truth_window(None), None);
        observed.record_train(&train(), &record([(Some(1000), Some(1010)), (Some(1001), None), (None, Some(1012))]));
        observed.record_train(&train(), &record([(Some(1100), Some(1110)), (Some(1101), Some(1111)), (None, None)]));
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let (outcome, cost) = (Outcome::without_value(Reason::Other("none".into())), Cost::default());
        let report = DirectionReport::new(Transport::Udp, 0, "primed", outcome, None, &cost);
        assert_eq!(observed.truth_window(None), Some((at(1000), at(1111))));
        assert_eq!(observed.truth_window(Some(&report)), Some((at(1000), at(1111))));
        let other = DirectionReport { window_start_seconds: Some(0.1), window_seconds: Some(1.5), ..report };
        assert_eq!(observed.truth_window(Some(&other)), Some((at(1100), at(2600))));
        assert!(observed.timeline().is_empty());
    }

    #[test]
    fn the_timeline_is_the_first_trains_and_counts_from_its_first_departure() {
        let mut observed = ObservedTrains::new(true, Direction::Up);
        observed
            .record_train(&train(), &record([(Some(1000), Some(1010)), (Some(1041), Some(1051)), (Some(1042), None)]));
        observed.record_train(&train(), &record([(None, None), (None, None), (None, None)]));
        let micros = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1e6).round());
        let times: Vec<_> = observed
            .timeline()
            .iter()
            .map(|p| (micros(Some(p.planned_seconds)), micros(p.sent_seconds), micros(p.received_seconds)))
            .collect();
        let at = |ms: i32| Some(f64::from(ms) * 1e3);
        assert_eq!(times, [(at(0), at(0), at(10)), (at(1), at(41), at(51)), (at(2), at(42), None)]);
    }
}
