//! The plan of a mesh: hosts, links, and a run between each two agents. Pure.

use crate::config::{MeshConfig, MeshPair, MonitoredTarget};
use kumade_archive::HostId;
use kumade_planner::{
    AddressFamily, AgentId, Class, ClassId, Plan, PlannedAgent, Resource, ResourceId, ResourceKind, Run, RunId, RunKind,
};
use kumade_units::Direction;

/// Links have numbers above those of hosts. They begin anew with each start, and so do tokens, which are greater then.
const FIRST_LINK: u32 = 1 << 31;
/// Above it, two hosts' numbers are no number of a run.
const MAX_HOSTS: u32 = 1 << 15;
/// Paths between two hosts: over either version of IP, or over whichever there is.
const PATHS: u32 = 3;

/// The number of the run between two hosts over a version of IP, which no other ever has; none if there were too many hosts.
pub(crate) fn run_id(source: HostId, target: HostId, family: Option<AddressFamily>) -> Option<RunId> {
    let is_small = source.0 < MAX_HOSTS && target.0 < MAX_HOSTS;
    let path = match family {
        None => 0,
        Some(AddressFamily::Ipv4) => 1,
        Some(AddressFamily::Ipv6) => 2,
    };
    is_small.then_some(RunId((source.0 * MAX_HOSTS + target.0) * PATHS + path))
}

/// An agent has the number of its host.
pub(crate) fn agent_id(host: HostId) -> AgentId {
    AgentId(host.0)
}

/// A declared link takes part in the plan as an agent does, that is given no run: it says when nothing may use the link.
pub(crate) fn link_agent(link: usize) -> AgentId {
    AgentId(FIRST_LINK + link as u32)
}

/// `hosts` are the agents' numbers, by their places. A full measurement goes both ways, and uses both directions of the links between
/// its ends.
pub(crate) fn mesh_plan(mesh: &MeshConfig, targets: &[MonitoredTarget], hosts: &[HostId]) -> Plan {
    let directions = [Direction::Up, Direction::Down];
    let links = (0..mesh.links.len()).flat_map(|link| {
        directions.map(|direction| Resource { id: link_id(link, direction), kind: ResourceKind::Link(direction) })
    });
    let host = |host: &HostId| Resource { id: ResourceId(host.0), kind: ResourceKind::Host };
    let mut plan = Plan { resources: hosts.iter().map(host).chain(links).collect(), ..Plan::default() };
    plan.agents = (0..hosts.len())
        .map(|place| {
            let behind = (0..mesh.links.len()).filter(|link| mesh.links[*link].agents.contains(&place));
            let links = behind.flat_map(|link| directions.map(|direction| link_id(link, direction)));
            let claims = std::iter::once(ResourceId(hosts[place].0)).chain(links).collect();
            PlannedAgent { id: agent_id(hosts[place]), claims }
        })
        .collect();
    plan.agents.extend((0..mesh.links.len()).map(|link| PlannedAgent {
        id: link_agent(link),
        claims: directions.map(|direction| link_id(link, direction)).to_vec(),
    }));
    for (pair, target) in mesh.pairs.iter().zip(targets) {
        let (source, answering) = (hosts[pair.source], hosts[pair.target]);
        let (Some(schedule), Some(id)) = (&target.measurement, run_id(source, answering, pair.family)) else {
            continue;
        };
        let class = ClassId(0);
        if plan.classes.is_empty() {
            plan.classes.push(Class { id: class, period: schedule.period });
        }
        let links = pair_links(pair);
        plan.runs.push(Run {
            id,
            class,
            kind: RunKind::Full,
            initiator: agent_id(source),
            responder: Some(agent_id(answering)),
            resources: [ResourceId(source.0), ResourceId(answering.0)].into_iter().chain(links).collect(),
        });
    }
    plan
}

/// What people call a resource of the plan.
pub(crate) fn resource_name(mesh: &MeshConfig, hosts: &[HostId], resource: ResourceId) -> String {
    if resource.0 >= FIRST_LINK {
        let number = resource.0 - FIRST_LINK;
        let direction = if number.is_multiple_of(2) { "up" } else { "down" };
        let link = mesh.links.get((number / 2) as usize);
        return link.map_or_else(String::new, |link| format!("link {} ({direction})", link.name));
    }
    let place = hosts.iter().position(|host| host.0 == resource.0);
    place.map_or_else(String::new, |place| format!("host {}", mesh.agents[place].id))
}

/// Both directions of the links between a pair.
pub(crate) fn pair_links(pair: &MeshPair) -> impl Iterator<Item = ResourceId> + '_ {
    let directions = [Direction::Up, Direction::Down];
    pair.links.iter().flat_map(move |link| directions.map(|direction| link_id(*link, direction)))
}

fn link_id(link: usize, direction: Direction) -> ResourceId {
    ResourceId(FIRST_LINK + 2 * link as u32 + u32::from(direction == Direction::Down))
}
