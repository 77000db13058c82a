//! When and between which hosts to measure, so that no two runs use a host, or a declared link, at once.
//!
//! A [`Plan`] says what is measured: each [`Run`] once in each period of its [`Class`]. A run uses [`Resource`]s: the
//! hosts at both ends, and the links on its way, each direction by itself. [`ScheduleLoad`] says beforehand whether the plan can be met,
//! and what to change if not. Then one [`Coordinator`] starts the runs by list scheduling, and an [`Agent`] at each end begins
//! and ends them. Nothing here sends, stores or reads a clock.
//!
//! # Loop contract
//!
//! Both are state machines: mutate, then drain to a deadline. Times come in with each call, by a clock that never goes back and
//! runs while the host is suspended (`CLOCK_BOOTTIME`), and each machine may have another one. Hand over each event when it happens
//! ([`Coordinator::process`]; [`Agent::connect`], [`receive`](Agent::receive) …), or call `advance` when the `next_deadline` has passed; after
//! each, do what `next_output` says until it says nothing; then sleep until `next_deadline`, or the next event. Nothing
//! happens between calls, and a call that comes late delays runs but makes none overlap.
//!
//! A coordinator and an agent in one process (messages are handed over, where others would send them):
//!
//! ```
//! use kumade_planner::{
//!     Agent, AgentId, AgentOutput, Class, ClassId, Coordinator, CoordinatorInput, CoordinatorOutput, Outcome, Plan,
//!     PlannedAgent, Resource, ResourceId, ResourceKind, Run, RunEnd, RunId, RunKind, TokenRecord,
//! };
//! use kumade_units::{Span, Time};
//!
//! // This host (resource 0) measures to two targets (1 and 2), which are no agents, every ten minutes.
//! let run = |target: u32| Run {
//!     id: RunId(target),
//!     class: ClassId(0),
//!     kind: RunKind::Full,
//!     initiator: AgentId(0),
//!     responder: None,
//!     resources: vec![ResourceId(0), ResourceId(target)],
//! };
//! let plan = Plan {
//!     resources: (0..3).map(|id| Resource { id: ResourceId(id), kind: ResourceKind::Host }).collect(),
//!     agents: vec![PlannedAgent { id: AgentId(0), claims: vec![ResourceId(0)] }],
//!     classes: vec![Class { id: ClassId(0), period: Span::from_secs(600) }],
//!     runs: vec![run(1), run(2)],
//! };
//!
//! // The shell: a store, a clock, and something that measures. Here, a clock that jumps to the next event.
//! let mut now = Time::from_nanos(0);
//! let wall = Time::from_nanos(1_800_000_000_000_000_000);
//! let mut stored = TokenRecord::default().next_epoch();
//! let mut coordinator = Coordinator::new(plan, stored, wall, now)?;
//! let mut agent = Agent::new(0x1234, now);
//! let mut measuring = None;
//! let mut ended: Vec<RunEnd> = Vec::new();
//! agent.connect(now);
//! while ended.len() < 4 {
//!     coordinator.advance(now);
//!     agent.advance(now);
//!     if let Some((token, _)) = measuring.take_if(|(_, until)| *until <= now) {
//!         agent.end(token, Outcome::Finished, now);
//!     }
//!     // Until neither has anything to say.
//!     loop {
//!         if let Some(output) = agent.next_output() {
//!             match output {
//!                 AgentOutput::Send(message) => {
//!                     coordinator.process(CoordinatorInput::Message(AgentId(0), message), now)?;
//!                 }
//!                 AgentOutput::Begin(held) => {
//!                     // Before each train it asks `may_carry`, and it ends before `held.end_by`.
//!                     if agent.begin(held.grant.token, now).is_ok() {
//!                         measuring = Some((held.grant.token, now + Span::from_secs(8)));
//!                     }
//!                 }
//!                 AgentOutput::Stop(_) => measuring = None,
//!             }
//!         } else if let Some(output) = coordinator.next_output() {
//!             match output {
//!                 CoordinatorOutput::Persist(record) => {
//!                     // In a transaction, and only if the epoch there is the same.
//!                     stored = record;
//!                     coordinator.process(CoordinatorInput::Persisted { number: record.number }, now)?;
//!                 }
//!                 CoordinatorOutput::Grant(_, grant) => agent.receive(grant, now),
//!                 CoordinatorOutput::Ended(end) => ended.push(end),
//!                 CoordinatorOutput::Missed(missed) => panic!("{missed:?}"),
//!             }
//!         } else {
//!             break;
//!         }
//!     }
//!     let until = measuring.map(|(_, until)| until);
//!     now = [coordinator.next_deadline(), agent.next_deadline(), until].into_iter().flatten().min().unwrap();
//! }
//! assert!(ended.iter().all(|end| end.outcome == Outcome::Finished && end.took == Span::from_secs(8)));
//! # Ok::<(), kumade_planner::PlanError>(())
//! ```
//!
//! # What holds
//!
//! No two runs carry trains on a resource at once, and none carries one after a later run has: whatever crashes, is
//! stopped for a while, is cut off, is set to another time of day or is configured anew. `examples/overlaps` counts on
//! that, with an observer who sees all. The reasons:
//!
//! - A [`Token`] is stored before it is granted, by the one whose epoch the store has. Each coordinator that begins to lead, also after a
//!   restart, takes a new epoch, and grants nothing until the longest earlier grant is void ([`TokenRecord::longest`]).
//!   That counts from when a grant was asked to be stored, so that one which a stopped coordinator sends much later is void as well.
//! - The times of a [`Grant`] count from a time stamp of its receiver, which is older than the grant. So a grant that is late
//!   on its way is void when the coordinator thinks so; a clock that is set moves nothing.
//! - A resource is free again when all ends have said that they are done, or can't begin any more, or else when the grant is
//!   void by the clock of the coordinator, with a reserve for clocks of different speed.
//! - An agent keeps the greatest token of each resource that it has seen, and takes no grant with a smaller one, or with the
//!   same: what is late or duplicated changes nothing. A grant for an earlier process of an agent is for nobody.
//! - Both ends ask [`Agent::may_carry`] before each train; the responder is the one that can't be got around.
//! - Someone else who measures at a host [claims](Agent::claim) it there: a planned run that has not begun gives its slot up, one that has is
//!   named to the claimant. The coordinator plans around the claim.
//!
//! What does not: an end that was not told that the other one has ended may answer a late question with a train, until its
//! grant is void: no run starts there meanwhile, but someone may have claimed the other end's host. A train that is on its way when its sender is stopped leaves when it goes on. A claim is made on a host: it closes
//! the links of the host for planned runs from the next heartbeat on, but does not end a run of another host that uses them.
#![forbid(unsafe_code)]

