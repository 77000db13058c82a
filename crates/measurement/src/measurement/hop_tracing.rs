//! How far the look at the routers on the way up is.

use crate::path::TraceProbe;
use kumade_probe_train::HopTrace;
use kumade_units::Time;

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct HopTracing {
    pub(super) probe: Option<TraceProbe>,
    pub(super) end: Option<Time>,
    /// Whether packets to the far end were requested, whose record has not come.
    pub(super) awaits_arrivals: bool,
    /// What was requested of routers.
    pub(super) pending: Option<HopTrace>,
    is_over: bool,
    /// Why the routers were not asked.
    pub(super) failure: Option<String>,
}

impl HopTracing {
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn end_with(&mut self, failure: impl Into<Option<String>>) {
        (self.is_over, self.pending, self.awaits_arrivals) = (true, None, false);
        self.failure = failure.into().map(|why| format!("the routers' own answers: {why}"));
    }
}
