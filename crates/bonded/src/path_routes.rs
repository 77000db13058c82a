use net::policy::MarkedRoute;
use net::{SetupError, namespace};
use service::{Claim, ClaimError, InstalledRoutes, Journal, RuntimeDir};
use std::io;
use thiserror::Error;
use units::{Span, Time};

/// The routes of datagrams by their paths' next hops, until this is dropped; then they are as before.
#[derive(Debug)]
pub(crate) struct PathRoutes {
    // In the order in which they go.
    routes: Option<InstalledRoutes>,
    _claim: Option<Claim>,
    restore_at: Time,
}

/// Why datagrams cannot be routed.
#[derive(Debug, Error)]
pub enum RouteError {
    /// The system refuses a route.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Another bonded plane has routes in this namespace.
    #[error(
        "a bonded gateway routes datagrams in this network namespace already (process {process}): end that one first"
    )]
    Taken {
        /// Its process, or `unknown`.
        process: String,
    },
    /// No lock file can be made.
    #[error(transparent)]
    Claim(ClaimError),
    /// What is to be undone cannot be written down.
    #[error("cannot write down which routes are added, so that they could be removed after a crash: {0}")]
    Record(io::Error),
}

/// Between two looks at whether all are there.
const RESTORE_INTERVAL: Span = Span::from_secs(1);

impl PathRoutes {
    /// Removes what killed gateways have left here, and adds these.
    pub(crate) fn install(routes: &[MarkedRoute], directory: &RuntimeDir, now: Time) -> Result<Self, RouteError> {
        let journal = Journal::new(directory.clone());
        InstalledRoutes::recover(&journal);
        let restore_at = now + RESTORE_INTERVAL;
        if routes.is_empty() {
            return Ok(PathRoutes { routes: None, _claim: None, restore_at });
        }
        let namespace = namespace::current_inode().map_err(RouteError::Record)?;
        let claim = Claim::new(directory, &format!("gateway-bonded-{namespace}")).map_err(|error| match error {
            ClaimError::Taken { process, .. } => RouteError::Taken { process },
            error => RouteError::Claim(error),
        })?;
        // From here on, dropped where something fails.
        let installed = InstalledRoutes::record(routes.to_vec(), &journal).map_err(RouteError::Record)?;
        installed.add()?;
        Ok(PathRoutes { routes: Some(installed), _claim: Some(claim), restore_at })
    }

    /// Now and then, sets those again that the kernel has dropped with an interface. To be called at any time.
    pub(crate) fn follow_interfaces(&mut self, now: Time) {
        if let Some(routes) = self.routes.as_ref().filter(|_| now >= self.restore_at) {
            routes.restore();
            self.restore_at = now + RESTORE_INTERVAL;
        }
    }
}
