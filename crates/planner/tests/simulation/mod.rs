//! Coordinators, agents and a store in virtual time, with everything that goes wrong: frames are lost, duplicated, late and
//! overtake each other; processes crash, are stopped and cut off; clocks on the wall are set; plans change; others claim
//! hosts. An observer knows the true time, and counts runs that overlap.

mod agent_process;
mod clock;
mod coordinator_process;
mod faults;
mod observer;
mod plans;
mod store;

use agent_process::AgentProcess;
use clock::Clock;
use coordinator_process::CoordinatorProcess;
use kumade_planner::{AgentMessage, Grant, Plan, RunId, Token};
use kumade_units::{Span, Time};
use observer::Observer;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use store::{Store, StoreReply, StoreRequest};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub seed: u64,
    /// Ends when so many runs have carried trains.
    pub runs: u64,
    pub ablation: Ablation,
}

/// A protection that the shells take away, to show that the observer sees what it protects from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// None.
    None,
    /// No agent remembers tokens.
    NoFencing,
    /// Agents count the spans of a grant from its arrival.
    SpansFromArrival,
    /// A new leader does not wait until former grants are void.
    NoQuietTime,
    /// The store takes records of former leaders, and a grant leaves before its token is stored.
    NoStoredToken,
}

impl Ablation {
    pub const ALL: [Ablation; 4] =
        [Ablation::NoFencing, Ablation::SpansFromArrival, Ablation::NoQuietTime, Ablation::NoStoredToken];
}

/// What came of it.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "the test prints what the example reads")]
pub struct Tally {
    pub runs: u64,
    pub trains: u64,
    pub overlaps: u64,
    pub trains_during_claims: u64,
    pub virtual_time: Span,
    pub events: u64,
    /// How runs ended, by the coordinators' outputs.
    pub outcomes: BTreeMap<&'static str, u64>,
    pub faults: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Coordinator(usize),
    Agent(usize),
    Store,
}

/// What arrives at a node.
#[derive(Clone, Debug)]
enum Frame {
    FromAgent(usize, AgentMessage),
    /// By a person: this run is wanted now.
    Wanted(RunId),
    Grant(Grant),
    /// From the initiator: may this train be carried, and in its last argument, does it come from the responder?
    Ask {
        from: usize,
        token: Token,
        number: u32,
        train: Span,
        down: bool,
    },
    /// From the responder, with whether the train may be, or for one from the responder was, carried.
    Answer {
        token: Token,
        number: u32,
        carried: bool,
    },
    /// From the initiator: the run has ended.
    Bye {
        token: Token,
    },
    Request {
        from: usize,
        incarnation: u64,
        request: StoreRequest,
    },
    Reply {
        incarnation: u64,
        reply: StoreReply,
    },
    Configure(Box<Plan>),
    /// The connection to the coordinators is there, or not, as the agent notices.
    Link(bool),
    Claim(bool),
    /// The time for which a node has asked.
    Timer(u64),
    /// The time for which a run has asked: its train is over, or an answer has not come.
    Wake {
        token: Token,
        number: u32,
    },
}

enum Event {
    Arrive(Node, Frame),
    Resume(Node, u64),
    Restart(Node),
    Fault(faults::Fault),
}

/// What all processes have.
struct Process {
    is_up: bool,
    incarnation: u64,
    /// Stopped, as by SIGSTOP: what arrives waits.
    is_stopped: bool,
    inbox: Vec<Frame>,
    clock: Clock,
    /// Only the last timer counts.
    timer: u64,
}

struct World {
    settings: Settings,
    random: Pcg64Mcg,
    now: Time,
    events: BTreeMap<(Time, u64), Event>,
    scheduled: u64,
    coordinators: Vec<CoordinatorProcess>,
    agents: Vec<AgentProcess>,
    store: Store,
    /// Pairs of nodes that can't reach each other, until then.
    cuts: BTreeMap<(Node, Node), Time>,
    plan: Plan,
    observer: Observer,
    tally: Tally,
}

/// Runs a world until enough runs have carried trains.
pub fn simulate(settings: Settings) -> Tally {
    let mut world = World::new(settings);
    while world.observer.carried < settings.runs {
        let ((time, _), event) = world.events.pop_first().expect("timers go on");
        world.now = time;
        world.tally.events += 1;
        world.happen(event);
    }
    let observer = &world.observer;
    Tally {
        runs: observer.carried,
        trains: observer.trains,
        overlaps: observer.overlaps.len() as u64,
        trains_during_claims: observer.trains_during_claims,
        virtual_time: world.now - Time::ZERO,
        ..world.tally
    }
}

impl Process {
    fn new(random: &mut impl Rng) -> Self {
        let clock = Clock::random(random);
        Process { is_up: true, incarnation: 0, is_stopped: false, inbox: Vec::new(), clock, timer: 0 }
    }
}

