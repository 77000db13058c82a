//! A coordinator step by step.

use kumade_planner::{
    Agent, AgentId, AgentMessage, AgentOutput, ClaimError, Class, ClassId, Coordinator, CoordinatorInput,
    CoordinatorOutput, DurationHistory, Grant, Missed, Outcome, Plan, PlannedAgent, Refusal, RequestError, Resource,
    ResourceId, ResourceKind, Role, Run, RunEnd, RunId, RunKind, TokenRecord, Waiting,
};
use kumade_units::{Span, Time};

const WALL: Time = Time::from_nanos(1_800_000_000_000_000_000);
const PERIOD: Span = Span::from_secs(600);

/// Agents to each other, all hosts behind one link of number 100 if it is declared.
fn plan(agents: u32, has_link: bool) -> Plan {
    let mut resources: Vec<_> =
        (0..agents).map(|id| Resource { id: ResourceId(id), kind: ResourceKind::Host }).collect();
    let link = Resource { id: ResourceId(100), kind: ResourceKind::Link(kumade_units::Direction::Up) };
    resources.extend(has_link.then_some(link));
    let run = |(a, b): (u32, u32)| Run {
        id: RunId(10 * a + b),
        class: ClassId(0),
        kind: RunKind::Full,
        initiator: AgentId(a),
        responder: Some(AgentId(b)),
        resources: [Some(a), Some(b), has_link.then_some(100)].into_iter().flatten().map(ResourceId).collect(),
    };
    Plan {
        resources,
        agents: (0..agents).map(|id| PlannedAgent { id: AgentId(id), claims: vec![ResourceId(id)] }).collect(),
        classes: vec![Class { id: ClassId(0), period: PERIOD }],
        runs: (0..agents).flat_map(|a| (a + 1..agents).map(move |b| (a, b))).map(run).collect(),
    }
}

/// A coordinator and agents that hear each other at once. Runs go on until the test ends them.
struct Mesh {
    coordinator: Coordinator,
    agents: Vec<Agent>,
    now: Time,
    stored: TokenRecord,
    stores: bool,
    /// Runs that have begun, by their initiators.
    running: Vec<Grant>,
    ended: Vec<RunEnd>,
    missed: Vec<Missed>,
}

impl Mesh {
    fn new(plan: Plan, stored: TokenRecord) -> Self {
        let now = Time::ZERO;
        let agents = (0..plan.agents.len()).map(|number| Agent::new(number as u64, now)).collect();
        let coordinator = Coordinator::new(plan, stored, WALL, now).unwrap();
        let (running, ended, missed) = (Vec::new(), Vec::new(), Vec::new());
        Mesh { coordinator, agents, now, stored, stores: true, running, ended, missed }
    }

    fn connected(plan: Plan) -> Self {
        let mut mesh = Mesh::new(plan, TokenRecord::default().next_epoch());
        mesh.agents.iter_mut().for_each(|agent| agent.connect(mesh.now));
        mesh.settle();
        mesh
    }

    fn process(&mut self, input: CoordinatorInput) {
        self.coordinator.process(input, self.now).unwrap();
        self.settle();
    }

    /// Until nobody has anything to say.
    fn settle(&mut self) {
        self.coordinator.advance(self.now);
        self.agents.iter_mut().for_each(|agent| agent.advance(self.now));
        loop {
            let said = (0..self.agents.len()).find_map(|number| Some((number, self.agents[number].next_output()?)));
            if let Some((number, output)) = said {
                self.agent_says(number, output);
            } else if let Some(output) = self.coordinator.next_output() {
                self.coordinator_says(output);
            } else {
                return;
            }
        }
    }

    fn agent_says(&mut self, number: usize, output: AgentOutput) {
        match output {
            AgentOutput::Send(message) => {
                let input = CoordinatorInput::Message(AgentId(number as u32), message);
                self.coordinator.process(input, self.now).unwrap();
            }
            AgentOutput::Begin(held) => {
                let peer = held.grant.peer.unwrap().0 as usize;
                self.agents[number].begin(held.grant.token, self.now).unwrap();
                self.agents[peer].begin(held.grant.token, self.now).unwrap();
                self.running.push(held.grant);
            }
            AgentOutput::Stop(token) => self.running.retain(|grant| grant.token != token),
        }
    }

    fn coordinator_says(&mut self, output: CoordinatorOutput) {
        match output {
            CoordinatorOutput::Persist(record) => {
                self.stored = record;
                if self.stores {
                    let input = CoordinatorInput::Persisted { number: record.number };
                    self.coordinator.process(input, self.now).unwrap();
                }
            }
            CoordinatorOutput::Grant(agent, grant) => self.agents[agent.0 as usize].receive(grant, self.now),
            CoordinatorOutput::Ended(end) => self.ended.push(end),
            CoordinatorOutput::Missed(missed) => self.missed.push(missed),
        }
    }

