//! How far the look at the routers on the way is, up and then down.

use crate::path::TraceProbe;
use crate::step::TraceRequest;
use kumade_units::{Direction, Time};

/// How far it is.
#[derive(Debug)]
pub(super) struct HopTracing {
    /// Up, and down.
    pub(super) probes: [Option<TraceProbe>; 2],
    /// Which way is looked at now, or next; none once it is over.
    pub(super) direction: Option<Direction>,
    pub(super) end: Option<Time>,
    /// Whether packets to the receiver were requested, whose record has not come.
    pub(super) awaits_arrivals: bool,
    /// What was requested of routers.
    pub(super) pending: Option<TraceRequest>,
    /// Why routers were not asked.
    pub(super) failures: Vec<String>,
}

impl HopTracing {
    pub(super) fn new() -> Self {
        HopTracing {
            probes: [None, None],
            direction: Some(Direction::Up),
            end: None,
            awaits_arrivals: false,
            pending: None,
            failures: Vec::new(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.direction.is_none()
    }

    /// The probe of the direction that is looked at.
    pub(super) fn probe(&mut self) -> Option<&mut TraceProbe> {
        self.probes[self.direction? as usize].as_mut()
    }

    /// Ends that direction.
    pub(super) fn end_with(&mut self, failure: impl Into<Option<String>>) {
        (self.pending, self.awaits_arrivals) = (None, false);
        let Some(direction) = self.direction else { return };
        self.direction = (direction == Direction::Up).then_some(Direction::Down);
        self.failures.extend(failure.into().map(|why| format!("the routers on the way {direction}: {why}")));
    }
}
