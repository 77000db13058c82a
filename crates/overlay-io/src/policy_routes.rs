use crate::restore_schedule::RestoreSchedule;
use kumade_daemon::{InstalledRoutes, Journal, NameLockError, NamespaceLock, RouteChangeError, RuntimeDir};
use kumade_net::policy_routing::{MarkedRoute, PolicyRoute};
use kumade_net::{SetupError, clock};
use kumade_units::Time;
use std::io;
use thiserror::Error;

/// Routes of this process until this is dropped, which are added again where the kernel has dropped them.
#[derive(Debug)]
pub(crate) struct KeptRoutes<R> {
    // In the order in which they go.
    routes: InstalledRoutes<R>,
    /// What no other process of this network namespace can have meanwhile.
    _lock: Option<NamespaceLock>,
    schedule: RestoreSchedule,
    missing: usize,
}

/// Why the system does not route as it is to.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The system refuses a route.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Another bonded plane has such routes in this namespace.
    #[error("{activity} in this network namespace already (process {process}): end that one first")]
    Taken {
        /// What it does.
        activity: &'static str,
        /// Its process, or `unknown`.
        process: String,
    },
    /// The process has given up what it takes to find that out.
    #[error(
        "cannot find out whether {0} in this network namespace already, since this process has given up local sockets: restart \
         it for that"
    )]
    Unknown(&'static str),
    /// The system refuses the name that stands for it.
    #[error(transparent)]
    Lock(NameLockError),
    /// The system refuses routes, or which are to be removed after a crash cannot be written down.
    #[error(transparent)]
    Change(#[from] RouteChangeError),
}

/// Removes what killed processes have left here.
pub(crate) fn recover(directory: &RuntimeDir) {
    InstalledRoutes::recover(&Journal::new(directory.clone()));
}

impl<R: PolicyRoute + PartialEq> KeptRoutes<R> {
    /// Has `kept` be these; routes that are there already stay as they are. `lock` as in [`install`](Self::install).
    ///
    /// # Errors
    /// As there; those before are there then, as far as the system takes them again.
    pub(crate) fn replace(
        kept: &mut Option<Self>,
        routes: Vec<R>,
        lock: Option<(&str, &'static str)>,
        directory: &RuntimeDir,
    ) -> Result<(), RouteError> {
        match kept {
            None => *kept = KeptRoutes::install(routes, lock, directory)?,
            Some(installed) => {
                let is_last = routes.is_empty();
                installed.routes.replace(routes, &Journal::new(directory.clone()))?;
                if is_last {
                    // Others may have such routes.
                    *kept = None;
                }
            }
        }
        Ok(())
    }
}

impl<R: PolicyRoute> KeptRoutes<R> {
    /// Adds these, if there are any. `lock` is what no other process can do meanwhile: a name for it, and in words.
    pub(crate) fn install(
        routes: Vec<R>,
        lock: Option<(&str, &'static str)>,
        directory: &RuntimeDir,
    ) -> Result<Option<Self>, RouteError> {
        if routes.is_empty() {
            return Ok(None);
        }
        let lock_name = |(name, activity)| {
            NamespaceLock::new(name).map_err(|error| match error {
                NameLockError::Taken { process, .. } => RouteError::Taken { activity, process },
                NameLockError::Io { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
                    RouteError::Unknown(activity)
                }
                error => RouteError::Lock(error),
            })
        };
        let lock = lock.map(lock_name).transpose()?;
        let schedule = RestoreSchedule::new(clock::monotonic());
        // From here on, dropped where something fails.
        let routes = InstalledRoutes::record(routes, &Journal::new(directory.clone()))?;
        routes.install()?;
        Ok(Some(KeptRoutes { routes, _lock: lock, schedule, missing: 0 }))
    }

    /// Interfaces, addresses or routes have changed.
    pub(crate) fn record_change(&mut self) {
        self.schedule.record_change();
    }

    /// When to [look](Self::restore_if_due).
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.schedule.deadline(self.missing > 0)
    }

    /// Adds those again that the kernel has dropped with an interface; says so. To be called at any time.
    pub(crate) fn restore_if_due(&mut self, now: Time) {
        if self.schedule.is_due(self.missing > 0, now) {
            self.restore();
        }
    }

    /// At once.
    pub(crate) fn restore(&mut self) {
        let (restored, missing) = self.routes.restore();
        if restored > 0 {
            tracing::warn!("routes that were gone and have been added again: {restored}");
        }
        if missing > self.missing {
            tracing::warn!("routes that are gone while their interface is down: {missing}");
        }
        self.missing = missing;
    }
}

/// Has these routes of datagrams by their paths' next hops in place of those that there are.
pub(crate) fn replace_path_routes(
    kept: &mut Option<KeptRoutes<MarkedRoute>>,
    routes: &[MarkedRoute],
    directory: &RuntimeDir,
) -> Result<(), RouteError> {
    let what = "a bonded gateway routes datagrams";
    KeptRoutes::replace(kept, routes.to_vec(), Some(("gateway-bonded", what)), directory)
}
