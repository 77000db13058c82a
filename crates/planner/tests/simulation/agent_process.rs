//! An agent, and what measures and answers beside it in the same process.

use super::{Ablation, Frame, Node, Process, World, plans};
use kumade_planner::{Agent, AgentOutput, HeldGrant, Outcome, Refusal, ResourceId, Token};
use kumade_units::{Span, Time};
use rand::{Rng, RngExt};
use std::collections::BTreeMap;

/// An answer that has not come by then is asked for again, and allows nothing when it comes later.
const ANSWER_TIMEOUT: Span = Span::from_secs(1);
/// The responder may not hold its grant yet.
const ASK_AGAIN_AFTER: Span = Span::from_millis(200);
/// One run in so many measures until it is stopped.
const HANGING: f64 = 0.02;

pub struct AgentProcess {
    pub(super) process: Process,
    agent: Option<Agent>,
    measuring: BTreeMap<Token, Measuring>,
    /// What each grant uses, as the truth is.
    resources: BTreeMap<Token, Vec<ResourceId>>,
    claimed: bool,
    arrived: u32,
    /// The last train that this agent has sent as a responder, and when it is out.
    answering: Option<(Token, Time)>,
}

/// A run that this agent has begun.
struct Measuring {
    peer: Option<usize>,
    /// Number of trains that are to come.
    left: u32,
    /// How often it has asked: an answer to an earlier question is none.
    number: u32,
    train: Span,
    is_waiting: bool,
    has_begun: bool,
    /// Only the last time that was asked for counts.
    wake: u32,
    asked: Time,
}

impl AgentProcess {
    pub(super) fn new(random: &mut impl Rng) -> Self {
        let process = Process::new(random);
        let (measuring, resources) = (BTreeMap::new(), BTreeMap::new());
        AgentProcess { process, agent: None, measuring, resources, claimed: false, arrived: 0, answering: None }
    }
}

impl World {
    pub(super) fn start_agent(&mut self, number: usize) {
        let instance = self.random.random();
        let this = &mut self.agents[number];
        let now = this.process.clock.boot_time(self.now);
        let mut agent = Agent::new(instance, now);
        agent.connect(now);
        this.agent = Some(agent);
        this.measuring.clear();
        this.resources.clear();
        this.claimed = false;
        self.drive_agent(number, now);
    }

    pub(super) fn handle_at_agent(&mut self, number: usize, frame: Frame) {
        let now = self.agents[number].process.clock.boot_time(self.now);
        match frame {
            Frame::Grant(mut grant) => {
                let this = &mut self.agents[number];
                this.resources.insert(grant.token, grant.resources.clone());
                if this.resources.len() > 50 {
                    this.resources.pop_first();
                }
                match self.settings.ablation {
                    // The agent knows no resource again.
                    Ablation::NoFencing => {
                        this.arrived += 1;
                        grant.resources = vec![ResourceId(1_000_000 + this.arrived)];
                    }
                    Ablation::SpansFromArrival => {
                        grant.end_within = grant.end_within - grant.start_within + Span::from_secs(10);
                        grant.start_within = Span::from_secs(10);
                        grant.stamp = now;
                    }
                    _ => {}
                }
                this.agent.as_mut().expect("up").receive(grant, now);
            }
            Frame::Link(true) => self.agents[number].agent.as_mut().expect("up").connect(now),
            Frame::Link(false) => self.agents[number].agent.as_mut().expect("up").disconnect(now),
            Frame::Claim(begins) => self.claim(number, begins, now),
            Frame::Ask { from, token, number: train, train: span, down } => {
                self.answer(number, from, (token, train), span, down, now);
            }
            Frame::Answer { token, number: train, carried } => self.take_answer(number, token, train, carried, now),
            // A train is over and the next one is asked for, or an answer has not come.
            Frame::Wake { token, number: wake }
                if self.agents[number].measuring.get(&token).is_some_and(|measuring| measuring.wake == wake) =>
            {
                self.ask(number, token, now);
            }
            Frame::Bye { token } => match self.agents[number].answering {
                // A run ends once its last train is out.
                Some((answered, until)) if answered == token && until > self.now => {
                    self.schedule(until, super::Event::Arrive(Node::Agent(number), Frame::Bye { token }));
                }
                _ => self.agents[number].agent.as_mut().expect("up").end(token, Outcome::Finished, now),
            },
            _ => {}
        }
        self.drive_agent(number, now);
    }

    fn claim(&mut self, number: usize, begins: bool, now: Time) {
        let this = &mut self.agents[number];
        let agent = this.agent.as_mut().expect("up");
        if begins {
            this.claimed |= agent.claim("somebody", now).is_ok();
        } else {
            agent.release_claim(now);
            this.claimed = false;
        }
        self.observer.see_claim(plans::host(number as u32), this.claimed);
    }

