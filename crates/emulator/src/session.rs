//! An emulated link with a name, settings and statistics: what a program runs, and others ask and change.

use crate::control::{Reply, Request};
use crate::report::{Document, ReportContext, ReportSpan};
use crate::settings::{SettingError, Settings, SettingsChange};
use crate::statistics::{DirectionStatistics, MeanFairness};
use crate::{EmulatorError, Engine, EngineConfig, PortSpec};
use kumade_daemon::EndNotice;
use kumade_units::Span;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use thiserror::Error;

/// A running link. Any thread may use it; it ends when it is stopped or dropped.
#[derive(Debug)]
pub struct LinkSession {
    name: String,
    ports: [String; 2],
    started: Instant,
    engine: Engine,
    settings: Mutex<Settings>,
    last_interval: Mutex<IntervalState>,
}

/// What [`LinkSession::start_all`] is told of a link.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// What it is called.
    pub name: String,
    /// Between what.
    pub ports: [PortSpec; 2],
    /// What becomes of packets.
    pub settings: Settings,
}

/// Where the last interval ended.
#[derive(Debug)]
struct IntervalState {
    end_time: Instant,
    statistics: [DirectionStatistics; 2],
    /// What the engine's [`changes`](Engine::changes) were then.
    changes: u64,
    /// Over all intervals so far.
    fairness: [MeanFairness; 2],
    /// What happened in it, where there was one.
    document: Option<Box<Document>>,
}

/// Why a link is not changed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The settings are impossible.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The link has ended.
    #[error(transparent)]
    Engine(#[from] EmulatorError),
}

impl LinkSession {
    /// Joins two interfaces for each of these links, which share a packet thread. `notice` makes for each what tells that it has ended.
    ///
    /// # Errors
    /// An interface cannot be used; then no link runs.
    pub fn start_all(links: Vec<SessionConfig>, notice: impl Fn() -> EndNotice) -> Result<Vec<Self>, EmulatorError> {
        let engine = |link: &SessionConfig| EngineConfig {
            ports: link.ports.clone(),
            directions: link.settings.configs().clone(),
            end_notice: notice(),
        };
        let engines = Engine::start_all(links.iter().map(engine).collect())?;
        let session = |(SessionConfig { name, ports, settings }, engine)| {
            let started = Instant::now();
            LinkSession {
                name,
                ports: ports.map(|port| port.name().to_owned()),
                started,
                engine,
                settings: Mutex::new(settings),
                last_interval: Mutex::new(IntervalState {
                    end_time: started,
                    statistics: Default::default(),
                    changes: 0,
                    fairness: Default::default(),
                    document: None,
                }),
            }
        };
        Ok(links.into_iter().zip(engines).map(session).collect())
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes settings while packets pass; gives all of them as they are now.
    ///
    /// # Errors
    /// They are impossible, and nothing is changed; or the link has ended.
    pub fn change(&self, change: &SettingsChange) -> Result<Settings, SessionError> {
        let mut settings = lock(&self.settings);
        let changed = settings.change(change)?;
        for (direction, (before, after)) in settings.configs().iter().zip(changed.configs()).enumerate() {
            if before != after {
                self.engine.set_direction(direction, after.clone())?;
            }
        }
        *settings = changed.clone();
        Ok(changed)
    }

    /// What has happened since the start.
    pub fn total(&self) -> Document {
        let duration = self.started.elapsed();
        let statistics = self.changed_statistics().unwrap_or_else(|| lock(&self.last_interval).statistics.clone());
        self.build_document(ReportSpan::Total, duration.into(), &statistics)
    }

    /// None where nothing has happened since the last interval: the packet thread is left asleep.
    fn changed_statistics(&self) -> Option<[DirectionStatistics; 2]> {
        let known = lock(&self.last_interval).changes;
        (known != self.engine.changes()).then(|| self.engine.statistics())
    }

    /// What has happened since the last call, or the start.
    pub fn take_interval(&self) -> Document {
        let changes = self.engine.changes();
        let changed = self.changed_statistics();
        let now = Instant::now();
        let mut last = lock(&self.last_interval);
        let duration = now.duration_since(last.end_time).into();
        let [up, down] = changed.as_ref().unwrap_or(&last.statistics);
        let since = [up.delta_since(&last.statistics[0]), down.delta_since(&last.statistics[1])];
        for (mean, direction) in last.fairness.iter_mut().zip(&since) {
            mean.add_interval(&direction.flows, duration);
        }
        (last.end_time, last.changes) = (now, changes);
        if let Some(changed) = changed {
            last.statistics = changed;
        }
        drop(last);
        let document = self.build_document(ReportSpan::Interval, duration, &since);
        lock(&self.last_interval).document = Some(Box::new(document.clone()));
        document
    }

    /// What happened in the last interval; since the start where there was none yet.
    fn recent(&self) -> Document {
        let last = lock(&self.last_interval).document.as_deref().cloned();
        last.unwrap_or_else(|| self.total())
    }

    /// Answers a request from outside.
    pub fn handle_request(&self, request: &Request) -> Reply {
        let reply = match request {
            Request::Set { change } => self
                .change(change)
                .map(|settings| Reply::Done { settings: settings.to_texts() })
                .map_err(|error| error.to_string()),
            Request::Show => shown_reply(&self.total()),
            Request::Recent => shown_reply(&self.recent()),
            Request::Stop => {
                self.engine.request_end();
                Ok(Reply::Done { settings: lock(&self.settings).to_texts() })
            }
        };
        reply.unwrap_or_else(|reason| Reply::Refused { reason })
    }

    /// Ends the link without waiting for that.
    pub fn request_end(&self) {
        self.engine.request_end();
    }

    /// Whether packets still pass.
    pub fn is_running(&self) -> bool {
        self.engine.is_running()
    }

    /// Ends the link, if it has not ended, and leaves its interfaces as they were found.
    ///
    /// # Errors
    /// Why it ended before.
    pub fn stop(&self) -> Result<(), EmulatorError> {
        self.engine.stop()
    }

    fn build_document(&self, covers: ReportSpan, duration: Span, statistics: &[DirectionStatistics; 2]) -> Document {
        let ports = self.ports.each_ref().map(String::as_str);
        let settings = &lock(&self.settings).to_texts();
        let fairness = match covers {
            ReportSpan::Total => lock(&self.last_interval).fairness.map(|mean| mean.mean()),
            ReportSpan::Interval => [None, None],
        };
        Document::new(&ReportContext { name: &self.name, ports, settings, covers, duration, fairness }, statistics)
    }
}

fn shown_reply(document: &Document) -> Result<Reply, String> {
    let document = serde_json::to_value(document).map_err(|error| error.to_string())?;
    Ok(Reply::Shown { document })
}

/// The values behind these locks are consistent at any time, even if a thread has panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
