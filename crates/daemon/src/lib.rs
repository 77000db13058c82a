//! What every daemon of this workspace needs, once: a resource has one owner at a time ([`NameLock`],
//! [`NamespaceLock`]); a running service is asked and changed through a control socket with typed requests ([`Registry`]);
//! metrics are fetched by Prometheus ([`Exporter`]); where there is not room for all who connect, the busiest network gives
//! way ([`FairAdmission`]), and those who use a thread have equal parts of its time ([`FairTurns`]); a signal ends it cleanly ([`signals`]); and what it changed in the system is undone by the next one
//! where it was killed ([`Journal`]).
//!
//! All of it is plain threads. Files are in a [`RuntimeDir`], which only its user may enter. A client of either socket,
//! whatever it sends or fails to send, costs a bounded amount of memory and time: messages have a maximum size, and each
//! conversation a deadline.
#![forbid(unsafe_code)]

mod activity_watch;
mod changed_setting;
pub mod config_changes;
mod config_fault;
mod control;
mod deadline_stream;
mod exporter;
mod fair_admission;
mod fair_turns;
mod host_name;
mod journal;
mod listen_address;
mod listener_thread;
mod lock_file;
pub mod metrics;
mod metrics_format;
mod name_lock;
mod namespace_lock;
mod network;
mod network_budgets;
mod policy_routes;
mod private_directory;
mod runtime_dir;
pub mod signals;
mod socket_file;
mod table;
mod time_budget;

pub use activity_watch::{ActivityWatch, EndNotice};
pub use changed_setting::ChangedSetting;
pub use config_fault::{
    ConfigError, ConfigFault, NumberOrText, check_names, find_repeated, parse_config, parse_spanned,
};
pub use control::{ClaimedName, ControlError, ControlServer, Protocol, Registry};
pub use exporter::{Exporter, ExporterError};
pub use fair_admission::FairAdmission;
pub use fair_turns::FairTurns;
pub use host_name::is_own_host;
pub use journal::{Journal, Leftover, Record, RecordedChange};
pub use listen_address::{ListenAddressError, listen_address, metrics_address};
pub use name_lock::{NameLock, NameLockError, check_name};
pub use namespace_lock::NamespaceLock;
pub use network::Network;
pub use network_budgets::NetworkBudgets;
pub use policy_routes::{InstalledRoutes, RouteChangeError};
pub use private_directory::PrivateDirectory;
pub use runtime_dir::{NoRuntimeDir, RuntimeDir};
pub use table::{
    Column, UNKNOWN_VALUE, format_age, format_known, format_percent, format_rate, write_columns, write_table,
};
pub use time_budget::TimeBudget;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