    /// Does what is to be done, and sets the timer.
    fn drive_agent(&mut self, number: usize, now: Time) {
        self.agents[number].agent.as_mut().expect("up").advance(now);
        while let Some(output) = self.agents[number].agent.as_mut().and_then(Agent::next_output) {
            match output {
                AgentOutput::Send(message) => {
                    for coordinator in 0..self.coordinators.len() {
                        let frame = Frame::FromAgent(number, message.clone());
                        self.send(Node::Agent(number), Node::Coordinator(coordinator), frame);
                    }
                }
                AgentOutput::Begin(held) => self.begin(number, &held, now),
                AgentOutput::Stop(token) => {
                    if let Some(Measuring { peer: Some(peer), .. }) = self.agents[number].measuring.remove(&token) {
                        self.send(Node::Agent(number), Node::Agent(peer), Frame::Bye { token });
                    }
                }
            }
        }
        let agent = self.agents[number].agent.as_ref().expect("up");
        if let Some(deadline) = agent.next_deadline() {
            self.set_timer(Node::Agent(number), deadline);
        }
    }

    fn begin(&mut self, number: usize, held: &HeldGrant, now: Time) {
        let token = held.grant.token;
        let hangs = self.random.random_bool(HANGING);
        let measuring = Measuring {
            peer: held.grant.peer.map(|peer| peer.0 as usize),
            left: if hangs { u32::MAX } else { self.random.random_range(2..6) },
            number: 0,
            train: self.log_uniform(0.05, 0.5),
            is_waiting: false,
            has_begun: false,
            wake: 0,
            asked: now,
        };
        self.agents[number].measuring.insert(token, measuring);
        self.ask(number, token, now);
    }

    /// The next train, or the end.
    fn ask(&mut self, number: usize, token: Token, now: Time) {
        let this = &mut self.agents[number];
        let Some(measuring) = this.measuring.get_mut(&token) else { return };
        let agent = this.agent.as_mut().expect("up");
        if !measuring.has_begun {
            measuring.has_begun = true;
            if agent.begin(token, now).is_err() {
                this.measuring.remove(&token);
                return;
            }
        }
        let peer = measuring.peer;
        if measuring.left == 0 || agent.may_carry(token, measuring.train, now).is_err() {
            let outcome = if measuring.left == 0 { Outcome::Finished } else { Outcome::Failed("no time".to_owned()) };
            agent.end(token, outcome, now);
            this.measuring.remove(&token);
            if let Some(peer) = peer {
                self.send(Node::Agent(number), Node::Agent(peer), Frame::Bye { token });
            }
            return;
        }
        measuring.is_waiting = true;
        measuring.asked = now;
        measuring.number += 1;
        let (train, down) = (measuring.number, measuring.left % 2 == 1);
        let frame = Frame::Ask { from: number, token, number: train, train: measuring.train, down };
        match peer {
            Some(peer) => {
                self.send(Node::Agent(number), Node::Agent(peer), frame);
                self.wake(number, token, ANSWER_TIMEOUT);
            }
            None => self.take_answer(number, token, train, true, now),
        }
    }

    fn wake(&mut self, number: usize, token: Token, after: Span) {
        let Some(measuring) = self.agents[number].measuring.get_mut(&token) else { return };
        measuring.wake += 1;
        let frame = Frame::Wake { token, number: measuring.wake };
        self.schedule(self.now + after, super::Event::Arrive(Node::Agent(number), frame));
    }

    /// At the responder.
    fn answer(&mut self, own: usize, from: usize, asked: (Token, u32), train: Span, down: bool, now: Time) {
        let (token, number) = asked;
        let agent = self.agents[own].agent.as_mut().expect("up");
        // The initiator may send it as late as this.
        let duration = if down { train } else { train + ANSWER_TIMEOUT };
        let allowed = agent.begin(token, now).and_then(|()| agent.may_carry(token, duration, now));
        if allowed.is_ok() && down {
            self.carry(own, token, train);
            self.agents[own].answering = Some((token, self.now + train));
        }
        if matches!(allowed, Ok(()) | Err(Refusal::NotHeld | Refusal::Late)) {
            let frame = Frame::Answer { token, number, carried: allowed.is_ok() };
            self.send(Node::Agent(own), Node::Agent(from), frame);
        }
    }

    fn take_answer(&mut self, number: usize, token: Token, train: u32, carried: bool, now: Time) {
        let this = &mut self.agents[number];
        let Some(measuring) = this.measuring.get_mut(&token) else { return };
        if !measuring.is_waiting || measuring.number != train || now - measuring.asked > ANSWER_TIMEOUT {
            return;
        }
        if !carried {
            return self.wake(number, token, ASK_AGAIN_AFTER);
        }
        measuring.is_waiting = false;
        let is_up = measuring.left % 2 == 0 || measuring.peer.is_none();
        measuring.left -= 1;
        let span = measuring.train;
        // It may have been stopped since it asked.
        let may = this.agent.as_ref().expect("up").may_carry(token, span, now).is_ok();
        if is_up && may {
            self.carry(number, token, span);
        }
        self.wake(number, token, span);
    }

    fn carry(&mut self, number: usize, token: Token, train: Span) {
        if let Some(resources) = self.agents[number].resources.get(&token) {
            self.observer.see_train(token, resources, self.now, self.now + train);
        }
    }
}
