//! Waiting for a few sockets, up to an instant of [`clock::monotonic`], by poll(2), which Windows has as well.

use crate::{clock, pacing};
use kumade_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::io;

/// Waits until `socket` can be read (or reports an error, such as a transmit stamp that waits in its error queue);
/// false where `deadline` came first.
///
/// # Errors
/// Where the system refuses to wait.
pub fn wait_readable(socket: &impl AsFd, deadline: Time) -> io::Result<bool> {
    wait_any_readable([socket.as_fd()], deadline)
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
    wait_any_writable([socket.as_fd()], deadline)
}

/// Waits until one of `awaited` happens to any of these, or an error; false where `deadline` came first.
pub(crate) fn wait_any<'s>(
    sockets: impl IntoIterator<Item = BorrowedFd<'s>>,
    awaited: PollFlags,
    deadline: Time,
) -> io::Result<bool> {
    let mut sockets: Vec<_> = sockets.into_iter().map(|socket| PollFd::from_borrowed_fd(socket, awaited)).collect();
    wait_ready(&mut sockets, deadline)
}

/// Waits until any of these has what it is asked for; false where `deadline` came first.
pub(crate) fn wait_ready(sockets: &mut [PollFd<'_>], deadline: Time) -> io::Result<bool> {
    if sockets.is_empty() {
        // Windows refuses to wait for none.
        pacing::sleep_until(deadline);
        return Ok(false);
    }
    loop {
        let left = (deadline - clock::monotonic()).max(Span::ZERO).as_nanos();
        let timeout = Timespec { tv_sec: left / 1_000_000_000, tv_nsec: (left % 1_000_000_000) as _ };
        match poll(sockets, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
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