impl World {
    fn new(settings: Settings) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(settings.seed);
        let mut store = Store::default();
        store.ignores_epoch = settings.ablation == Ablation::NoStoredToken;
        let mut world = World {
            settings,
            now: Time::ZERO,
            events: BTreeMap::new(),
            scheduled: 0,
            coordinators: (0..2).map(|_| CoordinatorProcess::new(&mut random)).collect(),
            agents: (0..plans::AGENTS).map(|_| AgentProcess::new(&mut random)).collect(),
            store,
            cuts: BTreeMap::new(),
            plan: plans::full_plan(),
            observer: Observer::default(),
            tally: Tally::default(),
            random,
        };
        for node in world.nodes() {
            world.start(node);
        }
        world.schedule_faults();
        world
    }

    fn nodes(&self) -> Vec<Node> {
        let coordinators = (0..self.coordinators.len()).map(Node::Coordinator);
        coordinators.chain((0..self.agents.len()).map(Node::Agent)).collect()
    }

    fn process(&mut self, node: Node) -> Option<&mut Process> {
        match node {
            Node::Coordinator(number) => Some(&mut self.coordinators[number].process),
            Node::Agent(number) => Some(&mut self.agents[number].process),
            Node::Store => None,
        }
    }

    fn schedule(&mut self, time: Time, event: Event) {
        self.scheduled += 1;
        self.events.insert((time.max(self.now), self.scheduled), event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(node, frame) => self.arrive(node, frame),
            Event::Restart(node) => self.start(node),
            Event::Resume(node, incarnation) => self.resume(node, incarnation),
            Event::Fault(fault) => self.break_something(fault),
        }
    }

    fn arrive(&mut self, node: Node, frame: Frame) {
        let Some(process) = self.process(node) else {
            let Frame::Request { from, incarnation, request } = frame else { return };
            let reply = self.store.execute(request, self.now);
            return self.send(Node::Store, Node::Coordinator(from), Frame::Reply { incarnation, reply });
        };
        if !process.is_up {
            return;
        }
        if process.is_stopped {
            process.inbox.push(frame);
            return;
        }
        self.handle(node, frame);
    }

    fn handle(&mut self, node: Node, frame: Frame) {
        if let Frame::Timer(number) = frame
            && self.process(node).is_some_and(|process| process.timer != number)
        {
            return;
        }
        match node {
            Node::Coordinator(number) => self.handle_at_coordinator(number, frame),
            Node::Agent(number) => self.handle_at_agent(number, frame),
            Node::Store => {}
        }
    }

    /// What has arrived meanwhile is handled in any order.
    fn resume(&mut self, node: Node, incarnation: u64) {
        let Some(process) = self.process(node) else { return };
        if process.incarnation != incarnation || !process.is_up {
            return;
        }
        process.is_stopped = false;
        let mut inbox = std::mem::take(&mut process.inbox);
        while !inbox.is_empty() {
            let chosen = self.random.random_range(0..inbox.len());
            self.handle(node, inbox.swap_remove(chosen));
        }
    }

    fn start(&mut self, node: Node) {
        let Some(process) = self.process(node) else { return };
        process.is_up = true;
        process.is_stopped = false;
        process.incarnation += 1;
        process.inbox.clear();
        match node {
            Node::Coordinator(number) => self.start_coordinator(number),
            Node::Agent(number) => self.start_agent(number),
            Node::Store => {}
        }
    }

    /// The node is to be called at this time of its clock.
    fn set_timer(&mut self, node: Node, deadline: Time) {
        let now = self.now;
        let Some(process) = self.process(node) else { return };
        process.timer += 1;
        let (number, time) = (process.timer, process.clock.true_time(deadline));
        self.schedule(time.max(now + Span::from_nanos(1)), Event::Arrive(node, Frame::Timer(number)));
    }

    /// Frames are lost, duplicated, and sometimes very late.
    fn send(&mut self, from: Node, to: Node, frame: Frame) {
        let copies = match self.random.random_range(0..1000) {
            0..10 => 0,
            10..60 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let mut delay = self.log_uniform(0.002, 0.2);
            if self.random.random_bool(0.03) {
                delay = self.log_uniform(0.2, 1000.0);
            }
            let cut = self.cuts.get(&(from.min(to), from.max(to))).copied().filter(|until| *until > self.now);
            let time = match cut {
                Some(_) if self.random.random_bool(0.5) => continue,
                Some(until) => until + delay,
                None => self.now + delay,
            };
            self.schedule(time, Event::Arrive(to, frame.clone()));
        }
    }

    /// A span between two, in seconds, each order of magnitude as likely as another.
    fn log_uniform(&mut self, low: f64, high: f64) -> Span {
        let exponent = self.random.random_range(low.ln()..high.ln());
        Span::from_secs_f64(exponent.exp())
    }
}