    fn end_all(&mut self) {
        for grant in std::mem::take(&mut self.running) {
            let initiator = grant.run.0 / 10;
            for agent in [initiator, grant.peer.unwrap().0] {
                self.agents[agent as usize].end(grant.token, Outcome::Finished, self.now);
            }
        }
        self.settle();
    }

    /// With heartbeats on the way; each run takes as long as there is none that is ended.
    fn pass(&mut self, span: Span, ends_runs: bool) {
        let end = self.now + span;
        while self.now < end {
            self.now = (self.now + Span::from_secs(1)).min(end);
            if ends_runs {
                self.end_all();
            }
            self.settle();
        }
    }

    fn next(&self) -> Vec<(RunId, Waiting)> {
        self.coordinator.view(99, self.now).next.into_iter().map(|next| (next.run, next.waits_for)).collect()
    }
}

#[test]
fn a_shared_link_is_used_by_one_run_at_a_time_and_each_run_once_in_a_cycle() {
    let mut mesh = Mesh::connected(plan(6, true));
    for _ in 0..2 {
        mesh.pass(PERIOD, true);
    }
    assert!(mesh.missed.is_empty(), "{:?}", mesh.missed);
    mesh.ended.sort_by_key(|end| end.granted);
    for pair in mesh.ended.windows(2) {
        assert!(pair[0].ended <= pair[1].granted, "{pair:?}");
    }
    let count = |run: u32| mesh.ended.iter().filter(|end| end.run == RunId(run)).count();
    assert!((2..=3).contains(&count(1)) && (2..=3).contains(&count(45)), "{:?}", mesh.ended);
}

#[test]
fn without_the_link_hosts_measure_in_pairs() {
    let mut mesh = Mesh::connected(plan(6, false));
    let mut max_at_once = 0;
    for _ in 0..PERIOD.as_nanos() / 1_000_000_000 {
        mesh.pass(Span::from_secs(1), false);
        let mut used: Vec<_> = mesh.running.iter().flat_map(|grant| grant.resources.clone()).collect();
        used.sort();
        used.dedup();
        assert_eq!(used.len(), 2 * mesh.running.len());
        max_at_once = max_at_once.max(mesh.running.len());
    }
    assert!((2..=3).contains(&max_at_once), "{max_at_once}");
}

#[test]
fn no_grant_leaves_before_its_token_is_stored() {
    let mut mesh = Mesh::new(plan(2, false), TokenRecord::default().next_epoch());
    mesh.stores = false;
    mesh.agents.iter_mut().for_each(|agent| agent.connect(mesh.now));
    mesh.pass(PERIOD / 2, false);
    assert!(mesh.running.is_empty() && mesh.stored.number > 0);
    assert!(mesh.ended.iter().all(|end| end.outcome == Outcome::NotStarted) && !mesh.ended.is_empty());
    // Too late for the first ones.
    let number = mesh.stored.number;
    mesh.process(CoordinatorInput::Persisted { number: number - 1 });
    assert!(mesh.running.is_empty());
}

#[test]
fn after_a_restart_nothing_is_granted_until_former_grants_are_void() {
    let mut before = Mesh::connected(plan(2, false));
    while before.running.is_empty() {
        before.pass(Span::from_secs(1), false);
    }
    let longest = before.stored.longest;
    assert!(longest > Span::from_secs(30), "{longest}");
    let mut after = Mesh::new(plan(2, false), before.stored.next_epoch());
    after.agents.iter_mut().for_each(|agent| agent.connect(after.now));
    after.pass(longest - Span::from_secs(1), false);
    assert!(after.running.is_empty());
    assert!(after.coordinator.view(9, after.now).former_grants_for.is_some());
    after.pass(PERIOD, false);
    let token = after.ended.first().map(|end| end.token).or(after.running.first().map(|grant| grant.token)).unwrap();
    assert_eq!(token.epoch, before.stored.epoch + 1);
}

#[test]
fn a_deposed_coordinator_grants_nothing() {
    let mut mesh = Mesh::connected(plan(2, false));
    mesh.process(CoordinatorInput::Deposed);
    let before = mesh.ended.len() + mesh.running.len();
    mesh.end_all();
    mesh.pass(PERIOD * 2, true);
    assert!(mesh.ended.len() <= before && mesh.running.is_empty());
}

