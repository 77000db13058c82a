//! Nodes and the paths between them, under a virtual clock.

mod checks;
mod corpus;
mod faults;
mod faulty;
mod header_compression;
mod hostile;
mod many_peers;
mod pair;
mod reconfigure;
mod shards;
mod soak;
mod world;
