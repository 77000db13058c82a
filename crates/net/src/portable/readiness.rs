//! Waiting for sockets, up to an instant of [`clock::monotonic`].

pub use crate::poll::{Event, wait_any_readable, wait_any_writable, wait_readable, wait_writable};

use crate::clock;
use crate::poll::wait_ready;
use crate::portable::SPIN_TIME;
use kumade_units::Time;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::TcpStream;
#[cfg(not(windows))]
use std::os::fd::{AsRawFd, RawFd};
#[cfg(windows)]
use std::os::windows::io::{AsRawSocket as _, RawSocket as RawFd};

/// More packets than these are seldom overtaken or lost in a row; to look at a socket takes some microseconds.
const NEXT_SOCKETS: usize = 8;
const LOOKS_PER_ROUND: usize = 8;

/// Whether the peer has closed the connection, or it has failed, as far as this host knows: what is unread hides it. Does not wait.
///
/// # Errors
/// Where the system refuses to look.
pub fn is_closed(stream: &TcpStream) -> io::Result<bool> {
    if !wait_readable(stream, Time::ZERO)? {
        return Ok(false);
    }
    Ok(match stream.peek(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    })
}

/// Many sockets, waited for together; each keeps reporting until it is dealt with or removed, which it has to be before it is closed.
#[derive(Debug, Default)]
pub struct SocketSet {
    /// In the order in which they are looked at: trains go from one socket to the next, so what follows the one reported last comes first. Nor
    /// does one wait for others that are always ready.
    sockets: RefCell<Vec<(RawFd, u32, PollFlags)>>,
    looks: Cell<usize>,
}

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
        self.sockets.borrow_mut().push((raw(socket), number, awaited));
        Ok(())
    }

    /// Forgets `socket`.
    ///
    /// # Errors
    /// None.
    pub fn remove(&self, socket: &impl AsFd) -> io::Result<()> {
        self.sockets.borrow_mut().retain(|(added, ..)| *added != raw(socket));
        Ok(())
    }

    /// Waits until something happens or `deadline` has come, and fills `events`.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait(&self, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        self.wait_for_first(usize::MAX, events, deadline)
    }

    /// As [`wait`](Self::wait), where packets of a train are read as they come: the sockets are looked at without a pause for some milliseconds,
    /// since who waits is woken late.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait_for_next(&self, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        let end = deadline.min(clock::monotonic() + SPIN_TIME);
        while clock::monotonic() < end {
            self.look_for_next(events)?;
            if !events.is_empty() {
                return Ok(());
            }
        }
        self.wait(events, deadline)
    }

    /// Looks at the sockets that follow the one reported last, and every few times at all of them: packets are lost, overtaken, and sent again.
    fn look_for_next(&self, events: &mut Vec<Event>) -> io::Result<()> {
        let looks = self.looks.replace(self.looks.get().wrapping_add(1));
        let count = if looks.is_multiple_of(LOOKS_PER_ROUND) { usize::MAX } else { NEXT_SOCKETS };
        self.wait_for_first(count, events, Time::ZERO)
    }

    fn wait_for_first(&self, count: usize, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        events.clear();
        let mut sockets = self.sockets.borrow_mut();
        let looked_at = &sockets[..sockets.len().min(count)];
        // SAFETY: whoever has added a socket removes it before it is closed.
        let borrow = |socket| unsafe { BorrowedFd::borrow_raw(socket) };
        let mut polled: Vec<_> =
            looked_at.iter().map(|(socket, _, awaited)| PollFd::from_borrowed_fd(borrow(*socket), *awaited)).collect();
        wait_ready(&mut polled, deadline)?;
        let failed = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let mut reported = 0;
        for ((place, polled), (_, number, _)) in (1..).zip(&polled).zip(looked_at.iter()) {
            if !polled.revents().is_empty() && events.len() < Self::MAX_EVENTS {
                reported = place;
                events.push(Event {
                    number: *number,
                    is_readable: polled.revents().intersects(PollFlags::IN | failed),
                    is_writable: polled.revents().intersects(PollFlags::OUT | failed),
                    has_error: polled.revents().intersects(failed),
                });
            }
        }
        sockets.rotate_left(reported);
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
    use kumade_units::Span;
    use std::collections::BTreeSet;
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
        let readable: Vec<_> =
            pairs.iter().enumerate().filter(|(number, _)| *number != 7).map(|(_, (near, _))| near).collect();
        assert!(readable.iter().all(|near| wait_readable(*near, soon()).unwrap()));
        let mut seen = BTreeSet::new();
        for _ in 0..2 {
            set.wait(&mut events, soon()).unwrap();
            assert_eq!(events.len(), SocketSet::MAX_EVENTS);
            seen.extend(events.iter().map(|event| event.number));
        }
        assert_eq!(seen.len(), readable.len());
        let empty = SocketSet::new().unwrap();
        empty.wait(&mut events, clock::monotonic()).unwrap();
        assert!(events.is_empty());
    }

    #[test]
    fn packets_are_seen_at_once_whatever_has_come_on_other_sockets_and_whatever_was_lost() {
        let (set, mut events) = (SocketSet::new().unwrap(), Vec::new());
        let pairs: Vec<_> = (0..30).map(|_| pair()).collect();
        for (number, (near, _)) in (0..).zip(&pairs) {
            set.add_reader(near, number).unwrap();
        }
        // Two on each; of the first ones, and of some in between, all are lost.
        let arriving = (0..2).flat_map(|_| (9..20).chain(25..30));
        for number in arriving {
            let (near, far) = &pairs[number as usize];
            { far }.write_all(b"x").unwrap();
            assert!(wait_readable(near, soon()).unwrap());
            let looks = (1..).find(|_| {
                set.look_for_next(&mut events).unwrap();
                !events.is_empty()
            });
            assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [number]);
            assert!(looks.unwrap() <= LOOKS_PER_ROUND, "{number}: {looks:?}");
            assert_eq!(std::io::Read::read(&mut &*near, &mut [0; 9]).unwrap(), 1);
        }
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
