//! Runs in virtual time: the gateways' own session protocol, between models of what surrounds it. A gateway's kernel notes
//! flows, divides, translates and counts; messages and packets take as long as their path delays them. Keys are agreed on
//! within a round trip of the first path.

use super::observer::Observer;
use super::row::NatSessionRow;
use super::scenario::{NatPoint, NatSessions, PAYLOAD_BYTES, SessionGateway, alias_on};
use super::traffic::FlowTraffic;
use kumade_gateway::direct::SessionPlane;
use kumade_multipath::nat_session::{
    DividedRule, Incarnation, NatAction, NatMessage, NatPeer, RestoredRule, SessionStatus,
};
use kumade_packet::{Addresses, FlowKey};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// When hosts begin to send, at the earliest: gateways have met by then.
const TRAFFIC_START: Span = Span::from_secs(2);
/// For how long a flow that passes undivided is remembered, as gateways' rules have it.
const NOTED_FOR: Span = Span::from_secs(2);

/// Runs `point`; the same run always gives the same row.
pub(super) fn run(experiment: &NatSessions, point: &NatPoint<'_>) -> NatSessionRow {
    let mut world = NatNetwork::new(experiment, point);
    let end = world.begin + experiment.run_duration(point.case);
    world.run(end);
    let killed = point.case.restart.map(|restart| world.begin + restart.after);
    NatSessionRow::new(experiment, point, &world.observer, &world.traffic, killed)
}

#[derive(Debug)]
enum SimulatedEvent {
    /// A host sends the next packet of a flow, by its place.
    Packet(usize),
    /// A packet reaches the receiving gateway with these addresses.
    Arrival(usize, FlowKey),
    /// A message reaches that gateway by that path.
    Message(usize, usize, NatMessage),
    /// A gateway looks for flows that have begun.
    Look(usize, Incarnation),
    /// A gateway reads its kernel's counters.
    Read(usize, Incarnation),
    Kill(usize),
    Start(usize),
    /// Both have keys again.
    Connected,
}

/// A gateway's process, and the rules in its kernel.
struct GatewayNode {
    peer: NatPeer,
    life: Incarnation,
    /// Packets divided of each flow.
    divided: BTreeMap<FlowKey, (DividedRule, u64)>,
    /// By flow as it arrives: as its host sent it, and packets.
    restored: BTreeMap<FlowKey, (FlowKey, u64)>,
    /// Flows that pass undivided, and until when they are remembered.
    noted: BTreeMap<FlowKey, Time>,
    /// What the flows' packets are divided by.
    turn: usize,
}

struct NatNetwork<'a> {
    experiment: &'a NatSessions,
    point: &'a NatPoint<'a>,
    now: Time,
    begin: Time,
    events: BTreeMap<(Time, u64), SimulatedEvent>,
    serial: u64,
    /// The sending and the receiving gateway; none while it is gone.
    nodes: [Option<GatewayNode>; 2],
    have_keys: bool,
    flows: Vec<FlowKey>,
    traffic: Vec<FlowTraffic>,
    observer: Observer,
    random: Pcg64Mcg,
}

const SENDING_GATEWAY: usize = 0;
const RECEIVING_GATEWAY: usize = 1;

impl<'a> NatNetwork<'a> {
    fn new(experiment: &'a NatSessions, point: &'a NatPoint<'a>) -> Self {
        let (case, mut random) = (point.case, Pcg64Mcg::seed_from_u64(point.run.into()));
        // A flow begins at any moment between two looks of its gateway.
        let begin = Time::ZERO + TRAFFIC_START + SessionPlane::LOOK_INTERVAL * random.random_range(0..100) / 100;
        let flows = case.flow_keys();
        let mut world = NatNetwork {
            experiment,
            point,
            now: Time::ZERO,
            begin,
            events: BTreeMap::new(),
            serial: 0,
            nodes: [None, None],
            have_keys: true,
            traffic: vec![FlowTraffic::default(); flows.len()],
            flows,
            observer: Observer::default(),
            random,
        };
        (0..2).for_each(|node| world.start(node));
        for flow in 0..case.flow_count() {
            experiment
                .packet_times(case, flow)
                .for_each(|after| world.schedule(begin + after, SimulatedEvent::Packet(flow)));
        }
        if let Some(restart) = case.restart {
            let node = gateway_index(restart.gateway);
            world.schedule(begin + restart.after, SimulatedEvent::Kill(node));
            world.schedule(begin + restart.after + restart.down, SimulatedEvent::Start(node));
        }
        world
    }