#[test]
fn who_measures_by_hand_is_planned_around_and_named() {
    let mut mesh = Mesh::new(plan(2, false), TokenRecord::default().next_epoch());
    mesh.agents[0].claim("kumade measure (alice)", mesh.now).unwrap();
    mesh.agents.iter_mut().for_each(|agent| agent.connect(mesh.now));
    mesh.pass(PERIOD * 2, true);
    assert!(mesh.ended.is_empty());
    let claimed = Waiting::Claimed { agent: AgentId(0), holder: "kumade measure (alice)".to_owned() };
    assert_eq!(mesh.missed.first().map(|missed| &missed.reason), Some(&claimed));
    mesh.agents[0].release_claim(mesh.now);
    // And the other way round.
    while mesh.running.is_empty() {
        mesh.pass(Span::from_secs(1), false);
    }
    let refused = mesh.agents[1].claim("gateway east", mesh.now);
    assert!(matches!(refused, Err(ClaimError::Run { run: RunId(1), .. })), "{refused:?}");
}

#[test]
fn a_host_that_is_not_available_leaves_its_links_to_others() {
    let mut planned = plan(4, true);
    planned.agents.iter_mut().for_each(|agent| agent.claims.push(ResourceId(100)));
    let measured = |stop: fn(&mut Agent, Time)| {
        let mut mesh = Mesh::new(planned.clone(), TokenRecord::default().next_epoch());
        stop(&mut mesh.agents[0], mesh.now);
        mesh.agents.iter_mut().for_each(|agent| agent.connect(mesh.now));
        mesh.pass(PERIOD * 2, true);
        mesh.end_all();
        let first = mesh.missed.iter().find(|missed| missed.run == RunId(1)).map(|missed| missed.reason.clone());
        (mesh.ended.iter().map(|end| end.run.0).collect::<std::collections::BTreeSet<u32>>(), first)
    };
    let (runs, reason) = measured(|agent, now| agent.set_unavailable(Some("its budget is used up".to_owned()), now));
    assert!(!runs.is_empty() && runs.iter().all(|run| ![1, 2, 3].contains(run)), "{runs:?}");
    assert_eq!(reason, Some(Waiting::Claimed { agent: AgentId(0), holder: "its budget is used up".to_owned() }));
    // Whoever measures there uses them.
    let (runs, _) = measured(|agent, now| agent.claim("kumade measure (alice)", now).unwrap());
    assert!(runs.is_empty(), "{runs:?}");
}

#[test]
fn a_run_that_meets_a_claim_on_its_way_gives_the_slot_up_and_is_tried_again() {
    let mut mesh = Mesh::new(plan(2, false), TokenRecord::default().next_epoch());
    mesh.agents.iter_mut().for_each(|agent| agent.connect(mesh.now));
    // The grant is on its way while the host is claimed.
    let grants = loop {
        mesh.now += Span::from_secs(1);
        mesh.coordinator.advance(mesh.now);
        mesh.agents.iter_mut().for_each(|agent| agent.advance(mesh.now));
        for number in 0..2 {
            while let Some(output) = mesh.agents[number].next_output() {
                mesh.agent_says(number, output);
            }
        }
        let mut grants = Vec::new();
        while let Some(output) = mesh.coordinator.next_output() {
            match output {
                CoordinatorOutput::Grant(agent, grant) => grants.push((agent, grant)),
                other => mesh.coordinator_says(other),
            }
        }
        if !grants.is_empty() {
            break grants;
        }
    };
    assert_eq!(grants.iter().map(|(_, grant)| grant.role).collect::<Vec<_>>(), [Role::Responder, Role::Initiator]);
    mesh.agents[0].claim("bob", mesh.now).unwrap();
    for (agent, grant) in grants {
        mesh.agents[agent.0 as usize].receive(grant, mesh.now);
    }
    mesh.pass(Span::from_secs(20), false);
    assert_eq!(mesh.ended[0].outcome, Outcome::Refused(Refusal::Claimed("bob".to_owned())));
    mesh.agents[0].release_claim(mesh.now);
    mesh.pass(Span::from_secs(40), true);
    assert_eq!(mesh.ended.last().map(|end| &end.outcome), Some(&Outcome::Finished));
}

/// A measurement that took longer than its slot was counted as one that had failed: the slot stayed as it was, and the path was never measured.
#[test]
fn a_run_that_is_cut_off_is_tried_again_with_a_longer_slot() {
    let mut mesh = Mesh::connected(plan(2, false));
    mesh.pass(Span::from_secs(200), false);
    let took: Vec<_> = mesh.ended.iter().map(|end| end.took).collect();
    assert!(mesh.ended.iter().all(|end| end.outcome == Outcome::CutOff), "{:?}", mesh.ended);
    assert!(took.len() >= 2 && took[1] > took[0] * 3 / 2, "{took:?}");
    mesh.pass(Span::from_secs(200), true);
    assert_eq!(mesh.ended.last().map(|end| &end.outcome), Some(&Outcome::Finished));
}

