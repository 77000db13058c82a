//! What every engine must do, and what is particular to each.

mod directory;
mod faults;
mod postgres;
mod server;
mod sqlite;
mod suite;
mod tls;
