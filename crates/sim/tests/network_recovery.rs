//! How a TCP sender and receiver find losses, repair them, and take back what was not called for. They talk over a wire
//! that loses, delays and doubles just the packets that a test names.
use kumade_sim::tcp::congestion::{Ack, CongestionControl, Controller};
use kumade_sim::tcp::{
    LossDetection, Receiver, RecoveryConfig, SackBlock, Sender, SenderConfig, TcpAcknowledgement, TcpData,
};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Arrives,
    Lost,
    Late(Span),
    Twice,
}

/// A window that only losses change: half, or one segment after a timeout until something is acknowledged.
#[derive(Debug)]
struct Steady {
    window: f64,
    before: f64,
}

impl Steady {
    fn boxed(window: u32) -> Box<dyn Controller> {
        Box::new(Steady { window: window.into(), before: window.into() })
    }
}

impl Controller for Steady {
    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        self.window
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _now: Time, _in_flight: u32) {
        self.before = self.window;
        self.window = (self.window / 2.0).max(1.0);
    }

    fn on_recovery_end(&mut self, _now: Time) {}

    fn on_retransmission_timeout(&mut self, _now: Time, _in_flight: u32, again: bool) {
        if !again {
            self.before = self.window;
        }
        self.window = 1.0;
    }

    fn on_spurious_reduction(&mut self, _now: Time) {
        self.window = self.before;
    }
}

/// Half a round trip each way.
const ONE_WAY: Span = Span::from_millis(25);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Packet {
    Data(u64),
    Answer(u64),
}

struct Wire {
    sender: Sender,
    receiver: Receiver,
    now: Time,
    /// What is on its way: when it arrives, and where it stands in the logs.
    moving: BinaryHeap<Reverse<(Time, Packet)>>,
    sent: Vec<(Time, TcpData)>,
    answers: Vec<(Time, TcpAcknowledgement)>,
    most_in_flight: u32,
}

impl Wire {
    fn new(segments: u32, every: u32, controller: Box<dyn Controller>) -> Wire {
        let config =
            SenderConfig { packet_bytes: 1500, segments, receive_window: 1000, recovery: RecoveryConfig::default() };
        Wire {
            sender: Sender::new(config, controller),
            receiver: Receiver::new(every),
            now: Time::ZERO,
            moving: BinaryHeap::new(),
            sent: Vec::new(),
            answers: Vec::new(),
            most_in_flight: 0,
        }
    }

    /// Runs until all is acknowledged; `out` and `back` say what becomes of the packets. False if it does not end.
    fn run(&mut self, mut out: impl FnMut(&TcpData, u64) -> Fate, mut back: impl FnMut(u64) -> Fate) -> bool {
        for _ in 0..200_000 {
            while let Some(data) = self.sender.poll_send(self.now) {
                let number = self.sent.len() as u64;
                self.sent.push((self.now, data));
                self.carry(out(&data, number), Packet::Data, number);
            }
            self.most_in_flight = self.most_in_flight.max(self.sender.in_flight());
            if self.sender.is_finished() {
                return true;
            }
            let arrival = self.moving.peek().map(|Reverse((time, _))| *time);
            let timers = self.sender.next_time().into_iter().chain(self.receiver.next_time());
            let Some(next) = arrival.into_iter().chain(timers).min() else { return false };
            assert!(next >= self.now, "time ran backwards");
            self.now = next;
            let answer = match self.moving.peek() {
                Some(Reverse((time, _))) if *time <= self.now => self.arrive(),
                _ => {
                    self.sender.on_time(self.now);
                    self.receiver.on_time(self.now)
                }
            };
            if let Some(answer) = answer {
                let number = self.answers.len() as u64;
                self.answers.push((self.now, answer));
                self.carry(back(number), Packet::Answer, number);
            }
        }
        false
    }

    /// Loses nothing on the way back.
    fn run_forward(&mut self, out: impl FnMut(&TcpData, u64) -> Fate) {
        assert!(self.run(out, |_| Fate::Arrives), "it does not end");
    }

    fn carry(&mut self, fate: Fate, packet: impl Fn(u64) -> Packet, number: u64) {
        let (copies, extra) = match fate {
            Fate::Arrives => (1, Span::ZERO),
            Fate::Lost => (0, Span::ZERO),
            Fate::Late(extra) => (1, extra),
            Fate::Twice => (2, Span::ZERO),
        };
        for _ in 0..copies {
            self.moving.push(Reverse((self.now + ONE_WAY + extra, packet(number))));
        }
    }

