//! A measurement beside other work.

use crate::cancel::CancelToken;
use crate::client::measure;
use crate::config::MeasureConfig;
use kumade_measurement::Report;
use kumade_measurement::report::ErrorReport;
use kumade_net::clock;
use kumade_units::Time;
use std::io;
use std::thread::{self, JoinHandle};

/// A measurement on a thread of its own. Dropping it ends it, and waits until it has ended: some 100 ms.
#[derive(Debug)]
pub struct RunningMeasurement {
    cancel: CancelToken,
    thread: Option<JoinHandle<EndedMeasurement>>,
}

/// What came of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedMeasurement {
    /// The report, or why there is none, without a hint.
    pub outcome: Result<Report, ErrorReport>,
    /// When it ended, by [`clock::monotonic`].
    pub ended: Time,
}

impl RunningMeasurement {
    /// Starts to measure.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(config: MeasureConfig) -> io::Result<Self> {
        let cancel = config.cancel.clone();
        let run = move || {
            let failed = |error: crate::Error| failure(error.kind(), error.to_string());
            let outcome = measure(&config, &mut |_| {}).map_err(failed);
            EndedMeasurement { outcome, ended: clock::monotonic() }
        };
        let thread = Some(thread::Builder::new().name("measure".into()).spawn(run)?);
        Ok(RunningMeasurement { cancel, thread })
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Has it end, if it has not, within some 100 ms.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits until it has ended.
    pub fn finish(mut self) -> EndedMeasurement {
        let result = self.thread.take().map(JoinHandle::join);
        // A panic has been reported.
        result.and_then(Result::ok).unwrap_or_else(|| EndedMeasurement {
            outcome: Err(failure("failed", "the measurement has failed".to_owned())),
            ended: clock::monotonic(),
        })
    }
}

impl Drop for RunningMeasurement {
    fn drop(&mut self) {
        self.cancel.cancel();
        // As above.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn failure(kind: &str, message: String) -> ErrorReport {
    ErrorReport { kind: kind.to_owned(), message, hint: None }
}
