//! Packet trains over sockets with kernel time stamps, and the control connection: what both ends of a measurement share.
//!
//! [`Probes`] carries the trains of one session. Both ends create it from the same connections in the same order; then
//! for each train one end calls [`Probes::send`] and the other [`Probes::receive`] with the same plan.
//!
//! Both calls are bounded in time: sending ends within [`SEND_SLACK`] after the planned end (plus [`STAMP_WAIT`] for
//! time stamps), receiving at the planned end plus its timeout; both end early once the control connection is closed
//! ([`ControlWatch`]). Memory is bounded by the plan's packet count, which [`kumade_probe_train::Train::check`] limits.
//!
//! A [`TcpLoad`] is the opposite of a train: transfers that fill the path for some seconds.
//!
//! A [`ControlConnection`] connection is the sans-I/O session of `wire` over a TCP stream.

mod control;
mod control_watch;
mod error;
mod hop_trace;
mod limits;
mod load;
mod one_sided_records;
mod packets;
mod payload;
mod probes;
mod stamp_scatter;
mod tcp;
mod tcp_hop_trace;
mod tcp_receive;
mod udp;

pub use control::{ControlConnection, ControlError, deadline_after};
pub use control_watch::ControlWatch;
pub use error::Error;
pub use kumade_net::platform::stamp::StampSource;
pub use kumade_net::platform::tcp::{OpenedConnections, open_connections};
pub use limits::{SEND_SLACK, STAMP_WAIT};
pub use load::{LoadRole, TcpLoad};
pub use one_sided_records::{ReceivedTrain, SentTrain};
pub use probes::Probes;
pub use stamp_scatter::{MAX_STAMP_SCATTER, measure_stamp_scatter};
pub use tcp::TcpProbes;
pub use tcp_hop_trace::TcpHopFlows;
pub use udp::UdpProbes;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
