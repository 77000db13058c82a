//! A tunnel: IP packets between two hosts, encrypted, over UDP or TCP. It is a bonded gateway whose paths all lead along one
//! route: [`kumade_overlay_io::BondedPlane`] does the work, and a [`TunnelConfig`] says what it comes to.
//!
//! # Carriers
//!
//! | [`TransportMode`] | packets travel | for |
//! | --- | --- | --- |
//! | [`Auto`](TransportMode::Auto) | as datagrams or on many TCP connections, whichever passes and performs | all paths |
//! | [`Udp`](TransportMode::Udp) | as datagrams | paths that pass UDP |
//! | [`Tcp`](TransportMode::Tcp) | on one TCP connection | middleboxes that allow one only |
//! | [`Rake`](TransportMode::Rake) | on many TCP connections, each on one that has room | all others that pass nothing but TCP |
//! | [`Relay`](TransportMode::Relay) | as with `Rake`, but TCP connections as streams of their own | most connections begin at one end |
//!
//! On one connection, a lost segment holds up all that follows it until it has been repeated, and the connections inside take
//! that for congestion. On many, it holds up what shares its connection; what the far end receives out of order is
//! resequenced. Small packets of sparse flows go over two connections that are kept for these.
//!
//! # Connections without packets
//!
//! [Relayed](RelayedConfig) TCP connections are ended at both ends and carried as streams of their own ([`kumade_relay`]), over the same port of the
//! listening end. They need neither a device nor privileges.
//!
//! # What is seen of it
//!
//! A [`status`] says what an end does, to programs, to Prometheus and to people.
#![forbid(unsafe_code)]

mod block;
mod config;
mod host;
mod peer;
mod prometheus;
mod settings;
pub mod status;
mod tunnel;

pub use block::{block_traffic, unblock_traffic};
pub use config::{DEFAULT_PORT, RelayedConfig, TransportMode, TunnelConfig, TunnelConfigError, TunnelEnd};
pub use host::HostRefusal;
pub use kumade_multipath::OuterTransport;
pub use kumade_net::tcp::RtoLimits;
pub use kumade_overlay_io::{ConnectionTuning, DEFAULT_DEVICE};
pub use kumade_relay::{AllowedTargets, ConnectRefusal, Forward, RelayReport, RelayStatus};
pub use peer::{PeerConfig, PeerConfigError, short_key};
pub use settings::{
    EndSettings, FarEndError, FileOptions, TunnelFile, TunnelSettings, parse_buffer_size, parse_device_address,
};
pub use tunnel::{Tunnel, TunnelError};
