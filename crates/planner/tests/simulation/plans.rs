//! Plans of a few sites behind shared uplinks, with more to measure than there is time for.

use kumade_planner::{
    AgentId, Class, ClassId, Plan, PlannedAgent, Resource, ResourceId, ResourceKind, Run, RunId, RunKind,
};
use kumade_units::{Direction, Span};
use rand::{Rng, RngExt};

pub const AGENTS: u32 = 12;
/// So many agents share an uplink.
const AGENTS_PER_SITE: u32 = 3;
/// Hosts that only answer: not agents.
const TARGETS: u32 = 2;
const SITES: u32 = AGENTS / AGENTS_PER_SITE;
const FIRST_LINK: u32 = AGENTS + TARGETS;

/// The host of an agent, or of a target.
pub fn host(number: u32) -> ResourceId {
    ResourceId(number)
}

fn uplinks(agent: u32) -> [ResourceId; 2] {
    let site = agent / AGENTS_PER_SITE;
    [ResourceId(FIRST_LINK + 2 * site), ResourceId(FIRST_LINK + 2 * site + 1)]
}

/// All agents to each other and to the targets.
pub fn full_plan() -> Plan {
    let mut resources: Vec<_> = (0..FIRST_LINK).map(|id| Resource { id: host(id), kind: ResourceKind::Host }).collect();
    for site in 0..SITES {
        for (id, direction) in (FIRST_LINK + 2 * site..).zip(Direction::BOTH) {
            resources.push(Resource { id: ResourceId(id), kind: ResourceKind::Link(direction) });
        }
    }
    let claims = |agent: u32| [vec![host(agent)], uplinks(agent).to_vec()].concat();
    let agents = (0..AGENTS).map(|agent| PlannedAgent { id: AgentId(agent), claims: claims(agent) });
    let mut runs = Vec::new();
    for (first, second) in (0..AGENTS).flat_map(|a| (a + 1..AGENTS + TARGETS).map(move |b| (a, b))) {
        let is_agent = second < AGENTS;
        let is_local = is_agent && first / AGENTS_PER_SITE == second / AGENTS_PER_SITE;
        let mut resources = vec![host(first), host(second)];
        if !is_local {
            resources.extend(uplinks(first));
            resources.extend(if is_agent { uplinks(second).to_vec() } else { Vec::new() });
        }
        let id = RunId(first * 100 + second);
        let class = ClassId((first + second) % 2);
        let responder = is_agent.then_some(AgentId(second));
        runs.push(Run { id, class, kind: RunKind::Full, initiator: AgentId(first), responder, resources });
    }
    let class = |id, seconds| Class { id: ClassId(id), period: Span::from_secs(seconds) };
    Plan { resources, agents: agents.collect(), classes: vec![class(0, 60), class(1, 100)], runs }
}

/// A part of it, with other periods and other links on the way of some runs.
pub fn changed_plan(random: &mut impl Rng) -> Plan {
    let mut plan = full_plan();
    plan.runs.retain(|_| random.random_bool(0.9));
    for class in &mut plan.classes {
        class.period = Span::from_secs(random.random_range(30..120));
    }
    for run in plan.runs.iter_mut().filter(|run| run.resources.len() > 3) {
        // Another link, declared by mistake: it is used by one more run.
        if random.random_bool(0.05) {
            let link = ResourceId(FIRST_LINK + random.random_range(0..2 * SITES));
            if !run.resources.contains(&link) {
                run.resources.push(link);
            }
        }
    }
    plan
}