    fn arrive(&mut self) -> Option<TcpAcknowledgement> {
        let Reverse((_, packet)) = self.moving.pop()?;
        match packet {
            Packet::Data(number) => self.receiver.receive(&self.sent[number as usize].1, false, self.now),
            Packet::Answer(number) => {
                self.sender.acknowledge(&self.answers[number as usize].1, self.now);
                None
            }
        }
    }
}

/// Loses the first sending of these.
fn losing(numbers: &[u32]) -> impl FnMut(&TcpData, u64) -> Fate + use<'_> {
    |data, _| if numbers.contains(&data.number) && !data.is_retransmission { Fate::Lost } else { Fate::Arrives }
}

#[test]
fn a_single_loss_costs_one_retransmission_and_half_the_window() {
    let mut wire = Wire::new(200, 1, Steady::boxed(20));
    wire.run_forward(losing(&[50]));
    let statistics = wire.sender.statistics();
    assert_eq!((statistics.retransmissions, statistics.reductions), (1, 1));
    assert_eq!((statistics.timeouts, statistics.undone_reductions), (0, 0));
    assert_eq!(wire.sender.window(), 10);
    assert_eq!(wire.most_in_flight, 20);
}

/// RFC 3168, section 6.1.2: the first new segment says that the window was reduced, losses or marks having asked for it.
#[test]
fn a_reduction_is_announced_once_whatever_its_cause() {
    let mut wire = Wire::new(200, 1, Steady::boxed(20));
    wire.run_forward(losing(&[50]));
    let after =
        wire.sent.iter().skip_while(|(_, data)| !data.is_retransmission).find(|(_, data)| !data.is_retransmission);
    assert!(after.is_some_and(|(_, data)| data.cwr), "{after:?}");
    assert_eq!(wire.sent.iter().filter(|(_, data)| data.cwr).count(), 1);
}

/// RFC 6675: however many of a window are lost, a round trip of recovery sends them again, as long as some arrive.
#[test]
fn many_losses_of_one_window_are_repaired_without_a_timeout() {
    for losses in 1..=16 {
        let lost: Vec<u32> = (40..40 + losses).collect();
        let mut wire = Wire::new(200, 1, Steady::boxed(20));
        wire.run_forward(losing(&lost));
        let statistics = wire.sender.statistics();
        assert_eq!(statistics.retransmissions, u64::from(losses), "{losses}");
        assert_eq!((statistics.timeouts, statistics.reductions), (0, 1), "{losses}");
        assert_eq!(wire.sender.window(), 10, "{losses}");
    }
}

/// RFC 8985, section 7: nothing follows the last segments that could show their loss, so a probe does.
#[test]
fn losses_at_the_tail_are_found_by_a_probe_well_before_a_timeout() {
    for lost in [&[28, 29][..], &[27, 28, 29], &[20, 21, 22, 23, 24, 25, 26, 27, 28, 29]] {
        let mut wire = Wire::new(30, 1, Steady::boxed(10));
        wire.run_forward(losing(lost));
        let statistics = wire.sender.statistics();
        assert_eq!((statistics.timeouts, statistics.probes), (0, 1), "{lost:?}");
        assert_eq!(statistics.retransmissions, lost.len() as u64, "{lost:?}");
        let probed = wire.sent.iter().find(|(_, data)| data.is_retransmission).map(|(time, _)| *time).unwrap();
        let heard = wire.answers.iter().map(|(time, _)| *time + ONE_WAY).take_while(|time| *time < probed).last();
        // Two round trips after anything was heard, and 2 ms.
        assert_eq!(heard.map(|heard| probed - heard), Some(ONE_WAY * 4 + Span::from_millis(2)), "{lost:?}");
    }
}

/// RFC 8985, section 6.2: a retransmission that is lost is found by what was sent after it.
#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    let mut wire = Wire::new(200, 1, Steady::boxed(20));
    let mut left = 3;
    wire.run_forward(|data, _| {
        let lost = data.number == 50 && left > 0;
        left -= i32::from(lost);
        if lost { Fate::Lost } else { Fate::Arrives }
    });
    let statistics = wire.sender.statistics();
    assert_eq!((statistics.retransmissions, statistics.timeouts), (3, 0));
}