#[test]
fn another_plan_loses_no_run_and_what_a_removed_run_uses_stays_in_use() {
    let mut mesh = Mesh::connected(plan(3, true));
    while mesh.running.is_empty() {
        mesh.pass(Span::from_secs(1), false);
    }
    let running = mesh.running[0].clone();
    let mut other = plan(3, true);
    other.runs.retain(|run| run.id != running.run);
    mesh.process(CoordinatorInput::Configure(other));
    mesh.pass(Span::from_secs(10), false);
    assert_eq!(mesh.running.len(), 1, "the link is in use");
    let mut reasons = mesh.next().into_iter().map(|(_, reason)| reason);
    assert!(
        reasons.all(|reason| reason == Waiting::NotDue
            || matches!(reason, Waiting::InUse { run, .. } if run == Some(running.run)))
    );
    mesh.end_all();
    let end = mesh.ended.last().unwrap();
    assert_eq!((end.run, &end.outcome), (running.run, &Outcome::Finished));
    // Back again: it is not repeated in its cycle.
    let begin = mesh.ended.len();
    mesh.process(CoordinatorInput::Configure(plan(3, true)));
    mesh.pass(PERIOD, true);
    assert!(mesh.ended.len() > begin);
}

#[test]
fn a_plan_that_is_not_valid_changes_nothing() {
    let mut mesh = Mesh::connected(plan(2, false));
    let mut bad = plan(2, false);
    bad.runs[0].resources.push(ResourceId(7));
    let error = mesh.coordinator.process(CoordinatorInput::Configure(bad), mesh.now).unwrap_err();
    assert_eq!(error.to_string(), "the run 1 names the resource 7, which is not in the plan: add it");
    mesh.pass(PERIOD, true);
    assert!(!mesh.ended.is_empty());
}

#[test]
fn what_is_missed_has_a_reason_and_goes_first_after_three_cycles() {
    let mut mesh = Mesh::new(plan(3, true), TokenRecord::default().next_epoch());
    mesh.agents[..2].iter_mut().for_each(|agent| agent.connect(mesh.now));
    mesh.pass(PERIOD * 4, true);
    let missed: Vec<_> = mesh.missed.iter().filter(|missed| missed.run == RunId(2)).collect();
    assert!(missed.len() >= 3 && missed.iter().all(|missed| missed.reason == Waiting::AgentAbsent(AgentId(2))));
    assert!(mesh.missed.iter().all(|missed| missed.run != RunId(1)), "the run without the absent agent is served");
    // It comes back while nothing can start, then both of its runs are the first ones.
    mesh.agents[0].claim("somebody", mesh.now).unwrap();
    mesh.agents[2].connect(mesh.now);
    mesh.pass(PERIOD, true);
    mesh.agents[0].release_claim(mesh.now);
    let next: Vec<_> = mesh.next().into_iter().map(|(run, _)| run).collect();
    assert!(next.iter().position(|run| *run == RunId(2)) < next.iter().position(|run| *run == RunId(1)).or(Some(9)));
}

#[test]
fn a_silent_agent_is_given_nothing_and_what_it_holds_is_void_in_the_end() {
    let mut mesh = Mesh::connected(plan(2, false));
    while mesh.running.is_empty() {
        mesh.pass(Span::from_secs(1), false);
    }
    // Both fall silent, as if the site's uplink were down.
    let begin = mesh.now;
    let mut ended = Vec::new();
    while ended.is_empty() {
        mesh.now = mesh.coordinator.next_deadline().unwrap().max(mesh.now);
        mesh.coordinator.advance(mesh.now);
        while let Some(output) = mesh.coordinator.next_output() {
            if let CoordinatorOutput::Ended(end) = output {
                ended.push(end);
            }
        }
    }
    assert_eq!(ended[0].outcome, Outcome::Lost);
    assert!(mesh.now - begin >= Span::from_secs(29), "{}", mesh.now - begin);
    assert_eq!(mesh.next()[0].1, Waiting::Retry(Outcome::Lost));
}

