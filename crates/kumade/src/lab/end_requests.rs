//! Ctrl-C, and other signals that ask to end, while experiments run.

use indicatif::ProgressBar;
use kumade_lab::Experiment;
use std::sync::atomic::AtomicBool;
#[cfg(target_os = "linux")]
use {
    crate::output::note,
    kumade_daemon::PrivateDirectory,
    kumade_daemon::signals::DaemonSignals,
    kumade_units::Time,
    std::sync::{Arc, Mutex},
    std::{io, process, thread},
};

/// Exit status of a failure.
#[cfg(target_os = "linux")]
const FAILURE_STATUS: i32 = 1;

/// The first one ends the experiment after the runs that have begun, with a report, and is acknowledged at once; the second ends the program
/// at once.
#[cfg(target_os = "linux")]
pub(super) struct EndRequests {
    signals: Arc<DaemonSignals>,
    current: Arc<Mutex<Option<Current>>>,
}

/// Elsewhere Ctrl-C ends the program at once; the same command goes on with the runs that are left.
#[cfg(not(target_os = "linux"))]
pub(super) struct EndRequests {
    stop: AtomicBool,
}

/// What is said to whoever interrupts the present experiment, and beside which bar.
#[cfg(target_os = "linux")]
struct Current {
    bar: ProgressBar,
    acknowledgement: String,
}

#[cfg(target_os = "linux")]
impl EndRequests {
    /// Listens for them. The program must have entered its user namespace, which takes a process of one thread.
    ///
    /// # Errors
    /// The system refuses a handler or a thread.
    pub(super) fn listen() -> io::Result<Self> {
        let own = EndRequests { signals: Arc::new(DaemonSignals::register(false)?), current: Arc::default() };
        let (signals, current) = (Arc::clone(&own.signals), Arc::clone(&own.current));
        thread::Builder::new().name("end-requests".into()).spawn(move || answer(&signals, &current))?;
        Ok(own)
    }

    /// Becomes true with the first one.
    pub(super) fn stop_flag(&self) -> &AtomicBool {
        self.signals.end_flag()
    }

    /// What runs from now on.
    pub(super) fn set_current(&self, experiment: &Experiment, bar: &ProgressBar) {
        let head = experiment.head();
        let (after, lost) = match (head.is_virtual, experiment.longest_run()) {
            (true, _) => (" after the runs that have begun".to_owned(), ", and loses these"),
            // What is one run waits for none.
            (false, None) if !experiment.is_divisible() => (String::new(), ""),
            (false, longest) => {
                let time = longest.map_or(String::new(), |longest| format!(", which takes up to about {longest}"));
                (format!(" after the run that has begun{time}"), ", and loses that run")
            }
        };
        let acknowledgement = format!("{}: ending{after}; Ctrl-C again ends it at once{lost}", head.name);
        if let Ok(mut current) = self.current.lock() {
            *current = Some(Current { bar: bar.clone(), acknowledgement });
        }
    }
}

#[cfg(target_os = "linux")]
fn answer(signals: &DaemonSignals, current: &Mutex<Option<Current>>) {
    // Its wake follows the flag: whoever looked at that before would take the wake for a second one.
    while signals.wait(Time::MAX).is_ok() && !signals.is_end_requested() {}
    if !signals.is_end_requested() {
        return;
    }
    if let Ok(Some(Current { bar, acknowledgement })) = current.lock().as_deref() {
        bar.suspend(|| note!("{acknowledgement}"));
    }
    if signals.wait(Time::MAX).is_ok() {
        PrivateDirectory::remove_all();
        process::exit(FAILURE_STATUS);
    }
}

#[cfg(not(target_os = "linux"))]
impl EndRequests {
    pub(super) fn none() -> Self {
        EndRequests { stop: AtomicBool::new(false) }
    }

    pub(super) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    pub(super) fn set_current(&self, _: &Experiment, _: &ProgressBar) {}
}
