//! An agent: probes whom the coordinator says, measures and answers when it says, and delivers what came of it.

mod runs;

use super::agent_files::{read_alive, read_assignment, write_alive, write_assignment};
use super::agent_probes::{probed_target, wire_result};
use super::answering::{AnsweredRun, RunningReflector};
use super::condition::{Fault, Faults};
use super::dial::{self, Coordinator};
use super::frame::{AgentFrame, Assignment, Condition, CoordinatorFrame, Pause, RunGrant, VERSION};
use super::frame_stream::{ConnectionEnd, FrameStream};
use super::initiated_run::InitiatedRun;
use super::outbox::Outbox;
use super::peer_path::PeerPath;
use super::spool::Spool;
use super::train_budget::TrainBudget;
use crate::config::AgentConfig;
use crate::host_use::{HostUse, HostUseChange};
use crate::light::{ProbeReport, ProbedTarget, Prober};
use crate::monitor_error::MonitorError;
use kumade_client::PresharedKey;
use kumade_net::clock::{self, RealtimeOffset};
use kumade_net::{HostClaim, readiness};
use kumade_planner::{Agent, Outcome, Role, Token};
use kumade_units::{Span, Time};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

/// Maximum time until something is noticed that no socket tells.
const MAX_WAIT: Span = Span::from_millis(50);
/// Reports of the prober that wait.
const MAX_WAITING_REPORTS: usize = 1 << 14;
/// Between attempts to reach the coordinator, doubled up to the greater one, with a random part.
const MIN_RETRY_INTERVAL: Span = Span::from_secs(1);
const MAX_RETRY_INTERVAL: Span = Span::from_secs(30);
/// A coordinator answers each heartbeat, of which there is one in five seconds.
const SILENCE_TIMEOUT: Span = Span::from_secs(30);
/// Before the end of a grant, this end stops: a server ends its sessions within 100 ms, a measurement within as much.
const STOP_RESERVE: Span = Span::from_millis(500);
const SPOOL_DIRECTORY: &str = "spool";
/// Between two times that are noted for the next process; a pause that is not longer than two of these is told as none.
const ALIVE_INTERVAL: Span = Span::from_secs(2);
/// Between attempts to have a port that another program has.
const REFLECTOR_RETRY_INTERVAL: Span = Span::from_secs(10);
/// Less is what NTP does every few minutes.
const MIN_CLOCK_STEP: Span = Span::from_millis(100);

/// An agent that runs in its caller's thread.
#[derive(Debug)]
pub struct MeshAgentRun {
    config: AgentConfig,
    planner: Agent,
    outbox: Outbox,
    link: Link,
    random: StdRng,
    assignment: Option<Assignment>,
    prober: Option<Prober>,
    /// Of the present prober; an earlier one's are dropped with it.
    reports: Option<Receiver<ProbeReport>>,
    addresses: BTreeMap<PeerPath, SocketAddr>,
    /// Peers to whom no probe can be sent, and why.
    not_sent: BTreeMap<PeerPath, String>,
    next_alive: Time,
    host_use: HostUse,
    budget: TrainBudget,
    faults: Faults,
    /// As the coordinator was told.
    told: Option<Condition>,
    clock_offset: RealtimeOffset,
    reflector: Option<RunningReflector>,
    next_reflector: Time,
    answered: Option<AnsweredRun>,
    initiated: Option<InitiatedRun>,
    /// Grants that this end holds, with their keys.
    granted: BTreeMap<Token, RunGrant>,
}

/// The connection to the coordinator.
#[derive(Debug)]
enum Link {
    Down { next_attempt: Time, retry_interval: Span, failure: Option<String> },
    Dialling { result: Receiver<Result<FrameStream, String>>, retry_interval: Span, failure: Option<String> },
    Up { frames: Box<FrameStream>, heard: Time },
}

impl AgentConfig {
    /// Makes the directories of what is not delivered yet, unless they are there: an agent that is confined makes none.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn make_archive_directory(&self) -> Result<(), MonitorError> {
        let failed = |cause| MonitorError::Directory { path: self.archive.clone(), cause };
        fs::create_dir_all(self.archive.join(SPOOL_DIRECTORY)).map_err(failed)
    }
}

