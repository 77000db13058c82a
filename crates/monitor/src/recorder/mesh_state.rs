//! What the recorder knows of agents: who is there, what they may say, which runs go on.

use super::link_budgets::LinkBudgets;
use crate::config::{MeshAgent, MeshConfig};
use crate::mesh::budget::{AgentBudget, AskedRates};
use crate::mesh::frame::{Condition, CoordinatorFrame};
use crate::mesh::listener::{MeshCommand, MeshCommands};
use crate::mesh::peer_path::PeerPath;
use crate::mesh::plan::agent_id;
use crate::pair_recorder::BusyTime;
use kumade_archive::{AnyStore, Archive, ArchiveError, HostId};
use kumade_noise_session::{PresharedKey, keyed_hash};
use kumade_planner::{AgentId, ResourceId, Token};
use kumade_units::Time;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// What the recorder knows of agents.
pub(super) struct MeshState {
    pub(super) agents: Vec<AgentState>,
    pub(super) links: LinkBudgets,
    /// Places of pairs by their sources and paths: an agent delivers of each pair every second.
    pub(super) places: BTreeMap<(HostId, PeerPath), usize>,
    /// Of which the keys of reflectors and runs are made.
    secret: [u8; 32],
    pub(super) commands: Option<MeshCommands>,
    /// Runs that go on.
    pub(super) granted: BTreeMap<Token, GrantedRun>,
    /// When runs used what.
    busy: BTreeMap<ResourceId, VecDeque<(Token, BusyTime)>>,
}

/// What it knows of one.
pub(super) struct AgentState {
    pub(super) config: MeshAgent,
    pub(super) host: HostId,
    pub(super) is_connected: bool,
    /// Since when that is so, UTC.
    pub(super) since: Option<Time>,
    pub(super) address: Option<IpAddr>,
    /// As it said last.
    pub(super) condition: Condition,
    pub(super) budget: AgentBudget,
}

/// A run that goes on.
pub(super) struct GrantedRun {
    /// Numbers of its ends, first the one that begins.
    pub(super) agents: [AgentId; 2],
    resources: Vec<ResourceId>,
}

/// Under which the archive has the secret.
const SECRET_KEY: &str = "mesh.secret";
/// Runs whose times are remembered, of each host and link: results of probes come seconds later, and while an agent is cut off, none begins.
const KEPT_BUSY_TIMES: usize = 64;

impl MeshState {
    pub(super) fn new(
        mesh: &MeshConfig,
        hosts: &[HostId],
        archive: &mut Archive<AnyStore>,
        now: Time,
    ) -> Result<Self, ArchiveError> {
        let state = |(config, host): (&MeshAgent, &HostId)| AgentState {
            config: config.clone(),
            host: *host,
            is_connected: false,
            since: None,
            address: None,
            condition: Condition::default(),
            budget: AgentBudget::new(AskedRates::default()),
        };
        Ok(MeshState {
            agents: mesh.agents.iter().zip(hosts).map(state).collect(),
            links: LinkBudgets::open(mesh, archive, now)?,
            places: BTreeMap::new(),
            secret: read_secret(archive)?,
            commands: None,
            granted: BTreeMap::new(),
            busy: BTreeMap::new(),
        })
    }

    /// A key that only this coordinator can make.
    pub(super) fn key(&self, purpose: &str) -> String {
        let halves = ["1", "2"].map(|half| keyed_hash(&self.secret, format!("{half} {purpose}").as_bytes()));
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&halves[0]);
        bytes[16..].copy_from_slice(&halves[1]);
        PresharedKey::from_bytes(bytes).to_hex().to_string()
    }

    /// The key of an agent's reflector.
    pub(super) fn stamp_key(&self, agent: &MeshAgent) -> String {
        self.key(&format!("stamp {}", agent.id))
    }

    /// An agent's place in the configuration.
    pub(super) fn place(&self, agent: AgentId) -> Option<usize> {
        self.agents.iter().position(|known| agent_id(known.host) == agent)
    }

    pub(super) fn send(&self, agent: usize, frame: CoordinatorFrame) {
        self.command(MeshCommand::Send { agent, frame });
    }

    pub(super) fn command(&self, command: MeshCommand) {
        if let Some(commands) = &self.commands {
            // The monitor ends where nobody takes it.
            commands.send(command);
        }
    }

    /// Times of runs that used what a pair uses.
    pub(super) fn busy_times(&self, resources: &[ResourceId]) -> Vec<BusyTime> {
        let times = resources.iter().filter_map(|resource| self.busy.get(resource));
        times.flatten().map(|(_, time)| *time).collect()
    }

    /// A run has been granted to one end or the other.
    pub(super) fn begin_run(&mut self, token: Token, agents: [AgentId; 2], resources: &[ResourceId], now: Time) {
        if self.granted.contains_key(&token) {
            return;
        }
        for resource in resources {
            let times = self.busy.entry(*resource).or_default();
            times.push_back((token, BusyTime { from: now, to: None }));
            times.drain(..times.len().saturating_sub(KEPT_BUSY_TIMES));
        }
        self.granted.insert(token, GrantedRun { agents, resources: resources.to_vec() });
    }

    /// What it used is free again.
    pub(super) fn end_run(&mut self, token: Token, now: Time) {
        let Some(run) = self.granted.remove(&token) else { return };
        for resource in run.resources {
            let times = self.busy.get_mut(&resource).into_iter().flatten();
            times.filter(|(other, _)| *other == token).for_each(|(_, time)| time.to = Some(now));
        }
    }
}

fn read_secret(archive: &mut Archive<AnyStore>) -> Result<[u8; 32], ArchiveError> {
    if let Some(Ok(secret)) = archive.read().state(SECRET_KEY)?.map(<[u8; 32]>::try_from) {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| ArchiveError::Document(error.to_string()))?;
    archive.put_state(SECRET_KEY, Some(&secret))?;
    Ok(secret)
}
