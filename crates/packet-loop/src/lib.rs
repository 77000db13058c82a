//! The packet loop that every data plane of this workspace runs: the emulated link, the lab's network, and whatever else
//! moves packets in real time.
//!
//! A [`Shard`] is all that one thread owns: its devices, its links, its tables. A [`PacketThread`] runs a shard to
//! completion, from a packet's arrival to its departure; nothing is handed from thread to thread on the way, and no lock is
//! taken.
//!
//! # The loop
//!
//! Each round of the thread
//!
//! 1. answers the requests of other threads ([`PacketThread::run_on_thread`]), between two packets;
//! 2. calls [`Shard::process`], which takes a bounded number of packets, decides, hands on whatever is due, and returns the
//!    instant at which it has to run again;
//! 3. waits for that instant, for a packet ([`Shard::has_work`]), for one of the shard's file descriptors to become
//!    readable (but those that [can wait](Shard::deferrable_sources)), or for a request, whichever comes first. It sleeps until shortly before the instant, 60 µs at
//!    most ([`Shard::MAX_SPIN`]), and spins through the rest, so that most deadlines are met to a microsecond without real-time
//!    priority.
//!
//! A turn is therefore the whole of a shard's work, and the instant that it returns is the only promise the loop has to
//! keep: *mutate, then give a deadline*. Instants are those of [`kumade_net::clock::monotonic`], which nobody sets; a
//! [`StampClock`] converts the kernel's packet stamps.
//!
//! # Several shards
//!
//! Where one thread is not enough, start several `PacketThread`s, each with devices (or queues of a device) of its own.
//! They share no packets; what one has to tell another goes by a channel, and a [`Waker`](kumade_net::waker::Waker) wakes it. A flow must stay on one thread, or its packets are reordered: the kernel's queues keep it so by
//! their own hash, and whatever a program distributes itself goes to [`flow::shard_of`] of its [`FlowHasher`]'s hash.
//!
//! ```
//! use kumade_net::{SetupError, clock};
//! use kumade_packet_loop::{PacketThread, Shard, WakeReason};
//! use std::io::Read;
//! use std::os::fd::{AsFd, BorrowedFd};
//! use std::os::unix::net::UnixStream;
//! use kumade_units::{Span, Time};
//!
//! /// Counts the bytes that arrive.
//! struct Counter {
//!     input: UnixStream,
//!     bytes: usize,
//! }
//!
//! impl Shard for Counter {
//!     type Error = SetupError;
//!
//!     fn sources(&self) -> Vec<BorrowedFd<'_>> {
//!         vec![self.input.as_fd()]
//!     }
//!
//!     fn process(&mut self, _: WakeReason) -> Result<Time, SetupError> {
//!         self.bytes += self.input.read(&mut [0; 1500]).unwrap_or(0);
//!         Ok(clock::monotonic() + Span::from_secs(1))
//!     }
//! }
//!
//! let (input, _output) = UnixStream::pair().unwrap();
//! input.set_nonblocking(true).unwrap();
//! let counter = PacketThread::start("counter", move || Ok(Counter { input, bytes: 0 })).unwrap();
//! assert_eq!(counter.run_on_thread(|shard| shard.bytes).unwrap(), 0);
//! counter.stop().unwrap();
//! ```
#![forbid(unsafe_code)]

mod check_schedule;
mod clock;
pub mod flow;
mod pool;
mod shard;
mod source_watch;
mod thread;

pub use check_schedule::CheckSchedule;
pub use clock::StampClock;
pub use flow::FlowHasher;
pub use pool::{Buffer, BufferPool};
pub use shard::{ReadySources, Shard, WakeReason};
pub use thread::{PacketThread, ThreadEnded};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
