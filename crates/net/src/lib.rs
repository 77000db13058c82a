//! (to come)

pub mod clock;
pub mod deadline;
pub mod interface;
pub mod namespace;
mod option;
pub mod pace;
pub mod readiness;
mod setup;
pub mod stamp;
pub mod tap;
pub mod tcp;
pub mod tun;
pub mod udp;

pub use setup::SetupError;
