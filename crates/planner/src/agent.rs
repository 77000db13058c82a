//! One end of the runs: what it was granted, when it may begin, and whether it may still carry trains.

use crate::id::{ResourceId, RunId};
use crate::message::{AgentMessage, Grant, Heartbeat, Outcome, Refusal, Role};
use crate::token::Token;
use kumade_units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// How often an agent says that it lives.
pub const HEARTBEAT_INTERVAL: Span = Span::from_secs(5);

/// One end of the runs. See the crate's first page for how to drive it.
#[derive(Debug)]
pub struct Agent {
    instance: u64,
    is_connected: bool,
    next_heartbeat: Time,
    /// The greatest token that was seen for each resource: what comes with a smaller one comes late.
    newest: BTreeMap<ResourceId, Token>,
    /// The same of epochs: a coordinator that was deposed and does not know it.
    newest_epoch: u64,
    held: BTreeMap<Token, HeldGrant>,
    claim: Option<String>,
    unavailable: Option<String>,
    outputs: VecDeque<AgentOutput>,
}

/// A run that this end may carry, with its times by this end's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGrant {
    /// As it was granted.
    pub grant: Grant,
    /// After this it does not begin.
    pub start_by: Time,
    /// Its last packet leaves before this.
    pub end_by: Time,
    /// When it began at this end.
    pub began: Option<Time>,
}

/// What is to be done by the agent's shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutput {
    /// Send this to the coordinator. What can't be sent, since the connection has ended, may be dropped.
    Send(AgentMessage),
    /// This end is the initiator: connect to the other end, then [`Agent::begin`], then measure. If the other end does not
    /// hold its grant yet ([`Refusal::NotHeld`]), ask again until `start_by`.
    Begin(HeldGrant),
    /// Stop this run at once: its time is over, or a newer grant uses its resources. It has ended for the coordinator.
    Stop(Token),
}

/// Who has the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// A planned run, for so long at most.
    #[error("the planned run {} measures at this host, for {within} at most", run.0)]
    Run {
        /// Which run.
        run: RunId,
        /// It ends within this.
        within: Span,
    },
    /// Someone else.
    #[error("{0} measures at this host")]
    Held(String),
}

impl Agent {
    /// `instance` is a random number of this process.
    pub fn new(instance: u64, now: Time) -> Self {
        Agent {
            instance,
            is_connected: false,
            next_heartbeat: now,
            newest: BTreeMap::new(),
            newest_epoch: 0,
            held: BTreeMap::new(),
            claim: None,
            unavailable: None,
            outputs: VecDeque::new(),
        }
    }

    /// A connection to a coordinator has been made.
    pub fn connect(&mut self, now: Time) {
        self.is_connected = true;
        self.send_heartbeat(now);
    }

    /// The connection to the coordinator has ended. What has begun goes on until its time is over; nothing else begins.
    pub fn disconnect(&mut self, now: Time) {
        self.is_connected = false;
        self.give_up_unbegun(&Refusal::Disconnected, now);
    }

    /// A grant has arrived. One that was seen before, or is older than one of the same resources, changes nothing.
    pub fn receive(&mut self, grant: Grant, now: Time) {
        let is_old = grant.resources.iter().any(|resource| self.newest.get(resource) >= Some(&grant.token));
        if grant.instance != self.instance || grant.token.epoch < self.newest_epoch || is_old {
            return;
        }
        self.supersede(&grant, now);
        self.newest_epoch = grant.token.epoch;
        self.newest.extend(grant.resources.iter().map(|resource| (*resource, grant.token)));
        let (token, start_by) = (grant.token, grant.stamp + grant.start_within);
        let held = HeldGrant { start_by, end_by: grant.stamp + grant.end_within, began: None, grant };
        if let Some(holder) = self.claim.as_ref().or(self.unavailable.as_ref()) {
            let refusal = Refusal::Claimed(holder.clone());
            self.send_end(token, Outcome::Refused(refusal), Span::ZERO);
        } else if now > start_by || !self.is_connected {
            let refusal = if self.is_connected { Refusal::Late } else { Refusal::Disconnected };
            self.send_end(token, Outcome::Refused(refusal), Span::ZERO);
        } else {
            if held.grant.role == Role::Initiator {
                self.outputs.push_back(AgentOutput::Begin(held.clone()));
            }
            self.held.insert(token, held);
        }
    }

    /// The run begins at this end: the initiator is about to ask the other end, or the responder is asked. Once begun,
    /// to be asked again changes nothing.
    ///
    /// # Errors
    ///
    /// It may not begin: no train may be sent or answered.
    pub fn begin(&mut self, token: Token, now: Time) -> Result<(), Refusal> {
        let held = self.held.get_mut(&token).ok_or(Refusal::NotHeld)?;
        if held.began.is_some() {
            return self.may_carry(token, Span::ZERO, now);
        }
        if now > held.start_by {
            return Err(Refusal::Late);
        }
        held.began = Some(now);
        self.outputs.push_back(AgentOutput::Send(AgentMessage::Began { token }));
        Ok(())
    }