#[test]
fn reordering_is_not_taken_for_loss_once_it_is_known() {
    // Late by an eighth of the round trip, about as many segments behind as three duplicates; and by more than the
    // first window of a quarter, which duplicates then widen.
    for (late, most) in [(ONE_WAY / 4, 1), (ONE_WAY, 4)] {
        let mut wire = Wire::new(4000, 1, Steady::boxed(40));
        wire.run_forward(|data, _| {
            if data.number % 100 == 50 && !data.is_retransmission { Fate::Late(late) } else { Fate::Arrives }
        });
        let statistics = wire.sender.statistics();
        assert!(statistics.retransmissions <= most, "{late}: {statistics:?}");
        assert_eq!(statistics.timeouts, 0);
        assert_eq!(statistics.undone_reductions, statistics.reductions, "{late}: each was uncalled for");
        assert_eq!(wire.sender.window(), 40, "{late}");
    }
}

/// RFC 3522: the first acknowledgement after the pause answers what was sent before the timeout.
#[test]
fn a_timeout_in_a_pause_of_the_path_is_undone() {
    let mut wire = Wire::new(300, 1, Steady::boxed(20));
    let pause = Time::ZERO + Span::from_millis(200)..Time::ZERO + Span::from_millis(900);
    wire.run_forward(|data, _| match data.timestamp {
        stamp if pause.contains(&stamp) => Fate::Late(pause.end - stamp),
        _ => Fate::Arrives,
    });
    let statistics = wire.sender.statistics();
    assert!(statistics.timeouts >= 1 && statistics.undone_reductions == 1, "{statistics:?}");
    assert_eq!(wire.sender.window(), 20);
}

/// RFC 6298, section 5: with the path cut, the waits double.
#[test]
fn timeouts_back_off_while_nothing_comes_back() {
    let mut wire = Wire::new(40, 1, Steady::boxed(10));
    let cut = Time::ZERO + Span::from_millis(75)..Time::ZERO + Span::from_secs(8);
    wire.run_forward(|data, _| if cut.contains(&data.timestamp) { Fate::Lost } else { Fate::Arrives });
    let statistics = wire.sender.statistics();
    let again: Vec<Time> =
        wire.sent.iter().filter(|(_, data)| data.is_retransmission).map(|(time, _)| *time).take(5).collect();
    let waits: Vec<i64> = again.windows(2).skip(1).map(|pair| (pair[1] - pair[0]).as_nanos() / 1_000_000).collect();
    assert!(waits.windows(2).all(|pair| pair[1] == pair[0] * 2), "{waits:?}");
    assert!((5..=6).contains(&statistics.timeouts), "{statistics:?}");
}

#[test]
fn every_other_segment_is_acknowledged_after_the_first_sixteen() {
    let mut wire = Wire::new(1017, 2, Steady::boxed(20));
    wire.run_forward(|_, _| Fate::Arrives);
    // The last is answered at once, so that a thousand and one take 501.
    assert_eq!(wire.answers.len(), 16 + 501);
    let mut each = Wire::new(1017, 1, Steady::boxed(20));
    each.run_forward(|_, _| Fate::Arrives);
    assert_eq!(each.answers.len(), 1017);
}

/// RFC 1122, section 4.2.3.2: a lone segment's acknowledgement waits, but not for ever.
#[test]
fn a_lone_segment_is_acknowledged_after_forty_milliseconds() {
    let mut receiver = Receiver::new(2);
    let mut now = Time::ZERO;
    let data = |number| TcpData { number, timestamp: Time::ZERO, is_retransmission: false, is_last: false, cwr: false };
    for number in 0..16 {
        assert!(receiver.receive(&data(number), false, now).is_some(), "{number}");
    }
    assert_eq!(receiver.receive(&data(16), false, now), None);
    assert_eq!(receiver.next_time(), Some(now + Span::from_millis(40)));
    now += Span::from_millis(40);
    assert_eq!(receiver.on_time(now).map(|ack| ack.next), Some(17));
    assert_eq!((receiver.on_time(now), receiver.next_time()), (None, None));
}

