//! Networks in virtual time: a minute of traffic takes milliseconds, and a seed gives the same run again.
//!
//! A [`VirtualPath`] carries the trains of a [`Method`](kumade_estimate::Method) through [`kumade_link`]s with computed cross traffic,
//! with clocks that are offset, drift and jitter as real ones do, and knows the truth afterwards. [`measure`] is the
//! whole loop of a measurement on such a path.
//!
//! A [`network::Network`] carries flows through [`kumade_link`]s: [`tcp`] connections that react to each other's drops, and
//! plain sources. Where several paths are used at once, [`network::Gateways`] stand at their ends.
//!
//! [`atlas`] draws paths of many kinds at random, with known truth, to judge measurements by.
//!
//! [`sites::Sites`] are two sites joined by several paths, with the real code of both gateways between their hosts: what
//! one flow gets of all paths, in what order and with which delay.
#![forbid(unsafe_code)]

pub mod atlas;
mod elastic;
mod event_queue;
pub mod network;
mod packet_at_hop;
mod packet_transport;
mod path;
mod proxy;
mod run;
pub mod sites;
pub mod tcp;
mod train_connections;

pub use elastic::{ElasticFlow, FlowImpact, ImpactSummary};
pub use path::{PathHop, Stamping, VirtualPath};
pub use proxy::Proxy;
pub use run::{MethodRun, VirtualMeasurement, VirtualPaths, measure};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
