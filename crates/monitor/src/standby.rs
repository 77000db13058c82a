//! A monitor that waits until it may write an archive that another host writes: it shows what that one sees.

use crate::access::AccessControl;
use crate::config::MonitorConfig;
use crate::leadership::{Candidate, Leadership, decode_status};
use crate::monitor::start_exporter;
use crate::monitor_error::MonitorError;
use crate::page::{History, PageGuards, PageServer, PairNumbers, Tls};
use crate::recorder::{OWN_HOST_ID, is_of};
use crate::status::MonitorStatus;
use kumade_archive::{AnyStore, ArchiveError, Reader};
use kumade_daemon::{ActivityWatch, Exporter};
use kumade_net::{clock, interface};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::watch;

/// A monitor that stands by.
#[derive(Debug)]
pub struct Standby {
    page: PageServer,
    is_encrypted: bool,
    _exporter: Option<Exporter>,
    status: watch::Receiver<Arc<MonitorStatus>>,
    leadership: mpsc::Receiver<Leadership>,
    /// Ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Between two looks at who leads and at what that one sees.
const LOOK_INTERVAL: Span = Span::from_secs(1);
/// Questions of the page that are answered at a time.
const MAX_QUESTIONS: usize = 2;

impl Standby {
    /// Begins to wait; `ended` is told when that is over, for [`take_leadership`](Self::take_leadership). None where the archive is in a file
    /// of this host, which nobody else writes.
    ///
    /// # Errors
    /// The database cannot be reached, or an address not be had.
    pub fn start(config: &MonitorConfig, ended: &ActivityWatch) -> Result<Option<Self>, MonitorError> {
        let Some(candidate) = Candidate::new(config, clock::monotonic())? else { return Ok(None) };
        let (sender, status) = watch::channel(Arc::new(MonitorStatus::empty(&config.name)));
        let numbers = PairNumbers::default();
        let reader = || config.open_archive_read_only().map(Reader::new);
        let readers = (0..MAX_QUESTIONS).map(|_| reader()).collect::<Result<_, _>>()?;
        // It writes nothing: what visitors do is in its log alone.
        let access = AccessControl::new(config.access.clone(), |entry| tracing::info!("{}: {}", entry.who, entry.what));
        let tls = Tls::default();
        tls.load(config.tls.as_ref())?;
        let guards = PageGuards { access: access.clone(), tls };
        let history = History::new(readers, numbers.clone());
        let note = |text: String| tracing::info!("{text}");
        let page = PageServer::start(config.page, status.clone(), history, guards, Arc::new(drop), note)?;
        let exporter = start_exporter(config, &access, status.clone())?;
        let (stop, stopped) = mpsc::channel();
        let (leads, leadership) = mpsc::channel();
        let paths = known_paths(config);
        let look = Look { candidate, reader: reader()?, paths, known: None, numbers, status: sender };
        let end_notice = ended.end_notice();
        let work = move || {
            // The notice comes once it has said all.
            let (_end_notice, leads) = (end_notice, leads);
            look.run(&stopped, &leads);
        };
        let thread = thread::Builder::new().name("standby".into()).spawn(work).map_err(MonitorError::System)?;
        let is_encrypted = config.tls.is_some();
        Ok(Some(Standby {
            page,
            is_encrypted,
            _exporter: exporter,
            status,
            leadership,
            stop: Some(stop),
            thread: Some(thread),
        }))
    }

    /// The right to write the archive, as soon as this host has it. What stands by is ended then, and a monitor started.
    ///
    /// # Errors
    /// A thread of it has ended by a fault.
    pub fn take_leadership(&self) -> Result<Option<Leadership>, MonitorError> {
        match self.leadership.try_recv() {
            Ok(leadership) => Ok(Some(leadership)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => Err(MonitorError::Ended),
        }
    }

    /// Where the page is served.
    pub fn page_url(&self) -> String {
        format!("{}://{}/", if self.is_encrypted { "https" } else { "http" }, self.page.address())
    }

    /// What it sees, now and later.
    pub fn status(&self) -> watch::Receiver<Arc<MonitorStatus>> {
        self.status.clone()
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.stop = None;
        // A panic has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}

/// The configuration's paths by the ids of their ends, as the archive knows them: version of IP, none for whichever there is, and id.
type KnownPaths = BTreeMap<(String, String), Vec<(Option<interface::Family>, String)>>;

fn known_paths(config: &MonitorConfig) -> KnownPaths {
    let ends = |place: usize| match &config.mesh {
        Some(mesh) => {
            let [source, target] = [mesh.pairs[place].source, mesh.pairs[place].target];
            (mesh.agents[source].id.clone(), mesh.agents[target].id.clone())
        }
        None => (OWN_HOST_ID.to_owned(), config.targets[place].id.clone()),
    };
    let mut paths = KnownPaths::new();
    for (place, target) in config.targets.iter().enumerate() {
        paths.entry(ends(place)).or_default().push((target.family, target.id.clone()));
    }
    paths
}

/// The thread of one that stands by.
struct Look {
    candidate: Candidate,
    reader: Reader<AnyStore>,
    paths: KnownPaths,
    /// As of when that is which is published.
    known: Option<Time>,
    numbers: PairNumbers,
    status: watch::Sender<Arc<MonitorStatus>>,
}

impl Look {
    fn run(mut self, stopped: &mpsc::Receiver<()>, leads: &mpsc::Sender<Leadership>) {
        loop {
            let advanced = self.candidate.advance(clock::monotonic());
            if matches!(advanced, Ok(true)) {
                // Whoever has ended does not take it.
                let _ = leads.send(self.candidate.into_leadership());
                return;
            }
            let outcome = advanced.and_then(|_| self.read());
            self.publish(outcome);
            if stopped.recv_timeout(LOOK_INTERVAL.to_duration()) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// What the leader sees, and the numbers of pairs, by which the page asks; none where the leader has told nothing new.
    fn read(&mut self) -> Result<Option<MonitorStatus>, ArchiveError> {
        let Some((at, seen)) = self.candidate.seen(self.known)? else { return Ok(None) };
        let hosts: BTreeMap<_, _> = self.reader.hosts()?.into_iter().map(|host| (host.id, host.stable_id)).collect();
        let ids = self.reader.pairs()?.into_iter().filter_map(|pair| {
            let ends = (hosts.get(&pair.source)?.clone(), hosts.get(&pair.target)?.clone());
            let (_, id) = self.paths.get(&ends)?.iter().find(|(family, _)| is_of(*family, pair.family))?;
            Some((id.clone(), pair.id))
        });
        let numbers = ids.collect();
        *self.numbers.write().unwrap_or_else(PoisonError::into_inner) = numbers;
        self.known = Some(at);
        Ok(decode_status(&seen))
    }

    fn publish(&self, outcome: Result<Option<MonitorStatus>, ArchiveError>) {
        let (seen, failure) = match outcome {
            Ok(seen) => (seen, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let leader = self.candidate.leader_status();
        let current = self.status.borrow().clone();
        if failure.is_some() && current.archive_failure.is_none() {
            tracing::error!("{}", failure.as_deref().unwrap_or_default());
        }
        if seen.is_none() && (&current.archive_failure, &current.leader) == (&failure, &leader) {
            return;
        }
        let mut status = seen.unwrap_or_else(|| MonitorStatus::clone(&current));
        status.archive_failure = failure;
        status.leader = leader;
        self.status.send_replace(Arc::new(status));
    }
}