impl MeshAgentRun {
    /// Takes over what an earlier process has left.
    ///
    /// # Errors
    /// The archive's directory cannot be used.
    pub fn open(config: AgentConfig) -> Result<Self, MonitorError> {
        let failed = |cause| MonitorError::Directory { path: config.archive.clone(), cause };
        let spool = Spool::open(&config.archive.join(SPOOL_DIRECTORY)).map_err(failed)?;
        let seed = || getrandom::u64().map_err(|error| MonitorError::System(io::Error::other(error)));
        let (instance, now) = (seed()?, clock::boottime());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let assignment = read_assignment(&config.archive);
        let mut agent = MeshAgentRun {
            planner: Agent::new(instance, now),
            outbox: Outbox::new(instance, boot.trim().to_owned(), spool, now),
            link: Link::Down { next_attempt: now, retry_interval: MIN_RETRY_INTERVAL, failure: None },
            random: StdRng::seed_from_u64(seed()?),
            assignment: None,
            prober: None,
            reports: None,
            addresses: BTreeMap::new(),
            not_sent: BTreeMap::new(),
            next_alive: now,
            host_use: HostUse::default(),
            budget: TrainBudget::open(config.bytes_per_day, &config.archive),
            faults: Faults::default(),
            told: None,
            clock_offset: RealtimeOffset::now(),
            reflector: None,
            next_reflector: now,
            answered: None,
            initiated: None,
            granted: BTreeMap::new(),
            config,
        };
        if let Some(assignment) = assignment {
            let paused = read_alive(&agent.config.archive).map(|alive| clock::realtime() - alive);
            if let Some(paused) = paused.filter(|paused| *paused > ALIVE_INTERVAL * 2) {
                agent.outbox.add_pause(Pause { from: now - paused, to: now });
            }
            agent.follow(assignment);
        }
        Ok(agent)
    }

