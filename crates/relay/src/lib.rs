//! TCP connections that are ended here and carried as encrypted streams: no TCP runs inside TCP, so that a loss is repeated
//! once, by the connection that lost it, and each connection has its own congestion control on each leg.
//!
//! The *near* end accepts connections of local programs, the *far* end connects to their targets, and between the two each
//! carried connection has one TCP connection of its own:
//!
//! ```text
//! program ── TCP ── near end ══ TCP, sealed records ══ far end ── TCP ── target
//! ```
//!
//! # What is said
//!
//! The near end shakes hands ([`kumade_noise_session::channel`]: Noise IK with the hosts' keys), and each record after that is a
//! [`Message`]. It asks for a target ([`Message::Open`]) and sends data without waiting for the answer. The far end looks a
//! name up, connects if the target is [allowed](AllowedTargets), and says so or why not. Then both pass on bytes until each direction
//! has [ended](Message::End), which the other end passes on as FIN. A stream that ends without that was cut, and the connection
//! is reset: by a reset at the other side, by the death of a process, or by somebody on the path. [`MessageExchange`] holds the two
//! ends to this order.
//!
//! Programs connect to a local port of the near end ([`Forward`]), or to the target itself, and packet rules lead them to the near
//! end ([`ConnectionRedirect`]). The target sees the far end's address as the source.
//!
//! # What it costs
//!
//! One thread, `epoll` and no copy but those of the kernel: data is read to where it is sealed, and written from where it was
//! opened. Per connection an end holds nothing while it is silent, and up to 115 kB while a side takes nothing; then it reads no
//! more from the other, so that TCP slows the sender down.
//!
//! # What is bounded
//!
//! A peer has 1024 streams at most at the far end, whatever their state: those that it has not asked for anything yet, those
//! that are refused, and those that are complete but not all of which has been acknowledged. What is held for it, the
//! kernel's buffers included, is 32 MiB at most: beyond that, the streams for which most is held are reset. Names are looked
//! up for each peer in its turn, 8 at a time. Of each peer, ten reports are made in a minute. Strangers get no byte, are left
//! after 10 s, and are 256 at most: for a further one, the oldest of the network (IPv4 /24, IPv6 /48) with most of them is
//! left.
#![forbid(unsafe_code)]

mod allowed;
mod batch;
mod config;
mod entries;
mod exchange;
mod far;
mod far_end;
mod listeners;
mod lookup_queue;
mod message;
mod near;
mod near_end;
mod plain;
mod redirect;
mod relay;
mod relayed_stream;
mod report;
mod resolver;
mod sealed;
mod shard;
mod slot;
mod stream_end;
mod stream_turns;
mod target;

pub use allowed::{AllowedTargetError, AllowedTargets};
pub use config::{Forward, ForwardError, RelayConfig, RelayRole};
pub use exchange::{MessageAction, MessageExchange, UnexpectedMessage};
pub use message::{ConnectRefusal, MalformedMessage, Message};
pub use redirect::ConnectionRedirect;
pub use relay::{Relay, RelayUpdate, RelayUpdateError};
pub use report::{RelayReport, RelayStatus};
pub use target::{Target, TargetError, TargetHost};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
