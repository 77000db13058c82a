//! What is made of the statuses of both gateways, read again and again: when each session came into which phase.

use super::row::{SessionEnd, SessionRow};
use kumade_multipath::nat_session::{NatRole, SessionPhase, SessionStatus};
use kumade_packet::FlowKey;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// What has been seen of all flows. It takes what either gateway tells of its sessions, at any moment, and is pure.
#[derive(Debug, Default)]
pub(super) struct SessionObserver {
    flows: BTreeMap<FlowKey, FlowSessions>,
}

#[derive(Debug, Default)]
struct FlowSessions {
    sending: Vec<SenderSession>,
    receiving: Vec<ReceiverRule>,
}

/// A session at the sending gateway.
#[derive(Debug)]
struct SenderSession {
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
struct ReceiverRule {
    granted: Time,
    removed: Option<Time>,
    packets: u64,
}

/// Clocks are read one after the other: a rule may seem to be there so much before it was asked for.
const CLOCK_TOLERANCE: Span = Span::from_millis(50);

impl SessionObserver {
    /// The sessions of the sending gateway at this time; none if it does not run.
    pub(super) fn record_sender_sessions(&mut self, sessions: &[SessionStatus], now: Time) {
        let present: BTreeMap<_, _> = sessions_of_role(sessions, NatRole::Divides).collect();
        for (flow, status) in &present {
            self.flows.entry(*flow).or_default().record_sender_session(status, now);
        }
        for (_, seen) in self.flows.iter_mut().filter(|(flow, _)| !present.contains_key(flow)) {
            seen.sending.last_mut().into_iter().for_each(|session| session.mark_removed(now));
        }
    }

    /// The sessions of the receiving gateway at this time; none if it does not run.
    pub(super) fn record_receiver_rules(&mut self, sessions: &[SessionStatus], now: Time) {
        let present: BTreeMap<_, _> = sessions_of_role(sessions, NatRole::Restores).collect();
        for (flow, status) in &present {
            self.flows.entry(*flow).or_default().record_receiver_rule(status, now);
        }
        for (_, seen) in self.flows.iter_mut().filter(|(flow, _)| !present.contains_key(flow)) {
            seen.receiving.last_mut().into_iter().for_each(|rule| rule.mark_removed(now));
        }
    }

    /// The sessions of a flow whose packets were sent at these times. Times are counted from the first packet.
    pub(super) fn session_rows(&self, flow: &FlowKey, sent: &[Time], idle: Span) -> Vec<SessionRow> {
        let (Some(seen), Some(first)) = (self.flows.get(flow), sent.first()) else { return Vec::new() };
        let row = |(place, session): (usize, &SenderSession)| {
            let next = seen.sending.get(place + 1).map(|next| next.asked);
            let is_of = |rule: &&ReceiverRule| {
                rule.granted + CLOCK_TOLERANCE >= session.asked
                    && next.is_none_or(|next| rule.granted + CLOCK_TOLERANCE < next)
            };
            session.session_row(seen.receiving.iter().find(is_of), sent, *first, idle)
        };
        seen.sending.iter().enumerate().map(row).collect()
    }
}

impl FlowSessions {
    fn record_sender_session(&mut self, status: &SessionStatus, now: Time) {
        let is_new = match self.sending.last() {
            None => true,
            Some(last) => last.forgotten.is_some() || (last.opened.is_some() && is_before_opening(status.phase)),
        };
        if is_new {
            self.sending.last_mut().into_iter().for_each(|session| session.mark_removed(now));
            self.sending.push(SenderSession::new(status));
        }
        self.sending.last_mut().into_iter().for_each(|session| session.record_status(status, now));
    }

    fn record_receiver_rule(&mut self, status: &SessionStatus, now: Time) {
        if self.receiving.last().is_none_or(|last| last.granted != status.since) {
            self.receiving.last_mut().into_iter().for_each(|rule| rule.mark_removed(now));
            self.receiving.push(ReceiverRule { granted: status.since, removed: None, packets: 0 });
        }
        self.receiving.last_mut().into_iter().for_each(|rule| rule.packets = status.packets);
    }
}

impl SenderSession {
    /// `last_used` is when it was begun, or begun again, as long as nothing was divided.
    fn new(status: &SessionStatus) -> Self {
        let asked = if is_before_opening(status.phase) { status.last_used } else { status.since };
        SenderSession {
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
    fn mark_removed(&mut self, now: Time) {
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

    fn session_row(&self, rule: Option<&ReceiverRule>, sent: &[Time], first: Time, idle: Span) -> SessionRow {
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

impl ReceiverRule {
    fn mark_removed(&mut self, now: Time) {
        self.removed.get_or_insert(now);
    }
}

fn is_before_opening(phase: SessionPhase) -> bool {
    matches!(phase, SessionPhase::Waiting | SessionPhase::Asking)
}

fn sessions_of_role(sessions: &[SessionStatus], role: NatRole) -> impl Iterator<Item = (FlowKey, &SessionStatus)> {
    sessions.iter().filter(move |session| session.role == role).map(|session| (session.flow, session))
}
