use super::host::{self, HostError};
use super::leftover::Routes;
use super::plan::Plan;
use crate::config::Config;
use net::SetupError;
use net::namespace;
use net::nftables::{Count, InstalledTable};
use service::{Claim, ClaimError, Journal, Leftover, Record, RuntimeDir};
use std::io;
use thiserror::Error;

/// Packets are divided among the paths, by the kernel, until this is dropped; then everything is as before.
///
/// A network namespace has one at a time. It stays with the namespace of the thread that starts it, and must be dropped in
/// that namespace.
#[derive(Debug)]
pub struct DirectPlane {
    config: Config,
    // In the order in which they go: rules that mark packets, the routes of the marks, the record of them, and the claim.
    table: InstalledTable,
    _routes: InstalledRoutes,
    _record: Record,
    _claim: Claim,
}

/// What has left by a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCount {
    /// The path's name.
    pub path: String,
    /// Since the start.
    pub sent: Count,
}

/// Why packets cannot be divided.
#[derive(Debug, Error)]
pub enum DirectError {
    /// The host does not forward.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The system refuses a rule or a route.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Another gateway runs in this namespace.
    #[error("this network namespace has a gateway already (process {process}): end that one first")]
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

#[derive(Debug)]
struct InstalledRoutes(Routes);

impl DirectPlane {
    /// Puts a configuration into effect, after removing what a killed gateway has left here.
    ///
    /// # Errors
    /// The host does not forward, another gateway runs, or the system refuses something; nothing is left behind then.
    pub fn start(config: &Config, directory: RuntimeDir) -> Result<Self, DirectError> {
        let plan = Plan::new(config);
        let namespace = namespace::current_inode().map_err(DirectError::Record)?;
        let claim = Claim::new(&directory, &format!("gateway-{namespace}")).map_err(|error| match error {
            ClaimError::Taken { process, .. } => DirectError::Taken { process },
            error => DirectError::Claim(error),
        })?;
        let journal = Journal::new(directory);
        journal.recover::<Routes>();
        for warning in host::check(&plan)? {
            tracing::warn!("{warning}");
        }
        let routes = Routes::new(namespace, &plan.routes);
        let record = journal.record(&routes).map_err(DirectError::Record)?;
        // From here on, dropped where something fails.
        let installed = InstalledRoutes(routes);
        plan.routes.iter().try_for_each(|route| route.add())?;
        let table = InstalledTable::install(&plan.table)?;
        Ok(DirectPlane { config: config.clone(), table, _routes: installed, _record: record, _claim: claim })
    }

    /// What has left by each path, in their order.
    ///
    /// # Errors
    /// The rules are gone.
    pub fn counts(&self) -> Result<Vec<PathCount>, SetupError> {
        let counts = self.table.counts()?;
        let sent = |name: &str| counts.get(name).copied().unwrap_or_default();
        let paths = self.config.paths.iter();
        Ok(paths.map(|path| PathCount { path: path.name.clone(), sent: sent(&Plan::counter(path)) }).collect())
    }
}

impl Drop for InstalledRoutes {
    fn drop(&mut self) {
        if let Err(error) = self.0.undo() {
            tracing::warn!("routes stay behind: {error}");
        }
    }
}
