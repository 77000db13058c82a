use crate::journal::{Journal, Leftover, Reach, Record};
use net::SetupError;
use net::interface::{self, Family};
use net::namespace;
use net::policy::{self, MarkedRoute};
use serde::{Deserialize, Serialize};

use std::io;

/// Policy routes of this process: routing rules and tables, of which a [`Journal`] knows in case it is killed. They are
/// removed when this is dropped, in the namespace of the thread that does.
#[derive(Debug)]
pub struct InstalledRoutes {
    routes: Vec<MarkedRoute>,
    leftover: Routes,
    _record: Record,
}

/// What is written down of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Routes {
    /// The network namespace: its inode.
    namespace: u64,
    /// Numbers of tables with the IP version, 4 or 6.
    tables: Vec<(u32, u8)>,
}

impl InstalledRoutes {
    /// Removes what killed gateways have left in this namespace.
    pub fn recover(journal: &Journal) {
        journal.recover::<Routes>();
    }

    /// Writes down which routes [`add`](Self::add) adds. No other process may have any of their numbers.
    ///
    /// # Errors
    /// It cannot be written down: should the process be killed, they would stay.
    pub fn record(routes: Vec<MarkedRoute>, journal: &Journal) -> io::Result<Self> {
        let leftover = Routes::new(namespace::current_inode()?, &routes);
        let record = journal.record(&leftover)?;
        Ok(InstalledRoutes { routes, leftover, _record: record })
    }

    /// # Errors
    /// The system refuses one; the others are removed with this.
    pub fn add(&self) -> Result<(), SetupError> {
        self.routes.iter().try_for_each(MarkedRoute::add)
    }

    /// Sets again what the kernel has dropped with an interface that is back.
    pub fn restore(&self) {
        for route in self.routes.iter().filter(|route| interface::is_running(&route.interface)) {
            if !route.is_set().is_ok_and(|is_set| is_set)
                && let Err(error) = route.set_route()
            {
                tracing::debug!("{error}");
            }
        }
    }
}

impl Drop for InstalledRoutes {
    fn drop(&mut self) {
        if let Err(error) = self.leftover.undo() {
            tracing::warn!("routes stay behind: {error}");
        }
    }
}

impl Routes {
    fn new(namespace: u64, routes: &[MarkedRoute]) -> Self {
        Routes { namespace, tables: routes.iter().map(|route| (route.number, version(route.family))).collect() }
    }
}

impl Leftover for Routes {
    const KIND: &'static str = "gateway-routes";
    type Error = SetupError;

    fn reach(&self) -> Reach {
        if namespace::current_inode().ok() == Some(self.namespace) { Reach::Here } else { Reach::Elsewhere }
    }

    fn undo(&self) -> Result<(), SetupError> {
        self.tables.iter().try_for_each(|&(number, version)| {
            policy::remove(number, if version == 4 { Family::V4 } else { Family::V6 })
        })
    }
}

fn version(family: Family) -> u8 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}
