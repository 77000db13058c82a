//! One-way delay and loss by the packet trains' own transport: short trains each way on the idle path, then the method's
//! trains.

use crate::client::peer::Peer;
use crate::client::{Direction, Error};
use crate::clocks::Known;
use crate::report::{DelayFigures, DelayReport, PacketReport};
use crate::stamp::fill_in;
use estimate::delay::{Crossing, Deliveries, Way};
use train::ClockError;
use train::{Segment, Train, TrainRecord};
use units::Span;
use wire::{ClientMessage, ServerMessage, TransportKind};

/// Packets of one idle train.
const PACKETS: u32 = 8;
/// Between two of them, at least …
const SHORTEST_INTERVAL: Span = Span::from_millis(3);
/// … and at most: at 100 kbit/s a packet takes 5 ms, and those must not queue behind each other.
const LONGEST_INTERVAL: Span = Span::from_millis(8);
/// What the idle trains may take, roughly; at least one goes each way.
const IDLE: Span = Span::from_millis(400);
/// More trains than this each way tell no more.
const MOST_ROUNDS: i64 = 4;
/// Packets that are kept in mind.
const MOST_CROSSINGS: usize = 200_000;
/// The server's answer about its clock.
const ANSWER: Span = Span::from_secs(3);

/// What the trains of a measurement have shown of delay and loss.
pub(super) struct Delays {
    /// In the order in which they were sent.
    crossings: Vec<Crossing>,
    /// How many of them are of idle trains.
    idle: usize,
    /// What became of the packets of idle trains, and of the others.
    idle_packets: BothWays,
    loaded_packets: BothWays,
    known: Known,
}

/// Up and down.
#[derive(Debug, Clone, Copy, Default)]
struct BothWays {
    up: Deliveries,
    down: Deliveries,
}

impl Delays {
    /// How long after a round trip the last packet of an idle train is waited for.
    pub(super) const IDLE_GRACE: Span = Span::from_millis(200);
    /// No further idle trains are sent after this.
    pub(super) const ENOUGH: Span = Span::from_millis(400);

    /// Asks the server what is known of its clock.
    pub(super) fn begin(peer: &mut Peer, mut known: Known) -> Result<Self, Error> {
        let doing = "asking for the server's clock";
        match peer.ask(&ClientMessage::AskClock, ANSWER, doing)? {
            ServerMessage::Clock { maximum_error } => known.far = maximum_error.map(ClockError::within),
            _ => return Err(peer.confused(doing)),
        }
        let nothing = BothWays::default();
        Ok(Delays { crossings: Vec::new(), idle: 0, idle_packets: nothing, loaded_packets: nothing, known })
    }

    /// A small train, as it should find the path idle. Where the round trip is short, no link is slow.
    pub(super) fn idle_train(round_trip: Span) -> Train {
        let interval = (round_trip / 2).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        // The smallest packets that every transport can send.
        Train { segments: vec![Segment { count: PACKETS, interval, first_size: 64, size_step: 0 }] }
    }

    /// How many idle trains go each way, so that it does not take long on a long path.
    pub(super) fn idle_rounds(round_trip: Span) -> u32 {
        let one = (Self::idle_train(round_trip).duration() + round_trip) * 2;
        (IDLE.as_nanos() / one.as_nanos().max(1)).clamp(1, MOST_ROUNDS) as u32
    }

    /// Takes in what became of an idle train; whether any of it arrived.
    pub(super) fn record_idle(&mut self, direction: Direction, record: &TrainRecord) -> bool {
        self.idle_packets.count(direction, record);
        self.cross(direction, record);
        let came = self.crossings.len() > self.idle;
        self.idle = self.crossings.len();
        came
    }

    /// Takes in what became of a method's train.
    pub(super) fn record(&mut self, direction: Direction, record: &TrainRecord) {
        self.loaded_packets.count(direction, record);
        self.cross(direction, record);
    }

