//! By which path each packet goes.

pub(crate) mod flow_table;
pub(crate) mod path_scheduler;
pub(crate) mod policy;
pub(crate) mod rendezvous_hash;
