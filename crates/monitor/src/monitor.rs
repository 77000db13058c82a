//! A monitor that runs: its threads, and who tells whom.

use crate::access::{AccessControl, Credential};
use crate::config::{AgentConfig, COMMAND, LightProbes, MeshConfig, MonitorConfig, MonitoredTarget};
use crate::leadership::Leadership;
use crate::light::{ProbedTarget, Prober};
use crate::mesh::listener::AgentListener;
use crate::mesh::own_agent::{OwnAgent, own_agent_config};
use crate::metrics::encode_metrics;
use crate::monitor_error::MonitorError;
use crate::page::{History, PageGuards, PageServer, Tls};
use crate::recorder::{Message, Recorder};
use crate::remote_write::{RemoteWriteClient, RemoteWriteSender};
use crate::status::MonitorStatus;
use kumade_daemon::{ActivityWatch, EndNotice, Exporter};
use kumade_units::Span;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use tokio::sync::watch;

/// A monitor of one host.
#[derive(Debug)]
pub struct Monitor {
    config: MonitorConfig,
    access: AccessControl,
    tls: Tls,
    // In this order they end: nobody is told by one that has ended.
    page: PageServer,
    remote_write: Option<RemoteWriteSender>,
    exporter: Option<Exporter>,
    own_agent: Option<OwnAgent>,
    agents: Option<AgentListener>,
    prober: Option<Prober>,
    deposed: Arc<AtomicBool>,
    messages: SyncSender<Message>,
    recorder: Option<JoinHandle<()>>,
    ended: ActivityWatch,
    status: watch::Receiver<Arc<MonitorStatus>>,
}

/// Reports of the prober that wait for the recorder: some seconds of ten thousand targets.
const MAX_WAITING_REPORTS: usize = 1 << 16;
/// Questions of the page that are answered at a time.
const MAX_QUESTIONS: usize = 2;
/// The recorder commits every five seconds, and takes its time.
const COMMIT_TIME: Span = Span::from_secs(10);

impl Monitor {
    /// Starts all of it; where the archive is shared, by the right to write it. Where a thread ends by itself, `ended` is told, and
    /// [`check`](Self::check) says why.
    ///
    /// # Errors
    /// The archive cannot be opened, or an address not be had.
    pub fn start(
        config: MonitorConfig,
        leadership: Option<Leadership>,
        ended: ActivityWatch,
    ) -> Result<Self, MonitorError> {
        config.make_archive_directory()?;
        let (messages, inbox) = mpsc::sync_channel(MAX_WAITING_REPORTS);
        let (status, followed) = watch::channel(Arc::new(MonitorStatus::empty(&config.name)));
        let targets = own_targets(&config).map(probed_target).collect();
        let mut recorder = Recorder::open(config.clone(), leadership, status, messages.clone())?;
        let deposed = recorder.deposed_flag();
        let agents =
            config.mesh.as_ref().map(|mesh| start_listener(mesh, messages.clone(), ended.end_notice())).transpose()?;
        agents.iter().for_each(|agents| recorder.set_mesh_commands(agents.commands()));
        let history = History::new(recorder.readers(MAX_QUESTIONS)?, recorder.pair_numbers());
        let remote_write = start_sender(&config, &mut recorder, &messages)?;
        let told = messages.clone();
        // What nobody has time for is not noted: visitors do not make the page wait for the archive.
        let access = AccessControl::new(config.access.clone(), move |entry| drop(told.try_send(Message::Audit(entry))));
        let tls = Tls::default();
        tls.load(config.tls.as_ref())?;
        let told = messages.clone();
        // Dropped where the recorder is far behind: whoever asks is told that nothing is measured.
        let measure = Arc::new(move |request| drop(told.try_send(Message::Measure(request))));
        let (guards, told) = (PageGuards { access: access.clone(), tls: tls.clone() }, messages.clone());
        let note = move |text| drop(told.try_send(Message::Note { kind: "certificate", text }));
        let page = PageServer::start(config.page, followed.clone(), history, guards, measure, note)?;
        let exporter = start_exporter(&config, &access, followed.clone())?;
        let end_notice = ended.end_notice();
        let work = move || {
            let _end_notice = end_notice;
            recorder.run(&inbox);
        };
        let recorder = thread::Builder::new().name("recorder".into()).spawn(work).map_err(MonitorError::System)?;
        let seed = getrandom::u64().map_err(|error| MonitorError::System(io::Error::other(error)))?;
        let prober = start_prober(targets, seed, messages.clone(), ended.end_notice()).map_err(MonitorError::System)?;
        let (prober, recorder) = (Some(prober), Some(recorder));
        let own_agent = start_own_agent(&config, agents.as_ref(), &ended)?;
        let status = followed;
        Ok(Monitor {
            config,
            access,
            tls,
            page,
            remote_write,
            exporter,
            own_agent,
            agents,
            prober,
            deposed,
            messages,
            recorder,
            ended,
            status,
        })
    }

