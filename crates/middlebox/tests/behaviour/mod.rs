//! What a middlebox must do, by the RFCs' requirements.

mod allocations;
mod errors;
mod fragments;
mod mappings;
mod model;
mod prefixes;
mod timeouts;
mod traffic;
