use super::fast_path::DirectFastPath;
use super::flow_lists::FlowLists;
use super::gro_limit_guard::{GroLimitGuard, OriginalGroLimits};
use super::host::check_forwarding;
use super::plan::{DirectPlan, division_chain};
use super::reverse_path::ReversePathGuards;
use crate::config::{GatewayConfig, GatewayPath, RemoteSite};
use crate::ratio::{PathRatio, RatioError};
use crate::status::{GatewayStatus, Traffic};
use kumade_daemon::{
    ChangedSetting, InstalledRoutes, Journal, NameLockError, NamespaceLock, RouteChangeError, RuntimeDir,
};
use kumade_net::forwarding::MissingForwarding;
use kumade_net::nftables::{CounterValue, InstalledTable, Statement, Table};
use kumade_net::policy_routing::{MarkedRoute, PolicyRoute};
use kumade_net::{SetupError, clock, interface};
use kumade_units::Time;
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
    /// The table as it is now.
    rules: Table,
    /// Whether rules tell of new flows: where the kernel cannot, these are looked for.
    logs_new_flows: bool,
    /// Of each remote site's paths, as last set.
    weights: Vec<Vec<u32>>,
    /// Whether each path's interface was up when last looked at.
    is_up: Vec<bool>,
    /// When each came into that state.
    state_since: Vec<Time>,
    /// How often each was gone.
    failures: Vec<u64>,
    // In the order in which they go: the fast path, rules that mark packets, the routes of the marks with the record of them, and the claim.
    fast_path: DirectFastPath,
    table: Arc<InstalledTable>,
    gro_limits: Vec<GroLimitGuard>,
    reverse_paths: ReversePathGuards,
    routes: InstalledRoutes<MarkedRoute>,
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
    /// The system refuses routes, or which are to be removed after a crash cannot be written down.
    #[error(transparent)]
    Routes(#[from] RouteChangeError),
}

impl DirectPlane {
    /// Puts a configuration into effect, after removing what a killed gateway has left here.
    ///
    /// # Errors
    /// The host does not forward, another gateway runs, or the system refuses something; nothing is left behind then.
    pub fn start(config: &GatewayConfig, directory: RuntimeDir) -> Result<Self, DirectError> {
        Self::start_with(config, directory, DirectFastPath::load(config))
    }

