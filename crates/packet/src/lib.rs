//! IP packets as bytes: what their headers say, how to answer them, and how to change them.
//!
//! Everything here takes the bytes of a packet as a TUN device gives them, beginning with the IP header, and believes
//! none of them: whatever they are, nothing panics and nothing outside the packet is read. [`Headers::parse`] reads
//! IPv4 and IPv6 with their extension headers, [`reject`] and [`reset_both`] build what a firewall answers,
//! [`rewrite`] gives a packet another address and port as a translator does, and [`checksum`] keeps it valid.
//!
//! **Loop contract.** There is none: these are functions of one packet, without state, time or chance.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod ecn;
mod ethernet;
mod flow;
mod headers;
pub mod offload;
mod reply;
mod rewrite;
#[cfg(test)]
mod samples;
mod selector;

pub use ethernet::{Ethernet, ethertype};
pub use flow::FlowKey;
pub use headers::{Fragment, Headers, Icmp, ParseError, Tcp, Transport, Udp, protocol};
pub use reply::{ResetPair, reject, reset_both};
pub use rewrite::{End, RewriteError, quoted_flow, rewrite, rewrite_quoted};
pub use selector::{Detail, Selector};
