//! Two gateways with NAT sessions under a virtual clock, and between them a network that loses, delays and repeats messages.

use super::nat_checks::Rules;
use kumade_multipath::message::Message;
use kumade_multipath::nat_session::{DividedRule, Incarnation, NatAction, NatConfig, NatMessage, NatPeer};
use kumade_packet::{Addresses, FlowKey};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

pub struct Gateway {
    pub peer: NatPeer,
    pub rules: Rules,
    pub reconnects: usize,
    used: BTreeMap<FlowKey, u64>,
}

/// What the network does to messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    pub max_delay_millis: i64,
    pub cut: bool,
}

pub struct World {
    pub now: Time,
    pub gateways: [Gateway; 2],
    pub faults: Faults,
    pub config: NatConfig,
    /// By arrival: the receiver and the message.
    in_flight: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    random: Pcg64Mcg,
    serial: u64,
    /// Packets that arrived with aliases for which there was no rule.
    pub packets_without_rule: usize,
}

impl Gateway {
    fn new(config: NatConfig, life: u32, now: Time) -> Self {
        let peer = NatPeer::new(config, Incarnation::new(life).unwrap(), now);
        Gateway { peer, rules: Rules::default(), reconnects: 0, used: BTreeMap::new() }
    }
}

/// A flow of hosts behind that gateway.
pub fn flow(from: usize, number: u16) -> FlowKey {
    let end = |site: usize, port| format!("10.{site}.0.2:{port}").parse().unwrap();
    FlowKey { protocol: 17, source: end(from, 5000 + number), destination: end(1 - from, 9) }
}

/// On path 0 a flow has its own addresses, on path 1 one of two others.
pub fn rules(flow: FlowKey) -> impl Iterator<Item = DividedRule> {
    (1..=2).map(move |number| {
        let alias: Addresses = Addresses { source: format!("192.0.2.{number}").parse().unwrap(), ..flow.addresses() };
        DividedRule { flow, aliases: vec![(0, flow.addresses()), (1, alias)] }
    })
}

impl World {
    pub fn new(config: NatConfig, faults: Faults, seed: u64) -> Self {
        let now = Time::ZERO;
        let gateways = [1, 2].map(|life| Gateway::new(config, life, now));
        let random = Pcg64Mcg::seed_from_u64(seed);
        World { now, gateways, faults, config, in_flight: BTreeMap::new(), random, serial: 2, packets_without_rule: 0 }
    }

    /// A gateway's process is killed, its rules vanish, and it starts anew.
    pub fn restart(&mut self, number: usize) {
        self.serial += 1;
        self.gateways[number] = Gateway::new(self.config, self.serial as u32, self.now);
        self.act(number);
    }

    /// A host sends a packet of a flow, which takes the path whose addresses differ if it is divided.
    pub fn packet(&mut self, from: usize, flow: FlowKey) {
        let now = self.now;
        let Gateway { peer, rules: Rules { divided, .. }, used, .. } = &mut self.gateways[from];
        if let Some(rule) = divided.get(&flow) {
            let arriving = flow.with_addresses(rule.aliases[1].1);
            let packets = used.entry(flow).or_default();
            *packets += 1;
            peer.flow_used(&flow, *packets, *packets * 100, now);
            match self.gateways[1 - from].rules.restored.get(&arriving) {
                Some(original) => assert_eq!(*original, flow, "another flow's packet"),
                None => self.packets_without_rule += 1,
            }
        } else {
            peer.flow_seen(flow, rules(flow), now);
            self.act(from);
        }
    }

    /// Lets time pass, with everything that is due in it.
    pub fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self.gateways.iter().map(|gateway| gateway.peer.next_deadline());
            let next = deadlines.chain(arrival).min().unwrap();
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if arrival == Some(next) {
                self.arrive();
            } else {
                for number in 0..2 {
                    self.gateways[number].peer.counters_read(self.now);
                    self.gateways[number].peer.advance(self.now);
                    self.act(number);
                }
            }
        }
    }

    fn arrive(&mut self) {
        let Some((_, (to, bytes))) = self.in_flight.pop_first() else { return };
        let Ok(Message::Session { kind, body }) = Message::parse(&bytes) else { panic!("{bytes:?}") };
        let message = NatMessage::parse(kind, body).unwrap();
        self.gateways[to].peer.receive(message, |_| true, self.now);
        self.act(to);
    }

    /// Carries out what a gateway wants done.
    pub fn act(&mut self, number: usize) {
        while let Some(action) = self.gateways[number].peer.next_action() {
            if let NatAction::Transmit { message, .. } = &action {
                self.transmit(1 - number, message);
            }
            let Gateway { peer, rules, reconnects, used } = &mut self.gateways[number];
            if let NatAction::Divide { rule, .. } = &action {
                used.remove(&rule.flow);
            }
            *reconnects += usize::from(action == NatAction::Reconnect);
            rules.carry_out(action, peer, self.now);
            let (sending, receiving) = self.gateways[number].peer.session_counts();
            assert!(sending.max(receiving) <= self.config.max_sessions);
        }
    }

    fn transmit(&mut self, to: usize, message: &NatMessage) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let Faults { loss, duplication, max_delay_millis, cut } = self.faults;
        for _ in 0..if self.random.random_bool(duplication) { 2 } else { 1 } {
            if !cut && !self.random.random_bool(loss) {
                self.serial += 1;
                let delay = Span::from_millis(self.random.random_range(1..=1 + max_delay_millis));
                self.in_flight.insert((self.now + delay, self.serial), (to, bytes.clone()));
            }
        }
    }
}
