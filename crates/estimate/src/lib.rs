//! Estimators of available bandwidth, capacity and one-way delay from probe trains.
//!
//! A [`Method`] plans [trains](kumade_probe_train::Train) and reads their [records](kumade_probe_train::TrainRecord). It does not know what carries
//! the packets (UDP, many TCP connections, a simulated path), so that every method runs over every transport.
//! [`CapacityProbe`] does the same for the capacity, and [`delay`] finds one-way delays in the records of any trains.
//!
//! **Loop contract.** Call [`Method::next`]. While it answers [`Step::Send`], wait as long as it asks, send the train and
//! pass its record to [`Method::record`]; [`Step::Done`] holds the outcome. A method never reads a clock: all times are in
//! the records and in the `now` that it is passed.
//!
//! **Adding a method** takes its own file, in which a [`MethodConfig`] says what users see of it, and one line in
//! [`METHODS`].
//!
//! Rates count IP-layer bits (RFC 5136): packet sizes include the IP header and everything behind it.
#![forbid(unsafe_code)]

mod back_to_back;
mod bound;
mod capacity;
mod config;
mod cross_traffic;
pub mod delay;
mod igi;
mod info;
mod linear_scan;
mod method;
mod methods;
mod packet_timing;
mod pathchirp;
mod pathload;
mod pathtester;
mod policing;
mod primed;
mod published;
mod reason;
mod rejection;
mod settings;
mod stats;
mod utilization;
mod varying_link;
mod warning;

pub use bound::{Bound, BoundKind};
pub use capacity::{Capacity, CapacityConfig, CapacityProbe, CapacityReason, Shaper, Shaping};
pub use config::{Budget, Conditions, MethodConfig, Parameter, ParameterInfo, RequestedBudget};
pub use igi::{IgiConfig, PtrConfig};
pub use info::{MethodError, MethodInfo};
pub use linear_scan::{LinearScan, LinearScanConfig};
pub use method::{Method, Outcome, Step};
pub use methods::METHODS;
pub use pathchirp::{PathChirp, PathChirpConfig};
pub use pathload::{Pathload, PathloadConfig};
pub use pathtester::{PathTester, PathTesterClassic, PathTesterClassicConfig, PathTesterConfig};
pub use policing::{ExcessAction, PolicerOrShaper, PolicingConfig, PolicingProbe, PolicingResult};
pub use primed::{Primed, PrimedConfig};
pub use reason::{ArrivalPattern, Reason};
pub use rejection::Rejection;
pub use settings::MethodSettings;
pub use utilization::{LinkState, Utilization, UtilizationConfig, UtilizationProbe};
pub use varying_link::{VaryingLink, VaryingLinkConfig, VaryingLinkProbe};
pub use warning::Warning;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
