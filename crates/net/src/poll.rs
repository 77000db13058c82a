//! Waiting for a few sockets, up to an instant of [`clock::monotonic`], by poll(2), which Windows has as well.

use crate::{clock, pacing};
use kumade_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::io;

/// Some systems count the milliseconds of a wait with 31 bits.
const MAX_WAIT: Span = Span::from_secs(86_400);

/// Waits until `socket` can be read (or reports an error, such as a transmit stamp that waits in its error queue);
/// false where `deadline` came first.
///
/// # Errors
/// Where the system refuses to wait.
pub fn wait_readable(socket: &impl AsFd, deadline: Time) -> io::Result<bool> {
    wait_one(socket, PollFlags::IN, deadline)
}

/// Waits until any of these can be read (or reports an error); false where `deadline` came first.
///
/// # Errors
/// Where the system refuses to wait.
pub fn wait_any_readable<'s>(sockets: impl IntoIterator<Item = BorrowedFd<'s>>, deadline: Time) -> io::Result<bool> {
    wait_any(sockets, PollFlags::IN, deadline)
}

/// Waits until any of these takes more to send, as a connection does once it is open, or reports an error; false where `deadline` came first.
///
/// # Errors
/// Where the system refuses to wait.
pub fn wait_any_writable<'s>(sockets: impl IntoIterator<Item = BorrowedFd<'s>>, deadline: Time) -> io::Result<bool> {
    wait_any(sockets, PollFlags::OUT, deadline)
}

/// Waits until `socket` takes more to send, or reports an error; false where `deadline` came first.
///
/// # Errors
/// Where the system refuses to wait.
pub fn wait_writable(socket: &impl AsFd, deadline: Time) -> io::Result<bool> {
    wait_one(socket, PollFlags::OUT, deadline)
}

/// Waits until one of `awaited` happens to this socket, or an error; false where `deadline` came first.
pub(crate) fn wait_one(socket: &impl AsFd, awaited: PollFlags, deadline: Time) -> io::Result<bool> {
    wait_ready(&mut [PollFd::from_borrowed_fd(socket.as_fd(), awaited)], deadline)
}

fn wait_any<'s>(
    sockets: impl IntoIterator<Item = BorrowedFd<'s>>,
    awaited: PollFlags,
    deadline: Time,
) -> io::Result<bool> {
    let mut sockets: Vec<_> = sockets.into_iter().map(|socket| PollFd::from_borrowed_fd(socket, awaited)).collect();
    wait_ready(&mut sockets, deadline)
}

/// Waits until any of these has what it is asked for; false where `deadline` came first.
pub(crate) fn wait_ready(sockets: &mut [PollFd<'_>], deadline: Time) -> io::Result<bool> {
    loop {
        let left = (deadline - clock::monotonic()).max(Span::ZERO).min(MAX_WAIT);
        let timeout =
            Timespec { tv_sec: left.as_nanos() / 1_000_000_000, tv_nsec: (left.as_nanos() % 1_000_000_000) as _ };
        let polled = if sockets.is_empty() {
            // Windows refuses to wait for none.
            pacing::sleep_until(clock::monotonic() + left);
            Ok(0)
        } else {
            poll(sockets, Some(&timeout))
        };
        match polled {
            Err(Errno::INTR) => {}
            Ok(0) if clock::monotonic() < deadline => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// What happened on a socket of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The number it was added with.
    pub number: u32,
    /// Reading gives bytes, the end, or an error.
    pub is_readable: bool,
    /// Sending is possible, or fails at once.
    pub is_writable: bool,
    /// The error queue holds something, or the connection failed.
    pub has_error: bool,
}
