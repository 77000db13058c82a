//! Fault injection for tests: a program as it is, of whose system calls one fails, is interrupted, is short or is late.
//!
//! The kernel asks this process about each call that a program makes (seccomp user notification, seccomp_unotify(2)), whichever
//! library makes it, so that the program needs no seam of its own. Calls are counted from the start of the program on, in all its
//! threads and processes together. Calls that do not appear in [`CALLS`] are not counted, cannot fail and cost nothing: those on memory
//! (Rust ends a program that gets none), those of locks, and those that cannot fail.

mod calls;
mod listener;
mod short;

pub use calls::CALLS;

use calls::Call;
use kumade_units::Span;
use listener::{CallOutcome, Listener, Notification};
use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Nanoseconds by which this process takes its wall clock to be set.
static CLOCK_STEP: AtomicI64 = AtomicI64::new(0);

/// Sets the wall clock, as this process reads it, by so much. The kernel's stamps go on as they were.
pub fn step_clock(by: Span) {
    CLOCK_STEP.fetch_add(by.as_nanos(), Ordering::SeqCst);
}

/// By how much it was set in all.
pub(crate) fn clock_step() -> Span {
    Span::from_nanos(CLOCK_STEP.load(Ordering::SeqCst))
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails as the documentation of this call allows, mostly for want of a resource: see [`CALLS`].
    Error,
    /// A signal interrupts it (EINTR).
    Interrupted,
    /// It reads or writes half of what it was asked to. Calls other than read, write, sendto and recvfrom on streams are made as they are.
    Short,
    /// It is made this much later.
    Delayed(Duration),
}

/// Which call has the fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    /// A name of [`CALLS`].
    pub call: &'static str,
    /// The first call of this name is 1. None is 0.
    pub number: u64,
    /// What becomes of it.
    pub fault: Fault,
}

/// What has been seen of the program.
#[derive(Debug, Default, Clone)]
pub struct FaultReport {
    /// How often each call of [`CALLS`] was made.
    pub counts: BTreeMap<&'static str, u64>,
    /// Whether the call of the plan was made, and had its fault.
    pub is_injected: bool,
}

/// A program with a fault. It is killed if this is dropped before it has ended.
#[derive(Debug)]
pub struct FaultyProgram {
    /// The program.
    pub child: Child,
    report: Arc<Mutex<FaultReport>>,
    /// The thread that started the program: a program may ask to end with it. It ends once this is dropped.
    starter: Option<(Sender<()>, JoinHandle<()>)>,
    supervisor: Option<JoinHandle<()>>,
}

/// Why no program can be started with faults: the kernel is older than Linux 5.19, another supervisor has this process, or
/// what confines it refuses that. None where nothing prevents it.
pub fn unavailable_reason() -> Option<io::Error> {
    // The filter goes with the thread, which makes no call of this kind.
    let tried = thread::spawn(|| Listener::install_on_this_thread([libc::SYS_renameat].into_iter()).map(drop));
    tried.join().unwrap_or_else(|_| Err(io::Error::other("the thread that tried has ended"))).err()
}

impl FaultyProgram {
    /// Starts the program.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.19, another supervisor has this process, or the program cannot be started.
    pub fn start(command: Command, plan: FaultPlan) -> io::Result<Self> {
        let seen = Arc::new(Mutex::new(FaultReport::default()));
        let (ended, end) = channel();
        let (listener_sender, listeners) = channel();
        let (child_sender, children) = channel();
        let starter = thread::Builder::new().name("starter".into());
        let starter = starter.spawn(move || start_supervised(command, &listener_sender, &child_sender, &end))?;
        let listener: Listener = received(&listeners)??;
        let supervisor = Supervisor { listener, plan, report: Arc::clone(&seen), is_executed: false };
        let supervisor = thread::Builder::new().name("supervisor".into()).spawn(move || supervisor.run())?;
        let child = received(&children)??;
        Ok(FaultyProgram { child, report: seen, starter: Some((ended, starter)), supervisor: Some(supervisor) })
    }

    /// What has been seen until now.
    pub fn report(&self) -> FaultReport {
        lock(&self.report).clone()
    }

    /// Waits until the program and all processes that it started have ended; false where one of them is left after this
    /// time. Without a time, as [`Child::try_wait`].
    ///
    /// # Errors
    /// The program's end cannot be waited for.
    pub fn wait_until_ended(&mut self, time: Duration) -> io::Result<bool> {
        let until = Instant::now() + time;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(POLL_INTERVAL);
        }
        // The starter makes calls that are asked about, too.
        if let Some((ended, starter)) = self.starter.take() {
            drop(ended);
            let _ = starter.join();
        }
        while self.supervisor.as_ref().is_some_and(|supervisor| !supervisor.is_finished()) {
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(true)
    }
}

impl Drop for FaultyProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(2);

fn received<T>(channel: &Receiver<T>) -> io::Result<T> {
    channel.recv().map_err(|_| io::Error::other("the thread that starts the program has ended"))
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the calls of this thread asked about, which the program inherits; starts it, and stays.
fn start_supervised(
    mut command: Command,
    listener: &Sender<io::Result<Listener>>,
    child: &Sender<io::Result<Child>>,
    end: &Receiver<()>,
) {
    let numbers = CALLS.iter().map(|call| call.number);
    if listener.send(Listener::install_on_this_thread(numbers)).is_ok() {
        let _ = child.send(command.spawn());
        let _ = end.recv();
    }
}

/// Answers for each call what becomes of it.
struct Supervisor {
    listener: Listener,
    plan: FaultPlan,
    report: Arc<Mutex<FaultReport>>,
    /// Whether the program is executed.
    is_executed: bool,
}

impl Supervisor {
    /// Until no process is left that could ask.
    fn run(mut self) {
        while let Some(asked) = self.listener.next() {
            let answer = self.decide_outcome(&asked);
            self.listener.answer(&asked, answer);
        }
    }

    fn decide_outcome(&mut self, asked: &Notification) -> CallOutcome {
        let Some(call) = CALLS.iter().find(|call| call.number == asked.call()) else { return CallOutcome::Proceed };
        if !self.is_executed {
            // Between fork and exec, the calls are those of the test.
            self.is_executed = call.name == "execve";
            return CallOutcome::Proceed;
        }
        if call.is_exempt(asked.arguments()) || !self.is_due(call) {
            return CallOutcome::Proceed;
        }
        match self.plan.fault {
            Fault::Error => CallOutcome::Error(call.error),
            Fault::Interrupted => CallOutcome::Error(libc::EINTR),
            Fault::Short => {
                short::perform(&self.listener, asked, call.name).map_or(CallOutcome::Proceed, CallOutcome::Return)
            }
            Fault::Delayed(time) => {
                thread::sleep(time);
                CallOutcome::Proceed
            }
        }
    }

    /// Counts the call.
    fn is_due(&self, call: &Call) -> bool {
        let mut seen = lock(&self.report);
        let count = seen.counts.entry(call.name).or_default();
        *count += 1;
        let is_due = call.name == self.plan.call && *count == self.plan.number;
        seen.is_injected |= is_due;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_supervisor_is_an_obstacle() {
        if let Some(error) = unavailable_reason() {
            return eprintln!("SKIPPED: {error}");
        }
        let asked_about = || {
            let _first = Listener::install_on_this_thread([libc::SYS_renameat].into_iter()).unwrap();
            unavailable_reason().and_then(|error| error.raw_os_error())
        };
        assert_eq!(thread::spawn(asked_about).join().unwrap(), Some(libc::EBUSY));
    }
}
