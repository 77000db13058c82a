//! What a middlebox must do, by the RFCs' requirements.

mod errors;
mod fragments;
mod mappings;
mod prefixes;
mod timeouts;
mod traffic;
