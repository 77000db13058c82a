//! TCP endpoints in virtual time.

pub mod congestion;
