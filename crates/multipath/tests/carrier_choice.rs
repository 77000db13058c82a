//! Which carrier takes packets, in virtual time, with carriers of known rates.

use kumade_multipath::{OuterTransport, TransportSample, TransportSelector};
use kumade_units::{Span, Time};
use proptest::prelude::*;

const STEP: Span = Span::from_millis(250);
const PACKET_BYTES: f64 = 1500.0;

#[derive(Debug, Clone, Copy)]
struct Carrier {
    is_up: bool,
    /// Megabits per second.
    rate: f64,
    loss: f64,
}

struct World {
    choice: TransportSelector,
    now: Time,
    /// Datagrams and connections.
    carriers: [Carrier; 2],
    /// What hosts send, in megabits per second.
    demand: f64,
    views: [TransportSample; 2],
    /// When another carrier took over.
    changes: Vec<Time>,
    /// For how long each was used.
    used: [Span; 2],
}

impl World {
    fn new(rates: [f64; 2], demand: f64) -> Self {
        let carriers = rates.map(|rate| Carrier { is_up: true, rate, loss: 0.0 });
        let (now, views) = (Time::ZERO, [TransportSample::default(); 2]);
        let choice = TransportSelector::new(now);
        World { choice, now, carriers, demand, views, changes: Vec::new(), used: [Span::ZERO; 2] }
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            let before = self.choice.current();
            let Carrier { is_up, rate, loss } = self.carriers[before as usize];
            let sent = if is_up { self.demand.min(rate) * 1e6 / 8.0 * STEP.as_secs_f64() / PACKET_BYTES } else { 0.0 };
            let view = &mut self.views[before as usize];
            let lost = sent * loss;
            view.lost_packets += lost as u64;
            view.delivered_packets += (sent - lost) as u64;
            view.delivered_bytes += ((sent - lost) * PACKET_BYTES) as u64;
            self.used[before as usize] += STEP;
            self.now += STEP;
            self.tell(self.demand > rate);
        }
    }

    fn tell(&mut self, is_backlogged: bool) {
        let before = self.choice.current();
        for (view, carrier) in self.views.iter_mut().zip(&self.carriers) {
            view.is_up = carrier.is_up;
        }
        self.choice.update(self.views, is_backlogged, self.now);
        if self.choice.current() != before {
            self.changes.push(self.now);
        }
    }

    fn set_datagrams_up(&mut self, is_up: bool) {
        self.carriers[0].is_up = is_up;
        self.tell(false);
    }

    /// For how long each carrier is used from now on.
    fn use_of(&mut self, span: Span) -> [f64; 2] {
        self.used = [Span::ZERO; 2];
        self.run(span);
        self.used.map(|used| used.as_secs_f64() / span.as_secs_f64())
    }
}

#[test]
fn datagrams_that_carry_all_there_is_are_never_left() {
    let mut world = World::new([50.0, 100.0], 10.0);
    world.run(Span::from_secs(3600));
    assert_eq!((world.choice.current(), world.changes.as_slice()), (OuterTransport::Udp, &[][..]));
}

#[test]
fn what_passes_is_used_at_once_and_what_fails_often_is_trusted_ever_later() {
    let mut world = World::new([50.0, 100.0], 10.0);
    world.run(Span::from_secs(2));
    let mut away = Vec::new();
    for _ in 0..8 {
        world.set_datagrams_up(false);
        assert_eq!(world.choice.current(), OuterTransport::Tcp);
        let (left, changes) = (world.now, world.changes.len());
        world.set_datagrams_up(true);
        while world.changes.len() == changes {
            world.run(STEP);
        }
        away.push((world.now - left).as_secs_f64() as i64);
        world.run(Span::from_secs(10));
    }
    assert_eq!(away, [5, 10, 20, 40, 80, 160, 300, 300]);
    // A minute without a failure is forgiven all of them.
    world.run(Span::from_secs(61));
    world.set_datagrams_up(false);
    world.set_datagrams_up(true);
    world.run(Span::from_secs(6));
    assert_eq!(world.choice.current(), OuterTransport::Udp);
}

