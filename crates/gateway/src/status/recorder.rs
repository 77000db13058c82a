use super::{Path, PlaneKind, Remote, RemotePath, Status};
use crate::config::{self, Config, Plane};
use multipath::PathChoice;
use net::clock;
use std::sync::{Arc, Mutex, PoisonError};
use units::{Span, Time};

/// Renews the status of a running gateway, once a second, for whoever asks for it meanwhile.
#[derive(Debug)]
pub struct StatusRecorder {
    started: Time,
    renewed: Option<Time>,
    /// As it is filled each time.
    blank: Status,
    latest: LatestStatus,
}

/// The status of a running gateway, at most about a second old. All clones are the same.
#[derive(Debug, Clone)]
pub struct LatestStatus(Arc<Mutex<Status>>);

/// Also the interval of rates and shares.
const INTERVAL: Span = Span::from_secs(1);

impl StatusRecorder {
    /// For a gateway that starts now. Until its status is renewed, nothing is up.
    pub fn new(config: &Config) -> Self {
        let blank = blank(config);
        let latest = LatestStatus(Arc::new(Mutex::new(blank.clone())));
        StatusRecorder { started: clock::monotonic(), renewed: None, blank, latest }
    }

    /// The status, also as renewed later.
    pub fn latest(&self) -> LatestStatus {
        self.latest.clone()
    }

    /// Renews it where a second has passed; to be called more often. `fill` enters what the plane knows at this time of the
    /// monotonic clock.
    ///
    /// # Errors
    /// That of `fill`; the status stays as it was.
    pub fn renew<E>(&mut self, fill: impl FnOnce(&mut Status, Time) -> Result<(), E>) -> Result<(), E> {
        let now = clock::monotonic();
        if self.renewed.is_some_and(|renewed| now - renewed < INTERVAL) {
            return Ok(());
        }
        let mut status = Status {
            time: format!("{:.3}", jiff::Timestamp::now()),
            duration_seconds: (now - self.started).as_secs_f64(),
            ..self.blank.clone()
        };
        fill(&mut status, now)?;
        if self.renewed.replace(now).is_some() {
            status = status.since(&self.latest.get());
        }
        self.latest.set(status);
        Ok(())
    }
}

impl LatestStatus {
    /// A copy of it.
    pub fn get(&self) -> Status {
        // It is whole at any time, even if a thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, status: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

/// The names of all that a configuration has.
fn blank(config: &Config) -> Status {
    let (plane, by_weight) = match &config.plane {
        Plane::Direct => (PlaneKind::Direct, true),
        Plane::Bonded(bonded) => (PlaneKind::Bonded, matches!(bonded.choice, PathChoice::Ratio { .. })),
    };
    let paths = config.paths.iter().map(|path| Path {
        name: path.name.clone(),
        interface: path.interface.clone(),
        up: false,
        state_seconds: 0.0,
        sent: Default::default(),
        share_ratio: None,
    });
    let remote_path = |place: &usize| {
        let path = &config.paths[*place];
        RemotePath { name: path.name.clone(), weight: by_weight.then_some(path.weight), measured: None }
    };
    let remote = |remote: &config::Remote| Remote {
        name: remote.name.clone(),
        paths: remote.paths.iter().map(remote_path).collect(),
        tunnel: None,
        sessions: None,
    };
    Status {
        schema: Status::SCHEMA.to_owned(),
        name: config.name.clone(),
        plane,
        time: format!("{:.3}", jiff::Timestamp::now()),
        duration_seconds: 0.0,
        interval_seconds: None,
        paths: paths.collect(),
        remotes: config.remotes.iter().map(remote).collect(),
        sessions: Vec::new(),
        session_count: 0,
        refused: None,
    }
}
