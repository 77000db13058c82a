use kumade_client::{CancelToken, Directions, MeasureConfig, Report, measure};
use kumade_multipath::measured::PathMeasurement;
use kumade_net::SocketBinding;
use kumade_noise_session::PresharedKey;
use kumade_units::{Rate, Span};
use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

/// A measurement of a path, on a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub(super) struct RunningMeasurement {
    cancel: CancelToken,
    thread: Option<JoinHandle<Result<Report, String>>>,
}

/// For the delay, the capacity and the available bandwidth; what is waited for other clients of a server is not counted.
const MAX_DURATION: Span = Span::from_secs(20);
/// Then it has failed.
const MEASUREMENT_DEADLINE: Span = Span::from_secs(120);

impl RunningMeasurement {
    pub(super) fn start(binding: SocketBinding, to: SocketAddr, key: Option<PresharedKey>) -> io::Result<Self> {
        let mut config = MeasureConfig::new(to.ip().to_string(), to.port()).with_changed_plan(|plan| {
            plan.directions = Directions::Up;
            plan.budget.time = Some(MAX_DURATION);
        });
        config.binding = binding;
        config.key = key;
        config.deadline = Some(MEASUREMENT_DEADLINE);
        let cancel = config.cancel.clone();
        let run = move || measure(&config, &mut |_| {}).map_err(|error| error.to_string());
        let thread = Some(thread::Builder::new().name("measure".into()).spawn(run)?);
        Ok(RunningMeasurement { cancel, thread })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Its result, or why there is none.
    pub(super) fn finish(mut self) -> Result<Report, String> {
        let result = self.thread.take().map(JoinHandle::join);
        result.and_then(Result::ok).unwrap_or_else(|| Err("the measurement has failed".to_owned()))
    }
}

impl Drop for RunningMeasurement {
    fn drop(&mut self) {
        self.cancel.cancel();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Why a path has not been measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MeasurementFailure {
    pub(super) reason: String,
    /// Bytes that were sent nevertheless.
    pub(super) bytes: u64,
}

/// What a report says of a path by which `sent` bytes left meanwhile, the measurement's own among them.
pub(super) fn interpret_report(report: &Report, sent: u64, took: Span) -> Result<PathMeasurement, MeasurementFailure> {
    let failed = |reason: &str, bytes| MeasurementFailure { reason: reason.to_owned(), bytes };
    let up = report.up.as_ref().ok_or_else(|| failed("the report has no direction up", 0))?;
    let bytes = up.bytes_sent + up.capacity.as_ref().map_or(0, |capacity| capacity.bytes_sent);
    let reason = || failed(up.reason.as_deref().unwrap_or("no value"), bytes);
    let delay = report.delay.as_ref().and_then(|delay| delay.up.as_ref());
    Ok(PathMeasurement {
        available: up.available_bits_per_second.ok_or_else(reason)?,
        own_traffic: Rate::from_bytes_over(sent.saturating_sub(bytes), took),
        delay: delay.map(|figures| Span::from_secs_f64(figures.minimum_seconds.value)),
        cost_bytes: bytes,
    })
}
