//! All tests of the built crate in one program, which runs them beside each other.

mod kernel_stamps;
mod namespaces;
mod nftables;
mod tun_queues;
mod udp_batches;
