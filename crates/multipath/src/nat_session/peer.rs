use super::action::NatAction;
use super::config::{CHECK_INTERVAL, MAX_MESSAGES_PER_SECOND, NatConfig, PEER_LOST_AFTER};
use super::incarnation::{Incarnation, IncarnationChange, PeerIncarnation};
use super::message::{NatContent, NatMessage};
use super::outbox::Outbox;
use super::receiving::ReceivingSessions;
use super::rule::{DividedRule, RestoredRule};
use super::sending::SendingSessions;
use super::statistics::{NatStatistics, SessionStatus};
use kumade_packet::FlowKey;
use kumade_units::{RateLimiter, Time};

/// One gateway's part of all NAT sessions with one other gateway. The module's first page has the loop contract.
#[derive(Debug)]
pub struct NatPeer {
    sending: SendingSessions,
    receiving: ReceivingSessions,
    out: Outbox,
    remote_instance: PeerIncarnation,
    message_limit: RateLimiter,
    /// When the far end last answered anything; none while it counts as lost.
    last_answer: Option<Time>,
    next_check: Time,
    /// Checks since the last answer.
    unanswered_checks: u32,
}

impl NatPeer {
    /// No sessions yet. `life` is a random number of this process, the same for all its peers.
    pub fn new(config: NatConfig, life: Incarnation, now: Time) -> Self {
        NatPeer {
            sending: SendingSessions::new(config),
            receiving: ReceivingSessions::new(config),
            out: Outbox::new(life),
            remote_instance: PeerIncarnation::default(),
            message_limit: RateLimiter::new(MAX_MESSAGES_PER_SECOND, MAX_MESSAGES_PER_SECOND),
            last_answer: None,
            next_check: now,
            unanswered_checks: 0,
        }
    }

    /// A flow to the far end's networks passes undivided. `rules` are the ways in which it might be divided, the best one
    /// first; they are computed only for a flow that has no session.
    pub fn flow_seen(&mut self, flow: FlowKey, rules: impl IntoIterator<Item = DividedRule>, now: Time) {
        if self.last_answer.is_some() {
            self.sending.flow_seen(flow, rules, &mut self.out, now);
            self.sending.advance(&mut self.out, now);
        }
    }

    /// So much of a flow, as hosts send it, has been divided since it is.
    pub fn flow_used(&mut self, flow: &FlowKey, packets: u64, bytes: u64, now: Time) {
        self.sending.flow_used(flow, packets, bytes, now);
    }

    /// All that has passed until now has been told by [`flow_used`](Self::flow_used): sessions end that were idle until now.
    pub fn counters_read(&mut self, now: Time) {
        self.sending.counters_read(&mut self.out, now);
    }

    /// When the first session will have been idle for long enough to end, unless something passes: it ends at the first
    /// [`counters_read`](Self::counters_read) from then on.
    pub fn next_idle_check(&self) -> Option<Time> {
        self.sending.next_idle_check()
    }

    /// So much of a flow has arrived in this form since it is given its addresses back.
    pub fn packets_arrived(&mut self, arriving: &FlowKey, packets: u64, bytes: u64, now: Time) {
        self.receiving.packets_arrived(arriving, packets, bytes, now);
    }

    /// The system could not divide a flow ([`NatAction::Divide`]).
    pub fn divide_failed(&mut self, id: u32, now: Time) {
        self.sending.divide_failed(id, &mut self.out, now);
    }

    /// Whether a flow is now given its addresses back ([`NatAction::Restore`]).
    pub fn rule_restored(&mut self, id: u32, is_done: bool) {
        self.receiving.rule_restored(id, is_done, &mut self.out);
    }

    /// There are new keys: the far end, which may have restarted, is asked at the next [`advance`](Self::advance).
    pub fn peer_connected(&mut self, now: Time) {
        self.next_check = self.next_check.min(now);
    }