/// RFC 2018 and RFC 2883: the newest block first, what came twice before all.
#[test]
fn acknowledgements_report_the_newest_blocks_and_what_came_twice() {
    let mut receiver = Receiver::new(1);
    let mut answers = Vec::new();
    for number in [0, 2, 4, 5, 8, 9, 11, 4, 1] {
        let data = TcpData { number, timestamp: Time::ZERO, is_retransmission: false, is_last: false, cwr: false };
        let TcpAcknowledgement { next, sack_blocks: blocks, is_dsack: duplicate, .. } =
            receiver.receive(&data, false, Time::ZERO).unwrap();
        let blocks: Vec<_> = blocks.iter().filter(|b| !b.is_empty()).map(|b| (b.start, b.end)).collect();
        answers.push((next, blocks, duplicate));
    }
    let expected = [
        (1, vec![], false),
        (1, vec![(2, 3)], false),
        (1, vec![(4, 5), (2, 3)], false),
        (1, vec![(4, 6), (2, 3)], false),
        (1, vec![(8, 9), (4, 6), (2, 3)], false),
        (1, vec![(8, 10), (4, 6), (2, 3)], false),
        (1, vec![(11, 12), (8, 10), (4, 6)], false),
        (1, vec![(4, 5), (11, 12), (8, 10)], true),
        (3, vec![(11, 12), (8, 10), (4, 6)], false),
    ];
    assert_eq!(answers, expected);
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrives),
        3 => Just(Fate::Lost),
        2 => (0i64..300).prop_map(|millis| Fate::Late(Span::from_millis(millis))),
        1 => Just(Fate::Twice),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_segment_arrives_once_and_in_order_over_any_wire(
        segments in 1u32..400,
        every in 1u32..3,
        control in 0usize..=CongestionControl::ALL.len(),
        out in prop::collection::vec(fate(), 1..300),
        back in prop::collection::vec(fate(), 1..300),
    ) {
        let controller = CongestionControl::ALL.get(control).map_or_else(|| Steady::boxed(30), |(_, control)| control.build(1500));
        let mut wire = Wire::new(segments, every, controller);
        // What was decided holds once, then the wire is good: else nothing could promise an end.
        let of = |fates: &[Fate], number: u64| fates.get(number as usize).copied().unwrap_or(Fate::Arrives);
        prop_assert!(wire.run(|_, number| of(&out, number), |number| of(&back, number)), "it does not end");
        prop_assert_eq!(wire.receiver.in_order_segments(), segments);
        prop_assert_eq!(wire.sender.in_flight(), 0);
        let fresh: Vec<u32> = wire.sent.iter().filter(|(_, data)| !data.is_retransmission).map(|(_, data)| data.number).collect();
        prop_assert_eq!(fresh, (0..segments).collect::<Vec<_>>());
    }
}

fn any_acknowledgement() -> impl Strategy<Value = TcpAcknowledgement> {
    let number = prop_oneof![4 => 0u32..60, 1 => any::<u32>()];
    let block = (number.clone(), number.clone()).prop_map(|(start, end)| SackBlock { start, end });
    let echo = prop_oneof![Just(0i64), 0i64..1_000_000_000, any::<i64>()];
    (number, echo, [block.clone(), block.clone(), block], any::<bool>(), any::<bool>()).prop_map(
        |(next, echo, blocks, duplicate, congestion)| TcpAcknowledgement {
            next,
            timestamp_echo: Time::from_nanos(echo),
            sack_blocks: blocks,
            is_dsack: duplicate,
            ece: congestion,
            ce_packets: next,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Whatever a receiver claims, the sender keeps within its window of what it believes in flight and never stalls.
    #[test]
    fn no_acknowledgement_makes_a_sender_panic_or_exceed_its_window(
        acknowledgements in prop::collection::vec((any_acknowledgement(), 0i64..300), 1..80),
        control in 0usize..CongestionControl::ALL.len(),
        has_sack in any::<bool>(),
    ) {
        let detection = if has_sack { LossDetection::RackTlp } else { LossDetection::NewReno };
        let recovery = RecoveryConfig { detection, ..RecoveryConfig::default() };
        let config = SenderConfig { packet_bytes: 1500, segments: 5000, receive_window: 200, recovery };
        let mut sender = Sender::new(config, CongestionControl::ALL[control].1.build(1500));
        let mut now = Time::ZERO;
        for (acknowledgement, millis) in acknowledgements {
            let mut sent = 0;
            while sender.poll_send(now).is_some() {
                sent += 1;
                prop_assert!(sent <= 201 && sender.in_flight() <= 201);
            }
            prop_assert!(sender.is_finished() || sender.next_time().is_some(), "it stalls");
            now += Span::from_millis(millis);
            sender.on_time(now);
            sender.acknowledge(&acknowledgement, now);
        }
    }
}
