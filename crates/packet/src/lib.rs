//! IP packets as bytes: reading their headers, building replies to them, and changing them in place.
//!
//! All functions take the bytes of a packet from its IP header on, as a TUN device delivers them and as they follow an
//! [`Ethernet`] header, and trust none of them: no input makes them panic or access bytes outside the packet.
//!
//! - [`Headers::parse`] reads IPv4 and IPv6 with extension headers, TCP, UDP and ICMP; [`Classification`] what a
//!   queue needs of it; [`FlowSelector`] and [`FlowKey`] identify flows.
//! - [`rewrite`](fn@rewrite) gives a packet other addresses and ports in place, and [`rewrite_quote`] the packet that an ICMP error
//!   quotes; [`checksum`] computes, verifies and updates checksums, [`ecn`] the ECN field, [`DsField`] the octet that it is a part of.
//! - [`TcpRewrite`] changes flags, options and sequence numbers of TCP as middleboxes do; [`clamp_mss`] lowers the maximum segment size that TCP announces; [`StreamSegment`] says which octets a segment carries.
//! - [`reject`], [`prohibit`] and [`reset_both`] build the replies of a firewall, [`packet_too_big`] that of a tunnel. Only they
//!   allocate.
//! - [`IcmpQuote`] is what an ICMP error quotes of a packet of UDP or TCP.
//! - [`SavedSyn`] is what a kernel keeps of a SYN that it has received.
//! - [`header_compression`] has the headers of a flow's packets in a few octets, between ends that share one packet of it.
//! - [`offload`] completes what a sender left to its network card.
//!
//! **Limits.** Jumbograms are not supported. Extension headers are followed as far as `etherparse` does; a malformed one
//! makes the packet unreadable. Encrypted payloads (ESP) end the chain.
//!
//! **Loop contract.** None: these are functions of one packet, without state, time or randomness.
#![forbid(unsafe_code)]

pub mod checksum;
mod classification;
mod ds_field;
pub mod ecn;
mod ethernet;
mod flow;
pub mod header_compression;
mod headers;
mod icmp_quote;
mod mss;
pub mod offload;
mod reply;
mod rewrite;
#[cfg(test)]
mod samples;
mod saved_syn;
mod selector;
mod stream_data;
mod tcp_rewrite;

pub use classification::Classification;
pub use ds_field::{DsField, Dscp, ParseDscpError};
pub use ecn::Ecn;
pub use ethernet::{Encapsulation, Ethernet, ethertype};
pub use flow::{Addresses, FlowKey};
pub use headers::{Fragment, Headers, Icmp, PacketEnd, ParseError, Tcp, Transport, Udp, protocol};
pub use icmp_quote::IcmpQuote;
pub use mss::clamp_mss;
pub use reply::{ResetPair, packet_too_big, prohibit, reject, reset_both};
pub use rewrite::{QuotedPacket, RewriteError, rewrite, rewrite_offloaded, rewrite_quote};
pub use saved_syn::SavedSyn;
pub use selector::{FlowDetail, FlowSelector};
pub use stream_data::{PayloadKind, StreamSegment};
pub use tcp_rewrite::{TcpRewrite, has_ecn_flags, has_tcp_option, tcp_option};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
