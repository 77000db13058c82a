//! A process that takes part in the election, and coordinates while it leads. It keeps nothing but what the store has.

use super::{Ablation, Frame, Node, Process, StoreReply, StoreRequest, World};
use kumade_planner::{Coordinator, CoordinatorInput, CoordinatorOutput, Election, Outcome, TokenRecord};
use kumade_units::{Span, Time};
use rand::Rng;

/// What was not stored by then is sent to the store again.
const STORE_TIMEOUT: Span = Span::from_secs(2);

pub struct CoordinatorProcess {
    pub(super) process: Process,
    election: Option<Election>,
    coordinator: Option<Coordinator>,
    epoch: u64,
    /// What is to be stored, and when it was sent.
    persisting: Option<(TokenRecord, Time)>,
}

impl CoordinatorProcess {
    pub(super) fn new(random: &mut impl Rng) -> Self {
        let process = Process::new(random);
        CoordinatorProcess { process, election: None, coordinator: None, epoch: 0, persisting: None }
    }
}

impl World {
    pub(super) fn start_coordinator(&mut self, number: usize) {
        let this = &mut self.coordinators[number];
        let now = this.process.clock.boot_time(self.now);
        this.election = Some(Election::new(now));
        this.coordinator = None;
        this.persisting = None;
        self.set_timer(Node::Coordinator(number), now);
    }

    pub(super) fn handle_at_coordinator(&mut self, number: usize, frame: Frame) {
        let now = self.coordinators[number].process.clock.boot_time(self.now);
        match frame {
            Frame::FromAgent(agent, message) => {
                self.give(number, CoordinatorInput::Message(kumade_planner::AgentId(agent as u32), message), now);
            }
            Frame::Wanted(run) => {
                if let Some(coordinator) = &mut self.coordinators[number].coordinator {
                    // One that is not made is as good for the test.
                    let _ = coordinator.request(run, now);
                }
            }
            Frame::Configure(plan) => self.give(number, CoordinatorInput::Configure(*plan), now),
            Frame::Reply { incarnation, reply } if incarnation == self.coordinators[number].process.incarnation => {
                self.take_reply(number, reply, now);
            }
            _ => {}
        }
        self.drive_coordinator(number, now);
    }

    fn give(&mut self, number: usize, input: CoordinatorInput, now: Time) {
        if let Some(coordinator) = &mut self.coordinators[number].coordinator {
            coordinator.process(input, now).expect("valid plans");
        }
    }

    fn take_reply(&mut self, number: usize, reply: StoreReply, now: Time) {
        let this = &mut self.coordinators[number];
        let Some(election) = &mut this.election else { return };
        match reply {
            StoreReply::Read(record) => election.read(&record, now),
            StoreReply::Renewed(is_leader) => {
                election.renewed(is_leader);
                if !is_leader {
                    self.give(number, CoordinatorInput::Deposed, now);
                }
            }
            StoreReply::Taken(Some(mut record)) => {
                if !election.taken(Some(record.epoch)) {
                    return;
                }
                if self.settings.ablation == Ablation::NoQuietTime {
                    record.longest = Span::ZERO;
                }
                let wall = this.process.clock.wall_time(self.now);
                this.epoch = record.epoch;
                this.persisting = None;
                this.coordinator = Some(Coordinator::new(self.plan.clone(), record, wall, now).expect("valid plans"));
            }
            StoreReply::Taken(None) => {
                election.taken(None);
            }
            StoreReply::Persisted { epoch, number: stored } if epoch == this.epoch => {
                let input = match stored {
                    Some(stored) => {
                        this.persisting = this.persisting.filter(|(record, _)| record.number > stored);
                        CoordinatorInput::Persisted { number: stored }
                    }
                    None => CoordinatorInput::Deposed,
                };
                self.give(number, input, now);
            }
            StoreReply::Persisted { .. } => {}
        }
    }

    /// Does what is to be done, and sets the timer.
    fn drive_coordinator(&mut self, number: usize, now: Time) {
        let node = Node::Coordinator(number);
        let incarnation = self.coordinators[number].process.incarnation;
        let request = |request| Frame::Request { from: number, incarnation, request };
        if let Some(coordinator) = &mut self.coordinators[number].coordinator {
            coordinator.advance(now);
        }
        while let Some(output) = self.coordinators[number].coordinator.as_mut().and_then(Coordinator::next_output) {
            match output {
                CoordinatorOutput::Persist(record) => {
                    self.coordinators[number].persisting = Some((record, now));
                    self.send(node, Node::Store, request(StoreRequest::Persist(record)));
                    if self.settings.ablation == Ablation::NoStoredToken {
                        self.give(number, CoordinatorInput::Persisted { number: record.number }, now);
                    }
                }
                CoordinatorOutput::Grant(agent, grant) => {
                    self.send(node, Node::Agent(agent.0 as usize), Frame::Grant(grant));
                }
                CoordinatorOutput::Ended(end) => *self.tally.outcomes.entry(name(&end.outcome)).or_default() += 1,
                CoordinatorOutput::Missed(_) => *self.tally.outcomes.entry("missed in a cycle").or_default() += 1,
            }
        }
        while let Some(step) = self.coordinators[number].election.as_mut().and_then(|election| election.next_step(now))
        {
            self.send(node, Node::Store, request(StoreRequest::Election(step)));
        }
        let this = &mut self.coordinators[number];
        let mut again = None;
        if let Some((record, sent)) = this.persisting.as_mut().filter(|(_, sent)| now - *sent >= STORE_TIMEOUT) {
            *sent = now;
            again = Some(*record);
        }
        let resend = this.persisting.map(|(_, sent)| sent + STORE_TIMEOUT);
        let planned = this.coordinator.as_ref().and_then(Coordinator::next_deadline);
        let election = this.election.as_ref().map(Election::next_deadline);
        let deadline = [resend, planned, election].into_iter().flatten().min();
        if let Some(record) = again {
            self.send(node, Node::Store, request(StoreRequest::Persist(record)));
        }
        self.set_timer(node, deadline.expect("the election goes on"));
    }
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Finished => "finished",
        Outcome::Failed(_) => "failed",
        Outcome::CutOff => "cut off",
        Outcome::NotStarted => "not started",
        Outcome::Refused(_) => "refused",
        Outcome::Lost => "lost",
    }
}
