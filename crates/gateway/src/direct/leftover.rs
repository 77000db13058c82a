//! What stays of a gateway that is killed: routing rules and tables.

use net::SetupError;
use net::interface::Family;
use net::namespace;
use net::policy::{self, MarkedRoute};
use serde::{Deserialize, Serialize};
use service::{Leftover, Reach};

/// The routes of one gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Routes {
    /// The network namespace: its inode.
    namespace: u64,
    /// Numbers of tables with the IP version, 4 or 6.
    tables: Vec<(u32, u8)>,
}

impl Routes {
    pub(super) fn new(namespace: u64, routes: &[MarkedRoute]) -> Self {
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