    /// Goes on with another configuration. Probes and measurements of targets that stay are not interrupted. Returns what has changed, a
    /// line each.
    ///
    /// # Errors
    /// It differs in what a running monitor keeps, or the system or the archive refuses something; then all is as it was.
    pub fn reconfigure(&mut self, mut config: MonitorConfig) -> Result<Vec<String>, MonitorError> {
        let changes = self.config.changes_to(&config)?;
        if !config.alerts.adopt_commands(&self.config.alerts) {
            return Err(COMMAND.into());
        }
        config.check_load()?;
        // At another address, it can start beside the one before.
        let has_other_metrics = config.prometheus != self.config.prometheus;
        let start = || start_exporter(&config, &self.access, self.status.clone());
        let exporter = has_other_metrics.then(start).transpose()?;
        self.tls.load(config.tls.as_ref())?;
        if let Err(error) = self.replace_targets(&config, changes.clone()) {
            // What cannot be read any more is read once it can.
            let _ = self.tls.load(self.config.tls.as_ref());
            return Err(error);
        }
        self.access.set_config(config.access.clone());
        if let Some(exporter) = exporter {
            self.exporter = exporter;
        }
        self.config = config;
        Ok(changes)
    }

    /// The prober tells of targets by their places: between what it tells by the old ones and by the new ones, the recorder is told.
    fn replace_targets(&mut self, config: &MonitorConfig, changes: Vec<String>) -> Result<(), MonitorError> {
        let paused = self.prober.take().and_then(Prober::pause).ok_or(MonitorError::Ended)?;
        let (answer, answered) = mpsc::sync_channel(1);
        let message = Message::Reconfigure { config: Box::new(config.clone()), changes, answer };
        // Whoever has ended does not answer either.
        let _ = self.messages.send(message);
        let outcome = answered.recv().unwrap_or(Err(MonitorError::Ended));
        let targets = own_targets(if outcome.is_ok() { config } else { &self.config });
        let ids = own_targets(&self.config).map(|target| target.id.as_str());
        let places: BTreeMap<&str, usize> = ids.zip(0..).collect();
        let targets = targets.map(|target| (places.get(target.id.as_str()).copied(), probed_target(target)));
        self.prober = Some(paused.resume(targets.collect()).map_err(MonitorError::System)?);
        outcome
    }

    /// Has it known that a configuration was refused, and why.
    pub fn note_refused_configuration(&self, reason: &str) {
        let text = format!("the configuration stays as it was: {reason}");
        // The monitor has ended where nobody takes it.
        let _ = self.messages.send(Message::Note { kind: "configuration", text });
    }

    /// What it does now.
    pub fn config(&self) -> &MonitorConfig {
        &self.config
    }

    /// Whether connections to the page are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.config.tls.is_some()
    }

    /// Where the page is served.
    pub fn page_address(&self) -> SocketAddr {
        self.page.address()
    }

    /// Where metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().map(Exporter::address)
    }

    /// Where agents connect, if it has any.
    pub fn agent_address(&self) -> Option<SocketAddr> {
        self.agents.as_ref().map(AgentListener::address)
    }

    /// What it sees, now and later.
    pub fn status(&self) -> watch::Receiver<Arc<MonitorStatus>> {
        self.status.clone()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// A thread of it has ended by a fault, or another host has taken over.
    pub fn check(&self) -> Result<(), MonitorError> {
        if self.deposed.load(Ordering::Relaxed) {
            return Err(MonitorError::Deposed);
        }
        if self.prober.is_none() || self.ended.has_ended() { Err(MonitorError::Ended) } else { Ok(()) }
    }

    /// Ends it; what it knows is in the archive then.
    ///
    /// # Errors
    /// A thread of it has ended by a fault.
    pub fn stop(mut self) -> Result<(), MonitorError> {
        self.end().map_or(Ok(()), |ended| ended.map_err(|_| MonitorError::Ended))
    }

    fn end(&mut self) -> Option<thread::Result<()>> {
        (self.prober, self.remote_write) = (None, None);
        // It delivers to the one that listens.
        self.own_agent = None;
        self.agents = None;
        // One that has ended is not told.
        let _ = self.messages.send(Message::Stop);
        self.recorder.take().map(JoinHandle::join)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // A panic has been reported.
        self.end();
    }
}

