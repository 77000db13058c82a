use kumade_daemon::{InstalledRoutes, Journal, NameLockError, NamespaceLock, RuntimeDir};
use kumade_net::policy_routing::{MarkedRoute, PolicyRoute};
use kumade_net::{SetupError, clock};
use kumade_units::{Span, Time};
use std::io;
use thiserror::Error;

/// Routes of this process until this is dropped, which are added again where the kernel has dropped them.
#[derive(Debug)]
pub(crate) struct KeptRoutes<R> {
    // In the order in which they go.
    routes: InstalledRoutes<R>,
    /// What no other process of this network namespace can have meanwhile.
    _lock: Option<NamespaceLock>,
    next_restore: Time,
    missing: usize,
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

/// Removes what killed processes have left here.
pub(crate) fn recover(directory: &RuntimeDir) {
    InstalledRoutes::recover(&Journal::new(directory.clone()));
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
                error => RouteError::Lock(error),
            })
        };
        let lock = lock.map(lock_name).transpose()?;
        // From here on, dropped where something fails.
        let routes = InstalledRoutes::record(routes, &Journal::new(directory.clone())).map_err(RouteError::Record)?;
        routes.install()?;
        Ok(Some(KeptRoutes { routes, _lock: lock, next_restore: clock::monotonic() + RESTORE_INTERVAL, missing: 0 }))
    }

    /// Now and then, adds those again that the kernel has dropped with an interface; says so. To be called at any time.
    pub(crate) fn restore_if_due(&mut self, now: Time) {
        if now >= self.next_restore {
            self.restore(now);
        }
    }

    /// At once.
    pub(crate) fn restore(&mut self, now: Time) {
        self.next_restore = now + RESTORE_INTERVAL;
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

/// The routes of datagrams by their paths' next hops.
pub(crate) fn install_path_routes(
    routes: &[MarkedRoute],
    directory: &RuntimeDir,
) -> Result<Option<KeptRoutes<MarkedRoute>>, RouteError> {
    let what = "a bonded gateway routes datagrams";
    KeptRoutes::install(routes.to_vec(), Some(("gateway-bonded", what)), directory)
}
