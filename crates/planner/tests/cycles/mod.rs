//! Whole cycles in virtual time with agents that do all as they should, to see how long a cycle takes against its lower
//! bound.

use kumade_planner::{
    AgentId, AgentMessage, Class, ClassId, Coordinator, CoordinatorInput, CoordinatorOutput, DurationHistory,
    Heartbeat, Outcome, Plan, PlannedAgent, Resource, ResourceId, ResourceKind, Role, Run, RunId, RunKind,
    ScheduleLoad, Token, TokenRecord,
};
use kumade_units::{Direction, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What a run takes: on average 8 s.
const DURATIONS_MS: std::ops::Range<i64> = 6000..10_000;
/// What the coordinator has been told of it.
const KNOWN_DURATION: Span = Span::from_secs(8);

/// Which hosts measure, and what they share.
#[derive(Debug, Clone, Copy)]
pub enum Topology {
    /// Each site to each other one.
    FullMesh { sites: u32 },
    /// The same, with so many sites behind each uplink.
    SharedUplinks { sites: u32, sites_per_uplink: u32 },
    /// Each site to each of some hosts in the middle, which are no agents.
    Star { sites: u32, targets: u32 },
}

/// How a cycle went.
#[derive(Debug)]
pub struct CycleResult {
    pub runs: usize,
    /// The maximum over resources of the sum of the runs' durations as they came; more where an odd group needs more.
    pub lower_bound: Span,
    /// From the begin of the cycle to the end of the last run on the busiest resource. Others are spread over the period.
    pub took: Span,
    pub served: usize,
    pub missed: usize,
    /// Runs that used a resource while another one did.
    pub overlaps: usize,
}

impl CycleResult {
    pub fn ratio(&self) -> f64 {
        self.took.as_secs_f64() / self.lower_bound.as_secs_f64()
    }
}

impl Topology {
    /// With a period in which the busiest resource is used for 90 % of the time by slots.
    pub fn plan(self) -> Plan {
        let (hosts, agents, pairs): (u32, u32, Vec<(u32, u32)>) = match self {
            Topology::FullMesh { sites } | Topology::SharedUplinks { sites, .. } => {
                (sites, sites, (0..sites).flat_map(|a| (a + 1..sites).map(move |b| (a, b))).collect())
            }
            Topology::Star { sites, targets } => (
                sites + targets,
                sites,
                (0..sites).flat_map(|a| (sites..sites + targets).map(move |b| (a, b))).collect(),
            ),
        };
        let uplink = |host: u32| match self {
            Topology::SharedUplinks { sites_per_uplink, .. } => Some(hosts + host / sites_per_uplink),
            _ => None,
        };
        let host = (0..hosts).map(|id| Resource { id: ResourceId(id), kind: ResourceKind::Host });
        let uplinks: std::collections::BTreeSet<_> = (0..hosts).filter_map(uplink).collect();
        let links =
            uplinks.into_iter().map(|id| Resource { id: ResourceId(id), kind: ResourceKind::Link(Direction::Up) });
        let run = |(id, (a, b)): (u32, (u32, u32))| {
            let mut resources = vec![ResourceId(a), ResourceId(b)];
            if uplink(a) != uplink(b) {
                resources.extend([uplink(a), uplink(b)].into_iter().flatten().map(ResourceId));
            }
            let responder = (b < agents).then_some(AgentId(b));
            Run { id: RunId(id), class: ClassId(0), kind: RunKind::Full, initiator: AgentId(a), responder, resources }
        };
        let plan = Plan {
            resources: host.chain(links).collect(),
            agents: (0..agents).map(|id| PlannedAgent { id: AgentId(id), claims: vec![ResourceId(id)] }).collect(),
            classes: vec![Class { id: ClassId(0), period: Span::from_secs(600) }],
            runs: (0..).zip(pairs).map(run).collect(),
        };
        let slot = known_history().slot(RunKind::Full);
        let factor = ScheduleLoad::from_plan(&plan, |_| slot).max_load_ratio() / kumade_planner::MAX_LOAD_RATIO;
        plan.stretched(factor)
    }
}

fn known_history() -> DurationHistory {
    let mut history = DurationHistory::default();
    (0..5).for_each(|_| history.record(KNOWN_DURATION));
    history
}

/// One whole cycle.
pub fn run_cycle(plan: &Plan, seed: u64) -> CycleResult {
    Cycle::new(plan, seed).run()
}

struct Cycle<'a> {
    plan: &'a Plan,
    coordinator: Coordinator,
    random: Pcg64Mcg,
    now: Time,
    /// Ends of runs, by the time of it.
    ends: BinaryHeap<Reverse<(Time, Token, u32)>>,
    heartbeats: BinaryHeap<Reverse<(Time, u32)>>,
    /// What the runs took on each resource, and when the last one ended.
    busy: BTreeMap<ResourceId, (Span, Time)>,
    in_use: BTreeMap<ResourceId, Token>,
    durations: BTreeMap<RunId, Span>,
    served: usize,
    missed: usize,
    overlaps: usize,
}