    /// Works until `stop` is set, then keeps what is not delivered.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(), MonitorError> {
        while !stop.load(Ordering::Relaxed) {
            self.wait().map_err(MonitorError::System)?;
            self.advance();
        }
        self.end_initiated();
        self.answered = None;
        self.take_probe_reports();
        self.outbox.close(clock::boottime(), clock::realtime());
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let deadline = clock::monotonic() + MAX_WAIT;
        match &self.link {
            Link::Up { frames, .. } => readiness::wait_readable(frames.stream(), deadline).map(drop),
            _ => {
                std::thread::sleep(MAX_WAIT.to_duration());
                Ok(())
            }
        }
    }

    fn advance(&mut self) {
        self.take_probe_reports();
        let now = clock::boottime();
        if now >= self.next_alive {
            self.next_alive = now + ALIVE_INTERVAL;
            self.note_alive();
            self.start_reflector(now);
            self.budget.note_use();
            self.follow_host_use(now);
            self.faults.set(Fault::Spool, self.outbox.disk_failure());
            self.tell_condition();
        }
        self.advance_link(now);
        self.advance_runs(now);
        self.planner.advance(now);
        self.follow_planner();
        let is_connected = matches!(self.link, Link::Up { .. });
        for delivery in self.outbox.advance(is_connected, clock::boottime(), clock::realtime()) {
            self.send(&AgentFrame::Batch(delivery));
        }
    }

    fn advance_link(&mut self, now: Time) {
        match &mut self.link {
            Link::Down { next_attempt, .. } if now < *next_attempt => {}
            Link::Down { .. } => self.dial(now),
            Link::Dialling { result, .. } => match result.try_recv() {
                Ok(Ok(frames)) => self.connect(frames, now),
                Ok(Err(failure)) => self.retry(failure, now),
                Err(mpsc::TryRecvError::Empty) => {}
                Err(mpsc::TryRecvError::Disconnected) => self.retry("the attempt failed".to_owned(), now),
            },
            Link::Up { frames, heard } => {
                let renewed = frames.renew_keys(clock::monotonic(), &mut self.random);
                let received = renewed.and_then(|()| frames.flush()).and_then(|()| frames.receive(&mut self.random));
                match received {
                    Ok(received) if received.is_empty() && now - *heard > SILENCE_TIMEOUT => {
                        self.disconnect(&ConnectionEnd::Silent, now);
                    }
                    Ok(received) => {
                        if !received.is_empty() {
                            *heard = now;
                        }
                        received.into_iter().for_each(|(frame, _)| self.receive(frame, now));
                    }
                    Err(end) => self.disconnect(&end, now),
                }
            }
        }
    }

    /// For the next process, and for whoever wonders about the clock of the day.
    fn note_alive(&mut self) {
        if let Err(error) = write_alive(&self.config.archive, clock::realtime()) {
            tracing::debug!("cannot note that this agent runs: {error}");
        }
        if let Some(step) = self.clock_offset.step_since().filter(|step| (*step).max(-*step) >= MIN_CLOCK_STEP) {
            self.clock_offset = RealtimeOffset::now();
            self.send(&AgentFrame::ClockStep { step });
        }
    }

    /// Looks whether another program measures at this host, unless a measurement of its own runs: then no granted run begins.
    fn follow_host_use(&mut self, now: Time) {
        if self.initiated.is_some() {
            return;
        }
        let holder = HostClaim::current_holder().ok().flatten().map(|holder| holder.to_string());
        match self.host_use.update(holder, now) {
            Some(HostUseChange::Begun(holder)) => {
                self.planner.release_claim(now);
                if let Err(error) = self.planner.claim(&format!("{holder} measures"), now) {
                    tracing::debug!("{holder} measures although {error}");
                }
            }
            Some(HostUseChange::Ended) => self.planner.release_claim(now),
            None => {}
        }
        self.planner.set_unavailable(self.budget.refusal(), now);
    }

    /// Says how it is, where that has changed.
    fn tell_condition(&mut self) {
        let (used_bytes, bytes_per_day) = self.budget.bytes();
        let condition = Condition { faults: self.faults.texts(), used_bytes, bytes_per_day };
        if matches!(self.link, Link::Up { .. }) && self.told.as_ref() != Some(&condition) {
            self.told = Some(condition.clone());
            self.send(&AgentFrame::Condition(condition));
        }
    }

    fn dial(&mut self, now: Time) {
        let Link::Down { retry_interval, failure, .. } = &mut self.link else { return };
        let (retry_interval, failure) = (*retry_interval, failure.take());
        let AgentConfig { coordinators, coordinator_key, identity, .. } = &self.config;
        let coordinator = Coordinator { hosts: coordinators.clone(), key: *coordinator_key };
        match dial::dial(identity.clone(), coordinator, StdRng::seed_from_u64(self.random.random())) {
            Ok(result) => self.link = Link::Dialling { result, retry_interval, failure },
            Err(error) => self.retry(error.to_string(), now),
        }
    }

    /// Says why there is no connection, once, and tries again.
    fn retry(&mut self, new_failure: String, now: Time) {
        let (interval, failure) = match &mut self.link {
            Link::Down { retry_interval, failure, .. } | Link::Dialling { retry_interval, failure, .. } => {
                (*retry_interval, failure.take())
            }
            Link::Up { .. } => (MIN_RETRY_INTERVAL, None),
        };
        if failure.as_ref() != Some(&new_failure) {
            tracing::warn!("{new_failure}; trying again");
        }
        let next_attempt = now + Span::from_secs_f64(interval.as_secs_f64() * self.random.random_range(0.5..1.0));
        let retry_interval = (interval * 2).min(MAX_RETRY_INTERVAL);
        self.link = Link::Down { next_attempt, retry_interval, failure: Some(new_failure) };
    }

    fn connect(&mut self, frames: FrameStream, now: Time) {
        let waiting = self.outbox.spooled();
        let address = frames.stream().peer_addr().map(|address| address.to_string()).unwrap_or_default();
        tracing::info!("connected to the coordinator at {address}; {waiting} batches wait for it");
        self.link = Link::Up { frames: Box::new(frames), heard: now };
        self.send(&AgentFrame::Hello { version: VERSION });
        self.told = None;
        self.tell_condition();
        for (path, address) in self.addresses.clone() {
            self.send(&AgentFrame::Address { path, address });
        }
        for (path, reason) in self.not_sent.clone() {
            self.send(&AgentFrame::NotSent { path, reason });
        }
        self.planner.connect(now);
    }

    fn disconnect(&mut self, end: &ConnectionEnd, now: Time) {
        self.planner.disconnect(now);
        self.retry(format!("the connection to the coordinator has ended: {end}"), now);
    }

    fn send(&mut self, frame: &AgentFrame) {
        if let Link::Up { frames, .. } = &mut self.link
            && let Err(end) = frames.send(frame)
        {
            self.disconnect(&end, clock::boottime());
        }
    }

    fn receive(&mut self, frame: CoordinatorFrame, now: Time) {
        match frame {
            CoordinatorFrame::Assignment(assignment) => {
                if self.assignment.as_ref() != Some(&assignment) {
                    if let Err(error) = write_assignment(&self.config.archive, &assignment) {
                        tracing::warn!("cannot keep what the coordinator said: {error}");
                    }
                    self.follow(assignment);
                }
            }
            CoordinatorFrame::Grant(granted) => {
                let token = granted.grant.token;
                self.planner.receive(granted.grant.clone(), now);
                if self.planner.held().any(|held| held.grant.token == token) {
                    self.granted.insert(token, granted.clone());
                }
                if granted.grant.role == Role::Responder {
                    self.answer(&granted, now);
                }
                self.follow_planner();
            }
            CoordinatorFrame::Finished { token } => {
                if self.answered.as_ref().is_some_and(|answered| answered.token == token) {
                    self.answered = None;
                    self.end(token, Outcome::Finished);
                }
            }
            CoordinatorFrame::Acknowledged { instance, sequence } => self.outbox.acknowledge((instance, sequence)),
            CoordinatorFrame::Hello { .. } | CoordinatorFrame::Alive | CoordinatorFrame::Unknown => {}
        }
    }

    /// Probes whom it says, and answers with its key.
    fn follow(&mut self, assignment: Assignment) {
        let is_new_key = self.assignment.as_ref().is_none_or(|before| before.stamp_key != assignment.stamp_key);
        if is_new_key || self.reflector.is_none() {
            // The port is free once the one before has ended.
            (self.reflector, self.next_reflector) = (None, Time::ZERO);
        }
        self.take_probe_reports();
        (self.prober, self.reports) = (None, None);
        let targets: Result<Vec<_>, _> = assignment.peers.iter().map(probed_target).collect();
        let (reports, inbox) = mpsc::sync_channel(MAX_WAITING_REPORTS);
        let started = targets.map_err(io::Error::other).and_then(|targets| self.start_prober(targets, reports));
        match started {
            Ok(prober) => {
                (self.prober, self.reports) = (Some(prober), Some(inbox));
                self.faults.set(Fault::Prober, None);
            }
            Err(error) => self.faults.set(Fault::Prober, Some(format!("cannot send light probes: {error}"))),
        }
        self.assignment = Some(assignment);
        self.start_reflector(clock::boottime());
        self.tell_condition();
    }

    /// Answers light probes, unless it does; a port that another program has may be free later.
    fn start_reflector(&mut self, now: Time) {
        let Some(assignment) = self.assignment.as_ref().filter(|_| self.reflector.is_none()) else { return };
        if now < self.next_reflector {
            return;
        }
        self.next_reflector = now + REFLECTOR_RETRY_INTERVAL;
        let key = PresharedKey::parse(&assignment.stamp_key).map_err(|error| error.to_string());
        let started = key.and_then(|key| RunningReflector::start(self.config.stamp_port, key));
        let fault = started.as_ref().err().map(|error| format!("cannot answer light probes: {error}"));
        self.faults.set(Fault::Reflector, fault);
        self.reflector = started.ok();
    }

    fn start_prober(&mut self, targets: Vec<ProbedTarget>, reports: SyncSender<ProbeReport>) -> io::Result<Prober> {
        Prober::start(targets, self.random.random(), move |report| {
            // The agent follows another assignment where nobody takes it; where it is far behind, results are lost, and not time.
            let _ = reports.try_send(report);
        })
    }

    fn take_probe_reports(&mut self) {
        let Some(reports) = &self.reports else { return };
        let reports: Vec<_> = reports.try_iter().collect();
        let paths: Vec<_> = self.assignment.iter().flat_map(|all| all.peers.iter().map(|peer| peer.path)).collect();
        let shift = clock::boottime() - clock::monotonic();
        for report in reports {
            match report {
                ProbeReport::Results { target, results, duplicates } => {
                    let Some(&path) = paths.get(target) else { continue };
                    self.not_sent.remove(&path);
                    self.outbox.add_results(path, duplicates, results.iter().map(|result| wire_result(result, shift)));
                }
                ProbeReport::Address { target, address } => {
                    let Some(&path) = paths.get(target) else { continue };
                    self.addresses.insert(path, address);
                    self.send(&AgentFrame::Address { path, address });
                }
                ProbeReport::NotSent { target, reason } => {
                    let Some(&path) = paths.get(target) else { continue };
                    self.not_sent.insert(path, reason.clone());
                    self.send(&AgentFrame::NotSent { path, reason });
                }
                // The coordinator alerts by results alone.
                ProbeReport::Seen { .. } => {}
            }
        }
    }
}
