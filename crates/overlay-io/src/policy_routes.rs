use kumade_daemon::{InstalledRoutes, Journal, NameLockError, NamespaceLock, RuntimeDir};
use kumade_net::SetupError;
use kumade_net::policy_routing::{MarkedRoute, NetworkRoute, PolicyRoute};
use kumade_units::{Span, Time};
use std::io;
use thiserror::Error;

/// Policy routes that no other process can have in this network namespace, until this is dropped; then they are as before.
#[derive(Debug)]
pub(crate) struct LockedRoutes<R> {
    // In the order in which they go.
    routes: InstalledRoutes<R>,
    _lock: NamespaceLock,
}

/// The routes of datagrams by their paths' next hops.
#[derive(Debug)]
pub(crate) struct PathRoutes {
    routes: Option<LockedRoutes<MarkedRoute>>,
    next_restore: Time,
}

/// Why the system does not route as it is to.
#[derive(Debug, Error)]
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
    /// The system refuses the name that stands for it.
    #[error(transparent)]
    Lock(NameLockError),
    /// What is to be undone cannot be written down.
    #[error("cannot write down which routes are added, so that they could be removed after a crash: {0}")]
    Record(io::Error),
}

/// Between two looks at whether all are there.
const RESTORE_INTERVAL: Span = Span::from_secs(1);

impl<R: PolicyRoute> LockedRoutes<R> {
    /// Removes what killed processes have left here, and adds these, if there are any.
    fn install(
        routes: Vec<R>,
        (name, what): (&str, &'static str),
        directory: &RuntimeDir,
    ) -> Result<Option<Self>, RouteError> {
        let journal = Journal::new(directory.clone());
        InstalledRoutes::recover(&journal);
        if routes.is_empty() {
            return Ok(None);
        }
        let claim = NamespaceLock::new(name).map_err(|error| match error {
            NameLockError::Taken { process, .. } => RouteError::Taken { activity: what, process },
            error => RouteError::Lock(error),
        })?;
        // From here on, dropped where something fails.
        let routes = InstalledRoutes::record(routes, &journal).map_err(RouteError::Record)?;
        routes.install()?;
        Ok(Some(LockedRoutes { routes, _lock: claim }))
    }
}

impl LockedRoutes<NetworkRoute> {
    /// Those of networks, once the device is there.
    pub(crate) fn install_for_networks(
        routes: &[NetworkRoute],
        directory: &RuntimeDir,
    ) -> Result<Option<Self>, RouteError> {
        let what = "a tunnel takes traffic for all other networks, or for those around its far end,";
        LockedRoutes::install(routes.to_vec(), ("tunnel-networks", what), directory)
    }
}

impl PathRoutes {
    pub(crate) fn install(routes: &[MarkedRoute], directory: &RuntimeDir, now: Time) -> Result<Self, RouteError> {
        let what = "a bonded gateway routes datagrams";
        let routes = LockedRoutes::install(routes.to_vec(), ("gateway-bonded", what), directory)?;
        Ok(PathRoutes { routes, next_restore: now + RESTORE_INTERVAL })
    }

    /// Now and then, sets those again that the kernel has dropped with an interface. To be called at any time.
    pub(crate) fn restore_if_due(&mut self, now: Time) {
        if let Some(claimed) = self.routes.as_ref().filter(|_| now >= self.next_restore) {
            claimed.routes.restore();
            self.next_restore = now + RESTORE_INTERVAL;
        }
    }
}
