//! The recorder's part for agents: what each is told, and what is taken from it.

use super::mesh_state::AgentState;
use super::{MAX_WAITING_SAMPLES, Recorder};
use crate::light::{OneWayDelays, ProbeReply, ProbeResult};
use crate::mesh::budget::{AgentBudget, AskedRates, BatchVerdict, is_short};
use crate::mesh::frame::{
    AgentFrame, AssignedPeer, Assignment, Condition, CoordinatorFrame, Delivery, PeerResults, RunGrant, RunResult,
    VERSION, WireLoss, WireResult,
};
use crate::mesh::listener::{MeshCommand, MeshCommands, MeshReport};
use crate::mesh::peer_path::PeerPath;
use crate::mesh::plan::{agent_id, pair_links};
use crate::pair_recorder::PairRecorder;
use crate::status::{AgentStatus, PairStatus, UnmeasuredPair};
use kumade_archive::{Acknowledged, Batch, Event, Gap, NewRun, PairId, Taken};
use kumade_net::clock;
use kumade_net::interface::Family;
use kumade_planner::{AgentId, AgentMessage, Grant, ResourceId, Role, Token, Waiting};
use kumade_sketch::LostIn;
use kumade_units::{Span, Time};
use std::ops::Range;

/// Nothing that an agent delivers is older.
const MAX_AGE: Span = Span::from_secs(366 * 86_400);
/// Delays that are longer are no delays.
const MAX_DELAY: Span = Span::from_secs(86_400);
/// Why there are no probes.
const AGENT_PAUSE: &str = "the agent did not run";
/// Of what an agent says in words.
const MAX_TEXT_CHARS: usize = 200;
/// Things that an agent cannot do: it has four parts.
const MAX_FAULTS: usize = 8;

impl Recorder {
    /// By which agents are told.
    pub(crate) fn set_mesh_commands(&mut self, commands: MeshCommands) {
        self.mesh.iter_mut().for_each(|mesh| mesh.commands = Some(commands.clone()));
        self.tell_agents();
    }

    /// What each is asked for may have changed.
    pub(super) fn tell_agents(&mut self) {
        for agent in 0..self.mesh.as_ref().map_or(0, |mesh| mesh.agents.len()) {
            let assignment = self.assignment(agent);
            self.send_to(agent, CoordinatorFrame::Assignment(assignment));
        }
        let Some(mesh) = &mut self.mesh else { return };
        mesh.places = self.pairs.iter().enumerate().map(|(place, pair)| ((pair.source, pair.path()), place)).collect();
        // What each may deliver is what it is asked for.
        for agent in &mut mesh.agents {
            let own = self.pairs.iter().filter(|pair| pair.source == agent.host);
            let mut asked = AskedRates::default();
            for pair in own {
                asked.peers += 1;
                asked.probes_per_second += 1.0 / pair.target.light.interval.as_secs_f64();
                let period = pair.target.measurement.as_ref().map(|schedule| schedule.period.as_secs_f64());
                asked.runs_per_second += period.map_or(0.0, |period| 1.0 / period);
            }
            agent.budget = AgentBudget::new(asked);
        }
    }

    pub(super) fn take_mesh_report(&mut self, report: MeshReport) {
        let (now, utc) = (clock::monotonic(), clock::realtime());
        match report {
            MeshReport::Connected { agent, address, version } => {
                let Some(mesh) = &mut self.mesh else { return };
                let state = &mut mesh.agents[agent];
                let address = address.ip().to_canonical();
                (state.is_connected, state.since, state.address) = (true, Some(utc), Some(address));
                mesh.send(agent, CoordinatorFrame::Hello { version: VERSION });
                let assignment = self.assignment(agent);
                self.send_to(agent, CoordinatorFrame::Assignment(assignment));
                let other =
                    if version == VERSION { String::new() } else { format!(", which speaks version {version}") };
                self.note_agent(agent, "agent-connected", &format!("connected from {address}{other}"));
            }
            MeshReport::Frame { agent, frame, held } => {
                self.take_agent_frame(agent, frame, now, utc);
                drop(held);
            }
            MeshReport::Disconnected { agent, reason } => {
                let Some(mesh) = &mut self.mesh else { return };
                (mesh.agents[agent].is_connected, mesh.agents[agent].since) = (false, Some(utc));
                self.schedule.disconnect(agent_id(mesh.agents[agent].host), now);
                self.note_agent(agent, "agent-disconnected", &format!("not connected any more: {reason}"));
            }
            MeshReport::Refused { text } => self.note(None, "agent-refused", text),
        }
    }