    fn schedule(&mut self, at: Time, event: SimulatedEvent) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    fn run(&mut self, end: Time) {
        loop {
            let deadlines = self.nodes.iter().flatten().map(|node| node.peer.next_deadline());
            let due = self.events.keys().next().map(|(at, _)| *at);
            let next = deadlines.chain(due).min().unwrap_or(end).max(self.now);
            if next > end {
                return;
            }
            self.now = next;
            match self.events.first_entry().filter(|entry| entry.key().0 <= next) {
                Some(entry) => {
                    let event = entry.remove();
                    self.handle(event);
                }
                None => self.advance(),
            }
            self.observe();
        }
    }

    fn advance(&mut self) {
        for place in 0..2 {
            if let Some(node) = &mut self.nodes[place] {
                node.peer.advance(self.now);
                self.perform_actions(place, None);
            }
        }
    }

    fn handle(&mut self, event: SimulatedEvent) {
        match event {
            SimulatedEvent::Packet(flow) => self.send_packet(flow),
            SimulatedEvent::Arrival(flow, arriving) => self.receive_packet(flow, arriving),
            SimulatedEvent::Message(to, path, message) => self.receive_message(to, path, message),
            SimulatedEvent::Look(place, life) => self.poll_counters(place, life),
            SimulatedEvent::Read(place, life) => self.read(place, life),
            SimulatedEvent::Kill(place) => {
                self.nodes[place] = None;
                self.have_keys = false;
            }
            SimulatedEvent::Start(place) => {
                self.start(place);
                let round_trip = self.experiment.paths[0].delay * 2;
                self.schedule(self.now + round_trip, SimulatedEvent::Connected);
            }
            SimulatedEvent::Connected => {
                self.have_keys = true;
                self.nodes.iter_mut().flatten().for_each(|node| node.peer.peer_connected(self.now));
            }
        }
    }

    fn start(&mut self, place: usize) {
        self.serial += 1;
        let life = Incarnation::new(self.serial as u32).unwrap_or(Incarnation::MIN);
        let peer = NatPeer::new(self.experiment.nat_limits(), life, self.now);
        let (divided, restored, noted) = Default::default();
        self.nodes[place] = Some(GatewayNode { peer, life, divided, restored, noted, turn: 0 });
        self.schedule(self.now, SimulatedEvent::Look(place, life));
        self.schedule(self.now, SimulatedEvent::Read(place, life));
    }

    /// The node, if it is still that life.
    fn live_node(&mut self, place: usize, life: Incarnation) -> Option<&mut GatewayNode> {
        self.nodes[place].as_mut().filter(|node| node.life == life)
    }

    fn poll_counters(&mut self, place: usize, life: Incarnation) {
        let (now, paths) = (self.now, self.experiment.paths.len());
        let Some(node) = self.live_node(place, life) else { return };
        node.noted.retain(|_, until| *until > now);
        for flow in node.noted.keys() {
            node.peer.flow_seen(*flow, [divided_rule(*flow, paths)], now);
        }
        self.perform_actions(place, None);
        self.schedule(now + SessionPlane::LOOK_INTERVAL, SimulatedEvent::Look(place, life));
    }

    fn read(&mut self, place: usize, life: Incarnation) {
        let now = self.now;
        let idle = self.experiment.idle;
        let Some(node) = self.live_node(place, life) else { return };
        for (flow, (_, packets)) in &node.divided {
            node.peer.flow_used(flow, *packets, *packets * PAYLOAD_BYTES as u64, now);
        }
        for (arriving, (_, packets)) in &node.restored {
            node.peer.packets_arrived(arriving, *packets, *packets * PAYLOAD_BYTES as u64, now);
        }
        node.peer.counters_read(now);
        let next = SessionPlane::next_read(idle, node.peer.next_idle_check(), now);
        self.perform_actions(place, None);
        self.schedule(next, SimulatedEvent::Read(place, life));
    }