impl<'a> Cycle<'a> {
    fn new(plan: &'a Plan, seed: u64) -> Self {
        let now = Time::ZERO;
        // Each seed begins in another cycle, whose number is the seed of its order.
        let wall = Time::ZERO + plan.classes[0].period * (seed as i64 + 1000);
        let record = TokenRecord::default().next_epoch();
        let mut coordinator = Coordinator::new(plan.clone(), record, wall, now).expect("a valid plan");
        for run in &plan.runs {
            // Served just now: what is left of the first cycle is idle.
            coordinator.restore(run.id, known_history(), Some(Span::ZERO), now);
        }
        let heartbeats = plan.agents.iter().map(|agent| Reverse((now, agent.id.0))).collect();
        Cycle {
            plan,
            coordinator,
            random: Pcg64Mcg::seed_from_u64(seed),
            now,
            ends: BinaryHeap::new(),
            heartbeats,
            busy: BTreeMap::new(),
            in_use: BTreeMap::new(),
            durations: BTreeMap::new(),
            served: 0,
            missed: 0,
            overlaps: 0,
        }
    }

    fn run(mut self) -> CycleResult {
        let first = self.coordinator.view(0, self.now).classes[0].clone();
        let start = self.now + first.next_in;
        let end = start + self.plan.classes[0].period;
        while self.now < end && self.served + self.missed < self.plan.runs.len() {
            self.now = self.next_time();
            self.step();
        }
        let last_end = self.busy.values().max().map_or(start, |(_, last_end)| *last_end);
        let took = |run: &Run| self.durations.get(&run.id).copied().unwrap_or_default();
        let lower_bound = ScheduleLoad::from_plan(self.plan, took).classes[0].lower_bound;
        CycleResult {
            runs: self.plan.runs.len(),
            lower_bound,
            took: last_end - start,
            served: self.served,
            missed: self.missed,
            overlaps: self.overlaps,
        }
    }

    fn next_time(&self) -> Time {
        let end = self.ends.peek().map(|Reverse((time, ..))| *time);
        let heartbeat = self.heartbeats.peek().map(|Reverse((time, _))| *time);
        let deadline = self.coordinator.next_deadline().map(|deadline| deadline.max(self.now));
        [end, heartbeat, deadline].into_iter().flatten().min().expect("cycles go on")
    }

    fn step(&mut self) {
        let now = self.now;
        self.coordinator.advance(now);
        while let Some(&Reverse((_, agent))) = self.heartbeats.peek().filter(|Reverse((time, _))| *time <= now) {
            self.heartbeats.pop();
            self.heartbeats.push(Reverse((now + kumade_planner::HEARTBEAT_INTERVAL, agent)));
            let heartbeat = Heartbeat { instance: 1, stamp: now, held: Vec::new(), claim: None, unavailable: None };
            self.tell(agent, AgentMessage::Heartbeat(heartbeat));
        }
        while let Some(&Reverse((_, token, agent))) = self.ends.peek().filter(|Reverse((time, ..))| *time <= now) {
            self.ends.pop();
            self.in_use.retain(|_, user| *user != token);
            let took = KNOWN_DURATION;
            self.tell(agent, AgentMessage::Ended { token, outcome: Outcome::Finished, took });
        }
        self.drain();
    }

    fn tell(&mut self, agent: u32, message: AgentMessage) {
        self.coordinator.process(CoordinatorInput::Message(AgentId(agent), message), self.now).expect("no plan");
    }

    fn drain(&mut self) {
        let mut drawn = BTreeMap::new();
        while let Some(output) = self.coordinator.next_output() {
            match output {
                CoordinatorOutput::Persist(record) => {
                    let input = CoordinatorInput::Persisted { number: record.number };
                    self.coordinator.process(input, self.now).expect("no plan");
                }
                CoordinatorOutput::Grant(agent, grant) => {
                    let random = &mut self.random;
                    let duration = *drawn
                        .entry(grant.token)
                        .or_insert_with(|| Span::from_millis(random.random_range(DURATIONS_MS)));
                    self.ends.push(Reverse((self.now + duration, grant.token, agent.0)));
                    self.durations.insert(grant.run, duration);
                    if grant.role == Role::Initiator {
                        for resource in grant.resources {
                            let (busy, last_end) = self.busy.entry(resource).or_default();
                            *busy += duration;
                            *last_end = self.now + duration;
                            self.overlaps += usize::from(self.in_use.insert(resource, grant.token).is_some());
                        }
                    }
                }
                CoordinatorOutput::Ended(end) => self.served += usize::from(end.outcome == Outcome::Finished),
                CoordinatorOutput::Missed(_) => self.missed += 1,
            }
        }
    }
}
