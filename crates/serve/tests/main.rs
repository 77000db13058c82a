//! All tests of the built crate in one program, which runs them beside each other.

mod clients;
mod common;
mod key;
mod limits;
mod load;
mod loopback;
mod middlebox;
mod named_clients;
mod path;
mod peers;
mod ports;
mod schema;
mod stamp;
mod stamp_extensions;
mod stamp_suite;
mod starvation;
mod versions;