    fn take_agent_frame(&mut self, agent: usize, frame: AgentFrame, now: Time, utc: Time) {
        let Some(mesh) = &mut self.mesh else { return };
        let is_heard = match &frame {
            AgentFrame::Batch(_) => true,
            AgentFrame::Planner { message } => is_short(message) && mesh.agents[agent].budget.take_message(now),
            _ => mesh.agents[agent].budget.take_message(now),
        };
        if !is_heard {
            return self.cut_off(agent);
        }
        match frame {
            AgentFrame::Planner { message } => self.take_planner_message(agent, message, now, utc),
            AgentFrame::Address { path, address } => {
                let own = Family::from_address(address.ip().to_canonical());
                let is_of_path = path.family().is_none_or(|family| family == own);
                if let Some(place) = self.own_pair(agent, path).filter(|_| is_of_path) {
                    let before = self.pairs[place].address;
                    if before.is_some_and(|before| before != address) && !self.take_event(agent, now) {
                        return;
                    }
                    self.set_address(place, address);
                    self.register_pairs(utc);
                }
            }
            AgentFrame::NotSent { path, reason } => {
                let Some(place) = self.own_pair(agent, path) else { return };
                if self.take_event(agent, now) {
                    let reason: String = reason.chars().take(MAX_TEXT_CHARS).collect();
                    self.set_outage(place, Some(reason.clone()), utc);
                    self.note(Some(place), "not-sent", format!("{}: {reason}", self.pairs[place].target.name));
                }
            }
            AgentFrame::ClockStep { step } => {
                let step = step.clamp(-MAX_DELAY * 36_600, MAX_DELAY * 36_600);
                let direction = if step > Span::ZERO { "forward" } else { "back" };
                let text = format!("its clock was set {direction} by {}", step.max(-step));
                self.note_agent(agent, "clock-step", &text);
            }
            AgentFrame::Condition(condition) => self.take_condition(agent, condition),
            AgentFrame::Batch(delivery) => self.take_delivery(agent, delivery, now, utc),
            AgentFrame::Hello { .. } | AgentFrame::Unknown => {}
        }
    }

    fn take_planner_message(&mut self, agent: usize, message: AgentMessage, now: Time, utc: Time) {
        let Some(mesh) = &self.mesh else { return };
        let id = agent_id(mesh.agents[agent].host);
        match &message {
            AgentMessage::Heartbeat(_) => mesh.send(agent, CoordinatorFrame::Alive),
            // The answering end learns from here that it may stop to answer.
            AgentMessage::Ended { token, .. } => {
                let granted = mesh.granted.get(token).filter(|run| run.agents[0] == id);
                if let Some(responder) = granted.and_then(|run| mesh.place(run.agents[1])) {
                    mesh.send(responder, CoordinatorFrame::Finished { token: *token });
                }
            }
            AgentMessage::Began { .. } => {}
        }
        self.schedule.receive(id, message, now);
        self.follow_schedule(now, utc);
    }

    /// What an agent cannot do is an event, once.
    fn take_condition(&mut self, agent: usize, mut condition: Condition) {
        let Some(mesh) = &mut self.mesh else { return };
        condition.faults.truncate(MAX_FAULTS);
        condition.faults.iter_mut().for_each(|fault| *fault = fault.chars().take(MAX_TEXT_CHARS).collect());
        let before = std::mem::replace(&mut mesh.agents[agent].condition, condition.clone());
        for fault in condition.faults.iter().filter(|fault| !before.faults.contains(fault)) {
            self.note_agent(agent, "agent-fault", fault);
        }
    }

    fn cut_off(&self, agent: usize) {
        let reason = "it says more than it was asked for, or what makes no sense".to_owned();
        self.mesh.iter().for_each(|mesh| mesh.command(MeshCommand::Disconnect { agent, reason: reason.clone() }));
    }

