//! What trains and delays say of a method's outcome, and the further trains that are planned to tell.

pub(crate) mod aggregation;
pub(crate) mod flow_queueing;
pub(crate) mod flow_queueing_test;
pub(crate) mod host_limit;
pub(crate) mod jitter;
pub(crate) mod policing;
pub(crate) mod stamp_scatter;
pub(crate) mod utilization;
pub(crate) mod varying_link;
