//! How far the look at ports, and the search for idle timeouts, are.

use crate::path::{IdleTimeoutProbe, PortsProbe};
use crate::report::{IdleTimeoutsReport, PortsReport};

/// How far the look at ports is.
#[derive(Debug, Default)]
pub(super) struct PortProbing {
    pub(super) probe: Option<PortsProbe>,
    pub(super) is_over: bool,
    /// Why not all of it was looked at.
    pub(super) failure: Option<String>,
}

impl PortProbing {
    pub(super) fn report(&self) -> Option<PortsReport> {
        Some(self.probe.as_ref()?.report(self.failure.clone()))
    }
}

/// How far the search for idle timeouts is.
#[derive(Debug, Default)]
pub(super) struct IdleFlowSearch {
    pub(super) probe: Option<IdleTimeoutProbe>,
    pub(super) is_over: bool,
    /// Why not all of it was looked at.
    pub(super) failure: Option<String>,
}

impl IdleFlowSearch {
    pub(super) fn report(&self) -> Option<IdleTimeoutsReport> {
        Some(self.probe.as_ref()?.report(self.failure.clone()))
    }
}