#[test]
fn datagrams_that_are_policed_give_way_to_connections_until_they_no_longer_are() {
    let mut world = World::new([1.0, 20.0], 100.0);
    world.run(Span::from_secs(10));
    assert_eq!(world.choice.current(), OuterTransport::Tcp);
    let [datagrams, _] = world.use_of(Span::from_secs(3600));
    assert!(datagrams < 0.02, "used for {datagrams:.3} of the time");
    world.carriers[0].rate = 20.0;
    world.run(Span::from_secs(660));
    assert_eq!(world.choice.current(), OuterTransport::Udp);
}

#[test]
fn where_both_deliver_alike_datagrams_are_used_and_hardly_disturbed() {
    for rate in [16.0, 20.0, 22.0] {
        let mut world = World::new([rate, 20.0], 100.0);
        let [datagrams, _] = world.use_of(Span::from_secs(3600));
        assert!(datagrams > 0.98, "used for {datagrams:.3} of the time");
        assert!(world.changes.len() <= 24, "{} changes", world.changes.len());
    }
}

#[test]
fn much_loss_is_left_to_connections_even_if_they_deliver_no_more() {
    let mut world = World::new([100.0, 100.0], 10.0);
    world.carriers[0].loss = 0.05;
    world.run(Span::from_secs(12));
    assert_eq!(world.choice.current(), OuterTransport::Tcp);
    let mut world = World::new([100.0, 100.0], 10.0);
    world.carriers[0].loss = 0.01;
    let [datagrams, _] = world.use_of(Span::from_secs(3600));
    assert!(datagrams > 0.98, "used for {datagrams:.3} of the time");
}

#[test]
fn datagrams_that_lose_more_than_arrives_have_failed() {
    let mut world = World::new([50.0, 100.0], 10.0);
    world.run(Span::from_secs(2));
    world.carriers[0].loss = 0.6;
    world.run(Span::from_millis(1250));
    assert_eq!(world.choice.current(), OuterTransport::Tcp);
    world.run(Span::from_secs(3));
    assert_eq!(world.choice.current(), OuterTransport::Tcp);
    world.carriers[0].loss = 0.0;
    world.run(Span::from_secs(2));
    assert_eq!(world.choice.current(), OuterTransport::Udp);
}

#[test]
fn connections_that_were_better_are_used_again_after_they_had_failed() {
    let mut world = World::new([1.0, 20.0], 100.0);
    world.run(Span::from_secs(10));
    world.carriers[1].is_up = false;
    world.run(Span::from_secs(5));
    assert_eq!(world.choice.current(), OuterTransport::Udp);
    world.carriers[1].is_up = true;
    world.run(STEP);
    assert_eq!(world.choice.current(), OuterTransport::Tcp);
}

proptest! {
    #[test]
    fn of_carriers_one_of_which_passes_that_is_used_and_none_is_left_in_haste(
        phases in prop::collection::vec((any::<[bool; 2]>(), [0.1..100.0, 0.1..100.0], 0.0..0.2, 0.0..100.0), 1..30),
    ) {
        let mut world = World::new([10.0, 10.0], 5.0);
        for (is_up, rates, loss, demand) in phases {
            for place in [0, 1] {
                world.carriers[place] = Carrier { is_up: is_up[place], rate: rates[place], loss: 0.0 };
            }
            (world.carriers[0].loss, world.demand) = (loss, demand);
            world.changes.clear();
            for _ in 0..20 {
                world.run(Span::from_secs(1));
                match is_up {
                    [true, false] => prop_assert_eq!(world.choice.current(), OuterTransport::Udp),
                    [false, true] => prop_assert_eq!(world.choice.current(), OuterTransport::Tcp),
                    _ => {}
                }
            }
            let hasty = world.changes.windows(2).find(|pair| pair[1] - pair[0] < Span::from_secs(2));
            prop_assert!(hasty.is_none(), "{:?}", world.changes);
        }
    }
}
