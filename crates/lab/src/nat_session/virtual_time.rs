//! Runs in virtual time: the gateways' own session protocol, between models of what surrounds it. A gateway's kernel notes
//! flows, divides, translates and counts; messages and packets take as long as their path delays them. Keys are agreed on
//! within a round trip of the first path.

use super::flow_traffic::FlowTraffic;
use super::row::NatSessionRow;
use super::scenario::{NatPoint, NatSessionExperiment, PAYLOAD_BYTES, SessionGateway, path_alias};
use super::session_observer::SessionObserver;
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
const UNDIVIDED_FLOW_TIMEOUT: Span = Span::from_secs(2);

/// Runs `point`; the same run always gives the same row.
pub(super) fn run(experiment: &NatSessionExperiment, point: &NatPoint<'_>) -> NatSessionRow {
    let mut world = NatNetwork::new(experiment, point);
    let end = world.traffic_start + experiment.run_duration(point.case);
    world.run_until(end);
    let killed = point.case.restart.map(|restart| world.traffic_start + restart.after);
    NatSessionRow::new(experiment, point, &world.observer, &world.traffic, killed)
}

#[derive(Debug)]
enum SimulatedEvent {
    /// A host sends the next packet of a flow, by its place.
    SendPacket(usize),
    /// A packet reaches the receiving gateway with these addresses.
    PacketArrival(usize, FlowKey),
    /// A message reaches that gateway by that path.
    MessageArrival(usize, usize, NatMessage),
    /// A gateway looks for flows that have begun.
    PollFlows(usize, Incarnation),
    /// A gateway reads its kernel's counters.
    ReadCounters(usize, Incarnation),
    KillGateway(usize),
    StartGateway(usize),
    /// Both have keys again.
    Connected,
}

/// A gateway's process, and the rules in its kernel.
struct GatewayNode {
    peer: NatPeer,
    incarnation: Incarnation,
    /// Packets divided of each flow.
    divided: BTreeMap<FlowKey, (DividedRule, u64)>,
    /// By flow as it arrives: as its host sent it, and packets.
    restored: BTreeMap<FlowKey, (FlowKey, u64)>,
    /// Flows that pass undivided, and until when they are remembered.
    undivided_flows: BTreeMap<FlowKey, Time>,
    /// What the flows' packets are divided by.
    divided_packets: usize,
}

struct NatNetwork<'a> {
    experiment: &'a NatSessionExperiment,
    point: &'a NatPoint<'a>,
    now: Time,
    traffic_start: Time,
    events: BTreeMap<(Time, u64), SimulatedEvent>,
    event_number: u64,
    /// The sending and the receiving gateway; none while it is gone.
    nodes: [Option<GatewayNode>; 2],
    has_keys: bool,
    flows: Vec<FlowKey>,
    traffic: Vec<FlowTraffic>,
    observer: SessionObserver,
    random: Pcg64Mcg,
}

const SENDING_GATEWAY: usize = 0;
const RECEIVING_GATEWAY: usize = 1;

impl<'a> NatNetwork<'a> {
    fn new(experiment: &'a NatSessionExperiment, point: &'a NatPoint<'a>) -> Self {
        let (case, mut random) = (point.case, Pcg64Mcg::seed_from_u64(point.run.into()));
        // A flow begins at any moment between two looks of its gateway.
        let begin = Time::ZERO + TRAFFIC_START + SessionPlane::FLOW_POLL_INTERVAL * random.random_range(0..100) / 100;
        let flows = case.flow_keys();
        let mut world = NatNetwork {
            experiment,
            point,
            now: Time::ZERO,
            traffic_start: begin,
            events: BTreeMap::new(),
            event_number: 0,
            nodes: [None, None],
            has_keys: true,
            traffic: vec![FlowTraffic::default(); flows.len()],
            flows,
            observer: SessionObserver::default(),
            random,
        };
        (0..2).for_each(|node| world.start_gateway(node));
        for flow in 0..case.flow_count() {
            experiment
                .packet_times(case, flow)
                .for_each(|after| world.schedule(begin + after, SimulatedEvent::SendPacket(flow)));
        }
        if let Some(restart) = case.restart {
            let node = gateway_index(restart.gateway);
            world.schedule(begin + restart.after, SimulatedEvent::KillGateway(node));
            world.schedule(begin + restart.after + restart.down, SimulatedEvent::StartGateway(node));
        }
        world
    }