    /// The same with a fast path that was loaded before, for a process that has given up the capabilities for that.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        config: &GatewayConfig,
        directory: RuntimeDir,
        fast_path: DirectFastPath,
    ) -> Result<Self, DirectError> {
        let plan = DirectPlan::new(config);
        let claim = NamespaceLock::new("gateway").map_err(|error| match error {
            NameLockError::Taken { process, .. } => DirectError::NamespaceTaken { process },
            error => DirectError::NamespaceLock(error),
        })?;
        let journal = Journal::new(directory);
        InstalledRoutes::recover(&journal);
        journal.recover::<OriginalGroLimits>();
        ChangedSetting::recover(&journal);
        check_forwarding(&plan)?;
        // From here on, dropped where something fails.
        let routes = InstalledRoutes::record(plan.routes.clone(), &journal)?;
        routes.install()?;
        let mut batches = Vec::new();
        limit_batch_sizes(&mut batches, &plan, &journal)?;
        let mut reverse_paths = ReversePathGuards::default();
        reverse_paths.set_interfaces(plan.filtered_interfaces(), &journal);
        let (table, rules) = install_rules(&plan.table)?;
        let mut plane = DirectPlane {
            fast_path,
            weights: config.remotes.iter().map(|remote| configured_weights(config, remote)).collect(),
            is_up: vec![true; config.paths.len()],
            state_since: vec![clock::monotonic(); config.paths.len()],
            failures: vec![0; config.paths.len()],
            config: Arc::new(config.clone()),
            logs_new_flows: rules == plan.table,
            rules,
            plan,
            table: Arc::new(table),
            gro_limits: batches,
            reverse_paths,
            journal,
            routes,
            _namespace_lock: claim,
        };
        plane.update_fast_path()?;
        Ok(plane)
    }

    /// The single flows in its rules.
    pub fn flow_lists(&self) -> FlowLists {
        FlowLists::new(self.config.clone(), self.table.clone(), self.fast_path.flows())
    }

    pub(super) fn logs_new_flows(&self) -> bool {
        self.logs_new_flows
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
    /// interface are set again once it is back; until all of a path's are, it counts as down. Looks also for packet rules of others, which the
    /// fast path is not to pass by. To be called where interfaces or routes change, and once a second.
    ///
    /// # Errors
    /// The rules are gone.
    pub fn update_interfaces(&mut self) -> Result<(), DirectError> {
        self.follow_interfaces()?;
        self.fast_path.tell_changes();
        Ok(())
    }

    fn follow_interfaces(&mut self) -> Result<(), DirectError> {
        self.gro_limits.iter_mut().for_each(|guard| guard.follow_interface(&self.journal));
        self.reverse_paths.follow_interfaces(&self.journal);
        let is_up: Vec<bool> =
            (0..self.config.paths.len()).map(|path| is_usable(&self.config, &self.plan, path)).collect();
        if is_up == self.is_up {
            return self.update_fast_path();
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
    fn install_division(&mut self) -> Result<(), DirectError> {
        let rules = self.divide_rules(self.rules.clone())?;
        self.table.change(&self.rules, &rules)?;
        self.rules = rules;
        self.update_fast_path()
    }

    /// Brings the fast path into accord with the rules, and with the host.
    fn update_fast_path(&mut self) -> Result<(), DirectError> {
        let sites = self.config.remotes.iter().zip(&self.weights);
        let ratios: Vec<_> =
            sites.map(|(remote, weights)| self.ratio_of_usable_paths(remote, weights)).collect::<Result<_, _>>()?;
        self.fast_path.update(&self.config, &self.plan, &ratios);
        Ok(())
    }

    /// Whether packets that need nothing else of this host are forwarded before packet rules: by BPF programs, where the kernel lets
    /// them in, and nobody else has packet rules here.
    pub fn uses_fast_path(&self) -> bool {
        self.fast_path.is_used()
    }

    /// These rules, with the division among the paths that are up.
    fn divide_rules(&self, mut rules: Table) -> Result<Table, DirectError> {
        if !self.logs_new_flows {
            rules = rules_without_logs(rules);
        }
        for (remote, weights) in self.config.remotes.iter().zip(&self.weights) {
            let ratio = self.ratio_of_usable_paths(remote, weights)?;
            if !ratio.is_zero() {
                let division = division_chain(&self.config, remote, &ratio);
                rules
                    .chains
                    .iter_mut()
                    .filter(|chain| chain.name == division.name)
                    .for_each(|chain| *chain = division.clone());
            }
        }
        Ok(rules)
    }

    /// Takes over another configuration while packets pass: what is as it was carries on, with its counts. Weights that were
    /// [set](Self::set_weights) stay where those of the configuration do. What [`GatewayConfig::changes_to`] refuses must be as it
    /// was.
    ///
    /// # Errors
    /// As [`start`](Self::start); then it is as before.
    pub fn reconfigure(&mut self, config: &GatewayConfig) -> Result<(), DirectError> {
        let plan = DirectPlan::new(config);
        check_forwarding(&plan)?;
        let before = (self.config.clone(), self.plan.clone());
        let outcome = self.apply_config(Arc::new(config.clone()), plan);
        if outcome.is_err()
            && let Err(error) = self.apply_config(before.0, before.1)
        {
            tracing::error!("cannot go back to the configuration before: {error}");
        }
        outcome
    }

    fn apply_config(&mut self, config: Arc<GatewayConfig>, plan: DirectPlan) -> Result<(), DirectError> {
        self.routes.replace(plan.routes.clone(), &self.journal)?;
        limit_batch_sizes(&mut self.gro_limits, &plan, &self.journal)?;
        self.reverse_paths.set_interfaces(plan.filtered_interfaces(), &self.journal);
        let weights = config.remotes.iter().map(|remote| self.weights_for(&config, remote)).collect();
        let before = |path: &GatewayPath| self.config.paths.iter().position(|old| old.name == path.name);
        let now = clock::monotonic();
        let states = config.paths.iter().map(|path| match before(path) {
            Some(place) => (self.is_up[place], self.state_since[place], self.failures[place]),
            // If not, that is noticed soon.
            None => (true, now, 0),
        });
        let (is_up, (state_since, failures)) = states.map(|(up, since, failures)| (up, (since, failures))).unzip();
        (self.config, self.plan, self.weights) = (config, plan, weights);
        (self.is_up, self.state_since, self.failures) = (is_up, state_since, failures);
        let rules = self.divide_rules(self.plan.table.clone())?;
        self.table.change(&self.rules, &rules)?;
        self.rules = rules;
        self.update_fast_path()
    }

    /// The weights of a remote site's paths: as they are, where the configuration has the same ones for the same paths.
    fn weights_for(&self, config: &GatewayConfig, remote: &RemoteSite) -> Vec<u32> {
        let configured = configured_weights(config, remote);
        let names = |config: &GatewayConfig, remote: &RemoteSite| -> Vec<String> {
            remote.paths.iter().map(|path| config.paths[*path].name.clone()).collect()
        };
        let place = self.config.remotes.iter().position(|old| old.name == remote.name);
        let kept = place.filter(|place| {
            let old = &self.config.remotes[*place];
            configured_weights(&self.config, old) == configured && names(&self.config, old) == names(config, remote)
        });
        kept.map_or(configured, |place| self.weights[place].clone())
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
        let by_rules =
            |path: &GatewayPath| counts.get(&DirectPlan::path_counter_name(path)).copied().unwrap_or_default();
        let count = |(place, path): (usize, &GatewayPath)| {
            let sent = by_rules(path) + self.fast_path.path_count(place)?;
            Ok(PathCount { path: path.name.clone(), sent })
        };
        self.config.paths.iter().enumerate().map(count).collect()
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

/// Without what tells of new flows, if the kernel cannot; returns also what was installed.
fn install_rules(rules: &Table) -> Result<(InstalledTable, Table), SetupError> {
    InstalledTable::install(rules).map(|table| (table, rules.clone())).or_else(|error| {
        let silent = rules_without_logs(rules.clone());
        if silent == *rules {
            return Err(error);
        }
        let table = InstalledTable::install(&silent)?;
        tracing::warn!("{error}; it is installed without logs, and flows are looked for ten times a second");
        Ok((table, silent))
    })
}

fn rules_without_logs(mut rules: Table) -> Table {
    let all = rules.chains.iter_mut().flat_map(|chain| &mut chain.rules);
    all.for_each(|rule| rule.0.retain(|statement| !matches!(statement, Statement::Log(_))));
    rules
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

/// Has the limits of this plan in place of those that there are.
fn limit_batch_sizes(guards: &mut Vec<GroLimitGuard>, plan: &DirectPlan, journal: &Journal) -> Result<(), SetupError> {
    let Some(bytes) = plan.max_batch_bytes else {
        guards.clear();
        return Ok(());
    };
    guards.retain(|guard| plan.local_interfaces.iter().any(|input| guard.bounds(input, bytes)));
    for input in &plan.local_interfaces {
        if !guards.iter().any(|guard| guard.bounds(input, bytes)) {
            guards.push(GroLimitGuard::new(input, bytes, journal)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::nftables::{Chain, Rule};

    #[test]
    fn rules_without_logs_are_the_same_otherwise() {
        let rules = |statements: [Vec<Statement>; 2]| {
            let chain = Chain { name: "choose".into(), hook: None, rules: statements.map(Rule).into() };
            Table { name: "kumade".into(), counters: vec![], flow_lists: vec![], chains: vec![chain] }
        };
        let (note, end) = (vec![Statement::Protocol(17), Statement::Log(1)], vec![Statement::Return]);
        let silent = rules([vec![Statement::Protocol(17)], end.clone()]);
        assert_eq!(rules_without_logs(rules([note, end])), silent);
        assert_eq!(rules_without_logs(silent.clone()), silent);
    }
}