    /// What an agent has measured, of its own pairs alone.
    fn take_delivery(&mut self, agent: usize, delivery: Delivery, now: Time, utc: Time) {
        let Delivery { stamp, batch } = delivery;
        let Some(mesh) = &self.mesh else { return };
        let instance = format!("{}/{:x}", mesh.agents[agent].config.id, batch.instance);
        if self.archive.is_known(&instance, batch.sequence) {
            // It may not be on the disk yet; then it is acknowledged with the next commit.
            return self.acknowledge_known(agent, batch.instance, batch.sequence, &instance);
        }
        // Of a pair that has no number yet, nothing can be written: it comes again once the agent has told the address.
        let paths = batch.probes.iter().map(|peer| peer.path).chain(batch.runs.iter().map(|run| run.path));
        let mut places = paths.filter_map(|path| self.own_pair(agent, path));
        let is_unnumbered = places.any(|place| self.pairs[place].id.is_none());
        if is_unnumbered || batch.pause.is_some() && self.lacks_all_numbers(agent) {
            return;
        }
        let Some(mesh) = &mut self.mesh else { return };
        match mesh.agents[agent].budget.take_batch(&batch, now) {
            BatchVerdict::Taken => {}
            BatchVerdict::Later => return,
            BatchVerdict::Refused => return self.cut_off(agent),
        }
        // The batch's clock against this host's.
        let shift = now - stamp;
        let mut taken = Batch { instance, sequence: batch.sequence, ..Batch::default() };
        for PeerResults { path, duplicates, results } in batch.probes {
            let Some(place) = self.own_pair(agent, path) else { continue };
            let results: Vec<_> = results.iter().map(|result| probe_result(result, shift, now)).collect();
            let busy = self.mesh.as_ref().map(|mesh| mesh.busy_times(&self.resources(place))).unwrap_or_default();
            self.alerter.add_results(place, &results, now);
            if self.pairs[place].add_results(&results, duplicates, &busy, now, utc) {
                self.set_outage(place, None, utc);
            }
            let Some(id) = self.pairs[place].id else { continue };
            taken.samples.push((id, std::mem::take(&mut self.pairs[place].pending)));
        }
        for RunResult { path, began, ended, document } in batch.runs {
            let Some(place) = self.own_pair(agent, path) else { continue };
            self.add_link_bytes(place, &document);
            let Some(id) = self.pairs[place].id else { continue };
            let [started, ended] = [began, ended].map(|time| utc - age(time, shift, now));
            taken.runs.push(NewRun { pair: id, started, ended: ended.max(started), document });
        }
        let pause = batch.pause.filter(|_| self.take_event(agent, now)).map(|pause| {
            let [from, to] = [pause.from, pause.to].map(|time| utc - age(time, shift, now));
            from..to.max(from)
        });
        if let Some(pause) = &pause {
            taken.gaps = self.pairs_from(agent).filter_map(|pair| pair.id.map(|id| agent_gap(id, pause))).collect();
        }
        // While the archive writes nothing, what is more stays with the agent.
        if self.archive_failure.is_some() && self.archive.staged_samples() > MAX_WAITING_SAMPLES {
            return;
        }
        match self.archive.ingest(&taken, utc) {
            Ok(Taken::Staged | Taken::Repeated) => {
                self.delivered_runs.extend(taken.runs.iter().map(|run| run.pair));
                pause.into_iter().for_each(|pause| self.keep_pause(agent, &pause));
            }
            // It is not acknowledged, and comes again.
            Err(error) => self.fail(&error),
        }
    }

    /// The pairs that an agent probes.
    fn pairs_from(&self, agent: usize) -> impl Iterator<Item = &PairRecorder> {
        let source = self.mesh.as_ref().map(|mesh| mesh.agents[agent].host);
        self.pairs.iter().filter(move |pair| Some(pair.source) == source)
    }

    /// Whether an agent probes some, and has told no address of theirs yet.
    fn lacks_all_numbers(&self, agent: usize) -> bool {
        let mut own = self.pairs_from(agent).peekable();
        own.peek().is_some() && own.all(|pair| pair.id.is_none())
    }

    /// A time in which an agent did not run, for those of its pairs whose address it tells later.
    fn keep_pause(&mut self, agent: usize, pause: &Range<Time>) {
        let source = self.mesh.as_ref().map(|mesh| mesh.agents[agent].host);
        let own = self.pairs.iter_mut().filter(|pair| Some(pair.source) == source && pair.id.is_none());
        own.for_each(|pair| pair.keep_gap(pause.clone(), AGENT_PAUSE));
    }

    /// It was delivered before.
    fn acknowledge_known(&mut self, agent: usize, instance: u64, sequence: u64, name: &str) {
        let Some(mesh) = &self.mesh else { return };
        if self.archive.is_written(name, sequence) {
            mesh.send(agent, CoordinatorFrame::Acknowledged { instance, sequence });
        }
    }

