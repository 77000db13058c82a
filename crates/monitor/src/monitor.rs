//! A monitor that runs: its threads, and who tells whom.

use crate::config::{LightProbes, MonitorConfig, MonitoredTarget};
use crate::light::{ProbedTarget, Prober};
use crate::metrics::encode_metrics;
use crate::monitor_error::MonitorError;
use crate::page::{History, PageServer};
use crate::recorder::{Message, Recorder};
use crate::status::MonitorStatus;
use kumade_daemon::Exporter;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use tokio::sync::watch;

/// A monitor of one host.
#[derive(Debug)]
pub struct Monitor {
    // In this order they end: nobody is told by one that has ended.
    page: PageServer,
    exporter: Option<Exporter>,
    prober: Option<Prober>,
    messages: SyncSender<Message>,
    recorder: Option<JoinHandle<()>>,
    status: watch::Receiver<Arc<MonitorStatus>>,
}

/// Reports of the prober that wait for the recorder: some seconds of ten thousand targets.
const MAX_WAITING_REPORTS: usize = 1 << 16;
/// Questions of the page that are answered at a time.
const MAX_QUESTIONS: usize = 2;

impl Monitor {
    /// Starts all of it.
    ///
    /// # Errors
    /// The archive cannot be opened, or an address not be had.
    pub fn start(config: MonitorConfig) -> Result<Self, MonitorError> {
        let make_directory = |cause| MonitorError::Directory { path: config.archive.clone(), cause };
        std::fs::create_dir_all(&config.archive).map_err(make_directory)?;
        let (messages, inbox) = mpsc::sync_channel(MAX_WAITING_REPORTS);
        let (status, followed) = watch::channel(Arc::new(MonitorStatus::empty(&config.name)));
        let targets = config.targets.iter().map(probed_target).collect();
        let (page, prometheus) = (config.page, config.prometheus);
        let mut recorder = Recorder::open(config, status, messages.clone())?;
        let history = History::new(recorder.readers(MAX_QUESTIONS)?, recorder.pair_numbers());
        let page = PageServer::start(page, followed.clone(), history)?;
        let latest = followed.clone();
        let exporter = prometheus
            .map(|address| Exporter::start(address, move || encode_metrics(MonitorStatus::clone(&latest.borrow()))));
        let exporter = exporter.transpose()?;
        let work = move || recorder.run(&inbox);
        let recorder = thread::Builder::new().name("recorder".into()).spawn(work).map_err(MonitorError::System)?;
        let seed = getrandom::u64().map_err(|error| MonitorError::System(io::Error::other(error)))?;
        let prober = start_prober(targets, seed, messages.clone()).map_err(MonitorError::System)?;
        Ok(Monitor { page, exporter, prober: Some(prober), messages, recorder: Some(recorder), status: followed })
    }

    /// Where the page is served.
    pub fn page_address(&self) -> SocketAddr {
        self.page.address()
    }

    /// Where metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().map(Exporter::address)
    }

    /// What it sees, now and later.
    pub fn status(&self) -> watch::Receiver<Arc<MonitorStatus>> {
        self.status.clone()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// A thread of it has ended by a fault.
    pub fn check(&self) -> Result<(), MonitorError> {
        let has_ended = self.recorder.as_ref().is_none_or(JoinHandle::is_finished);
        if has_ended { Err(MonitorError::Ended) } else { Ok(()) }
    }

    /// Ends it; what it knows is in the archive then.
    ///
    /// # Errors
    /// A thread of it has ended by a fault.
    pub fn stop(mut self) -> Result<(), MonitorError> {
        self.end().map_or(Ok(()), |ended| ended.map_err(|_| MonitorError::Ended))
    }

    fn end(&mut self) -> Option<thread::Result<()>> {
        self.prober = None;
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

fn probed_target(target: &MonitoredTarget) -> ProbedTarget {
    let LightProbes { kind, port, interval, limits } = target.light.clone();
    ProbedTarget { host: target.host.clone(), port, family: target.family, kind, interval, limits }
}

/// Its reports go to the recorder; where that is far behind, probing waits.
fn start_prober(targets: Vec<ProbedTarget>, seed: u64, messages: SyncSender<Message>) -> io::Result<Prober> {
    Prober::start(targets, seed, move |report| {
        // The monitor has ended where nobody takes it.
        let _ = messages.send(Message::Probe(report));
    })
}
