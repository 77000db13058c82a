//! Senders that react to drops behind a link: how equal the shares are that a discipline leaves them.
//!
//! The senders are no TCP but what is common to most: a window that grows by so many packets per round trip and
//! shrinks to a part at a loss, once per round trip. That suffices to tell disciplines apart.
use link::queue::{CoDelConfig, Discipline, Ecn, FairShareConfig, Limit, QueueConfig};
use link::{Label, Link, LinkConfig};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{Rate, Span, Time};

const RATE: Rate = Rate::from_mbit(50);
const SIZE: u32 = 1500;

/// How a sender's window moves.
#[derive(Clone, Copy)]
struct Manner {
    round_trip: Span,
    grows: f64,
    shrinks: f64,
}

struct Sender {
    manner: Manner,
    window: f64,
    next: u64,
    /// Sent and not yet acknowledged, in order.
    flight: VecDeque<u64>,
    /// Losses of packets before this one count as one.
    recovered: u64,
    delivered: u64,
    /// Whether something was acknowledged since the last timeout.
    heard: bool,
}

impl Sender {
    fn acknowledged(&mut self, number: u64) {
        let mut lost = false;
        while let Some(first) = self.flight.front().copied().filter(|first| *first <= number) {
            lost |= first < number && first >= self.recovered;
            self.flight.pop_front();
        }
        self.heard = true;
        if lost {
            self.window = (self.window * self.manner.shrinks).max(2.0);
            self.recovered = self.next;
        } else {
            self.window += self.manner.grows / self.window;
        }
    }

    /// Gives up what is in flight if nothing has been heard since the last time.
    fn timed_out(&mut self) {
        if !std::mem::take(&mut self.heard) {
            self.flight.clear();
            self.window = 2.0;
        }
    }
}

/// Jain's index of what the senders get in the second half of a minute, and how much of the link they use.
fn shares(discipline: Discipline, manners: &[Manner]) -> (f64, f64) {
    let wire = LinkConfig { rate: Some(RATE), queue_bytes: 0, seed: 1, ..LinkConfig::default() };
    let queue = QueueConfig { limit: Limit::Bytes(RATE.bytes_in(Span::from_millis(400))), discipline };
    let mut link = Link::with_queue(wire, &queue).unwrap();
    let sender = |manner: &Manner| Sender {
        manner: *manner,
        window: 4.0,
        next: 0,
        flight: VecDeque::new(),
        recovered: 0,
        delivered: 0,
        heard: false,
    };
    let mut senders: Vec<_> = manners.iter().map(sender).collect();
    // When which sender learns that which packet has arrived, or, without a number, looks whether it has learnt of any.
    let start = |flow: usize| Time::from_nanos(flow as i64 * 37_000_000);
    let mut events: BinaryHeap<_> = (0..senders.len()).map(|flow| Reverse((start(flow), flow, None))).collect();
    let (half, end) = (Time::ZERO + Span::from_secs(30), Time::ZERO + Span::from_secs(60));
    loop {
        let event = events.peek().map(|Reverse((time, ..))| *time);
        let Some(now) = event.into_iter().chain(link.next_event()).min() else { break };
        if now > end {
            break;
        }
        link.advance(now);
        while let Some(delivery) = link.pop_due(now) {
            let (flow, number): (usize, u64) = delivery.packet;
            senders[flow].delivered += u64::from(now > half);
            events.push(Reverse((now + senders[flow].manner.round_trip, flow, Some(number))));
        }
        while events.peek().is_some_and(|Reverse((time, ..))| *time <= now) {
            let Some(Reverse((_, flow, number))) = events.pop() else { break };
            let sender = &mut senders[flow];
            match number {
                Some(number) => sender.acknowledged(number),
                None => {
                    sender.timed_out();
                    events.push(Reverse((now + Span::from_millis(500), flow, None)));
                }
            }
            while (sender.flight.len() as f64) < sender.window.floor() {
                let label = Label { size: SIZE, flow: flow as u64, ecn: Ecn::NotCapable };
                let _ = link.offer_labelled((flow, sender.next), label, now);
                sender.flight.push_back(sender.next);
                sender.next += 1;
            }
        }
    }
    let delivered: Vec<_> = senders.iter().map(|sender| sender.delivered as f64).collect();
    let sum: f64 = delivered.iter().sum();
    let squares: f64 = delivered.iter().map(|packets| packets * packets).sum();
    let used = sum * f64::from(SIZE) * 8.0 / 30.0 / RATE.as_f64();
    (sum * sum / (delivered.len() as f64 * squares), used)
}

/// Five senders of each of two manners.
fn mixed(first: Manner, second: Manner) -> Vec<Manner> {
    [[first; 5], [second; 5]].concat()
}

#[test]
fn fair_share_evens_out_what_codel_does_not() {
    let manner = |millis, grows, shrinks| Manner { round_trip: Span::from_millis(millis), grows, shrinks };
    let cases = [
        ("short path, bold and shy", mixed(manner(4, 4.0, 0.8), manner(4, 1.0, 0.5))),
        ("long path, bold and shy", mixed(manner(60, 4.0, 0.8), manner(60, 1.0, 0.5))),
        ("near and far", mixed(manner(10, 1.0, 0.5), manner(60, 1.0, 0.5))),
    ];
    for (name, manners) in cases {
        let (plain, _) = shares(Discipline::CoDel(CoDelConfig::default()), &manners);
        let (fair, used) = shares(Discipline::FairShare(FairShareConfig::default()), &manners);
        println!("{name}: {plain:.3} with CoDel, {fair:.3} with fair share, which uses {used:.3}");
        assert!(plain < 0.95 && fair >= 0.97 && used >= 0.98, "{name}: {plain:.3} {fair:.3} {used:.3}");
    }
}
