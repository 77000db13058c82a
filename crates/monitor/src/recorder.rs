//! The thread that knows all: it takes what probes and measurements tell, starts measurements, and is the archive's only writer.

mod alerts;
mod leading;
mod link_budgets;
mod links;
mod mesh;
mod mesh_state;
mod opening;
mod others;
mod reconfigure;
mod remote_write;
mod requests;

use crate::alerts::{ALERTS_KEY, Alerter, SendReport};
use crate::config::MonitorConfig;
use crate::estimate::schedule_load;
use crate::host_use::HostUse;
use crate::leadership::{Leadership, Leading};
use crate::light::ProbeReport;
use crate::mesh::listener::MeshReport;
use crate::monitor_error::MonitorError;
use crate::page::{MeasureRequest, PairNumbers};
use crate::pair_recorder::{BusyTime, Outage, PairRecorder};
use crate::remote_write::{RemoteWriteNews, RemoteWriteProgress};
use crate::run_document::{failed_document, run_status};
use crate::schedule::{Schedule, ScheduleStep, planner_outcome};
use crate::status::{MissedRun, MonitorStatus, RemoteWriteStatus, SCHEMA, ScheduleStatus, ScheduledRun};
use kumade_archive::{
    AnyStore, Archive, ArchiveError, AuditEntry, Batch, Event, Family, Gap, Health, HostId, NewRun, PairId, Reader,
};
use kumade_client::{EndedMeasurement, RunningMeasurement};
use kumade_net::clock::{self, RealtimeOffset};
use kumade_planner::{Outcome, Plan, RunId, Token, TokenRecord};
use kumade_units::{Span, Time};
use mesh_state::MeshState;
pub(crate) use opening::is_of;
use opening::{earlier_runs, open_pairs};
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, PoisonError};
use tokio::sync::watch;

/// What the recorder is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// By the prober.
    Probe(ProbeReport),
    /// By the thread that listens for agents.
    Mesh(MeshReport),
    /// By a thread that sends alerts.
    Alert(SendReport),
    /// By the sender to another database.
    RemoteWrite(RemoteWriteNews),
    /// To go on with another configuration. What probes report from then on is of its targets.
    Reconfigure {
        config: Box<MonitorConfig>,
        /// In words.
        changes: Vec<String>,
        answer: SyncSender<Result<(), MonitorError>>,
    },
    /// Something has happened elsewhere.
    Note { kind: &'static str, text: String },
    /// Somebody has done something.
    Audit(AuditEntry),
    /// Somebody wants a pair to be measured.
    Measure(MeasureRequest),
    /// To end.
    Stop,
}

/// Probes that wait for an archive that takes nothing: some 60 MB.
const MAX_WAITING_SAMPLES: usize = 1_000_000;
/// Events, gaps and measurements that wait for it, each.
const MAX_WAITING_RECORDS: usize = 10_000;
/// Under which the archive has the planner's record of tokens.
const TOKENS_KEY: &str = "planner.tokens";
/// This host's id: targets have others.
pub(crate) const OWN_HOST_ID: &str = "@self";

/// Between two looks at all there is, and two commits where somebody waits for one.
const COMMIT_INTERVAL: Span = Span::from_secs(1);
/// Between two commits of this host's own probes, for which nobody waits: each commit writes some pages. What is not committed is lost
/// with the process.
const MAX_COMMIT_DELAY: Span = Span::from_secs(5);
/// Steps of rolling up and deleting between two commits; each takes some tens of milliseconds.
const MAX_MAINTENANCE_STEPS: usize = 8;
/// Measurements whose times are remembered: results of probes come seconds later at most.
const KEPT_BUSY_TIMES: usize = 16;
/// Measurements to come that are shown.
const MAX_SHOWN_RUNS: usize = 200;
/// Less is what NTP does every few minutes.
const MIN_CLOCK_STEP: Span = Span::from_millis(100);
/// A pause without probes that is longer was one of the monitor, or of this host.
const MIN_UNMONITORED_INTERVALS: i64 = 10;

