//! The signals that ask a process to end, or to read its configuration again.

use kumade_net::readiness;
use kumade_net::waker::{WakeReceiver, Waker, new_waker};
use kumade_units::Time;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What signals ask of a daemon, to be looked at in its loop, which [waits](Self::wait) for them.
#[derive(Debug)]
pub struct DaemonSignals {
    stop: Arc<AtomicBool>,
    reload: Option<ReloadSignal>,
    waker: Arc<Waker>,
    wake_receiver: WakeReceiver,
}

/// Asks the daemon to end, as a signal does, from any thread.
#[derive(Debug, Clone)]
pub struct DaemonStopper {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl DaemonStopper {
    /// Does it.
    pub fn request_end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

/// SIGHUP where it may mean that the configuration is to be read again.
#[derive(Debug)]
struct ReloadSignal {
    is_pending: Arc<AtomicBool>,
    /// The process has a terminal that may hang up, which is told by the same signal.
    has_terminal: bool,
}

impl DaemonSignals {
    /// Listens for them. Ctrl-C (SIGINT) and SIGTERM ask to end, always. SIGHUP asks a daemon that has a configuration file
    /// to read it again, unless the process has lost its controlling terminal with it; that, and SIGHUP without a file, asks to
    /// end as it does by [`termination_flag`].
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn register(has_configuration_file: bool) -> io::Result<Self> {
        let is_hangup_ignored = is_ignored(SIGHUP);
        let (stop, reload) = if has_configuration_file {
            let is_pending = Arc::new(AtomicBool::new(false));
            flag::register(SIGHUP, Arc::clone(&is_pending))?;
            let has_terminal = !is_hangup_ignored && has_controlling_terminal();
            (register_handlers(&[SIGINT, SIGTERM])?, Some(ReloadSignal { is_pending, has_terminal }))
        } else {
            (termination_flag()?, None)
        };
        let (waker, wake_receiver) = new_waker()?;
        // Handlers run in the order of their registration: whoever is woken finds what the signal has set.
        for signal in ENDING.into_iter().filter(|signal| *signal != SIGHUP || reload.is_some() || !is_hangup_ignored) {
            low_level::pipe::register(signal, waker.duplicate_descriptor()?)?;
        }
        Ok(DaemonSignals { stop, reload, waker: Arc::new(waker), wake_receiver })
    }

    /// Ends a [wait](Self::wait) from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Asks it to end from any thread.
    pub fn stopper(&self) -> DaemonStopper {
        DaemonStopper { stop: Arc::clone(&self.stop), waker: self.waker() }
    }

    /// Waits until a signal comes, [someone wakes it](Self::waker), or the deadline of [`kumade_net::clock::monotonic`] has come. What
    /// came since the last wait ends it at once.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&self, deadline: Time) -> io::Result<()> {
        readiness::wait_readable(&self.wake_receiver, deadline)?;
        self.wake_receiver.clear();
        Ok(())
    }

    /// As [`wait`](Self::wait), or until something else is readable.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait_beside(&self, other: &impl AsFd, deadline: Time) -> io::Result<()> {
        readiness::wait_any_readable([self.wake_receiver.as_fd(), other.as_fd()], deadline)?;
        self.wake_receiver.clear();
        Ok(())
    }

    /// Whether the daemon is to end.
    pub fn is_end_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.reload.as_ref().is_some_and(ReloadSignal::is_hangup)
    }

    /// True once the daemon is to end, but where its terminal has hung up: for what can look at nothing else.
    pub fn end_flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Whether the configuration is to be read again, once for each time that this was asked for.
    pub fn take_reload_request(&self) -> bool {
        let is_due = |reload: &ReloadSignal| !reload.is_hangup() && reload.is_pending.swap(false, Ordering::Relaxed);
        self.reload.as_ref().is_some_and(is_due)
    }
}

impl ReloadSignal {
    /// Whether the signal has come since the terminal has gone. The kernel takes the terminal away before it sends the signal.
    fn is_hangup(&self) -> bool {
        self.has_terminal && self.is_pending.load(Ordering::Relaxed) && !has_controlling_terminal()
    }
}

/// A flag that becomes true once the process is asked to end: by Ctrl-C (SIGINT), by SIGTERM, or because its terminal has
/// gone (SIGHUP), unless it was started to ignore that, as nohup(1) does.
///
/// # Errors
/// The system refuses a handler.
pub fn termination_flag() -> io::Result<Arc<AtomicBool>> {
    register_handlers(&ENDING)
}

/// Those that end a process which cannot be reloaded.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

fn register_handlers(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether this process was started to ignore the signal: proc(5).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask >> (signal - 1) & 1 == 1))
}

/// Whether this process has one: proc(5), `tty_nr` of stat. Behind the program's name, which may contain anything.
fn has_controlling_terminal() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().nth(4).is_some_and(|number| number != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since all of the process get the signals.
    #[test]
    fn signals_ask_to_end_and_a_hangup_to_reload_while_the_terminal_is_there() {
        // As nohup has it.
        let is_hangup_ignored = is_ignored(SIGHUP);
        let stop = termination_flag().unwrap();
        let signals = DaemonSignals::register(true).unwrap();
        assert!(!stop.load(Ordering::SeqCst) && !signals.take_reload_request() && !signals.is_end_requested());
        signal_hook::low_level::raise(SIGHUP).unwrap();
        signals.wait(Time::MAX).unwrap();
        assert!(signals.take_reload_request() && !signals.take_reload_request() && !signals.is_end_requested());
        assert_eq!(stop.load(Ordering::SeqCst), !is_hangup_ignored, "without a file it ends");
        signal_hook::low_level::raise(SIGTERM).unwrap();
        signals.wait(Time::MAX).unwrap();
        signals.waker().wake();
        signals.wait(Time::MAX).unwrap();
        signals.wait(Time::ZERO).unwrap();
        signals.stopper().request_end();
        signals.wait(Time::MAX).unwrap();
        assert!(stop.load(Ordering::SeqCst) && signals.is_end_requested() && !signals.take_reload_request());
        // A process whose terminal is gone, unless these tests are run at one.
        let is_pending = Arc::new(AtomicBool::new(true));
        let reload = Some(ReloadSignal { is_pending, has_terminal: true });
        let signals = DaemonSignals { stop: Arc::default(), reload, ..signals };
        assert_eq!(signals.is_end_requested(), !has_controlling_terminal());
        assert_eq!(signals.take_reload_request(), has_controlling_terminal());
    }
}
