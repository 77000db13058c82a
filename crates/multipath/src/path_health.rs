//! Whether a path works, and its round trip.

pub(crate) mod health;
pub(crate) mod round_trip;
