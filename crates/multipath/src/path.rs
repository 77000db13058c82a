//! One path: its number, state, MTU, reports, and what threads that send on it have in common.

pub(crate) mod id;
pub(crate) mod long_packets;
pub(crate) mod mtu;
pub(crate) mod report;
pub(crate) mod sent_log;
pub(crate) mod shared;
pub(crate) mod shared_set;
pub(crate) mod state;