    fn schedule(&mut self, at: Time, event: SimulatedEvent) {
        self.event_number += 1;
        self.events.insert((at, self.event_number), event);
    }

    fn run_until(&mut self, end: Time) {
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
                    self.handle_event(event);
                }
                None => self.advance_nodes(),
            }
            self.observe_sessions();
        }
    }

    fn advance_nodes(&mut self) {
        for place in 0..2 {
            if let Some(node) = &mut self.nodes[place] {
                node.peer.advance(self.now);
                self.perform_actions(place, None);
            }
        }
    }

    fn handle_event(&mut self, event: SimulatedEvent) {
        match event {
            SimulatedEvent::SendPacket(flow) => self.send_packet(flow),
            SimulatedEvent::PacketArrival(flow, arriving) => self.receive_packet(flow, arriving),
            SimulatedEvent::MessageArrival(to, path, message) => self.receive_message(to, path, message),
            SimulatedEvent::PollFlows(place, life) => self.poll_flows(place, life),
            SimulatedEvent::ReadCounters(place, life) => self.read_counters(place, life),
            SimulatedEvent::KillGateway(place) => {
                self.nodes[place] = None;
                self.has_keys = false;
            }
            SimulatedEvent::StartGateway(place) => {
                self.start_gateway(place);
                let round_trip = self.experiment.paths[0].delay * 2;
                self.schedule(self.now + round_trip, SimulatedEvent::Connected);
            }
            SimulatedEvent::Connected => {
                self.has_keys = true;
                self.nodes.iter_mut().flatten().for_each(|node| node.peer.peer_connected(self.now));
            }
        }
    }

    fn start_gateway(&mut self, place: usize) {
        self.event_number += 1;
        let life = Incarnation::new(self.event_number as u32).unwrap_or(Incarnation::MIN);
        let peer = NatPeer::new(self.experiment.nat_limits(), life, self.now);
        let (divided, restored, noted) = Default::default();
        self.nodes[place] = Some(GatewayNode {
            peer,
            incarnation: life,
            divided,
            restored,
            undivided_flows: noted,
            divided_packets: 0,
        });
        self.schedule(self.now, SimulatedEvent::PollFlows(place, life));
        self.schedule(self.now, SimulatedEvent::ReadCounters(place, life));
    }

    /// The node, if it is still that life.
    fn live_node(&mut self, place: usize, life: Incarnation) -> Option<&mut GatewayNode> {
        self.nodes[place].as_mut().filter(|node| node.incarnation == life)
    }

    fn poll_flows(&mut self, place: usize, life: Incarnation) {
        let (now, paths) = (self.now, self.experiment.paths.len());
        let Some(node) = self.live_node(place, life) else { return };
        node.undivided_flows.retain(|_, until| *until > now);
        for flow in node.undivided_flows.keys() {
            node.peer.flow_seen(*flow, [divided_rule(*flow, paths)], now);
        }
        self.perform_actions(place, None);
        self.schedule(now + SessionPlane::FLOW_POLL_INTERVAL, SimulatedEvent::PollFlows(place, life));
    }

    fn read_counters(&mut self, place: usize, life: Incarnation) {
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
        let next = SessionPlane::next_counter_read(idle, node.peer.next_idle_check(), now);
        self.perform_actions(place, None);
        self.schedule(next, SimulatedEvent::ReadCounters(place, life));
    }

    fn send_packet(&mut self, number: usize) {
        let flow = self.flows[number];
        self.traffic[number].sent_times.push(self.now);
        let paths = self.experiment.paths.len();
        let (path, addresses) = match &mut self.nodes[SENDING_GATEWAY] {
            Some(node) => node.pass_packet(flow, paths, self.now),
            None => (0, flow.addresses()),
        };
        if !self.is_lost_on(path) {
            let at = self.now + self.experiment.paths[path].delay;
            self.schedule(at, SimulatedEvent::PacketArrival(number, flow.with_addresses(addresses)));
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
            true => traffic.received_packets += 1,
            false => traffic.altered_packets += 1,
        }
    }

    fn receive_message(&mut self, to: usize, path: usize, message: NatMessage) {
        if !self.has_keys {
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
                action => node.apply_action(action),
            }
        }
    }

    fn send_message(&mut self, from: usize, path: usize, message: NatMessage) {
        let sender = if from == SENDING_GATEWAY { SessionGateway::Sending } else { SessionGateway::Receiving };
        let is_lost =
            self.point.case.message_loss.is_some_and(|lost| lost.drops_message(sender, self.now - self.traffic_start));
        if self.has_keys && !is_lost && !self.is_lost_on(path) {
            let at = self.now + self.experiment.paths[path].delay;
            self.schedule(at, SimulatedEvent::MessageArrival(1 - from, path, message));
        }
    }

    fn is_lost_on(&mut self, path: usize) -> bool {
        self.random.random_bool(self.experiment.paths[path].loss)
    }

    fn observe_sessions(&mut self) {
        let sessions = |node: &Option<GatewayNode>| -> Vec<SessionStatus> {
            node.iter().flat_map(|node| node.peer.sessions()).collect()
        };
        self.observer.record_sender_sessions(&sessions(&self.nodes[SENDING_GATEWAY]), self.now);
        self.observer.record_receiver_rules(&sessions(&self.nodes[RECEIVING_GATEWAY]), self.now);
    }
}