mod agent;
mod coordinator;
mod cycle;
mod election;
mod id;
mod list_scheduler;
mod load;
mod message;
mod plan;
mod probe_times;
mod reachability;
mod slot;
mod token;

pub use agent::{Agent, AgentOutput, ClaimError, HEARTBEAT_INTERVAL, HeldGrant};
pub use coordinator::Coordinator;
pub use coordinator::event::{CoordinatorInput, CoordinatorOutput, Missed, RunEnd, TokenRecord, Waiting};
pub use coordinator::requests::RequestError;
pub use coordinator::view::{CycleView, NextView, RunningView, ScheduleView};
pub use election::{Election, ElectionStep, LeaderRecord, RENEW_INTERVAL, TAKE_OVER_AFTER};
pub use id::{AgentId, ClassId, ResourceId, RunId};
pub use load::{Change, ClassLoad, ClassOnResource, GroupLoad, MAX_LOAD_RATIO, Overload, ResourceLoad, ScheduleLoad};
pub use message::{AgentMessage, Grant, Heartbeat, Outcome, Refusal, Role};
pub use plan::{Class, MAX_SLOT, MIN_PERIOD, Plan, PlanError, PlannedAgent, Resource, ResourceKind, Run, RunKind};
pub use probe_times::ProbeTimes;
pub use reachability::{AddressFamily, End, Endpoint, Reachability, UnreachablePair, choose_initiator};
pub use slot::DurationHistory;
pub use token::Token;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
