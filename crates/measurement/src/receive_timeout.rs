//! How long a receiver waits for late packets of a train.

use train::{Train, TrainRecord};
use units::{Rate, Span};

/// Margin for queues that grow beyond what earlier trains have shown.
const JITTER: Span = Span::from_millis(50);
/// Margin before the first train.
const UNKNOWN: Span = Span::from_secs(1);
/// Maximum timeout.
const MAX: Span = Span::from_secs(4);

/// Adapts the timeout to the queueing delay of earlier trains, since every lost packet costs a full timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveTimeout {
    round_trip: Span,
    /// How much the delay grew within a train, with decay.
    growth: Option<Span>,
}

impl ReceiveTimeout {
    pub(crate) fn new(round_trip: Span) -> Self {
        ReceiveTimeout { round_trip, growth: None }
    }

    /// The timeout after the planned end of this train; `available` is the estimate so far.
    pub(crate) fn for_train(&self, train: &Train, available: Option<Rate>) -> Span {
        let margin = self.growth.map_or(UNKNOWN, |growth| JITTER + growth * 4);
        let queue = available.map_or(Span::ZERO, |rate| rate.time_for(train.bytes()) - train.duration());
        (self.round_trip + margin + queue.max(Span::ZERO) * 2).min(MAX)
    }

    /// Learns from the record of a train.
    pub(crate) fn learn(&mut self, record: &TrainRecord) {
        let mut both = record.packets.iter().filter_map(|p| Some((p.sent?, p.received?)));
        let Some((sent, received)) = both.next() else { return };
        let growth = both.map(|(s, r)| (r - received) - (s - sent)).max().unwrap_or(Span::ZERO);
        self.growth = Some(growth.max(self.growth.unwrap_or(Span::ZERO) / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::{PacketRecord, Segment};
    use units::Time;

    #[test]
    fn the_timeout_follows_what_the_path_has_shown() {
        let ms = Span::from_millis;
        let train =
            Train { segments: vec![Segment { count: 10, interval: Span::ZERO, first_size: 1250, size_step: 0 }] };
        let mut timeout = ReceiveTimeout::new(ms(20));
        assert_eq!(timeout.for_train(&train, None), ms(1020));
        let at = |millis: i64| Some(Time::from_nanos(millis * 1_000_000));
        let packet =
            |sent, received| PacketRecord { size: 1250, sent: at(sent), submitted: None, received: at(received) };
        timeout.learn(&TrainRecord { packets: vec![packet(0, 500), packet(10, 540)] });
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4 * 30));
        assert_eq!(timeout.for_train(&train, Some(Rate::from_mbit(1))), ms(20 + 50 + 4 * 30 + 2 * 100));
        timeout.learn(&TrainRecord { packets: vec![packet(0, 500), packet(10, 510)] });
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4 * 15), "not forgotten at once");
        assert_eq!(timeout.for_train(&train, Some(Rate::ZERO)), MAX);
        timeout.learn(&TrainRecord {
            packets: vec![PacketRecord { size: 1, sent: None, submitted: None, received: None }],
        });
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4 * 15), "nothing came, nothing learnt");
    }
}
