//! Packet rules in the kernel, by nf_tables over netlink: the program nft(8) is not needed.
//!
//! A [`Table`] is a value; written out, it reads as nft(8) would list it. [`InstalledTable::install`] makes all of it take
//! effect at one instant, or nothing. The table belongs to the socket that installed it (`flags owner`, Linux 5.12): no other
//! program changes it, and when this process ends, however that happens, the kernel removes it.

mod encode;
mod expressions;
mod flow;
mod installed;
mod log_watch;
mod table;

pub use flow::{FlowList, FlowListKind};
pub use installed::{CounterValue, FlowChange, InstalledTable};
pub use log_watch::LogWatch;
pub use table::{Chain, Hook, Rule, Statement, Table};