    /// What is on the disk need not be kept by agents.
    pub(super) fn acknowledge(&mut self, written: &[Acknowledged]) {
        let Some(mesh) = &self.mesh else { return };
        for Acknowledged { instance, sequence, refused_samples } in written {
            let Some((id, number)) = instance.split_once('/') else { continue };
            let Some(agent) = mesh.agents.iter().position(|agent| agent.config.id == id) else { continue };
            let Ok(instance) = u64::from_str_radix(number, 16) else { continue };
            if *refused_samples > 0 {
                tracing::warn!(
                    "{id}: {refused_samples} results of probes are too old, or of no pair, and are not kept"
                );
            }
            mesh.send(agent, CoordinatorFrame::Acknowledged { instance, sequence: *sequence });
        }
    }

    /// To both ends goes the key of this run alone.
    pub(super) fn send_grant(&mut self, agent: AgentId, grant: Grant, now: Time) {
        let Some(mesh) = &mut self.mesh else { return };
        let (Some(place), Some(peer)) = (mesh.place(agent), grant.peer) else { return };
        let agents = if grant.role == Role::Initiator { [agent, peer] } else { [peer, agent] };
        let Some(pair) = self.pairs.iter().find(|pair| pair.run == Some(grant.run)) else { return };
        let Some(port) = pair.target.measurement.as_ref().map(|schedule| schedule.port) else { return };
        let (path, host) = (pair.path(), pair.target.host.clone());
        let token = grant.token;
        mesh.begin_run(token, agents, &grant.resources, now);
        let key = mesh.key(&format!("run {token}"));
        let frame = RunGrant { grant, key, path, host, port };
        mesh.send(place, CoordinatorFrame::Grant(frame));
    }

    /// What was probed from then on was not disturbed.
    pub(super) fn note_run_ended(&mut self, token: Token, now: Time) {
        self.mesh.iter_mut().for_each(|mesh| mesh.end_run(token, now));
    }

    /// The pair that this agent probes, by the path to its peer.
    fn own_pair(&self, agent: usize, path: PeerPath) -> Option<usize> {
        let mesh = self.mesh.as_ref()?;
        mesh.places.get(&(mesh.agents.get(agent)?.host, path)).copied()
    }

    fn resources(&self, place: usize) -> Vec<ResourceId> {
        let pair = &self.pairs[place];
        let mesh = self.config.mesh.as_ref();
        let links = mesh.and_then(|mesh| mesh.pairs.get(place)).into_iter().flat_map(pair_links);
        [ResourceId(pair.source.0), ResourceId(pair.host.0)].into_iter().chain(links).collect()
    }

    fn assignment(&self, agent: usize) -> Assignment {
        let Some(mesh) = &self.mesh else { return Assignment { stamp_key: String::new(), peers: Vec::new() } };
        let own = &mesh.agents[agent];
        let pairs = self.pairs.iter().filter(|pair| pair.source == own.host);
        let peers = pairs.filter_map(|pair| {
            let answering = mesh.agents.iter().find(|agent| agent.host == pair.host)?;
            let light = &pair.target.light;
            Some(AssignedPeer {
                path: pair.path(),
                host: pair.target.host.clone(),
                stamp_port: light.port,
                stamp_key: mesh.stamp_key(&answering.config),
                interval: light.interval,
                late_after: light.limits.late_after,
                lost_after: light.limits.lost_after,
            })
        });
        Assignment { stamp_key: mesh.stamp_key(&own.config), peers: peers.collect() }
    }

    pub(super) fn agent_status(&self) -> Vec<AgentStatus> {
        let status = |agent: &AgentState| AgentStatus {
            id: agent.config.id.clone(),
            name: agent.config.name.clone(),
            is_connected: agent.is_connected,
            since_seconds: agent.since.map(Time::as_secs_f64),
            address: agent.address.map(|address| address.to_string()),
            faults: agent.condition.faults.clone(),
            used_bytes: agent.condition.used_bytes,
            bytes_per_day: agent.condition.bytes_per_day,
        };
        self.mesh.iter().flat_map(|mesh| mesh.agents.iter().map(status)).collect()
    }

    /// Why a run waits, with the names of agents in place of their numbers.
    pub(super) fn waiting_text(&self, reason: &Waiting) -> String {
        let name = |agent: AgentId| {
            let mesh = self.mesh.as_ref()?;
            let name = mesh.place(agent).map(|place| mesh.agents[place].config.name.clone());
            name.or_else(|| self.link_name(agent))
        };
        match reason {
            Waiting::AgentAbsent(agent) => name(*agent).map(|name| format!("the agent {name} is not connected")),
            Waiting::Claimed { agent, holder } => name(*agent).map(|name| format!("{name} is not free: {holder}")),
            Waiting::InUse { run: Some(run), .. } => {
                let pair = self.pairs.iter().find(|pair| pair.run == Some(*run));
                pair.map(|pair| format!("{} is being measured", pair.target.name))
            }
            _ => None,
        }
        .unwrap_or_else(|| reason.to_string())
    }

