//! Waiting for sockets, up to an instant of [`clock::monotonic`].

pub use crate::poll::{Event, wait_any_readable, wait_any_writable, wait_readable, wait_writable};

use crate::clock;
use crate::poll::wait_one;
use kumade_units::{Span, Time};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use rustix::event::PollFlags;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

/// Whether the peer has closed the connection, or it has failed, as far as this host knows. Does not wait.
///
/// # Errors
/// Where the system refuses to look.
pub fn is_closed(stream: &TcpStream) -> io::Result<bool> {
    // Errors and the end of both directions are told unasked.
    wait_one(stream, PollFlags::RDHUP, Time::ZERO)
}

/// Many sockets, waited for together; each keeps reporting until it is dealt with or removed.
#[derive(Debug)]
pub struct EpollSet(Epoll);

/// As [`platform`](crate::platform) calls it.
pub type SocketSet = EpollSet;

impl EpollSet {
    /// A wait reports no more events than this.
    pub const MAX_EVENTS: usize = 64;

    /// An empty set.
    ///
    /// # Errors
    /// Where the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(EpollSet(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Reports `socket` under `number` when it can be read.
    ///
    /// # Errors
    /// Where it is in the set already, or the system's limit is reached.
    pub fn add_reader(&self, socket: &impl AsFd, number: u32) -> io::Result<()> {
        Ok(self.0.add(socket, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, u64::from(number)))?)
    }

    /// Reports `socket` under `number` when it can be written: a connecting one when it is open or has failed.
    ///
    /// # Errors
    /// As for [`add_reader`](Self::add_reader).
    pub fn add_writer(&self, socket: &impl AsFd, number: u32) -> io::Result<()> {
        Ok(self.0.add(socket, EpollEvent::new(EpollFlags::EPOLLOUT, u64::from(number)))?)
    }

    /// Reports `socket` under `number` once each time that more can be read or written than before: whoever is told goes on
    /// until the system takes or gives no more (`WouldBlock`).
    ///
    /// # Errors
    /// As for [`add_reader`](Self::add_reader).
    pub fn add_edge_triggered(&self, socket: &impl AsFd, number: u32) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        Ok(self.0.add(socket, EpollEvent::new(flags, u64::from(number)))?)
    }

    /// Reports `socket`, which was added as a reader, also when it can be written, or no longer.
    ///
    /// # Errors
    /// Where it is not in the set.
    pub fn set_writable_reporting(&self, socket: &impl AsFd, number: u32, report: bool) -> io::Result<()> {
        self.set_reporting(socket, number, true, report)
    }

    /// Reports `socket`, which is in the set, when it can be read, or written, or neither: only that it has failed or is over.
    ///
    /// # Errors
    /// Where it is not in the set.
    pub fn set_reporting(&self, socket: &impl AsFd, number: u32, readable: bool, writable: bool) -> io::Result<()> {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, readable);
        flags.set(EpollFlags::EPOLLOUT, writable);
        Ok(self.0.modify(socket, &mut EpollEvent::new(flags, u64::from(number)))?)
    }

    /// Forgets `socket`.
    ///
    /// # Errors
    /// Where it is not in the set.
    pub fn remove(&self, socket: &impl AsFd) -> io::Result<()> {
        Ok(self.0.delete(socket)?)
    }

    /// Waits until something happens or `deadline` has come (then up to a millisecond more), and fills `events`.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait(&self, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        events.clear();
        let mut happened = [EpollEvent::empty(); Self::MAX_EVENTS];
        let count = match self.0.wait(&mut happened, milliseconds_until(deadline)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        events.extend(happened[..count].iter().map(Event::from));
        Ok(())
    }

    /// As [`wait`](Self::wait), as [`platform`](crate::platform) calls it: the kernel knows the sockets, others ask for that with a number.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait_open<'s>(
        &self,
        _socket: impl Fn(u32) -> Option<BorrowedFd<'s>>,
        events: &mut Vec<Event>,
        deadline: Time,
    ) -> io::Result<()> {
        self.wait(events, deadline)
    }

    /// As [`wait`](Self::wait), to the nanosecond of the deadline as far as the thread's timer slack allows: with one system call where
    /// the kernel has epoll_pwait2(2) (Linux 5.11), with two on older ones.
    ///
    /// # Errors
    /// Where the system refuses to wait.
    pub fn wait_precisely(&self, events: &mut Vec<Event>, deadline: Time) -> io::Result<()> {
        events.clear();
        let left = (deadline - clock::monotonic()).as_nanos().max(0);
        let timeout = libc::timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 };
        let mut happened = [EpollEvent::empty(); Self::MAX_EVENTS];
        let set = self.0.0.as_raw_fd();
        // SAFETY: `EpollEvent` is a transparent `epoll_event`, of which there is room for as many as are asked for.
        let count = unsafe {
            let room = happened.as_mut_ptr().cast::<libc::epoll_event>();
            libc::syscall(
                libc::SYS_epoll_pwait2,
                set,
                room,
                Self::MAX_EVENTS as libc::c_int,
                &raw const timeout,
                ptr::null::<libc::sigset_t>(),
                size_of::<u64>(),
            )
        };
        match Errno::result(count) {
            Ok(count) => events.extend(happened[..count as usize].iter().map(Event::from)),
            Err(Errno::EINTR) => {}
            Err(Errno::ENOSYS) => {
                if wait_readable(self, deadline)? {
                    self.wait(events, Time::ZERO)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl From<&EpollEvent> for Event {
    fn from(event: &EpollEvent) -> Self {
        let any = |flags| event.events().intersects(flags);
        Event {
            number: event.data() as u32,
            is_readable: any(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP),
            is_writable: any(EpollFlags::EPOLLOUT),
            has_error: any(EpollFlags::EPOLLERR),
        }
    }
}

impl AsFd for EpollSet {
    /// Readable while something has happened that was not dealt with.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

fn milliseconds_until(deadline: Time) -> EpollTimeout {
    let left = (deadline - clock::monotonic()).max(Span::ZERO).as_nanos();
    let millis = (left as u64).div_ceil(1_000_000).min(u64::from(u16::MAX));
    EpollTimeout::from(millis as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_netns_testbed::eventually;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener};

    #[test]
    fn a_connection_is_closed_once_either_side_has_ended_what_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0);
        let (mut theirs, ours) = pair();
        theirs.write_all(b"something to read").unwrap();
        assert!(!is_closed(&ours).unwrap());
        drop(theirs);
        assert!(eventually(|| is_closed(&ours).unwrap()));
        let (_theirs, ours) = pair();
        ours.shutdown(Shutdown::Read).unwrap();
        assert!(is_closed(&ours).unwrap());
    }
}
