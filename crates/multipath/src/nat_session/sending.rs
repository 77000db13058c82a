use super::action::NatAction;
use super::config::{
    CHECK_CYCLE_INTERVALS, HOLD_DOWN, MAX_OPEN_REQUESTS, MAX_REQUEST_BURST, MAX_REQUESTS_PER_SECOND, MAX_TRIES,
    NatConfig, retry_interval,
};
use super::message::{NatContent, RefusalReason};
use super::outbox::Outbox;
use super::rule::DividedRule;
use super::statistics::{NatRole, SessionPhase, SessionStatus};
use super::timers::SessionTimers;
use kumade_packet::FlowKey;
use kumade_units::{RateLimiter, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// The sessions that this gateway has asked for: it divides their flows.
#[derive(Debug)]
pub(super) struct SendingSessions {
    config: NatConfig,
    sessions: BTreeMap<u32, SendingSession>,
    by_flow: BTreeMap<FlowKey, u32>,
    /// Flows as they arrive at the far end: no two sessions may look alike there.
    arriving_flows: BTreeSet<FlowKey>,
    /// Sessions that are to be asked for, in order.
    waiting_ids: VecDeque<u32>,
    /// How many requests wait for an answer.
    pending_requests: usize,
    /// Of requests.
    request_limit: RateLimiter,
    timers: SessionTimers,
    /// Until when it is known what has passed.
    counted_until: Time,
    /// Active sessions that have been idle for long enough unless something has passed since.
    overdue_ids: Vec<u32>,
    next_id: u32,
    /// The session behind which the next check begins.
    last_checked: u32,
}

#[derive(Debug)]
struct SendingSession {
    rule: DividedRule,
    phase: SessionPhase,
    since: Time,
    last_used: Time,
    packets: u64,
    bytes: u64,
    tries: u32,
    timer: Option<Time>,
}

impl SendingSessions {
    pub(super) fn new(config: NatConfig) -> Self {
        SendingSessions {
            config,
            sessions: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            arriving_flows: BTreeSet::new(),
            waiting_ids: VecDeque::new(),
            pending_requests: 0,
            request_limit: RateLimiter::new(MAX_REQUESTS_PER_SECOND, MAX_REQUEST_BURST),
            timers: SessionTimers::default(),
            counted_until: Time::ZERO,
            overdue_ids: Vec::new(),
            next_id: 0,
            last_checked: 0,
        }
    }

    /// A flow passes undivided. Takes the first of its possible aliases that no other session has.
    pub(super) fn flow_seen<A>(&mut self, flow: FlowKey, rules: A, out: &mut Outbox, now: Time)
    where
        A: IntoIterator<Item = DividedRule>,
    {
        if self.by_flow.contains_key(&flow) {
            return;
        }
        if self.sessions.len() >= self.config.max_sessions {
            out.statistics.full += 1;
            return;
        }
        let is_free = |rule: &DividedRule| {
            rule.restored_rule().arriving_flows().all(|arriving| !self.arriving_flows.contains(&arriving))
        };
        match rules.into_iter().find(is_free) {
            Some(rule) => {
                out.statistics.begun += 1;
                self.begin_session(rule, now, now);
            }
            None => {
                out.statistics.no_alias += 1;
                let id = self.insert(DividedRule { flow, aliases: Vec::new() }, SessionPhase::Refused(None), now);
                self.set_timer(id, Some(now + HOLD_DOWN));
            }
        }
    }

    fn begin_session(&mut self, rule: DividedRule, since: Time, now: Time) {
        self.arriving_flows.extend(rule.restored_rule().arriving_flows());
        let id = self.insert(rule, SessionPhase::Waiting, now);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.since = since;
        }
        self.waiting_ids.push_back(id);
    }

    fn insert(&mut self, rule: DividedRule, phase: SessionPhase, now: Time) -> u32 {
        while self.sessions.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.by_flow.insert(rule.flow, id);
        let session =
            SendingSession { rule, phase, since: now, last_used: now, packets: 0, bytes: 0, tries: 0, timer: None };
        self.sessions.insert(id, session);
        id
    }

    /// So much of a flow has been divided since it is.
    pub(super) fn flow_used(&mut self, flow: &FlowKey, packets: u64, bytes: u64, now: Time) {
        let session = self.by_flow.get(flow).and_then(|id| self.sessions.get_mut(id));
        if let Some(session) = session.filter(|session| session.phase == SessionPhase::Active)
            && session.packets != packets
        {
            (session.packets, session.bytes, session.last_used) = (packets, bytes, now);
        }
    }

    /// What has passed until now has been told: sessions end that are idle.
    pub(super) fn counters_read(&mut self, out: &mut Outbox, now: Time) {
        self.counted_until = now;
        for id in std::mem::take(&mut self.overdue_ids) {
            if self.session_phase(id) == Some(SessionPhase::Active) {
                self.end_if_idle(id, out, now);
            }
        }
    }

    /// When the first session will have been idle for long enough, unless something passes.
    pub(super) fn next_idle_check(&self) -> Option<Time> {
        let active = self.sessions.values().filter(|session| session.phase == SessionPhase::Active);
        active.map(|session| session.last_used + self.config.idle_timeout).min()
    }

    pub(super) fn session_accepted(&mut self, id: u32, out: &mut Outbox, now: Time) {
        let idle = self.config.idle_timeout;
        let Some(session) = self.requested_session(id) else { return };
        (session.phase, session.tries) = (SessionPhase::Active, 0);
        (session.last_used, session.packets, session.bytes) = (now, 0, 0);
        let rule = session.rule.clone();
        out.statistics.accepted += 1;
        out.push(NatAction::Divide { id, rule });
        self.pending_requests -= 1;
        self.set_timer(id, Some(now + idle));
    }

    pub(super) fn session_refused(&mut self, id: u32, reason: RefusalReason, out: &mut Outbox, now: Time) {
        if self.requested_session(id).is_some() {
            out.statistics.refused += 1;
            self.hold_down(id, SessionPhase::Refused(Some(reason)), now);
        }
    }

    /// The system took no rule for it.
    pub(super) fn divide_failed(&mut self, id: u32, out: &mut Outbox, now: Time) {
        if self.session_phase(id) == Some(SessionPhase::Active) {
            out.statistics.failed += 1;
            out.send(NatContent::End { id }, 0);
            self.hold_down(id, SessionPhase::Refused(None), now);
        }
    }

    pub(super) fn session_ended(&mut self, id: u32) {
        if self.session_phase(id) == Some(SessionPhase::Ending) {
            self.remove(id);
        }
    }

    /// The far end does not know these, which it had confirmed.
    pub(super) fn sessions_unknown(&mut self, ids: &[u32], out: &mut Outbox, now: Time) {
        for id in ids {
            if self.session_phase(*id) == Some(SessionPhase::Active) {
                out.statistics.asked_again += 1;
                self.request_again(*id, out, now);
            }
        }
    }

    /// The far end has forgotten everything, but answers.
    pub(super) fn handle_remote_restart(&mut self, out: &mut Outbox, now: Time) {
        for id in self.ids() {
            match self.session_phase(id) {
                Some(SessionPhase::Active) => {
                    out.statistics.asked_again += 1;
                    self.request_again(id, out, now);
                }
                Some(SessionPhase::Asking) => self.request_again(id, out, now),
                Some(SessionPhase::Waiting) | None => {}
                Some(_) => drop(self.remove(id)),
            }
        }
    }

    /// The far end no longer answers: flows go as they would without sessions, and begin anew once it does.
    pub(super) fn peer_lost(&mut self, out: &mut Outbox) {
        for id in self.ids() {
            self.send_end(id, out);
            self.remove(id);
        }
        self.waiting_ids.clear();
    }

    /// Does what is due, and asks for sessions as far as answers come.
    pub(super) fn advance(&mut self, out: &mut Outbox, now: Time) {
        while let Some(id) = self.timers.next_due(now) {
            self.set_timer(id, None);
            match self.session_phase(id) {
                Some(SessionPhase::Asking | SessionPhase::Ending) => self.retransmit(id, out, now),
                Some(SessionPhase::Active) => self.end_if_idle(id, out, now),
                Some(SessionPhase::Waiting) | None => {}
                Some(SessionPhase::Refused(_) | SessionPhase::Unanswered) => drop(self.remove(id)),
            }
        }
        self.request_waiting(out, now);
    }

    fn request_waiting(&mut self, out: &mut Outbox, now: Time) {
        while self.pending_requests < MAX_OPEN_REQUESTS
            && let Some(&id) = self.waiting_ids.front()
        {
            // It may have ended since.
            let Some(session) = self.sessions.get_mut(&id) else {
                self.waiting_ids.pop_front();
                continue;
            };
            if !self.request_limit.take(1.0, now) {
                return;
            }
            self.waiting_ids.pop_front();
            session.phase = SessionPhase::Asking;
            self.pending_requests += 1;
            self.transmit(id, out, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let is_paced = self.pending_requests < MAX_OPEN_REQUESTS && !self.waiting_ids.is_empty();
        let request = is_paced.then(|| self.request_limit.available_at());
        self.timers.next_deadline().into_iter().chain(request).min()
    }

    /// Which sessions to mention this time: of those that the far end has confirmed, so many that all have their turn.
    pub(super) fn next_check(&mut self) -> Vec<u32> {
        let count = self.sessions.len().div_ceil(CHECK_CYCLE_INTERVALS).max(NatContent::MAX_IDS);
        let behind = (Bound::Excluded(self.last_checked), Bound::Unbounded);
        let around = self.sessions.range(behind).chain(self.sessions.range(..=self.last_checked));
        let active = around.filter(|(_, session)| session.phase == SessionPhase::Active);
        let ids: Vec<u32> = active.map(|(id, _)| *id).take(count).collect();
        self.last_checked = ids.last().copied().unwrap_or(self.last_checked);
        ids
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn status(&self) -> impl Iterator<Item = SessionStatus> {
        self.sessions.values().map(|session| SessionStatus {
            role: NatRole::Divides,
            flow: session.rule.flow,
            aliases: session.rule.restored_rule().arriving,
            phase: session.phase,
            since: session.since,
            last_used: session.last_used,
            deadline: match session.phase {
                SessionPhase::Active => Some(session.last_used + self.config.idle_timeout),
                _ => session.timer,
            },
            packets: session.packets,
            bytes: session.bytes,
            tries: session.tries,
        })
    }

    fn ids(&self) -> Vec<u32> {
        self.sessions.keys().copied().collect()
    }

    fn session_phase(&self, id: u32) -> Option<SessionPhase> {
        self.sessions.get(&id).map(|session| session.phase)
    }

    /// A session that waits for an answer to its request.
    fn requested_session(&mut self, id: u32) -> Option<&mut SendingSession> {
        self.sessions.get_mut(&id).filter(|session| session.phase == SessionPhase::Asking)
    }

    fn set_timer(&mut self, id: u32, at: Option<Time>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.timers.set_timer(id, &mut session.timer, at);
        }
    }

    /// Sends what the session's phase asks for.
    fn transmit(&mut self, id: u32, out: &mut Outbox, now: Time) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let content = match session.phase {
            SessionPhase::Ending => NatContent::End { id },
            _ => NatContent::Request { id, rule: session.rule.restored_rule() },
        };
        out.send(content, session.tries);
        session.tries += 1;
        let at = now + retry_interval(session.tries);
        self.set_timer(id, Some(at));
    }

    fn retransmit(&mut self, id: u32, out: &mut Outbox, now: Time) {
        let Some(session) = self.sessions.get(&id) else { return };
        if session.tries < MAX_TRIES {
            out.statistics.retransmissions += 1;
            return self.transmit(id, out, now);
        }
        out.statistics.unanswered += 1;
        if session.phase == SessionPhase::Ending {
            // The far end's rule lapses.
            self.remove(id);
        } else {
            self.hold_down(id, SessionPhase::Unanswered, now);
        }
    }

    fn end_if_idle(&mut self, id: u32, out: &mut Outbox, now: Time) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let idle_at = session.last_used + self.config.idle_timeout;
        if now < idle_at {
            return self.set_timer(id, Some(idle_at));
        }
        if self.counted_until < idle_at {
            return self.overdue_ids.push(id);
        }
        out.statistics.idle += 1;
        out.push(NatAction::StopDividing(session.rule.clone()));
        session.phase = SessionPhase::Ending;
        self.transmit(id, out, now);
    }

    /// Leaves the flow undivided until the far end has confirmed it once more, under a number that no earlier answer has.
    fn request_again(&mut self, id: u32, out: &mut Outbox, now: Time) {
        self.send_end(id, out);
        let Some(SendingSession { rule, since, .. }) = self.remove(id) else { return };
        self.begin_session(rule, since, now);
    }

    fn send_end(&self, id: u32, out: &mut Outbox) {
        if let Some(session) = self.sessions.get(&id).filter(|session| session.phase == SessionPhase::Active) {
            out.push(NatAction::StopDividing(session.rule.clone()));
        }
    }

    /// Leaves the flow alone for a while.
    fn hold_down(&mut self, id: u32, phase: SessionPhase, now: Time) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.phase == SessionPhase::Asking {
            self.pending_requests -= 1;
        }
        session.phase = phase;
        for arriving in session.rule.restored_rule().arriving_flows() {
            self.arriving_flows.remove(&arriving);
        }
        session.rule.aliases.clear();
        self.set_timer(id, Some(now + HOLD_DOWN));
    }

    fn remove(&mut self, id: u32) -> Option<SendingSession> {
        self.set_timer(id, None);
        let session = self.sessions.remove(&id)?;
        if session.phase == SessionPhase::Asking {
            self.pending_requests -= 1;
        }
        self.by_flow.remove(&session.rule.flow);
        for arriving in session.rule.restored_rule().arriving_flows() {
            self.arriving_flows.remove(&arriving);
        }
        Some(session)
    }
}