impl GatewayNode {
    /// A packet of a flow passes. Returns its path, and its addresses there.
    fn pass_packet(&mut self, flow: FlowKey, paths: usize, now: Time) -> (usize, Addresses) {
        let Some((rule, packets)) = self.divided.get_mut(&flow) else {
            self.undivided_flows.entry(flow).or_insert(now + UNDIVIDED_FLOW_TIMEOUT);
            return (0, flow.addresses());
        };
        *packets += 1;
        self.divided_packets += 1;
        let path = (self.divided_packets - 1) % paths;
        (path, rule.aliases[path].1)
    }

    fn apply_action(&mut self, action: NatAction) {
        match action {
            NatAction::Divide { rule, .. } => {
                self.undivided_flows.remove(&rule.flow);
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
        _ => Addresses { source: path_alias(path).into(), ..own },
    };
    DividedRule { flow, aliases: (0..paths).map(|path| (path as u8, alias(path))).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::row::SessionEnd;
    use super::super::scenario::{GatewayRestart, MessageLoss, NatCase};
    use super::*;
    use crate::scenario::load;
    use crate::study::Overrides;
    use proptest::prelude::*;

    fn gateway() -> impl Strategy<Value = SessionGateway> {
        prop_oneof![Just(SessionGateway::Sending), Just(SessionGateway::Receiving)]
    }

    fn millis(range: std::ops::Range<i64>) -> impl Strategy<Value = Span> {
        range.prop_map(Span::from_millis)
    }

    fn case() -> impl Strategy<Value = NatCase> {
        let lost = (gateway(), millis(0..6000), millis(1..8000));
        let lost = lost.prop_map(|(from, after, duration)| MessageLoss { from, after, duration });
        let restart = (gateway(), millis(0..5000), millis(1..2000));
        let restart = restart.prop_map(|(gateway, after, down)| GatewayRestart { gateway, after, down });
        let activity = prop::collection::vec(millis(20..5000), 1..4);
        (1..3usize, 1..4usize, activity, prop::option::of(lost), prop::option::of(restart)).prop_map(
            |(hosts, flows, activity, lost, restart)| NatCase {
                label: "random".into(),
                hosts,
                flows,
                activity,
                message_loss: lost,
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
            let experiment = load("nat-session", &Overrides::default()).unwrap().into_scenario::<NatSessionExperiment>().unwrap();
            let row = super::run(&experiment, &NatPoint { case: &case, run });
            let may_be_altered = case.restart.is_some_and(|restart| restart.gateway == SessionGateway::Receiving);
            for flow in &row.flows {
                prop_assert_eq!(flow.lost_packets, 0);
                prop_assert_eq!(flow.received_packets + flow.altered_packets, flow.sent_packets);
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
