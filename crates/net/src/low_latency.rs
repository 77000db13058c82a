//! Prompt wake-ups without real-time priority.

use nix::libc;
use nix::sys::prctl::{get_timerslack, set_timerslack};
use std::io;
use std::marker::PhantomData;
use units::Span;

/// While it lives, the kernel wakes the thread that made it as promptly as it can without real-time priority: the timer
/// slack is 1 ns instead of 50 µs, and the time slice the shortest (sched_setattr(2), Linux 6.12), with which a thread that
/// wakes up preempts one that spins, and one that spins soon gives way to the kernel's own threads. Where the system
/// refuses either, wake-ups are only less prompt.
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
        tracing::debug!("cannot set the time slice: {}", io::Error::last_os_error());
    }
}

/// The kernel chooses.
const DEFAULT_SLICE: Span = Span::ZERO;
/// The minimum of sched_setattr(2).
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
