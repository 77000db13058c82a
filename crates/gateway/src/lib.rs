//! A gateway shares the traffic of a site over several paths. Hosts and applications behind it stay as they are.
//!
//! A [`GatewayConfig`] says which networks are here, which are at remote sites, and over which paths those are reached; it is read
//! once and valid from then on. In the [direct] plane packets leave as they are, but for addresses, and the kernel
//! forwards them: a [`DirectPlan`](direct::DirectPlan), which is pure, says by which rules and routes, and a
//! [`DirectPlane`](direct::DirectPlane) puts it into effect until it is dropped. In the [bonded] plane they travel
//! encrypted between two gateways, and in order. A [`status`] says what either does, to programs, to Prometheus and to
//! people.
#![forbid(unsafe_code)]

pub mod bonded;
pub mod config;
pub mod direct;
pub mod host;
pub mod measure;
mod prometheus;
mod ratio;
pub mod status;

pub use config::{ConfigError, GatewayConfig};
pub use ratio::{PathRatio, RatioError};