    fn cross(&mut self, direction: Direction, record: &TrainRecord) {
        let way = match direction {
            Direction::Up => Way::Forward,
            Direction::Down => Way::Backward,
        };
        let room = MOST_CROSSINGS.saturating_sub(self.crossings.len());
        let arrived = record.packets.iter().filter_map(|packet| Some((packet.sent?, packet.received?)));
        self.crossings.extend(arrived.map(|(sent, received)| Crossing { way, sent, received }).take(room));
    }

    /// What they came to.
    pub(super) fn report(self, transport: TransportKind) -> DelayReport {
        let mut report = DelayReport::new("trains");
        if transport == TransportKind::Udp {
            self.report_packets(&mut report);
        }
        let idle = self.idle;
        let Some(model) = fill_in(&mut report, &self.crossings, self.known, |place| place < idle) else {
            return report;
        };
        report.up_loaded = DelayFigures::of(&model, Way::Forward, |place| place >= idle);
        report.down_loaded = DelayFigures::of(&model, Way::Backward, |place| place >= idle);
        if transport != TransportKind::Udp {
            report.warnings.push("delays were measured over TCP connections: they include what TCP does".into());
        }
        report
    }

    /// TCP sends lost packets again: what is lost does not show.
    fn report_packets(&self, report: &mut DelayReport) {
        let told = |counts: Deliveries| (counts.sent > 0).then(|| PacketReport::of_trains(counts));
        report.up_packets = told(self.idle_packets.up);
        report.down_packets = told(self.idle_packets.down);
        report.up_loaded_packets = told(self.loaded_packets.up);
        report.down_loaded_packets = told(self.loaded_packets.down);
    }
}

impl BothWays {
    /// Counts the packets that are known to have left.
    fn count(&mut self, direction: Direction, record: &TrainRecord) {
        let left = record.packets.iter().filter(|packet| packet.sent.is_some());
        let mut arrivals: Vec<_> =
            left.clone().zip(0u32..).filter_map(|(packet, number)| Some((packet.received?, number))).collect();
        arrivals.sort_unstable();
        let train = Deliveries::of(left.count() as u32, arrivals.into_iter().map(|(_, number)| (number, false)));
        match direction {
            Direction::Up => self.up.add(train),
            Direction::Down => self.down.add(train),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::PacketRecord;
    use units::{Rate, Time};

    #[test]
    fn idle_packets_do_not_queue_behind_each_other_and_take_little_time() {
        // A ping is a packet of 64 bytes or so each way.
        let packet = Rate::from_bits_per_second(100_000).time_for(64);
        for round_trip in [packet * 2, Span::from_millis(30), Span::from_millis(600)] {
            assert!(Delays::idle_train(round_trip).segments[0].interval >= packet, "{round_trip}");
        }
        for millis in [0, 1, 20, 100] {
            let round_trip = Span::from_millis(millis);
            let all =
                (Delays::idle_train(round_trip).duration() + round_trip) * 2 * Delays::idle_rounds(round_trip).into();
            assert!(all <= IDLE, "{round_trip}: {all}");
        }
        assert_eq!(Delays::idle_rounds(Span::from_millis(600)), 1);
    }

    #[test]
    fn packets_that_left_are_counted_by_what_became_of_them() {
        let at = |nanos: Option<i64>| nanos.map(Time::from_nanos);
        let packet = |(sent, received)| PacketRecord { size: 64, sent: at(sent), received: at(received) };
        let packets = [
            (Some(1), Some(11)),
            (None, None),
            (Some(3), Some(15)),
            (Some(4), Some(14)),
            (Some(5), None),
            (None, Some(17)),
        ];
        let record = TrainRecord { packets: packets.map(packet).to_vec() };
        let mut counts = BothWays::default();
        counts.count(Direction::Down, &record);
        counts.count(Direction::Down, &record);
        let down = counts.down;
        assert_eq!((down.sent, down.arrived, down.lost, down.reordered), (8, 6, 2, 2));
        assert_eq!(counts.up, Deliveries::default());
    }
}