pub(crate) struct Recorder {
    config: MonitorConfig,
    archive: Archive<AnyStore>,
    /// Where others could, too.
    leading: Option<Leading>,
    /// What the archive has taken and not written yet.
    unacknowledged: Option<Batch>,
    own_host: HostId,
    pairs: Vec<PairRecorder>,
    busy: VecDeque<BusyTime>,
    host_use: HostUse,
    schedule: Schedule,
    running: Option<RunningRun>,
    numbers: PairNumbers,
    instance: String,
    /// Of the next batch.
    sequence: u64,
    /// By the monotonic clock.
    last_commit: Time,
    events: Vec<Event>,
    gaps: Vec<Gap>,
    runs: Vec<NewRun>,
    clock_offset: RealtimeOffset,
    started: Time,
    archive_failure: Option<String>,
    remote_write: Option<RemoteWriteProgress>,
    status: watch::Sender<Arc<MonitorStatus>>,
    /// When the last probe of each pair was sent before this start.
    last_sent: BTreeMap<PairId, Time>,
    /// Agents that measure for this coordinator.
    mesh: Option<MeshState>,
    /// Pairs of which the archive has taken runs from agents since the last commit.
    delivered_runs: Vec<PairId>,
    alerter: Alerter,
    /// For the threads that send alerts.
    messages: SyncSender<Message>,
}

struct RunningRun {
    target: HostId,
    token: Token,
    /// By the clock of the day.
    started: Time,
    /// By the monotonic clock.
    began: Time,
    measurement: RunningMeasurement,
}

impl Recorder {
    /// Opens the archive, or makes it; one that is shared by the right to write it.
    pub(crate) fn open(
        config: MonitorConfig,
        leadership: Option<Leadership>,
        status: watch::Sender<Arc<MonitorStatus>>,
        messages: SyncSender<Message>,
    ) -> Result<Self, MonitorError> {
        config.check_load()?;
        let (now, utc) = (clock::monotonic(), clock::realtime());
        let (store, leading) = match leadership {
            Some(leadership) => Leading::begin(leadership, now),
            None => (config.open_own_archive()?, None),
        };
        let mut archive = Archive::open(store, config.retention, utc)?;
        let own_host = archive.put_host(OWN_HOST_ID, &config.name, "", "")?;
        let (hosts, pairs) = open_pairs(&mut archive, &config, own_host, utc)?;
        let plan = fitting_plan(&config, &hosts);
        let stored = archive.read().state(TOKENS_KEY)?;
        let record: TokenRecord = stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let (mut schedule, record) = Schedule::new(plan, record, utc.as_nanos() as u64, utc, now)?;
        archive.put_state(TOKENS_KEY, Some(&encode_record(record)))?;
        for pair in &pairs {
            let Some(run) = pair.run else { continue };
            let runs = earlier_runs(&mut archive, pair)?;
            schedule.restore(run, &runs, utc, now);
        }
        let mesh = config.mesh.as_ref().map(|mesh| MeshState::new(mesh, &hosts, &mut archive, now)).transpose()?;
        // Agents have gone on meanwhile.
        let latest = if mesh.is_some() { Vec::new() } else { archive.read().latest()? };
        let last_sent = latest.into_iter().map(|state| (state.pair, state.last_sent)).collect();
        let standing = archive.read().state(ALERTS_KEY)?;
        let alerter = Alerter::start(&config, standing.as_deref(), Self::alert_reporter(&messages), now, utc)?;
        let mut recorder = Recorder {
            alerter,
            messages,
            schedule,
            pairs,
            config,
            archive,
            leading,
            unacknowledged: None,
            own_host,
            busy: VecDeque::new(),
            host_use: HostUse::default(),
            running: None,
            numbers: PairNumbers::default(),
            instance: format!("{OWN_HOST_ID}/{}", utc.as_nanos()),
            sequence: 0,
            last_commit: now,
            events: Vec::new(),
            gaps: Vec::new(),
            runs: Vec::new(),
            clock_offset: RealtimeOffset::now(),
            started: utc,
            archive_failure: None,
            remote_write: None,
            status,
            last_sent,
            mesh,
            delivered_runs: Vec::new(),
        };
        recorder.note(None, "monitor-started", "the monitor was started".to_owned());
        Ok(recorder)
    }

    /// Connections to the archive by which others read.
    pub(crate) fn readers(&mut self, count: usize) -> Result<Vec<Reader<AnyStore>>, ArchiveError> {
        (0..count).map(|_| Ok(Reader::new(self.archive.store().reader()?))).collect()
    }

    /// The numbers of pairs, which become known one after the other.
    pub(crate) fn pair_numbers(&self) -> PairNumbers {
        self.numbers.clone()
    }

