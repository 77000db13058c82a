use super::action::NatAction;
use super::config::{NatConfig, SESSION_LEASE};
use super::message::{NatContent, RefusalReason};
use super::outbox::Outbox;
use super::rule::RestoredRule;
use super::statistics::{NatRole, SessionPhase, SessionStatus};
use super::timers::SessionTimers;
use kumade_packet::FlowKey;
use kumade_units::Time;
use std::collections::BTreeMap;

/// The sessions that the far end has asked for: this gateway gives their packets the addresses back.
#[derive(Debug)]
pub(super) struct ReceivingSessions {
    config: NatConfig,
    sessions: BTreeMap<u32, ReceivingSession>,
    /// As flows arrive.
    by_arriving: BTreeMap<FlowKey, u32>,
    timers: SessionTimers,
}

#[derive(Debug)]
struct ReceivingSession {
    rule: RestoredRule,
    since: Time,
    last_used: Time,
    /// By way of each pair of addresses.
    counts: BTreeMap<FlowKey, (u64, u64)>,
    /// When the rule is forgotten.
    timer: Option<Time>,
}

impl ReceivingSessions {
    pub(super) fn new(config: NatConfig) -> Self {
        ReceivingSessions {
            config,
            sessions: BTreeMap::new(),
            by_arriving: BTreeMap::new(),
            timers: SessionTimers::default(),
        }
    }

    /// The far end asks for a session.
    pub(super) fn session_requested(
        &mut self,
        id: u32,
        rule: RestoredRule,
        permitted: bool,
        out: &mut Outbox,
        now: Time,
    ) {
        if self.sessions.get(&id).is_some_and(|session| session.rule == rule) {
            self.renew_lease(id, now);
            return out.send_answer(NatContent::Accepted { id });
        }
        if !permitted {
            return refuse_session(id, RefusalReason::NotPermitted, out);
        }
        let conflicting: Vec<u32> =
            rule.arriving_flows().filter_map(|flow| self.by_arriving.get(&flow).copied()).collect();
        if conflicting.iter().any(|other| is_newer(*other, id)) {
            // It has been under way for long, and its session has ended.
            out.statistics.ignored_messages += 1;
            return;
        }
        // The far end knows which of its flows arrive so now.
        conflicting.into_iter().chain([id]).for_each(|id| self.remove(id, out));
        if self.sessions.len() >= self.config.max_sessions {
            return refuse_session(id, RefusalReason::Full, out);
        }
        self.by_arriving.extend(rule.arriving_flows().map(|flow| (flow, id)));
        out.push(NatAction::Restore { id, rule: rule.clone() });
        self.sessions
            .insert(id, ReceivingSession { rule, since: now, last_used: now, counts: BTreeMap::new(), timer: None });
        self.renew_lease(id, now);
    }

    /// Whether a rule could be installed that was to be.
    pub(super) fn rule_restored(&mut self, id: u32, is_done: bool, out: &mut Outbox) {
        if is_done {
            out.statistics.granted += 1;
            return out.send_answer(NatContent::Accepted { id });
        }
        out.statistics.failed += 1;
        self.remove_session(id);
        refuse_session(id, RefusalReason::Failed, out);
    }

    pub(super) fn session_ended(&mut self, id: u32, out: &mut Outbox) {
        self.remove(id, out);
        out.send_answer(NatContent::Ended { id });
    }

    pub(super) fn sessions_checked(&mut self, ids: &[u32], out: &mut Outbox, now: Time) {
        let mut unknown = ids.to_vec();
        unknown.retain(|id| !self.renew_lease(*id, now));
        out.send_answer(NatContent::CheckResult { unknown });
    }

    /// So much has arrived of a flow, in this form, since its rule was installed.
    pub(super) fn packets_arrived(&mut self, arriving: &FlowKey, packets: u64, bytes: u64, now: Time) {
        if let Some(session) = self.by_arriving.get(arriving).and_then(|id| self.sessions.get_mut(id))
            && session.counts.insert(*arriving, (packets, bytes)) != Some((packets, bytes))
        {
            session.last_used = now;
        }
    }

    pub(super) fn remove_all(&mut self, out: &mut Outbox) {
        let ids: Vec<u32> = self.sessions.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove(id, out));
    }

    /// Forgets what the far end no longer mentions.
    pub(super) fn advance(&mut self, out: &mut Outbox, now: Time) {
        while let Some(id) = self.timers.next_due(now) {
            out.statistics.lapsed += 1;
            self.remove(id, out);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn status(&self) -> impl Iterator<Item = SessionStatus> {
        self.sessions.values().map(|session| SessionStatus {
            role: NatRole::Restores,
            flow: session.rule.flow,
            aliases: session.rule.arriving.clone(),
            phase: SessionPhase::Active,
            since: session.since,
            last_used: session.last_used,
            deadline: session.timer,
            packets: session.counts.values().map(|(packets, _)| packets).sum(),
            bytes: session.counts.values().map(|(_, bytes)| bytes).sum(),
            tries: 0,
        })
    }

    /// The far end has this session. Whether it is known.
    fn renew_lease(&mut self, id: u32, now: Time) -> bool {
        let session = self.sessions.get_mut(&id);
        let is_known = session.is_some();
        session
            .into_iter()
            .for_each(|session| self.timers.set_timer(id, &mut session.timer, Some(now + SESSION_LEASE)));
        is_known
    }

    fn remove(&mut self, id: u32, out: &mut Outbox) {
        if let Some(rule) = self.remove_session(id) {
            out.push(NatAction::StopRestoring(rule));
        }
    }

    fn remove_session(&mut self, id: u32) -> Option<RestoredRule> {
        let mut session = self.sessions.remove(&id)?;
        self.timers.set_timer(id, &mut session.timer, None);
        for flow in session.rule.arriving_flows() {
            self.by_arriving.remove(&flow);
        }
        Some(session.rule)
    }
}

/// Numbers are given in order, and go round.
fn is_newer(id: u32, than: u32) -> bool {
    id.wrapping_sub(than).cast_signed() > 0
}

fn refuse_session(id: u32, reason: RefusalReason, out: &mut Outbox) {
    out.statistics.denied += 1;
    out.send_answer(NatContent::Refused { id, reason });
}