#[test]
fn what_was_served_before_a_restart_is_not_repeated_in_its_cycle() {
    let now = Time::ZERO;
    let mut coordinator = Coordinator::new(plan(2, false), TokenRecord::default().next_epoch(), WALL, now).unwrap();
    let mut history = DurationHistory::default();
    (0..5).for_each(|_| history.record(Span::from_secs(4)));
    coordinator.restore(RunId(1), history, Some(Span::ZERO), now);
    let view = coordinator.view(9, now);
    assert_eq!(view.classes[0].served, 1);
    let in_next_cycle = view.classes[0].next_in..view.classes[0].next_in + PERIOD;
    assert!(view.next.len() == 1 && in_next_cycle.contains(&view.next[0].due_in), "{view:?}");
    // 4 s and a guard of 2 s.
    assert_eq!(view.load.classes[0].lower_bound, Span::from_secs(6));
}

#[test]
fn what_somebody_asks_for_goes_before_the_others_and_does_not_count_for_the_cycle() {
    let mut mesh = Mesh::connected(plan(3, false));
    // All are served in their first cycle.
    mesh.pass(PERIOD, true);
    mesh.ended.clear();
    mesh.end_all();
    let before = mesh.coordinator.view(9, mesh.now).classes[0].served;
    assert_eq!(mesh.coordinator.request(RunId(2), mesh.now), Ok(Waiting::Running));
    mesh.settle();
    assert_eq!(mesh.running.iter().map(|grant| grant.run).collect::<Vec<_>>(), [RunId(2)]);
    assert_eq!(mesh.coordinator.request(RunId(2), mesh.now), Err(RequestError::Running));
    // The others wait for its hosts; what is asked for is the next.
    let waits = mesh.coordinator.request(RunId(12), mesh.now).unwrap();
    assert!(matches!(waits, Waiting::InUse { .. }), "{waits:?}");
    assert_eq!(mesh.coordinator.request(RunId(12), mesh.now), Err(RequestError::Waiting));
    assert_eq!(mesh.next()[0].0, RunId(12));
    mesh.end_all();
    assert_eq!(mesh.running.iter().map(|grant| grant.run).collect::<Vec<_>>(), [RunId(12)]);
    mesh.end_all();
    assert_eq!(mesh.ended.iter().map(|end| end.run).collect::<Vec<_>>()[..2], [RunId(2), RunId(12)]);
    assert!(mesh.coordinator.view(9, mesh.now).classes[0].served <= before + 2);
    assert_eq!(mesh.coordinator.request(RunId(77), mesh.now), Err(RequestError::NotPlanned));
}

#[test]
fn a_request_waits_for_an_agent_and_is_forgotten_after_a_while() {
    let mut mesh = Mesh::connected(plan(6, false));
    mesh.pass(PERIOD, true);
    mesh.end_all();
    mesh.process(CoordinatorInput::Disconnected(AgentId(0)));
    for to in 1..=5 {
        let waits = mesh.coordinator.request(RunId(to), mesh.now);
        assert_eq!(waits, Ok(Waiting::AgentAbsent(AgentId(0))));
    }
    // Everything is bounded.
    let others = [12, 13, 14, 15, 23, 24, 25, 34].map(|run| mesh.coordinator.request(RunId(run), mesh.now));
    assert!(others.contains(&Err(RequestError::TooMany)), "{others:?}");
    mesh.settle();
    mesh.end_all();
    let now = mesh.now + Span::from_secs(601);
    mesh.coordinator.advance(now);
    let again = mesh.coordinator.request(RunId(1), now);
    assert_eq!(again, Ok(Waiting::AgentAbsent(AgentId(0))), "the earlier one is forgotten");
}

#[test]
fn what_was_never_measured_is_due_at_once() {
    let mut mesh = Mesh::connected(plan(4, false));
    for _ in 0..3 {
        assert_eq!(mesh.running.len(), 2);
        mesh.end_all();
    }
    assert!(mesh.running.is_empty() && mesh.ended.len() == 6, "each pair once");
}

#[test]
fn the_view_is_json() {
    let mut mesh = Mesh::connected(plan(3, true));
    mesh.pass(PERIOD, false);
    let view = serde_json::to_value(mesh.coordinator.view(10, mesh.now)).unwrap();
    assert!(view["load"]["resources"][0]["load_ratio"].is_number(), "{view}");
    assert!(view["classes"][0]["next_in_nanoseconds"].is_number(), "{view}");
}

#[test]
fn messages_survive_their_encoding() {
    let mut agent = Agent::new(1, Time::ZERO);
    agent.connect(Time::ZERO);
    let Some(AgentOutput::Send(message)) = agent.next_output() else { panic!("a heartbeat") };
    let text = serde_json::to_string(&message).unwrap();
    assert_eq!(serde_json::from_str::<AgentMessage>(&text).unwrap(), message);
}
