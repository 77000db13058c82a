use super::flow_lists::FlowLists;
use super::gro_limit_guard::{GroLimitGuard, OriginalGroLimits};
use super::host::check_forwarding;
use super::plan::{DirectPlan, division_chain};
use crate::config::{GatewayConfig, RemoteSite};
use crate::ratio::{PathRatio, RatioError};
use crate::status::{GatewayStatus, Traffic};
use kumade_daemon::{InstalledRoutes, Journal, NameLockError, NamespaceLock, RuntimeDir};
use kumade_net::forwarding::MissingForwarding;
use kumade_net::nftables::{CounterValue, InstalledTable};
use kumade_net::policy_routing::{MarkedRoute, PolicyRoute};
use kumade_net::{SetupError, clock, interface};
use kumade_units::Time;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Packets are divided among the paths, by the kernel, until this is dropped; then everything is as before.
///
/// A network namespace has one at a time. It stays with the namespace of the thread that starts it, and must be dropped in
/// that namespace.
#[derive(Debug)]
pub struct DirectPlane {
    config: Arc<GatewayConfig>,
    plan: DirectPlan,
    /// Of each remote site's paths, as last set.
    weights: Vec<Vec<u32>>,
    /// Whether each path's interface was up when last looked at.
    is_up: Vec<bool>,
    /// When each came into that state.
    state_since: Vec<Time>,
    /// How often each was gone.
    failures: Vec<u64>,
    // In the order in which they go: rules that mark packets, the routes of the marks with the record of them, and the claim.
    table: Arc<InstalledTable>,
    gro_limits: Vec<GroLimitGuard>,
    _routes: InstalledRoutes<MarkedRoute>,
    journal: Journal,
    _namespace_lock: NamespaceLock,
}

/// Packets of hosts that were given to a path. Some may be dropped by this host's own rules on their way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCount {
    /// The path's name.
    pub path: String,
    /// Since the start.
    pub sent: CounterValue,
}

