//! Prompt wake-ups without real-time priority.

use kumade_units::Span;
use nix::libc;
use nix::sys::prctl::{get_timerslack, set_timerslack};
use std::io;
use std::marker::PhantomData;

/// While it lives, the kernel wakes the thread that made it as promptly as it can without real-time priority: the timer
/// slack is 1 ns instead of 50 µs, and the time slice the shortest (sched_setattr(2), Linux 6.12), with which a thread that
/// wakes up preempts one that spins, and one that spins soon gives way to the kernel's own threads. Where the system
/// refuses either, wake-ups are only less prompt.
#[derive(Debug)]
pub struct LowLatencyGuard {
    previous_slack: Option<u64>,
    /// Slack and slice are the thread's own, so this must not move to another.
    thread: PhantomData<*const ()>,
}

impl LowLatencyGuard {
    /// For the calling thread.
    pub fn new() -> Self {
        let slack_before = get_timerslack().ok().and_then(|slack| u64::try_from(slack).ok());
        let _ = set_timerslack(1);
        set_slice(MIN_SLICE);
        LowLatencyGuard { previous_slack: slack_before, thread: PhantomData }
    }
}

impl Default for LowLatencyGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LowLatencyGuard {
    fn drop(&mut self) {
        if let Some(slack) = self.previous_slack {
            let _ = set_timerslack(slack);
        }
        set_slice(DEFAULT_SLICE);
    }
}

/// Gives the calling thread, but none that it starts, precedence over all others that have no real-time priority (nice −20), for good.
/// Beside threads that use up the CPU, it then runs as punctually as on an idle one, which the time slice alone does not give to a
/// thread that spins. It is for what emulates the network of an experiment: the kernel's own threads on this CPU have to wait as well.
/// Where the system refuses it, as without privileges, the thread stays as it is.
pub fn raise_priority() {
    change_scheduling(|attributes| {
        attributes.flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        attributes.nice = MIN_NICE;
    });
}

fn set_slice(slice: Span) {
    change_scheduling(|attributes| attributes.runtime = slice.as_nanos() as u64);
}

/// Changes how the calling thread is scheduled, and nothing else of it: a user may have given it another precedence.
fn change_scheduling(change: impl FnOnce(&mut SchedulingAttributes)) {
    const SIZE: u32 = size_of::<SchedulingAttributes>() as u32;
    let mut attributes = SchedulingAttributes::default();
    // SAFETY: the kernel writes `SIZE` bytes of a struct sched_attr (its first version) at most, and keeps no pointer to it; thread 0
    // is the calling one.
    let mut outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    if outcome == 0 {
        attributes.size = SIZE;
        change(&mut attributes);
        // SAFETY: as above, but that the kernel reads.
        outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
    if outcome != 0 {
        tracing::debug!("cannot change how a thread is scheduled: {}", io::Error::last_os_error());
    }
}

/// Of nice(1).
const MIN_NICE: i32 = -20;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn nice() -> i32 {
        let mut found = 0;
        change_scheduling(|attributes| found = attributes.nice);
        found
    }

    #[test]
    fn a_thread_keeps_the_precedence_that_its_user_gave_it() {
        let work = || {
            change_scheduling(|attributes| attributes.nice = 5);
            let guard = LowLatencyGuard::new();
            let during = nice();
            drop(guard);
            [during, nice()]
        };
        assert_eq!(thread::spawn(work).join().unwrap(), [5, 5]);
    }

    #[test]
    fn what_a_thread_with_precedence_starts_has_none() {
        let work = || {
            raise_priority();
            // Without privileges it has none, either.
            [nice(), thread::spawn(nice).join().unwrap()]
        };
        let [own, started] = thread::spawn(work).join().unwrap();
        assert!([MIN_NICE, 0].contains(&own) && started == 0, "{own}, {started}");
    }
}
