use crate::journal::{Journal, Leftover, RecordedChange};
use kumade_net::SetupError;
use kumade_net::interface::Family;
use kumade_net::policy_routing::{NetworkRefusal, PolicyRoute, RouteRemnant};
use serde::{Deserialize, Serialize};
use std::io;
use thiserror::Error;

/// Policy routes of this process: routing rules and tables, of which a [`Journal`] knows in case it is killed. They are
/// removed when this is dropped, in the namespace of the thread that does.
#[derive(Debug)]
pub struct InstalledRoutes<R> {
    routes: Vec<R>,
    recorded: RecordedChange<RoutesLeftover>,
}

/// What is written down of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RoutesLeftover {
    /// Numbers of tables with the IP version, 4 or 6.
    tables: Vec<(u32, u8)>,
    #[serde(default)]
    refusals: Vec<NetworkRefusal>,
}

impl InstalledRoutes<()> {
    /// Removes what killed gateways and tunnels have left in this namespace.
    pub fn recover(journal: &Journal) {
        journal.recover::<RoutesLeftover>();
    }
}

impl<R: PolicyRoute> InstalledRoutes<R> {
    /// Writes down which routes [`install`](Self::install) adds. No other process may have any of their numbers.
    ///
    /// # Errors
    /// It cannot be written down: should the process be killed, they would stay.
    pub fn record(routes: Vec<R>, journal: &Journal) -> Result<Self, RouteChangeError> {
        let recorded = RecordedChange::new(RoutesLeftover::new(&routes), journal)?;
        Ok(InstalledRoutes { routes, recorded })
    }

    /// Adds them, in the namespace of the calling thread.
    ///
    /// # Errors
    /// The system refuses one; the others are removed.
    pub fn install(&self) -> Result<(), SetupError> {
        let installed = self.routes.iter().try_for_each(PolicyRoute::install);
        installed.inspect_err(|_| self.routes.iter().for_each(|route| drop(route.remove())))
    }

    /// Has these routes in place of those before; routes that are among both stay as they are.
    ///
    /// # Errors
    /// They cannot be written down, or the system refuses one. Then those before are there, as far as the system takes them again.
    pub fn replace(&mut self, routes: Vec<R>, journal: &Journal) -> Result<(), RouteChangeError>
    where
        R: PartialEq,
    {
        let leftover = RoutesLeftover::new(&routes);
        // Whatever happens on the way.
        self.recorded.replace(self.recorded.leftover().clone().with(leftover.clone()), journal)?;
        let before = std::mem::replace(&mut self.routes, routes);
        if let Err(error) = change_routes(&before, &self.routes) {
            // Of what is not there, nothing is removed, and what is there already is not added.
            if let Err(error) = change_routes(&self.routes, &before) {
                tracing::warn!("the routes of before are not whole again: {error}");
            }
            self.routes = before;
            return Err(error.into());
        }
        self.recorded.replace(leftover, journal)?;
        Ok(())
    }

    /// Adds those again that the kernel has dropped with an interface. Returns how many were gone and are back, and how many
    /// still are gone, since their interface is.
    pub fn restore(&self) -> (usize, usize) {
        let restored: Vec<_> = self.routes.iter().map(PolicyRoute::restore).collect();
        let count =
            |is_counted: fn(&Result<bool, SetupError>) -> bool| restored.iter().filter(|one| is_counted(one)).count();
        (count(|one| matches!(one, Ok(true))), count(Result::is_err))
    }
}

/// Has some routes in place of others; what is in both stays as it is, and a route that only changes is there at any time.
fn change_routes<R: PolicyRoute + PartialEq>(before: &[R], after: &[R]) -> Result<(), SetupError> {
    let is_successor = |one: &R, other: &R| one.remnants() == other.remnants();
    // Another one may have had the number of a new one.
    for gone in before.iter().filter(|old| !after.iter().any(|new| new == *old || is_successor(new, old))) {
        gone.remove()?;
    }
    for new in after.iter().filter(|new| !before.contains(new)) {
        if before.iter().any(|old| is_successor(new, old)) { new.replace()? } else { new.install()? }
    }
    Ok(())
}

/// Why routes are not changed.
#[derive(Debug, Error)]
pub enum RouteChangeError {
    /// What is to be undone cannot be written down.
    #[error("cannot write down which routes are added, so that they could be removed after a crash: {0}")]
    Record(#[from] io::Error),
    /// The system refuses a route.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl RoutesLeftover {
    fn new(routes: &[impl PolicyRoute]) -> Self {
        let mut leftover = RoutesLeftover { tables: Vec::new(), refusals: Vec::new() };
        for remnant in routes.iter().flat_map(PolicyRoute::remnants) {
            match remnant {
                RouteRemnant::Table(number, family) => leftover.tables.push((number, family.version())),
                RouteRemnant::Refusal(refusal) => leftover.refusals.push(refusal),
            }
        }
        leftover
    }

    fn with(mut self, other: Self) -> Self {
        self.tables.extend(other.tables.into_iter().filter(|table| !self.tables.contains(table)).collect::<Vec<_>>());
        self.refusals.extend(other.refusals.into_iter().filter(|one| !self.refusals.contains(one)).collect::<Vec<_>>());
        self
    }
}

impl Leftover for RoutesLeftover {
    const KIND: &'static str = "policy-routes";
    type Error = SetupError;

    fn exists(&self) -> bool {
        // What is gone of them already need not be removed.
        true
    }

    fn undo(&self) -> Result<(), SetupError> {
        let family = |version| if version == Family::V4.version() { Family::V4 } else { Family::V6 };
        let tables = self.tables.iter().map(|&(number, version)| RouteRemnant::Table(number, family(version)));
        let refusals = self.refusals.iter().copied().map(RouteRemnant::Refusal);
        tables.chain(refusals).try_for_each(|remnant| remnant.remove())
    }

    fn stays(&self) -> String {
        "routes stay behind until a gateway or tunnel starts".to_owned()
    }
}
