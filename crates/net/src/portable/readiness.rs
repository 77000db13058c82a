//! Waiting for sockets, up to an instant of [`clock::monotonic`].

pub use crate::poll::{Event, wait_any_readable, wait_any_writable, wait_readable, wait_writable};

use crate::clock;
use crate::poll::wait_ready;
use kumade_units::{Span, Time};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd};
use std::cell::RefCell;
use std::io;
use std::net::TcpStream;
#[cfg(not(windows))]
use std::os::fd::{AsRawFd, RawFd};
#[cfg(windows)]
use std::os::windows::io::{AsRawSocket as _, RawSocket as RawFd};

/// As long as [`udp`](super::udp) looks for the next packet.
const SPIN_TIME: Span = Span::from_micros(2_500);
/// More packets than these are seldom overtaken or lost in a row; to look at a socket takes some microseconds.
const NEXT_SOCKETS: usize = 8;

/// Whether the peer has closed the connection, or it has failed, as far as this host knows: what is unread hides it. Does not wait.
///
/// # Errors
/// Where the system refuses to look.
pub fn is_closed(stream: &TcpStream) -> io::Result<bool> {
    Ok(wait_readable(stream, Time::ZERO)? && !matches!(stream.peek(&mut [0]), Ok(1..)))
}

/// Many sockets, waited for together; each keeps reporting until it is dealt with or removed, which it has to be before it is closed.
#[derive(Debug, Default)]
pub struct SocketSet(RefCell<Vec<(RawFd, u32, PollFlags)>>);

impl SocketSet {
    /// A wait reports no more events than this.
    pub const MAX_EVENTS: usize = 64;

    /// An empty set.
    ///
    /// # Errors
    /// None.
    pub fn new() -> io::Result<Self> {
        Ok(SocketSet::default())
    }

    /// Reports `socket` under `number` when it can be read.
    ///
    /// # Errors
    /// None.
    pub fn add_reader(&self, socket: &impl AsFd, number: u32) -> io::Result<()> {
        self.add(socket, number, PollFlags::IN)
    }

    /// Reports `socket` under `number` when it can be written: a connecting one when it is open or has failed.
    ///
    /// # Errors
    /// None.
    pub fn add_writer(&self, socket: &impl AsFd, number: u32) -> io::Result<()> {
        self.add(socket, number, PollFlags::OUT)
    }

    fn add(&self, socket: &impl AsFd, number: u32, awaited: PollFlags) -> io::Result<()> {
        self.0.borrow_mut().push((raw(socket), number, awaited));
        Ok(())
    }

    /// Forgets `socket`.
    ///
    /// # Errors
    /// None.
    pub fn remove(&self, socket: &impl AsFd) -> io::Result<()> {
        self.0.borrow_mut().retain(|(added, ..)| *added != raw(socket));
        Ok(())
    }

    /// Waits until something happens or `deadline` has come, and fills `events`.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait(&self, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        self.wait_for_first(usize::MAX, events, deadline)
    }

    /// As [`wait`](Self::wait), where what is read next is most likely on the sockets that were added first: these are looked at without a
    /// pause for some milliseconds, since who waits is woken late.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait_for_next(&self, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        let end = deadline.min(clock::monotonic() + SPIN_TIME);
        while clock::monotonic() < end {
            self.wait_for_first(NEXT_SOCKETS, events, Time::ZERO)?;
            if !events.is_empty() {
                return Ok(());
            }
        }
        self.wait(events, deadline)
    }

    fn wait_for_first(&self, count: usize, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        events.clear();
        let sockets = self.0.borrow();
        let sockets = &sockets[..sockets.len().min(count)];
        // SAFETY: whoever has added a socket removes it before it is closed.
        let borrow = |socket| unsafe { BorrowedFd::borrow_raw(socket) };
        let mut polled: Vec<_> =
            sockets.iter().map(|(socket, _, awaited)| PollFd::from_borrowed_fd(borrow(*socket), *awaited)).collect();
        wait_ready(&mut polled, deadline)?;
        let failed = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let happened = polled.iter().zip(sockets.iter()).filter(|(polled, _)| !polled.revents().is_empty());
        events.extend(happened.take(Self::MAX_EVENTS).map(|(polled, (_, number, _))| Event {
            number: *number,
            is_readable: polled.revents().intersects(PollFlags::IN | failed),
            is_writable: polled.revents().intersects(PollFlags::OUT | failed),
            has_error: polled.revents().intersects(failed),
        }));
        Ok(())
    }
}

fn raw(socket: &impl AsFd) -> RawFd {
    #[cfg(windows)]
    return socket.as_fd().as_raw_socket();
    #[cfg(not(windows))]
    socket.as_fd().as_raw_fd()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0)
    }

    fn soon() -> Time {
        clock::monotonic() + Span::from_secs(60)
    }

    #[test]
    fn a_set_reports_those_that_are_ready_until_they_are_removed() {
        let (set, mut events) = (SocketSet::new().unwrap(), Vec::new());
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        for (number, (near, _)) in (0..).zip(&pairs) {
            set.add_reader(near, number).unwrap();
        }
        set.wait(&mut events, Time::ZERO).unwrap();
        assert!(events.is_empty());
        (&pairs[7].1).write_all(b"x").unwrap();
        set.wait(&mut events, soon()).unwrap();
        assert_eq!(events, [Event { number: 7, is_readable: true, is_writable: false, has_error: false }]);
        set.remove(&pairs[7].0).unwrap();
        set.wait(&mut events, Time::ZERO).unwrap();
        assert!(events.is_empty());
        // No more than there is room for.
        for (_, far) in &pairs {
            { far }.write_all(b"x").unwrap();
        }
        let is_full = |events: &mut Vec<Event>| {
            set.wait(events, soon()).unwrap();
            events.len() == SocketSet::MAX_EVENTS
        };
        while !is_full(&mut events) {}
        let empty = SocketSet::new().unwrap();
        empty.wait(&mut events, clock::monotonic()).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn what_the_peer_has_closed_is_closed_once_it_is_read() {
        let (near, far) = pair();
        assert!(!is_closed(&near).unwrap());
        { &far }.write_all(b"x").unwrap();
        assert!(wait_readable(&near, soon()).unwrap() && !is_closed(&near).unwrap());
        drop(far);
        assert_eq!(std::io::Read::read(&mut &near, &mut [0; 9]).unwrap(), 1);
        assert!(wait_readable(&near, soon()).unwrap() && is_closed(&near).unwrap());
    }
}
