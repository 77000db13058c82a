//! A full measurement of one target, on a thread of its own.

use crate::config::{MeasurementSchedule, MonitoredTarget};
use kumade_client::{CancelToken, Family, MeasureConfig, Report, measure};
use kumade_net::interface;
use kumade_units::Span;
use std::io;
use std::thread::{self, JoinHandle};

/// A measurement that runs until it ends by itself, at its deadline, or is dropped.
#[derive(Debug)]
pub struct ExclusiveRun {
    cancel: CancelToken,
    thread: Option<JoinHandle<()>>,
}

/// What came of a measurement; the words of the failure where it has failed.
pub type RunOutcome = Result<Box<Report>, String>;

/// Other clients of the server may be measured first: a run that waits for longer has lost its slot.
const MAX_SERVER_WAIT: Span = Span::from_secs(10);

impl ExclusiveRun {
    /// Starts to measure. `on_end` is called once, on the run's thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(
        target: &MonitoredTarget,
        schedule: &MeasurementSchedule,
        deadline: Span,
        on_end: impl FnOnce(RunOutcome) + Send + 'static,
    ) -> io::Result<Self> {
        let cancel = CancelToken::default();
        let mut config = MeasureConfig::new(target.host.clone(), schedule.port);
        config.family = match target.family {
            None => Family::Any,
            Some(interface::Family::V4) => Family::V4,
            Some(interface::Family::V6) => Family::V6,
        };
        config.key = schedule.key.clone();
        config.max_server_wait = MAX_SERVER_WAIT;
        config.deadline = Some(deadline);
        config.cancel = cancel.clone();
        let work = move || on_end(measure(&config, &mut |_| {}).map(Box::new).map_err(|error| error.to_string()));
        let thread = thread::Builder::new().name("measurement".into()).spawn(work)?;
        Ok(ExclusiveRun { cancel, thread: Some(thread) })
    }
}

impl Drop for ExclusiveRun {
    fn drop(&mut self) {
        self.cancel.cancel();
        // A panic there has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}
