//! What both ends of a measurement share: packet trains over real sockets, with the kernel's time stamps, and the control
//! connection beside them.
//!
//! [`Probes`] carries the trains of one session. Both ends build theirs from the same connections in the same order, then
//! one calls [`Probes::send`] and the other [`Probes::receive`] with the same plan, train after train.
//!
//! Neither call outlives its bound: sending ends within [`SEND_SLACK`] after the planned end (plus [`STAMP_WAIT`] for
//! stamps), receiving at the planned end plus the timeout it was given; both end early once the [`Lifeline`] is cut.
//! Memory is bounded by the plan's packet count, which [`train::Train::check`] limits.
//!
//! A [`Control`] connection is the sans-I/O session of `wire` over a TCP stream.

mod control;
mod error;
mod ledger;
mod lifeline;
mod limits;
mod parts;
mod payload;
mod probes;
mod tcp;
mod tcp_receive;
mod udp;

pub use control::{Control, ControlError, within};
pub use error::Error;
pub use lifeline::Lifeline;
pub use limits::{SEND_SLACK, STAMP_WAIT};
pub use net::stamp::StampSource;
pub use net::tcp::{Opened, open_connections};
pub use parts::{Receiving, Sending};
pub use probes::Probes;
pub use tcp::TcpProbes;
pub use udp::UdpProbes;
