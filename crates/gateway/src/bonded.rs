//! The bonded plane: packets travel encrypted and numbered, in UDP, over several paths at once, and leave the far gateway in
//! the order in which they came.
//!
//! Packets for remote networks reach this process by a TUN device. One thread owns it and a UDP socket on each path, and
//! drives a [`dataplane::Node`].

mod config;
mod path_routes;
mod plane;
mod shard;
mod status;

pub(crate) use config::binding;
pub use config::{BondedConfig, BondedRemote};
pub use path_routes::RouteError;
pub use plane::BondedPlane;
pub use shard::BondedError;
pub use status::BondedStatus;