    pub(super) fn unmeasured_pairs(&self) -> Vec<UnmeasuredPair> {
        let unreachable = self.config.mesh.iter().flat_map(|mesh| &mesh.unreachable);
        unreachable.map(|(pair, reason)| UnmeasuredPair { pair: pair.clone(), reason: reason.clone() }).collect()
    }

    /// Without data, it says whether the agent is there.
    pub(super) fn pair_status(&self, pair: &PairRecorder) -> PairStatus {
        let mut status = pair.status();
        status.ends = self.mesh.as_ref().and_then(|_| agents_of_pair(&pair.target.id));
        let mut agents = self.mesh.iter().flat_map(|mesh| &mesh.agents);
        let absent = agents.find(|agent| agent.host == pair.source && !agent.is_connected);
        if let (Some(agent), "none") = (absent, status.state.level.as_str()) {
            status.state.detail = format!("The agent {} is not connected.", agent.config.name);
        }
        let mut agents = self.mesh.iter().flat_map(|mesh| &mesh.agents);
        let answering = agents.find(|agent| agent.host == pair.host && !agent.condition.faults.is_empty());
        if let (Some(agent), "bad") = (answering, status.state.level.as_str()) {
            status.state.detail += &format!(" {} {}.", agent.config.name, agent.condition.faults.join("; "));
        }
        status
    }

    fn send_to(&self, agent: usize, frame: CoordinatorFrame) {
        self.mesh.iter().for_each(|mesh| mesh.send(agent, frame.clone()));
    }

    /// Whether one more event about an agent is kept.
    fn take_event(&mut self, agent: usize, now: Time) -> bool {
        self.mesh.as_mut().is_some_and(|mesh| mesh.agents[agent].budget.take_event(now))
    }

    fn note_agent(&mut self, agent: usize, kind: &str, text: &str) {
        let Some(mesh) = &self.mesh else { return };
        let AgentState { config, host, .. } = &mesh.agents[agent];
        let (host, text) = (*host, format!("{}: {text}", config.name));
        if self.take_event(agent, clock::monotonic()) {
            tracing::info!("{text}");
            let at = clock::realtime();
            self.events.push(Event { at, kind: kind.to_owned(), host: Some(host), pair: None, text });
        }
    }
}

/// The ids of a pair's ends, which have neither a colon nor a space; a version of IP may follow.
fn agents_of_pair(id: &str) -> Option<[String; 2]> {
    let ids = id.split_whitespace().next()?;
    ids.split_once(':').map(|(source, target)| [source.to_owned(), target.to_owned()])
}

/// How long ago it was by an agent's clock, which is behind this host's by `shift`.
fn age(time: Time, shift: Span, now: Time) -> Span {
    (now - (time + shift)).clamp(Span::ZERO, MAX_AGE)
}

fn agent_gap(pair: PairId, pause: &Range<Time>) -> Gap {
    Gap { pair, from: pause.start, to: pause.end, cause: AGENT_PAUSE.to_owned() }
}

/// A sample from the future is none: it was sent now at the latest.
fn probe_result(result: &WireResult, shift: Span, now: Time) -> ProbeResult {
    let WireResult(sent, round_trip, one_way, is_late, lost_in) = *result;
    let is_delay = |delay: Span| (-MAX_DELAY..=MAX_DELAY).contains(&delay);
    let one_way = one_way.filter(|(up, down, error)| [*up, *down, *error].into_iter().all(is_delay));
    let one_way = one_way.map(|(up, down, error)| OneWayDelays { up, down, error });
    let round_trip = round_trip.map(|delay| delay.clamp(Span::ZERO, MAX_DELAY));
    let reply = round_trip.map(|round_trip| ProbeReply { round_trip, one_way, is_late }).ok_or(match lost_in {
        WireLoss::Up => LostIn::Up,
        WireLoss::Down => LostIn::Down,
        WireLoss::Unknown => LostIn::EitherWay,
        WireLoss::RoundTrip => LostIn::RoundTrip,
    });
    ProbeResult { sequence: 0, sent: (sent + shift).min(now), reply }
}

#[cfg(test)]
mod tests;
