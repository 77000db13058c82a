//! What is made of the statuses of both gateways, read again and again: when each session came into which phase.

use super::row::{SessionEnd, SessionRow};
use kumade_multipath::nat_session::{NatRole, SessionPhase, SessionStatus};
use kumade_packet::FlowKey;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// What has been seen of all flows. It takes what either gateway tells of its sessions, at any moment, and is pure.
#[derive(Debug, Default)]
pub(super) struct Observer {
    flows: BTreeMap<FlowKey, FlowSeen>,
}

#[derive(Debug, Default)]
struct FlowSeen {
    sending: Vec<SendingSeen>,
    receiving: Vec<ReceivingSeen>,
}

/// A session at the sending gateway.
#[derive(Debug)]
struct SendingSeen {
    phase: SessionPhase,
    asked: Time,
    opened: Option<Time>,
    left: Option<Time>,
    forgotten: Option<Time>,
    end: SessionEnd,
    requests: u32,
    packets: u64,
}

/// A rule at the receiving gateway.
#[derive(Debug)]
struct ReceivingSeen {
    granted: Time,
    removed: Option<Time>,
    packets: u64,
}

/// Clocks are read one after the other: a rule may seem to be there so much before it was asked for.
const TOLERANCE: Span = Span::from_millis(50);

impl Observer {
    /// The sessions of the sending gateway at this time; none if it does not run.
    pub(super) fn sending(&mut self, sessions: &[SessionStatus], now: Time) {
        let present: BTreeMap<_, _> = of_role(sessions, NatRole::Sending).collect();
        for (flow, status) in &present {
            self.flows.entry(*flow).or_default().note_sending(status, now);
        }
        for (_, seen) in self.flows.iter_mut().filter(|(flow, _)| !present.contains_key(flow)) {
            seen.sending.last_mut().into_iter().for_each(|session| session.vanish(now));
        }
    }

    /// The sessions of the receiving gateway at this time; none if it does not run.
    pub(super) fn receiving(&mut self, sessions: &[SessionStatus], now: Time) {
        let present: BTreeMap<_, _> = of_role(sessions, NatRole::Receiving).collect();
        for (flow, status) in &present {
            self.flows.entry(*flow).or_default().note_receiving(status, now);
        }
        for (_, seen) in self.flows.iter_mut().filter(|(flow, _)| !present.contains_key(flow)) {
            seen.receiving.last_mut().into_iter().for_each(|rule| rule.vanish(now));
        }
    }

    /// The sessions of a flow whose packets were sent at these times. Times are counted from the first packet.
    pub(super) fn rows(&self, flow: &FlowKey, sent: &[Time], idle: Span) -> Vec<SessionRow> {
        let (Some(seen), Some(first)) = (self.flows.get(flow), sent.first()) else { return Vec::new() };
        let row = |(place, session): (usize, &SendingSeen)| {
            let next = seen.sending.get(place + 1).map(|next| next.asked);
            let is_of = |rule: &&ReceivingSeen| {
                rule.granted + TOLERANCE >= session.asked && next.is_none_or(|next| rule.granted + TOLERANCE < next)
            };
            session.row(seen.receiving.iter().find(is_of), sent, *first, idle)
        };
        seen.sending.iter().enumerate().map(row).collect()
    }
}

impl FlowSeen {
    fn note_sending(&mut self, status: &SessionStatus, now: Time) {
        let is_new = match self.sending.last() {
            None => true,
            Some(last) => last.forgotten.is_some() || (last.opened.is_some() && is_before_opening(status.phase)),
        };
        if is_new {
            self.sending.last_mut().into_iter().for_each(|session| session.vanish(now));
            self.sending.push(SendingSeen::new(status));
        }
        self.sending.last_mut().into_iter().for_each(|session| session.record_status(status, now));
    }

    fn note_receiving(&mut self, status: &SessionStatus, now: Time) {
        if self.receiving.last().is_none_or(|last| last.granted != status.since) {
            self.receiving.last_mut().into_iter().for_each(|rule| rule.vanish(now));
            self.receiving.push(ReceivingSeen { granted: status.since, removed: None, packets: 0 });
        }
        self.receiving.last_mut().into_iter().for_each(|rule| rule.packets = status.packets);
    }
}

impl SendingSeen {
    /// `last_used` is when it was begun, or begun again, as long as nothing was divided.
    fn new(status: &SessionStatus) -> Self {
        let asked = if is_before_opening(status.phase) { status.last_used } else { status.since };
        SendingSeen {
            phase: status.phase,
            asked,
            opened: None,
            left: None,
            forgotten: None,
            end: SessionEnd::Open,
            requests: 0,
            packets: 0,
        }
    }

    fn record_status(&mut self, status: &SessionStatus, now: Time) {
        match status.phase {
            SessionPhase::Waiting => {}
            SessionPhase::Asking => self.requests = self.requests.max(status.tries),
            SessionPhase::Active => {
                // Until the first packets are counted, it was last used when it was opened.
                let opened = if status.packets == 0 { status.last_used } else { now };
                self.opened.get_or_insert(opened);
                self.requests = self.requests.max(1);
                self.packets = status.packets;
            }
            SessionPhase::Ending => {
                self.left.get_or_insert(now);
                self.end = SessionEnd::Idle;
                self.packets = self.packets.max(status.packets);
            }
            SessionPhase::Refused(_) | SessionPhase::Unanswered => self.end = SessionEnd::Refused,
        }
        self.phase = status.phase;
    }

    /// It is not there any more.
    fn vanish(&mut self, now: Time) {
        if self.forgotten.is_some() {
            return;
        }
        self.forgotten = Some(now);
        if self.opened.is_some() {
            self.left.get_or_insert(now);
        }
        if self.end == SessionEnd::Open {
            self.end = SessionEnd::Lost;
        }
    }

    fn row(&self, rule: Option<&ReceivingSeen>, sent: &[Time], first: Time, idle: Span) -> SessionRow {
        let after = |time: Time| (time - first).as_secs_f64();
        let last = sent.iter().rev().find(|time| self.left.is_none_or(|left| **time < left)).copied();
        let is_idle = self.end == SessionEnd::Idle;
        let idled = last.zip(self.left).filter(|_| is_idle).map(|(last, left)| left - last);
        SessionRow {
            asked_seconds: after(self.asked),
            granted_seconds: rule.map(|rule| after(rule.granted)),
            opened_seconds: self.opened.map(after),
            last_packet_seconds: last.map(after),
            left_seconds: self.left.map(after),
            removed_seconds: rule.and_then(|rule| rule.removed).map(after),
            forgotten_seconds: self.forgotten.map(after),
            end: self.end,
            idle_ratio: idled.map(|idled| idled.as_secs_f64() / idle.as_secs_f64()),
            requests: self.requests,
            divided_packets: self.packets,
            restored_packets: rule.map_or(0, |rule| rule.packets),
        }
    }
}

impl ReceivingSeen {
    fn vanish(&mut self, now: Time) {
        self.removed.get_or_insert(now);
    }
}

fn is_before_opening(phase: SessionPhase) -> bool {
    matches!(phase, SessionPhase::Waiting | SessionPhase::Asking)
}

fn of_role(sessions: &[SessionStatus], role: NatRole) -> impl Iterator<Item = (FlowKey, &SessionStatus)> {
    sessions.iter().filter(move |session| session.role == role).map(|session| (session.flow, session))
}