/// Why packets cannot be divided.
#[derive(Debug, Error)]
pub enum DirectError {
    /// The host does not forward.
    #[error(transparent)]
    Forwarding(#[from] MissingForwarding),
    /// The system refuses a rule or a route.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The kernel cannot divide packets so.
    #[error(transparent)]
    Ratio(#[from] RatioError),
    /// A remote site would get no packets.
    #[error("no path to remote `{0}` has a weight above 0")]
    NoWeight(String),
    /// Another gateway runs in this namespace.
    #[error("this network namespace has a gateway already (process {process}): end that one first")]
    NamespaceTaken {
        /// Its process, or `unknown`.
        process: String,
    },
    /// The system refuses the name that stands for it.
    #[error(transparent)]
    NamespaceLock(NameLockError),
    /// What is to be undone cannot be written down.
    #[error("cannot write down which routes are added, so that they could be removed after a crash: {0}")]
    Journal(io::Error),
}

impl DirectPlane {
    /// Puts a configuration into effect, after removing what a killed gateway has left here.
    ///
    /// # Errors
    /// The host does not forward, another gateway runs, or the system refuses something; nothing is left behind then.
    pub fn start(config: &GatewayConfig, directory: RuntimeDir) -> Result<Self, DirectError> {
        let plan = DirectPlan::new(config);
        let claim = NamespaceLock::new("gateway").map_err(|error| match error {
            NameLockError::Taken { process, .. } => DirectError::NamespaceTaken { process },
            error => DirectError::NamespaceLock(error),
        })?;
        let journal = Journal::new(directory);
        InstalledRoutes::recover(&journal);
        journal.recover::<OriginalGroLimits>();
        for warning in check_forwarding(&plan)? {
            tracing::warn!("{warning}");
        }
        // From here on, dropped where something fails.
        let routes = InstalledRoutes::record(plan.routes.clone(), &journal).map_err(DirectError::Journal)?;
        routes.install()?;
        let batches = limit_batch_sizes(&plan, &journal)?;
        let table = Arc::new(InstalledTable::install(&plan.table)?);
        Ok(DirectPlane {
            weights: config.remotes.iter().map(|remote| configured_weights(config, remote)).collect(),
            is_up: vec![true; config.paths.len()],
            state_since: vec![clock::monotonic(); config.paths.len()],
            failures: vec![0; config.paths.len()],
            config: Arc::new(config.clone()),
            plan,
            table,
            gro_limits: batches,
            journal,
            _routes: routes,
            _namespace_lock: claim,
        })
    }

    /// The single flows in its rules.
    pub fn flow_lists(&self) -> FlowLists {
        FlowLists::new(self.config.clone(), self.table.clone())
    }

    pub(super) fn config(&self) -> &Arc<GatewayConfig> {
        &self.config
    }

    /// Divides packets to a remote site in another ratio from now on. `weights` are those of its paths, in their order.
    ///
    /// # Errors
    /// The ratio is too fine, or no path has a weight; then nothing is changed. Or the rules are gone.
    pub fn set_weights(&mut self, remote: usize, weights: &[u32]) -> Result<(), DirectError> {
        if PathRatio::new(weights.iter().copied())?.is_zero() {
            return Err(DirectError::NoWeight(self.config.remotes[remote].name.clone()));
        }
        self.weights[remote] = weights.to_vec();
        self.install_division()
    }

    /// The weights of a remote site's paths, in their order.
    pub fn weights(&self, remote: usize) -> &[u32] {
        &self.weights[remote]
    }

    /// Looks at the paths' interfaces: packets leave by those that are up, as long as there is one. Routes that went with an
    /// interface are set again once it is back; until all of a path's are, it counts as down. To be called about ten times a
    /// second.
    ///
    /// # Errors
    /// The rules are gone.
    pub fn update_interfaces(&mut self) -> Result<(), DirectError> {
        self.gro_limits.iter_mut().for_each(|guard| guard.follow_interface(&self.journal));
        let is_up: Vec<bool> =
            (0..self.config.paths.len()).map(|path| is_usable(&self.config, &self.plan, path)).collect();
        if is_up == self.is_up {
            return Ok(());
        }
        for (place, path) in self.config.paths.iter().enumerate() {
            let (before, now) = (self.is_up[place], is_up[place]);
            if before != now {
                self.state_since[place] = clock::monotonic();
                self.failures[place] += u64::from(before);
            }
            match (before, now) {
                (true, false) => tracing::warn!("path {} is down: no packets take it until it is back", path.name),
                (false, true) => tracing::warn!("path {} is up again", path.name),
                _ => {}
            }
        }
        self.is_up = is_up;
        self.install_division()
    }

    /// Whether packets take each path, as last looked at.
    pub fn paths_up(&self) -> &[bool] {
        &self.is_up
    }

    /// Divides packets among the paths that are up. Where a remote site has none, it is left as it is.
    fn install_division(&self) -> Result<(), DirectError> {
        for (remote, weights) in self.config.remotes.iter().zip(&self.weights) {
            let ratio = self.ratio_of_usable_paths(remote, weights)?;
            if !ratio.is_zero() {
                self.table.replace_rules(&division_chain(&self.config, remote, &ratio))?;
            }
        }
        Ok(())
    }

    /// Where the weights leave out all paths that are up, those of the configuration count.
    fn ratio_of_usable_paths(&self, remote: &RemoteSite, weights: &[u32]) -> Result<PathRatio, RatioError> {
        let of_those_up = |weights: &[u32]| {
            let weights = remote.paths.iter().zip(weights);
            PathRatio::new(weights.map(|(path, weight)| if self.is_up[*path] { *weight } else { 0 }))
        };
        let ratio = of_those_up(weights)?;
        if ratio.is_zero() { of_those_up(&configured_weights(&self.config, remote)) } else { Ok(ratio) }
    }

    /// What was given to each path, in their order.
    ///
    /// # Errors
    /// The rules are gone.
    pub fn path_counts(&self) -> Result<Vec<PathCount>, SetupError> {
        let counts = self.table.counter_values()?;
        let sent = |name: &str| counts.get(name).copied().unwrap_or_default();
        let paths = self.config.paths.iter();
        Ok(paths
            .map(|path| PathCount { path: path.name.clone(), sent: sent(&DirectPlan::path_counter_name(path)) })
            .collect())
    }

    /// Enters what the plane knows into the status of the gateway, which has the names. `now` is the monotonic clock's time.
    ///
    /// # Errors
    /// The rules are gone.
    pub fn fill_status(&self, status: &mut GatewayStatus, now: Time) -> Result<(), SetupError> {
        for (place, (path, PathCount { sent, .. })) in status.paths.iter_mut().zip(self.path_counts()?).enumerate() {
            path.up = self.is_up[place];
            path.state_seconds = (now - self.state_since[place]).as_secs_f64();
            path.failures = self.failures[place];
            path.sent = Traffic { packets: sent.packets, bytes: sent.bytes, bits_per_second: None };
        }
        for (remote, weights) in status.remotes.iter_mut().zip(&self.weights) {
            remote.paths.iter_mut().zip(weights).for_each(|(path, weight)| path.weight = Some(*weight));
        }
        Ok(())
    }
}

fn configured_weights(config: &GatewayConfig, remote: &RemoteSite) -> Vec<u32> {
    remote.paths.iter().map(|&path| config.paths[path].weight).collect()
}

/// Whether packets can leave by a path: its interface is up, and its routes are there, or can be set again.
fn is_usable(config: &GatewayConfig, plan: &DirectPlan, path: usize) -> bool {
    let try_all = || plan.path_routes(path).try_for_each(|route| route.restore().map(drop));
    interface::is_running(&config.paths[path].interface)
        && try_all().inspect_err(|error| tracing::debug!("path {}: {error}", config.paths[path].name)).is_ok()
}

fn limit_batch_sizes(plan: &DirectPlan, journal: &Journal) -> Result<Vec<GroLimitGuard>, SetupError> {
    let bytes = plan.max_batch_bytes.into_iter();
    bytes
        .flat_map(|bytes| plan.local_interfaces.iter().map(move |input| GroLimitGuard::new(input, bytes, journal)))
        .collect()
}