impl MonitorConfig {
    /// Makes the directory of the archive, and of the agent of this host, unless it is there, or the archive is in a database.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_archive_directory(&self) -> Result<(), MonitorError> {
        let failed = |cause| MonitorError::Directory { path: self.archive.clone(), cause };
        if self.is_archive_shared() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.archive).map_err(failed)?;
        // Once the program is confined, it makes none.
        let own_agent = self.mesh.as_ref().and_then(|mesh| own_agent_config(mesh, &self.archive, mesh.listen));
        own_agent.as_ref().map_or(Ok(()), AgentConfig::make_archive_directory)
    }
}

/// On this host, everybody may fetch them.
pub(crate) fn start_exporter(
    config: &MonitorConfig,
    access: &AccessControl,
    latest: watch::Receiver<Arc<MonitorStatus>>,
) -> Result<Option<Exporter>, MonitorError> {
    let metrics = move || encode_metrics(MonitorStatus::clone(&latest.borrow()));
    let (names, access) = (access.clone(), access.clone());
    let is_own_name = move |name: &str| names.is_own_name(name, true);
    let may_fetch = move |from: SocketAddr, token: Option<&str>| {
        let (from, credential) = (from.ip().to_canonical(), token.map_or(Credential::None, Credential::Bearer));
        from.is_loopback() || access.admit(credential, from).is_ok()
    };
    Ok(config
        .prometheus
        .map(|address| Exporter::start_guarded(address, is_own_name, may_fetch, metrics))
        .transpose()?)
}

/// Those that this host probes: in a mesh, agents do.
fn own_targets(config: &MonitorConfig) -> impl Iterator<Item = &MonitoredTarget> {
    config.targets.iter().filter(|_| config.mesh.is_none())
}

fn probed_target(target: &MonitoredTarget) -> ProbedTarget {
    let LightProbes { kind, port, interval, limits } = target.light.clone();
    ProbedTarget { host: target.host.clone(), port, family: target.family, kind, interval, limits }
}

/// What agents say goes to the recorder; where that is far behind, they wait.
fn start_listener(
    mesh: &MeshConfig,
    messages: SyncSender<Message>,
    end_notice: EndNotice,
) -> Result<AgentListener, MonitorError> {
    let MeshConfig { listen, identity, agents, .. } = mesh.clone();
    let keys = agents.iter().map(|agent| agent.public_key).collect();
    let report = move |report| {
        let _dropped_with_the_thread = &end_notice;
        // The monitor has ended where nobody takes it.
        let _ = messages.send(Message::Mesh(report));
    };
    AgentListener::start(listen, identity, keys, report)
        .map_err(|cause| MonitorError::Listen { address: listen, cause })
}

/// Where the coordinator's own host is a site of the mesh.
fn start_own_agent(
    config: &MonitorConfig,
    agents: Option<&AgentListener>,
    ended: &ActivityWatch,
) -> Result<Option<OwnAgent>, MonitorError> {
    let (Some(mesh), Some(agents)) = (&config.mesh, agents) else { return Ok(None) };
    own_agent_config(mesh, &config.archive, agents.address()).map(|own| OwnAgent::start(own, ended)).transpose()
}

/// Its reports go to the recorder; where that is far behind, probing waits.
fn start_prober(
    targets: Vec<ProbedTarget>,
    seed: u64,
    messages: SyncSender<Message>,
    end_notice: EndNotice,
) -> io::Result<Prober> {
    Prober::start(targets, seed, move |report| {
        // A prober that is paused keeps it.
        let _dropped_with_the_thread = &end_notice;
        // The monitor has ended where nobody takes it.
        let _ = messages.send(Message::Probe(report));
    })
}

/// A minute's probes have all had their results, and are in the archive, so long after it.
fn settling_time(config: &MonitorConfig) -> Span {
    let longest = config.targets.iter().map(|target| target.light.limits.lost_after).max();
    longest.unwrap_or(Span::ZERO) + COMMIT_TIME
}

fn start_sender(
    config: &MonitorConfig,
    recorder: &mut Recorder,
    messages: &SyncSender<Message>,
) -> Result<Option<RemoteWriteSender>, MonitorError> {
    let Some(remote_write) = &config.remote_write else { return Ok(None) };
    let client = RemoteWriteClient::new(remote_write.clone())?;
    let reader = recorder.readers(1)?.pop().ok_or(MonitorError::Ended)?;
    let messages = messages.clone();
    // The monitor has ended where nobody takes it.
    let tell = move |news| drop(messages.send(Message::RemoteWrite(news)));
    let sender = RemoteWriteSender::start(client, remote_write, reader, settling_time(config), tell);
    sender.map(Some).map_err(MonitorError::System)
}
