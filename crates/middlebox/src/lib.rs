//! A middlebox: a firewall, a limiter of connections and a translator of addresses, between an inside and an outside.
//!
//! [`Middlebox::process_packet`] decides about one packet after the other. What it does is in its [`MiddleboxConfig`]:
//!
//! - **Rules** ([`FilterRule`]) refuse packets by protocol and port, limit connections and SYNs, and reset connections.
//! - **NAT44** ([`NatConfig`]) shows the inside's IPv4 hosts to the outside under one address, as RFC 4787 (UDP),
//!   RFC 5382 (TCP) and RFC 5508 (ICMP) demand. A *mapping* gives an inside address and port one external port, whatever
//!   it communicates with (or, to emulate translators that do not conform, another one for each remote address, or endpoint); a *session* is what it exchanges with one remote endpoint, and keeps the mapping until it has
//!   been idle for its protocol's timeout. *Filtering* decides which packets from the outside a mapping lets in. An
//!   *association* lets the later fragments of a datagram follow the first. ICMP errors are translated together with the
//!   packet they quote, and packets to an external address are hairpinned.
//! - **Treatments** ([`Treatment`]) are what paths do to packets that pass: ECN bleached, DSCP changed, TCP options removed,
//!   sequence numbers shifted, packets of some kinds lost, long ones dropped with or without a word.
//! - **Prefixes** ([`PrefixPair`]) are translated one to one, without state, for both IP versions (RFC 6296).
//!
//! The order is: outbound rules, translation; inbound translation, rules. So rules always see the inside's addresses. Behind the
//! rules are the treatments: those that drop see a packet as it came; those that change do so, in their order, to what is forwarded.
//!
//! # Loop contract
//!
//! ```
//! use kumade_middlebox::{Direction, Middlebox, MiddleboxConfig, NatConfig, PacketAction};
//! use kumade_units::Time;
//!
//! # let (frame, header_len): (&mut [u8], usize) = (&mut [0; 60], 14);
//! # let (send, send_inside) = (|_: &[u8]| {}, |_: &[u8]| {});
//! let nat = Some(NatConfig::new("203.0.113.1".parse().unwrap()));
//! let mut router = Middlebox::new(MiddleboxConfig { nat, ..Default::default() }, 0x5eed).unwrap();
//! // For each frame from the inside; `now` is its time of arrival.
//! # let now = Time::ZERO;
//! let packet = &mut frame[header_len..];
//! match router.process_packet(Direction::Outbound, packet, now) {
//!     PacketAction::Forward => send(packet),
//!     PacketAction::Hairpin => send_inside(packet),
//!     PacketAction::Drop | PacketAction::Hold => {}
//!     PacketAction::Reply(reply) => send_inside(&reply),
//!     PacketAction::Reset(pair) => {
//!         send_inside(&pair.to_source);
//!         send(&pair.to_destination);
//!     }
//! }
//! // Fragments that arrived before the first one of their datagram.
//! while let Some(released) = router.next_released() {
//!     match released.direction {
//!         Direction::Outbound => send(&released.packet),
//!         Direction::Inbound => send_inside(&released.packet),
//!     }
//! }
//! ```
//!
//! The crate is pure: time comes with the packet, randomness from a seed; there is no clock, I/O or thread. A packet is
//! changed in place, with incremental updates of its checksums, and passes without allocation once the tables have grown.
//! Only replies, resets and held fragments are allocated.
//!
//! # Limits
//!
//! Any bytes may come from either side; they cost bounded memory and time.
//!
//! - [`NatLimits`] bound the sessions of one inside host and of all. Tables hash with a secret seed. Expiry costs O(1) per
//!   session.
//! - When a host has its share, its new sessions are refused. When the table of sessions or the ports of a protocol are
//!   exhausted, a new session takes the place of the one that has been idle for longest among those that nobody has
//!   answered or that are being closed (UDP without a reply, transitory TCP, ICMP queries). Established TCP connections
//!   and answered UDP sessions are never evicted; if there are only these, the new session is refused.
//! - Only packets from the inside open sessions, so that the outside cannot fill the tables.
//! - Later fragments that arrive before the first one are held in a small store, oldest displaced first. Identifications
//!   are not translated: datagrams of two inside hosts to the same destination may have the same one, as behind any
//!   translator that does not reassemble (RFC 4787 §11).
//! - The middlebox is not a router: it does not change the hop limit, and does not check the IPv4 header checksum of what
//!   it forwards: valid checksums stay valid, invalid ones invalid.
//! - Treatments do not apply to replies and resets of the middlebox itself, nor to the packet that an ICMP error quotes.
//! - There is one external address, and no port preservation, parity or contiguity (RFC 4787 REQ-3 and 4 leave that
//!   open). There are no application-level gateways (REQ-10). TCP, UDP and ICMP queries from the inside are translated;
//!   all else over IPv4 is dropped by a NAT44, unless a prefix pair covers it. IPv6 is not affected by a NAT44.
#![forbid(unsafe_code)]

mod action;
mod connections;
mod counters;
mod entry_tally;
mod fragments;
mod header_rewrite;
mod middlebox;
mod nat;
mod prefix;
mod rules;
mod table;
mod translator;
mod treatment;

pub use action::{Direction, PacketAction};
pub use counters::{DropCause, MiddleboxCounters};
pub use fragments::ReleasedFragment;
pub use middlebox::{Middlebox, MiddleboxConfig};
pub use nat::{EndpointDependence, NatConfig, NatLimits, NatTimeouts, Protocol, SessionInfo, TcpState};
pub use prefix::{PrefixPair, PrefixSide};
pub use rules::{FilterRule, PacketMatch, RefusalKind, ResetScope};
pub use treatment::{Chance, PacketKind, TcpOptionMatch, Treatment, TreatmentAction, TreatmentMatch};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
