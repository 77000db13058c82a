//! How long a receiver waits for late packets of a train.

use kumade_probe_train::{Train, TrainRecord};
use kumade_units::{Rate, Span};

/// Margin for queues that grow beyond what earlier trains have shown.
const JITTER_ALLOWANCE: Span = Span::from_millis(50);
/// Margin before the first train.
const INITIAL_TIMEOUT: Span = Span::from_secs(1);
/// Maximum timeout.
const MAX_TIMEOUT: Span = Span::from_secs(4);

/// Adapts the timeout to the queueing delay of earlier trains, since every lost packet costs a full timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveTimeout {
    round_trip: Span,
    /// How much longer than the least the delay of any packet was, with decay; none where nothing is known.
    delay_growth: Option<Span>,
}

impl ReceiveTimeout {
    pub(crate) fn new(round_trip: Span) -> Self {
        ReceiveTimeout { round_trip, delay_growth: None }
    }

    /// The timeout after the planned end of this train; `available` is the estimate so far.
    pub(crate) fn for_train(&self, train: &Train, available: Option<Rate>) -> Span {
        let margin = self.delay_growth.map_or(INITIAL_TIMEOUT, |growth| JITTER_ALLOWANCE + growth * 4);
        let queue = available.map_or(Span::ZERO, |rate| rate.time_for(train.bytes()) - train.duration());
        (self.round_trip + margin + queue.max(Span::ZERO) * 2).min(MAX_TIMEOUT)
    }

    /// Learns from the record of a train, where `least` is the least difference of receive and send stamps that is known besides. Nothing is
    /// known any more where nothing of it came: it may have been late.
    pub(crate) fn record_delays(&mut self, record: &TrainRecord, least: Option<Span>) {
        let delays = || record.packets.iter().filter_map(|p| Some(p.received? - p.sent?));
        let least = delays().chain(least).min();
        match delays().max().zip(least) {
            Some((most, least)) => {
                self.delay_growth = Some((most - least).max(self.delay_growth.unwrap_or(Span::ZERO) / 2));
            }
            None if record.packets.iter().any(|packet| packet.sent.is_some()) => self.delay_growth = None,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::{PacketRecord, Segment};
    use kumade_units::Time;

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
        timeout.record_delays(&TrainRecord { packets: vec![packet(0, 500), packet(10, 540)] }, None);
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4 * 30));
        assert_eq!(timeout.for_train(&train, Some(Rate::from_mbit(1))), ms(20 + 50 + 4 * 30 + 2 * 100));
        timeout.record_delays(&TrainRecord { packets: vec![packet(0, 500), packet(10, 510)] }, None);
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4 * 15), "not forgotten at once");
        assert_eq!(timeout.for_train(&train, Some(Rate::ZERO)), MAX_TIMEOUT);
        let unsent = PacketRecord { size: 1, sent: None, submitted: None, received: None };
        timeout.record_delays(&TrainRecord { packets: vec![unsent] }, None);
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4 * 15), "nothing was sent, nothing learnt");
    }

    /// Beside TCP connections that fill a queue between two trains, all further trains came after the timeout, and none was ever read.
    #[test]
    fn a_queue_that_grew_before_a_train_is_waited_for() {
        let ms = Span::from_millis;
        let train =
            Train { segments: vec![Segment { count: 2, interval: Span::ZERO, first_size: 1250, size_step: 0 }] };
        let mut timeout = ReceiveTimeout::new(ms(20));
        let at = |millis: i64| Some(Time::from_nanos(millis * 1_000_000));
        let packet = |received| PacketRecord { size: 1250, sent: at(0), submitted: None, received };
        timeout.record_delays(&TrainRecord { packets: vec![packet(at(500)), packet(at(501))] }, Some(ms(500)));
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4));
        timeout.record_delays(&TrainRecord { packets: vec![packet(None), packet(None)] }, Some(ms(500)));
        assert_eq!(timeout.for_train(&train, None), ms(1020));
        timeout.record_delays(&TrainRecord { packets: vec![packet(at(670)), packet(at(671))] }, Some(ms(500)));
        assert_eq!(timeout.for_train(&train, None), ms(20 + 50 + 4 * 171));
    }
}