    fn send_packet(&mut self, number: usize) {
        let flow = self.flows[number];
        self.traffic[number].sent.push(self.now);
        let paths = self.experiment.paths.len();
        let (path, addresses) = match &mut self.nodes[SENDING_GATEWAY] {
            Some(node) => node.pass_packet(flow, paths, self.now),
            None => (0, flow.addresses()),
        };
        if !self.is_lost_on(path) {
            let at = self.now + self.experiment.paths[path].delay;
            self.schedule(at, SimulatedEvent::Arrival(number, flow.with_addresses(addresses)));
        }
    }

    fn receive_packet(&mut self, number: usize, arriving: FlowKey) {
        let restored = self.nodes[RECEIVING_GATEWAY].as_mut().and_then(|node| node.restored.get_mut(&arriving));
        let original = restored.map_or(arriving, |(original, packets)| {
            *packets += 1;
            *original
        });
        let traffic = &mut self.traffic[number];
        match original == self.flows[number] {
            true => traffic.received += 1,
            false => traffic.altered += 1,
        }
    }

    fn receive_message(&mut self, to: usize, path: usize, message: NatMessage) {
        if !self.have_keys {
            return;
        }
        if let Some(node) = &mut self.nodes[to] {
            node.peer.receive(message, |_| true, self.now);
            self.perform_actions(to, Some(path));
        }
    }

    /// Carries out what a gateway wants done; `from` is the path by which the last message came.
    fn perform_actions(&mut self, place: usize, from: Option<usize>) {
        while let Some(node) = &mut self.nodes[place]
            && let Some(action) = node.peer.next_action()
        {
            match action {
                NatAction::Transmit { message, tries, is_answer } => {
                    let path = from.filter(|_| is_answer).unwrap_or(tries as usize % self.experiment.paths.len());
                    self.send_message(place, path, message);
                }
                action => node.carry_out(action),
            }
        }
    }

    fn send_message(&mut self, from: usize, path: usize, message: NatMessage) {
        let sender = if from == SENDING_GATEWAY { SessionGateway::Sending } else { SessionGateway::Receiving };
        let is_lost = self.point.case.lost.is_some_and(|lost| lost.drops_message(sender, self.now - self.begin));
        if self.have_keys && !is_lost && !self.is_lost_on(path) {
            let at = self.now + self.experiment.paths[path].delay;
            self.schedule(at, SimulatedEvent::Message(1 - from, path, message));
        }
    }

    fn is_lost_on(&mut self, path: usize) -> bool {
        self.random.random_bool(self.experiment.paths[path].loss)
    }

    fn observe(&mut self) {
        let sessions = |node: &Option<GatewayNode>| -> Vec<SessionStatus> {
            node.iter().flat_map(|node| node.peer.sessions()).collect()
        };
        self.observer.sending(&sessions(&self.nodes[SENDING_GATEWAY]), self.now);
        self.observer.receiving(&sessions(&self.nodes[RECEIVING_GATEWAY]), self.now);
    }
}

impl GatewayNode {
    /// A packet of a flow passes. Returns its path, and its addresses there.
    fn pass_packet(&mut self, flow: FlowKey, paths: usize, now: Time) -> (usize, Addresses) {
        let Some((rule, packets)) = self.divided.get_mut(&flow) else {
            self.noted.entry(flow).or_insert(now + NOTED_FOR);
            return (0, flow.addresses());
        };
        *packets += 1;
        self.turn += 1;
        let path = (self.turn - 1) % paths;
        (path, rule.aliases[path].1)
    }

