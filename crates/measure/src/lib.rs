//! (to come)

pub mod transport;