    /// A message came from the far end, whose key has been proven. `permits` says whether a rule that it asks for is within
    /// what this gateway's configuration has for it.
    pub fn receive(&mut self, message: NatMessage, permits: impl FnOnce(&RestoredRule) -> bool, now: Time) {
        if !self.message_limit.take(1.0, now) {
            self.out.statistics.rate_limited_messages += 1;
            return;
        }
        // Also what was sent to an earlier life tells who sends: both may have restarted.
        let is_met = self.accept_incarnation(message.sender, now);
        if !is_met || message.receiver.is_some_and(|to| to != self.out.incarnation()) {
            self.out.statistics.ignored_messages += 1;
            return;
        }
        self.record_answer(&message.content, now);
        let NatPeer { sending, receiving, out, .. } = self;
        match message.content {
            NatContent::Request { id, rule } => {
                let is_permitted = permits(&rule);
                receiving.session_requested(id, rule, is_permitted, out, now);
            }
            NatContent::Accepted { id } => sending.session_accepted(id, out, now),
            NatContent::Refused { id, reason } => sending.session_refused(id, reason, out, now),
            NatContent::End { id } => receiving.session_ended(id, out),
            NatContent::Ended { id } => sending.session_ended(id),
            NatContent::Check { ids } => receiving.sessions_checked(&ids, out, now),
            NatContent::CheckResult { unknown } => sending.sessions_unknown(&unknown, out, now),
            NatContent::Bye => {
                receiving.remove_all(out);
                sending.peer_lost(out);
                self.last_answer = None;
            }
        }
        self.sending.advance(&mut self.out, now);
    }

    /// What came from the far end is no message about sessions.
    pub fn count_malformed(&mut self) {
        self.out.statistics.ignored_messages += 1;
    }

    /// Whether a message of that life is to be heeded. After a restart of the far end, it knows no sessions.
    fn accept_incarnation(&mut self, life: Incarnation, now: Time) -> bool {
        match self.remote_instance.observe(life, now) {
            IncarnationChange::Same => return true,
            IncarnationChange::Stale => return false,
            IncarnationChange::First => {}
            IncarnationChange::Restarted => self.out.statistics.restarts += 1,
        }
        self.out.set_peer_incarnation(life);
        self.receiving.remove_all(&mut self.out);
        self.sending.handle_remote_restart(&mut self.out, now);
        true
    }

    fn record_answer(&mut self, content: &NatContent, now: Time) {
        let is_answer = match content {
            NatContent::Accepted { .. } | NatContent::Refused { .. } => true,
            NatContent::Ended { .. } | NatContent::CheckResult { .. } => true,
            NatContent::Request { .. } | NatContent::End { .. } | NatContent::Check { .. } | NatContent::Bye => false,
        };
        if is_answer {
            self.last_answer = Some(now);
            self.unanswered_checks = 0;
        }
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Time) {
        if self.last_answer.is_some_and(|answered| now - answered >= PEER_LOST_AFTER) {
            self.last_answer = None;
            self.out.statistics.losses += 1;
            self.sending.peer_lost(&mut self.out);
        }
        self.receiving.advance(&mut self.out, now);
        self.sending.advance(&mut self.out, now);
        if now >= self.next_check {
            self.check_sessions(now);
        }
    }

    fn check_sessions(&mut self, now: Time) {
        self.next_check = now + CHECK_INTERVAL;
        let ids = self.sending.next_check();
        let mut parts: Vec<&[u32]> = ids.chunks(NatContent::MAX_IDS).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        for part in parts {
            self.out.send(NatContent::Check { ids: part.to_vec() }, self.unanswered_checks);
        }
        self.unanswered_checks = self.unanswered_checks.saturating_add(1);
        if self.last_answer.is_none() {
            self.out.push(NatAction::Reconnect);
        }
    }

    /// This gateway ends, and its rules with it: tells the far end, which removes its own at once.
    pub fn close(&mut self) {
        self.out.send(NatContent::Bye, 0);
    }

    /// The next thing to do. Ask after each other call until there is none.
    pub fn next_action(&mut self) -> Option<NatAction> {
        self.out.pop()
    }

    /// When to call [`advance`](Self::advance).
    pub fn next_deadline(&self) -> Time {
        let lost = self.last_answer.map(|answered| answered + PEER_LOST_AFTER);
        let others = [self.sending.next_deadline(), self.receiving.next_deadline(), lost];
        others.into_iter().flatten().fold(self.next_check, Time::min)
    }

    /// Whether the far end answers.
    pub fn is_reachable(&self) -> bool {
        self.last_answer.is_some()
    }

    /// How many sessions there are, as the sending and as the receiving gateway.
    pub fn session_counts(&self) -> (usize, usize) {
        (self.sending.len(), self.receiving.len())
    }

    /// The sessions, those of the sending gateway first.
    pub fn sessions(&self) -> impl Iterator<Item = SessionStatus> {
        self.sending.status().chain(self.receiving.status())
    }

    /// What has become of them.
    pub fn statistics(&self) -> NatStatistics {
        self.out.statistics
    }
}