    fn carry_out(&mut self, action: NatAction) {
        match action {
            NatAction::Divide { rule, .. } => {
                self.noted.remove(&rule.flow);
                self.divided.insert(rule.flow, (rule, 0));
            }
            NatAction::StopDividing(rule) => drop(self.divided.remove(&rule.flow)),
            NatAction::Restore { id, rule } => {
                let RestoredRule { flow, .. } = rule;
                self.restored.extend(rule.arriving_flows().map(|arriving| (arriving, (flow, 0))));
                self.peer.rule_restored(id, true);
            }
            NatAction::StopRestoring(rule) => {
                self.restored.retain(|arriving, _| rule.arriving_flows().all(|flow| flow != *arriving))
            }
            NatAction::Transmit { .. } | NatAction::Reconnect => {}
        }
    }
}

fn gateway_index(gateway: SessionGateway) -> usize {
    match gateway {
        SessionGateway::Sending => SENDING_GATEWAY,
        SessionGateway::Receiving => RECEIVING_GATEWAY,
    }
}

/// As the real gateways' configurations have it: all hosts share one address on each path but the first.
fn divided_rule(flow: FlowKey, paths: usize) -> DividedRule {
    let own = flow.addresses();
    let alias = |path: usize| match path {
        0 => own,
        _ => Addresses { source: alias_on(path).into(), ..own },
    };
    DividedRule { flow, aliases: (0..paths).map(|path| (path as u8, alias(path))).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::row::SessionEnd;
    use super::super::scenario::{GatewayRestart, LostMessages, NatCase};
    use super::*;
    use crate::scenario::{Overrides, load};
    use proptest::prelude::*;

    fn gateway() -> impl Strategy<Value = SessionGateway> {
        prop_oneof![Just(SessionGateway::Sending), Just(SessionGateway::Receiving)]
    }

    fn millis(range: std::ops::Range<i64>) -> impl Strategy<Value = Span> {
        range.prop_map(Span::from_millis)
    }

    fn case() -> impl Strategy<Value = NatCase> {
        let lost = (gateway(), millis(0..6000), millis(1..8000));
        let lost = lost.prop_map(|(from, after, duration)| LostMessages { from, after, duration });
        let restart = (gateway(), millis(0..5000), millis(1..2000));
        let restart = restart.prop_map(|(gateway, after, down)| GatewayRestart { gateway, after, down });
        let activity = prop::collection::vec(millis(20..5000), 1..4);
        (1..3usize, 1..4usize, activity, prop::option::of(lost), prop::option::of(restart)).prop_map(
            |(hosts, flows, activity, lost, restart)| NatCase {
                label: "random".into(),
                hosts,
                flows,
                activity,
                lost,
                restart,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever is lost, and whichever gateway is killed: packets arrive, and from their hosts' addresses unless the gateway
        /// that gives them back was killed; nothing is divided without a rule; sessions of a flow follow each other.
        #[test]
        fn hosts_notice_nothing_of_lost_messages(case in case(), run in 1..1000u32) {
            let experiment = load("nat-session", &Overrides::default()).unwrap().nat_session().unwrap();
            let row = super::run(&experiment, &NatPoint { case: &case, run });
            let may_be_altered = case.restart.is_some_and(|restart| restart.gateway == SessionGateway::Receiving);
            for flow in &row.flows {
                prop_assert_eq!(flow.lost_packets, 0);
                prop_assert!(flow.altered_packets == 0 || may_be_altered, "{:?}", flow);
                for session in &flow.sessions {
                    prop_assert!(session.opened_seconds.is_none_or(|opened| session.granted_seconds <= Some(opened)));
                    prop_assert!(session.opened_seconds.is_none() || session.granted_seconds.is_some(), "{:?}", session);
                    let is_idle = session.end == SessionEnd::Idle;
                    prop_assert!(!is_idle || session.idle_ratio >= Some(1.0), "{:?}", session);
                }
                let follow = |pair: &[crate::nat_session::SessionRow]| pair[0].forgotten_seconds <= Some(pair[1].asked_seconds);
                prop_assert!(flow.sessions.windows(2).all(follow), "{:?}", flow);
            }
        }
    }
}