    /// Whether this end may send, or let the other end send, a train that is over after so long. To be asked before each train, with
    /// the time as it is then: a process that was stopped for a while asks again. The time after which the initiator takes no
    /// answer for an answer counts to the duration of a train that it sends.
    ///
    /// # Errors
    ///
    /// It may not: the run's time is over, or its resources are another run's.
    pub fn may_carry(&self, token: Token, duration: Span, now: Time) -> Result<(), Refusal> {
        let held = self.held.get(&token).ok_or(Refusal::NotHeld)?;
        if held.began.is_none() {
            return Err(Refusal::NotBegun);
        }
        if now + duration > held.end_by { Err(Refusal::Late) } else { Ok(()) }
    }

    /// The run has ended at this end. Nothing is sent or answered for it any more.
    pub fn end(&mut self, token: Token, outcome: Outcome, now: Time) {
        if let Some(held) = self.held.remove(&token) {
            let took = held.began.map_or(Span::ZERO, |began| now - began);
            self.send_end(token, outcome, took);
        }
    }

    /// Someone else wants to measure at this host. Planned runs that have not begun give their slots up, and none begins
    /// before [`release_claim`](Self::release_claim).
    ///
    /// # Errors
    ///
    /// Who has the host.
    pub fn claim(&mut self, holder: &str, now: Time) -> Result<(), ClaimError> {
        if let Some(other) = &self.claim {
            return Err(ClaimError::Held(other.clone()));
        }
        if let Some(held) = self.held.values().find(|held| held.began.is_some() && now < held.end_by) {
            return Err(ClaimError::Run { run: held.grant.run, within: held.end_by - now });
        }
        self.claim = Some(holder.to_owned());
        self.give_up_unbegun(&Refusal::Claimed(holder.to_owned()), now);
        self.send_heartbeat(now);
        Ok(())
    }

    /// The one that has claimed the host has ended.
    pub fn release_claim(&mut self, now: Time) {
        if self.claim.take().is_some() {
            self.send_heartbeat(now);
        }
    }

    /// Nothing may begin at this host for this reason, or it may: planned runs that have not begun give their slots up. Other hosts may use its
    /// links meanwhile.
    pub fn set_unavailable(&mut self, reason: Option<String>, now: Time) {
        if self.unavailable == reason {
            return;
        }
        if let Some(reason) = &reason {
            self.give_up_unbegun(&Refusal::Claimed(reason.clone()), now);
        }
        self.unavailable = reason;
        self.send_heartbeat(now);
    }

    /// Time has passed. Drain [`next_output`](Self::next_output) afterwards.
    pub fn advance(&mut self, now: Time) {
        let is_over = |held: &HeldGrant| match held.began {
            Some(_) => now >= held.end_by,
            None => now > held.start_by,
        };
        let over: Vec<_> = self.held.values().filter(|held| is_over(held)).map(|held| held.grant.token).collect();
        for token in over {
            let has_begun = self.held.get(&token).is_some_and(|held| held.began.is_some());
            if has_begun {
                self.outputs.push_back(AgentOutput::Stop(token));
            }
            self.end(token, if has_begun { Outcome::CutOff } else { Outcome::NotStarted }, now);
        }
        if self.is_connected && now >= self.next_heartbeat {
            self.send_heartbeat(now);
        }
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<AgentOutput> {
        self.outputs.pop_front()
    }

    /// When to call [`advance`](Self::advance), at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let ends = self.held.values().map(|held| match held.began {
            Some(_) => held.end_by,
            None => held.start_by + Span::from_nanos(1),
        });
        ends.chain(self.is_connected.then_some(self.next_heartbeat)).min()
    }

    /// What it holds, for a view.
    pub fn held(&self) -> impl Iterator<Item = &HeldGrant> {
        self.held.values()
    }

    /// Older grants of the same resources end: the coordinator would not have given this one otherwise.
    fn supersede(&mut self, grant: &Grant, now: Time) {
        let shares = |held: &&HeldGrant| held.grant.resources.iter().any(|used| grant.resources.contains(used));
        let superseded: Vec<_> = self.held.values().filter(shares).map(|held| held.grant.token).collect();
        for token in superseded {
            self.outputs.push_back(AgentOutput::Stop(token));
            self.end(token, Outcome::CutOff, now);
        }
    }

    fn give_up_unbegun(&mut self, refusal: &Refusal, now: Time) {
        let unbegun = self.held.values().filter(|held| held.began.is_none()).map(|held| held.grant.token);
        for token in unbegun.collect::<Vec<_>>() {
            self.end(token, Outcome::Refused(refusal.clone()), now);
        }
    }

    fn send_end(&mut self, token: Token, outcome: Outcome, took: Span) {
        self.outputs.push_back(AgentOutput::Send(AgentMessage::Ended { token, outcome, took }));
    }

    fn send_heartbeat(&mut self, now: Time) {
        self.next_heartbeat = now + HEARTBEAT_INTERVAL;
        let held = self.held.keys().copied().collect();
        let (claim, unavailable) = (self.claim.clone(), self.unavailable.clone());
        let heartbeat = Heartbeat { instance: self.instance, stamp: now, held, claim, unavailable };
        self.outputs.push_back(AgentOutput::Send(AgentMessage::Heartbeat(heartbeat)));
    }
}
