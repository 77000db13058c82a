//! What must hold for NAT sessions whatever a far end sends whose key is known: for the fuzzer, for the test that replays its
//! finds, and for tests that play two gateways.

use kumade_multipath::message::Message;
use kumade_multipath::nat_session::{
    DividedRule, Incarnation, NatAction, NatConfig, NatMessage, NatPeer, RestoredRule,
};
use kumade_packet::{Addresses, FlowKey};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// What the system of a gateway has, as its rules have it.
#[derive(Default)]
pub struct Rules {
    pub divided: BTreeMap<FlowKey, DividedRule>,
    /// Flows as they arrive, and as they were sent.
    pub restored: BTreeMap<FlowKey, FlowKey>,
    /// Rules that the next actions ask for are refused.
    pub refuses: bool,
}

impl Rules {
    /// Does what is asked for, and reports what cannot be done. Messages are the caller's.
    pub fn carry_out(&mut self, action: NatAction, peer: &mut NatPeer, now: Time) {
        match action {
            NatAction::Transmit { .. } | NatAction::Reconnect => {}
            NatAction::Divide { id, rule } => {
                if !self.divide(rule) {
                    peer.divide_failed(id, now);
                }
            }
            NatAction::StopDividing(rule) => self.stop_dividing(&rule),
            NatAction::Restore { id, rule } => {
                let is_done = self.restore(&rule);
                peer.rule_restored(id, is_done);
            }
            NatAction::StopRestoring(rule) => self.forget(&rule),
        }
    }

    /// Nothing is asked for that is done already.
    fn divide(&mut self, rule: DividedRule) -> bool {
        if !self.refuses {
            assert!(self.divided.insert(rule.flow, rule).is_none(), "divided twice");
        }
        !self.refuses
    }

    fn stop_dividing(&mut self, rule: &DividedRule) {
        assert_eq!(self.divided.remove(&rule.flow).as_ref(), Some(rule));
    }

    fn restore(&mut self, rule: &RestoredRule) -> bool {
        if !self.refuses {
            for arriving in rule.arriving_flows() {
                assert!(self.restored.insert(arriving, rule.flow).is_none(), "restored twice");
            }
        }
        !self.refuses
    }

    fn forget(&mut self, rule: &RestoredRule) {
        for arriving in rule.arriving_flows() {
            assert_eq!(self.restored.remove(&arriving), Some(rule.flow));
        }
    }
}

const MAX_SESSIONS: usize = 8;
const OWN_INCARNATION: u32 = 7;

/// Messages that arrive one after the other, each behind what it begins with, the time since the one before, and its length.
pub fn messages(mut data: &[u8]) {
    let mut now = Time::ZERO;
    let config = NatConfig { idle_timeout: Span::from_secs(10), max_sessions: MAX_SESSIONS };
    let mut peer = NatPeer::new(config, Incarnation::new(OWN_INCARNATION).unwrap(), now);
    let mut rules = Rules::default();
    while let Some(([head, gap, length], rest)) = data.split_first_chunk() {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        now += Span::from_millis(i64::from(*gap) * 20);
        rules.refuses = head & 0x40 != 0;
        peer.counters_read(now);
        peer.advance(now);
        match head & 0xf {
            // Kinds 8 to 15 of one of two lives, to this one.
            kind @ 8.. => {
                let lives = [0, 0, 0, 1 + (head >> 4 & 1), 0, 0, 0, OWN_INCARNATION as u8];
                receive(&mut peer, &[&[0xe0 | kind], &lives[..], body].concat(), now);
            }
            number @ ..4 => see(&mut peer, u16::from(number), now),
            _ => receive(&mut peer, body, now),
        }
        drain(&mut peer, &mut rules, now);
    }
    // Everything ends by itself, since nothing more comes.
    now += Span::from_secs(200);
    peer.counters_read(now);
    peer.advance(now);
    drain(&mut peer, &mut rules, now);
    assert_eq!((rules.divided.len(), rules.restored.len()), (0, 0));
}

fn receive(peer: &mut NatPeer, bytes: &[u8], now: Time) {
    let Ok(Message::Session { kind, body }) = Message::parse(bytes) else { return };
    let Ok(message) = NatMessage::parse(kind, body) else { return };
    let mut again = Vec::new();
    message.write(&mut again);
    assert_eq!(again, bytes, "one message, one spelling");
    peer.receive(message, |rule| rule.flow.protocol == 17, now);
}

fn see(peer: &mut NatPeer, number: u16, now: Time) {
    let flow = FlowKey { protocol: 17, source: ([10, 1, 0, 2], number).into(), destination: ([10, 2, 0, 2], 9).into() };
    let alias = Addresses { source: [192, 0, 2, 1].into(), destination: [10, 2, 0, 2].into() };
    peer.flow_seen(flow, [DividedRule { flow, aliases: vec![(1, alias)] }], now);
}

fn drain(peer: &mut NatPeer, rules: &mut Rules, now: Time) {
    while let Some(action) = peer.next_action() {
        if let NatAction::Restore { rule, .. } = &action {
            assert_eq!(rule.flow.protocol, 17, "only what is permitted");
        }
        rules.carry_out(action, peer, now);
        let (sending, receiving) = peer.session_counts();
        assert!(sending.max(receiving) <= MAX_SESSIONS);
    }
}
