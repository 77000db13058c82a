//! Waiting for an exact moment or for packets, whichever comes first.

use crate::clock;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::prctl::{get_timerslack, set_timerslack};
use nix::sys::time::TimeSpec;
use std::hint;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use units::{Span, Time};

/// A sleeping thread wakes up to this late (30 µs at the median with the least timer slack): the last stretch before
/// a deadline is spent spinning.
pub const SPIN: Span = Span::from_micros(60);

/// While it lives, the kernel wakes the thread that made it as exactly and as soon as it can, without real-time
/// priority: timer slack of 1 ns in place of 50 µs, and the shortest slice of processor time (sched(7), Linux 6.12),
/// with which a thread that wakes up goes before one that spins, and one that spins soon gives way to the kernel's own
/// threads. What the system refuses only costs exactness.
#[derive(Debug)]
pub struct LowLatencyGuard {
    slack_before: Option<u64>,
    /// Slack and slice are the thread's own, so this must not move to another.
    thread: PhantomData<*const ()>,
}

impl LowLatencyGuard {
    /// For the calling thread.
    pub fn new() -> Self {
        let slack_before = get_timerslack().ok().and_then(|slack| u64::try_from(slack).ok());
        let _ = set_timerslack(1);
        set_slice(MIN_SLICE);
        LowLatencyGuard { slack_before, thread: PhantomData }
    }
}

impl Default for LowLatencyGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LowLatencyGuard {
    fn drop(&mut self) {
        if let Some(slack) = self.slack_before {
            let _ = set_timerslack(slack);
        }
        set_slice(DEFAULT_SLICE);
    }
}

fn set_slice(slice: Span) {
    let attributes = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        runtime: slice.as_nanos() as u64,
        ..SchedulingAttributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of a struct sched_attr (its first version) and keeps no pointer to it;
    // thread 0 is the calling one.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if outcome != 0 {
        tracing::debug!("the slice stays as it is: {}", io::Error::last_os_error());
    }
}

/// Has the kernel choose.
const DEFAULT_SLICE: Span = Span::ZERO;
/// The least that sched_setattr(2) takes.
const MIN_SLICE: Span = Span::from_micros(100);

/// struct sched_attr, version 0.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Sources that a thread waits for together with a deadline.
#[derive(Debug)]
pub struct Watch(Epoll);

impl Watch {
    /// Watches these for reading. A source leaves when it is closed.
    ///
    /// # Errors
    /// Where the system's limits are reached.
    pub fn new<'a>(sources: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for source in sources {
            epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        Ok(Watch(epoll))
    }

    /// Returns when `deadline` of [`clock::realtime`] has come; or earlier, once a source is readable or `is_ready`,
    /// which is asked over and over in the last stretch, says so. True where a source was found readable, whichever.
    pub fn wait(&self, deadline: Time, mut is_ready: impl FnMut() -> bool) -> bool {
        loop {
            let left = deadline - clock::realtime();
            if left <= Span::ZERO || is_ready() {
                return false;
            }
            if left > SPIN {
                // In steps of a second at most, so that a clock that is set does no lasting harm.
                let sleep = TimeSpec::from_duration((left - SPIN).min(Span::from_secs(1)).to_duration());
                // An epoll descriptor is itself readable when one of its sources is. An interrupted wait is a short one.
                if ppoll(&mut [PollFd::new(self.0.0.as_fd(), PollFlags::POLLIN)], Some(sleep), None)
                    .is_ok_and(|n| n > 0)
                {
                    return true;
                }
            } else {
                hint::spin_loop();
            }
        }
    }
}