    /// Takes messages until it is told to stop, and writes the rest.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        let mut next_tick = clock::monotonic();
        loop {
            let wait = (next_tick - clock::monotonic()).max(Span::ZERO).to_duration();
            match messages.recv_timeout(wait) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Message::Probe(report)) => self.take_probe_report(report),
                Ok(Message::Mesh(report)) => self.take_mesh_report(report),
                Ok(Message::Alert(report)) => self.alerter.take_report(report, clock::monotonic()),
                Ok(Message::RemoteWrite(news)) => self.take_remote_write_news(news),
                Ok(Message::Reconfigure { config, changes, answer }) => {
                    // Who has asked may have ended.
                    let _ = answer.send(self.reconfigure(*config, changes));
                }
                Ok(Message::Note { kind, text }) => self.note(None, kind, text),
                Ok(Message::Audit(entry)) => self.audit(entry),
                Ok(Message::Measure(request)) => self.take_measure_request(request),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.running.as_ref().is_some_and(|run| run.measurement.is_finished()) {
                self.end_run();
            }
            if clock::monotonic() >= next_tick {
                next_tick = clock::monotonic() + COMMIT_INTERVAL;
                self.tick();
            }
            if self.is_deposed() {
                return;
            }
        }
        self.running = None;
        let utc = clock::realtime();
        (0..self.pairs.len()).for_each(|target| self.set_outage(target, None, utc));
        self.note(None, "monitor-stopped", "the monitor was stopped".to_owned());
        self.end_alerts(messages);
        self.commit(utc);
        self.resign();
    }

    fn take_probe_report(&mut self, report: ProbeReport) {
        let (now, utc) = (clock::monotonic(), clock::realtime());
        match report {
            ProbeReport::Results { target, results, duplicates } => {
                self.alerter.add_results(target, &results, now);
                let busy = self.busy.make_contiguous();
                let Some(pair) = self.pairs.get_mut(target) else { return };
                if pair.add_results(&results, duplicates, busy, now, utc) {
                    self.set_outage(target, None, utc);
                }
            }
            ProbeReport::Seen { target, probes } => self.alerter.add_probes(target, probes.into_iter(), now),
            ProbeReport::Address { target, address } => self.set_address(target, address),
            ProbeReport::NotSent { target, reason } => {
                self.set_outage(target, Some(reason.clone()), utc);
                self.note(Some(target), "not-sent", reason);
            }
        }
    }

    fn set_address(&mut self, target: usize, address: SocketAddr) {
        let Some(pair) = self.pairs.get_mut(target) else { return };
        let Some(before) = pair.address.replace(address).filter(|before| *before != address) else { return };
        let text = format!("{} has another address: {} in place of {}", pair.target.name, address.ip(), before.ip());
        self.note(Some(target), "address-changed", text);
        if family(before) != family(address) {
            // What was seen so far is of the other pair.
            self.commit(clock::realtime());
            self.pairs[target].id = None;
        }
    }

    /// Pairs whose address is known have a number in the archive, as soon as that can be written.
    fn register_pairs(&mut self, utc: Time) {
        let new = self.pairs.iter().enumerate().filter(|(_, pair)| pair.id.is_none());
        let new = new.filter_map(|(place, pair)| Some((place, (pair.source, pair.host, family(pair.address?)))));
        let (places, ends): (Vec<_>, Vec<_>) = new.unzip();
        // All at once: thousands of transactions would take longer than others wait for the leader.
        match self.archive.put_pairs(&ends) {
            Ok(ids) => places.into_iter().zip(ids).for_each(|(place, id)| self.adopt_pair(place, id, utc)),
            Err(error) => self.fail(&error),
        }
    }

    /// The pair has a number: what the archive knows of it is known again.
    fn adopt_pair(&mut self, target: usize, id: PairId, utc: Time) {
        let latest = self.archive.read().runs(id, Time::ZERO..Time::MAX, 1).unwrap_or_default();
        let pair = &mut self.pairs[target];
        pair.last_run = latest.first().map(run_status);
        self.gaps.extend(pair.adopt_number(id));
        self.restore_usual(target, id);
        let pair = &mut self.pairs[target];
        self.numbers.write().unwrap_or_else(PoisonError::into_inner).insert(pair.target.id.clone(), id);
        let tolerated = pair.target.light.interval * MIN_UNMONITORED_INTERVALS;
        let cause =
            if pair.added > self.started { "it was not in the configuration" } else { "the monitor did not run" };
        // Each pause is told of once.
        if let Some(from) = self.last_sent.remove(&id).filter(|from| pair.added - *from > tolerated) {
            self.gaps.push(Gap { pair: id, from, to: utc, cause: cause.to_owned() });
        }
    }

    /// No probe can be sent for this cause, or one can again; what was before becomes a gap.
    fn set_outage(&mut self, target: usize, cause: Option<String>, utc: Time) {
        let Some(pair) = self.pairs.get_mut(target) else { return };
        let ended = pair.set_outage(cause, utc);
        let Some(Outage { from, cause }) = ended else { return };
        let to = utc.max(from);
        match pair.id {
            Some(pair) => self.gaps.push(Gap { pair, from, to, cause }),
            None => pair.keep_gap(from..to, &cause),
        }
    }

    fn tick(&mut self) {
        let (now, utc) = (clock::monotonic(), clock::realtime());
        if let Some(step) = self.clock_offset.step_since().filter(|step| (*step).max(-*step) >= MIN_CLOCK_STEP) {
            self.clock_offset = RealtimeOffset::now();
            let direction = if step > Span::ZERO { "forward" } else { "back" };
            self.note(None, "clock-step", format!("this host's clock was set {direction} by {}", step.max(-step)));
        }
        self.keep_leading(now, utc);
        // First, so that what is noted of a pair is found with it.
        self.register_pairs(utc);
        for target in 0..self.pairs.len() {
            if let Some(text) = self.pairs[target].update(now, utc) {
                self.note(Some(target), "state", text);
            }
        }
        self.update_alerts(now, utc);
        self.follow_host_use(now);
        self.follow_schedule(now, utc);
        if self.is_commit_due(now) {
            self.last_commit = now;
            self.commit(utc);
        }
        for _ in 0..MAX_MAINTENANCE_STEPS {
            match self.archive.maintain(utc) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.fail(&error);
                    break;
                }
            }
        }
        self.publish(utc);
    }

    /// Does what the schedule says.
    fn follow_schedule(&mut self, now: Time, utc: Time) {
        // Also at the start: no run begins before that is known.
        self.follow_link_budgets(now);
        if let Some(record) = self.schedule.take_unstored() {
            self.store_tokens(record, now);
        }
        self.schedule.advance(now);
        while let Some(step) = self.schedule.next_step(now) {
            match step {
                ScheduleStep::Store(record) => self.store_tokens(record, now),
                ScheduleStep::Begin { run, token, end_by } => self.start_run(run, token, end_by - now, now, utc),
                // It is told of once it has ended.
                ScheduleStep::Stop => self.running.iter().for_each(|run| run.measurement.cancel()),
                ScheduleStep::Grant { agent, grant } => self.send_grant(agent, grant, now),
                ScheduleStep::Ended(token) => self.note_run_ended(token, now),
                ScheduleStep::Missed { run, reason } => {
                    let place = self.pairs.iter().position(|pair| pair.run == Some(run));
                    let reason = self.waiting_text(&reason);
                    self.note(place, "run-missed", format!("not measured in its period: {reason}"));
                }
            }
        }
    }

    fn store_tokens(&mut self, record: TokenRecord, now: Time) {
        match self.archive.put_state(TOKENS_KEY, Some(&encode_record(record))) {
            Ok(()) => self.schedule.stored(record, now),
            Err(error) => {
                self.schedule.not_stored(record);
                self.fail(&error);
            }
        }
    }

    fn start_run(&mut self, run: RunId, token: Token, within: Span, now: Time, utc: Time) {
        // One that was to stop and has not ended yet is waited for.
        self.end_run();
        let place = self.pairs.iter().position(|pair| pair.run == Some(run));
        let if_held = self.host_use.if_held(now);
        let known = place.and_then(|place| Some((place, self.pairs[place].target.measure_config(within, if_held)?)));
        let Some((place, config)) = known else {
            let text = "it is no longer in the configuration".to_owned();
            return self.schedule.end(token, Outcome::Failed(text), now);
        };
        match RunningMeasurement::start(config) {
            Ok(measurement) => {
                self.running =
                    Some(RunningRun { target: self.pairs[place].host, token, started: utc, began: now, measurement });
                self.add_busy_time(now);
            }
            Err(error) => {
                let text = format!("cannot start a measurement: {error}");
                self.schedule.end(token, Outcome::Failed(text.clone()), now);
                self.note(Some(place), "run-failed", text);
            }
        }
    }

    /// Takes what has come of the measurement that runs, if one does; waits until it has ended.
    fn end_run(&mut self) {
        let Some(RunningRun { target, token, started, began, measurement }) = self.running.take() else { return };
        let EndedMeasurement { outcome, ended } = measurement.finish();
        let told = planner_outcome(&outcome);
        let is_refused = told.is_refused();
        self.schedule.end(token, told, clock::monotonic());
        self.busy.iter_mut().filter(|busy| busy.to.is_none()).for_each(|busy| busy.to = Some(ended));
        // It has not been measured, and is planned again.
        if is_refused {
            return;
        }
        // The configuration may have it no more.
        let Some(PairRecorder { target, id, .. }) = self.pairs.iter().find(|pair| pair.host == target) else { return };
        let report = outcome.unwrap_or_else(|error| {
            tracing::warn!("{}: the measurement failed: {}", target.name, error.message);
            failed_document(&target.host, started, error)
        });
        // Reports always can be written.
        let document = serde_json::to_string(&report).unwrap_or_default();
        match id {
            Some(pair) => {
                self.runs.push(NewRun { pair: *pair, started, ended: started + (ended - began), document });
            }
            None => {
                let name = &target.name;
                tracing::warn!(
                    "{name}: a measurement is not kept, since the probes have found no address of it so far"
                );
            }
        }
    }

    fn note(&mut self, target: Option<usize>, kind: &str, text: String) {
        tracing::info!("{text}");
        let pair = target.and_then(|target| self.pairs[target].id);
        let at = clock::realtime();
        self.events.push(Event { at, kind: kind.to_owned(), host: Some(self.own_host), pair, text });
    }

    /// Who did what is in the archive at once.
    fn audit(&mut self, entry: AuditEntry) {
        tracing::info!("{}: {}", entry.who, entry.what);
        if let Err(error) = self.archive.put_audit(entry) {
            self.fail(&error);
        }
    }

    /// Agents wait until what they have delivered is kept; results and events are kept at once.
    fn is_commit_due(&self, now: Time) -> bool {
        let has_records = !(self.runs.is_empty() && self.events.is_empty() && self.gaps.is_empty());
        let is_failing = self.unacknowledged.is_some() || self.archive_failure.is_some();
        self.mesh.is_some() || has_records || is_failing || now - self.last_commit >= MAX_COMMIT_DELAY
    }

    /// Hands everything over to the archive, and has it written.
    fn commit(&mut self, utc: Time) {
        if let (Some(_), Health::DiskFull(_)) = (&self.unacknowledged, self.archive.health()) {
            // It makes room first.
            return self.shed();
        }
        if self.unacknowledged.is_none() {
            let batch = self.take_batch();
            // It is kept until the archive has taken it, and until it is on the disk.
            if let Err(error) = self.archive.ingest(&batch, utc) {
                self.put_back(batch);
                self.fail(&error);
                return self.shed();
            }
            self.sequence += 1;
            self.unacknowledged = Some(batch);
        }
        match self.archive.commit(utc) {
            Ok(acknowledged) => self.acknowledge(&acknowledged),
            Err(error) => {
                self.fail(&error);
                return self.shed();
            }
        }
        let Some(batch) = self.unacknowledged.take() else { return };
        self.archive_failure = None;
        for pair in batch.runs.iter().map(|run| run.pair).chain(mem::take(&mut self.delivered_runs)) {
            let latest = self.archive.read().runs(pair, Time::ZERO..Time::MAX, 1).unwrap_or_default();
            let pairs = self.pairs.iter_mut().filter(|known| known.id == Some(pair));
            pairs.for_each(|known| known.last_run = latest.first().map(run_status));
        }
    }

    fn take_batch(&mut self) -> Batch {
        let samples = self.pairs.iter_mut().filter_map(|pair| Some((pair.id?, mem::take(&mut pair.pending))));
        Batch {
            instance: self.instance.clone(),
            sequence: self.sequence,
            samples: samples.collect(),
            runs: mem::take(&mut self.runs),
            events: mem::take(&mut self.events),
            gaps: mem::take(&mut self.gaps),
        }
    }

    /// The archive has not taken it.
    fn put_back(&mut self, batch: Batch) {
        for (id, samples) in batch.samples {
            let pair = self.pairs.iter_mut().find(|pair| pair.id == Some(id));
            pair.into_iter().for_each(|pair| pair.pending.splice(..0, samples.iter().copied()).for_each(drop));
        }
        self.runs.splice(..0, batch.runs).for_each(drop);
        self.events.splice(..0, batch.events).for_each(drop);
        self.gaps.splice(..0, batch.gaps).for_each(drop);
    }

    /// Gives up the older half of what waits for an archive that takes nothing, once that is too much; what it says then is when.
    fn shed(&mut self) {
        let waiting: usize = self.pairs.iter().map(|pair| pair.pending.len()).sum();
        if waiting > MAX_WAITING_SAMPLES {
            for pair in &mut self.pairs {
                let older = pair.pending.len().div_ceil(2);
                let given_up: Vec<_> = pair.pending.drain(..older).collect();
                if let (Some(id), Some(first), Some(last)) = (pair.id, given_up.first(), given_up.last()) {
                    let cause = "the archive took nothing".to_owned();
                    self.gaps.push(Gap { pair: id, from: first.sent, to: last.sent, cause });
                }
            }
        }
        let surplus = |count: usize| count.saturating_sub(MAX_WAITING_RECORDS);
        self.events.drain(..surplus(self.events.len()));
        self.gaps.drain(..surplus(self.gaps.len()));
        self.runs.drain(..surplus(self.runs.len()));
    }

    /// Says why nothing is archived, once until something is.
    fn fail(&mut self, error: &ArchiveError) {
        if self.archive_failure.is_none() {
            tracing::error!("{error}");
        }
        self.note_deposed(error);
        self.archive_failure = Some(error.to_string());
    }

    fn schedule_status(&self, now: Time) -> ScheduleStatus {
        let view = self.schedule.view(MAX_SHOWN_RUNS, now);
        let pair = |run: RunId| {
            let known = self.pairs.iter().find(|pair| pair.run == Some(run));
            known.map_or_else(String::new, |pair| pair.target.id.clone())
        };
        let running = view.running.iter().map(|run| ScheduledRun {
            pair: pair(run.run),
            is_running: true,
            due_in_seconds: 0.0,
            slot_seconds: run.ends_within.as_secs_f64(),
        });
        let next = view.next.iter().map(|run| ScheduledRun {
            pair: pair(run.run),
            is_running: false,
            due_in_seconds: run.due_in.as_secs_f64(),
            slot_seconds: run.slot.as_secs_f64(),
        });
        let missed = view
            .missed
            .iter()
            .map(|missed| MissedRun { pair: pair(missed.run), reason: self.waiting_text(&missed.reason) });
        ScheduleStatus {
            load_ratio: view.load.max_load_ratio(),
            stretch_factor: view.load.stretch_factor(),
            runs: running.chain(next).collect(),
            missed: missed.collect(),
        }
    }

    fn publish(&mut self, utc: Time) {
        let status = MonitorStatus {
            schema: SCHEMA.to_owned(),
            name: self.config.name.clone(),
            time_seconds: utc.as_secs_f64(),
            started_seconds: self.started.as_secs_f64(),
            archive_failure: self.archive_failure.clone(),
            remote_write: self.remote_write.as_ref().map(RemoteWriteStatus::from),
            leader: self.leader_status(),
            pairs: self.pairs.iter().map(|pair| self.pair_status(pair)).collect(),
            unmeasured: self.unmeasured_pairs(),
            schedule: self.schedule_status(clock::monotonic()),
            agents: self.agent_status(),
            links: self.link_status(),
            alerts: self.alerter.status(utc),
        };
        self.share_status(&status, utc);
        self.status.send_replace(Arc::new(status));
    }
}

/// Of what is measured, with all periods longer where that takes it; `hosts` have the numbers of the targets, or of the agents.
fn fitting_plan(config: &MonitorConfig, hosts: &[HostId]) -> Plan {
    let plan = config.plan(hosts);
    let factor = schedule_load(&plan).stretch_factor();
    plan.stretched(factor)
}

fn family(address: SocketAddr) -> Family {
    if address.ip().to_canonical().is_ipv4() { Family::V4 } else { Family::V6 }
}

fn encode_record(record: TokenRecord) -> Vec<u8> {
    // Numbers always can be written.
    serde_json::to_vec(&record).unwrap_or_default()
}
