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

#[cfg(target_os = "linux")]
mod activity_watch;
#[cfg(target_os = "linux")]
mod changed_setting;
#[cfg(target_os = "linux")]
pub mod config_changes;
#[cfg(target_os = "linux")]
mod config_fault;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod deadline_stream;
#[cfg(target_os = "linux")]
mod exporter;
#[cfg(target_os = "linux")]
mod fair_admission;
#[cfg(target_os = "linux")]
mod fair_turns;
#[cfg(target_os = "linux")]
mod journal;
#[cfg(target_os = "linux")]
mod listen_address;
#[cfg(target_os = "linux")]
mod listener_thread;
#[cfg(target_os = "linux")]
mod lock_file;
#[cfg(target_os = "linux")]
pub mod metrics;
#[cfg(target_os = "linux")]
mod metrics_format;
#[cfg(target_os = "linux")]
mod name_lock;
#[cfg(target_os = "linux")]
mod namespace_lock;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod network_budgets;
#[cfg(target_os = "linux")]
mod policy_routes;
#[cfg(target_os = "linux")]
mod private_directory;
mod replace_files;
#[cfg(target_os = "linux")]
mod runtime_dir;
#[cfg(target_os = "linux")]
pub mod signals;
#[cfg(target_os = "linux")]
mod socket_file;
#[cfg(target_os = "linux")]
mod table;
mod text_file;
#[cfg(target_os = "linux")]
mod time_budget;

#[cfg(target_os = "linux")]
pub use activity_watch::{ActivityWatch, EndNotice};
#[cfg(target_os = "linux")]
pub use changed_setting::ChangedSetting;
#[cfg(target_os = "linux")]
pub use config_fault::{
    ConfigError, ConfigFault, NumberOrText, check_names, find_repeated, parse_config, parse_spanned,
};
#[cfg(target_os = "linux")]
pub use control::{ClaimedName, ControlError, ControlServer, Protocol, Registry};
#[cfg(target_os = "linux")]
pub use exporter::{Exporter, ExporterError};
#[cfg(target_os = "linux")]
pub use fair_admission::FairAdmission;
#[cfg(target_os = "linux")]
pub use fair_turns::FairTurns;
#[cfg(target_os = "linux")]
pub use journal::{Journal, Leftover, Record, RecordedChange};
#[cfg(target_os = "linux")]
pub use listen_address::{ListenAddressError, listen_address, metrics_address};
#[cfg(target_os = "linux")]
pub use name_lock::{NameLock, NameLockError, check_name};
#[cfg(target_os = "linux")]
pub use namespace_lock::NamespaceLock;
#[cfg(target_os = "linux")]
pub use network::Network;
#[cfg(target_os = "linux")]
pub use network_budgets::NetworkBudgets;
#[cfg(target_os = "linux")]
pub use policy_routes::{InstalledRoutes, RouteChangeError};
#[cfg(target_os = "linux")]
pub use private_directory::PrivateDirectory;
pub use replace_files::{ReplaceError, check_writable, replace_files};
#[cfg(target_os = "linux")]
pub use runtime_dir::{NoRuntimeDir, RuntimeDir};
#[cfg(target_os = "linux")]
pub use table::{
    Column, UNKNOWN_VALUE, format_age, format_known, format_percent, format_rate, write_columns, write_table,
};
pub use text_file::read_text;
#[cfg(target_os = "linux")]
pub use time_budget::TimeBudget;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
