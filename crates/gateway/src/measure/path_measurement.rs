use kumade_client::{Directions, HostClaimConfig, IfHeld, MeasureConfig, Report};
use kumade_multipath::measured::PathMeasurement;
use kumade_net::SocketBinding;
use kumade_noise_session::PresharedKey;
use kumade_units::{Rate, Span};
use std::net::SocketAddr;

/// For the delay, the capacity and the available bandwidth; what is waited for other clients of a server is not counted.
const MAX_DURATION: Span = Span::from_secs(20);
/// For others who measure at this host.
const MAX_HOST_WAIT: Span = Span::from_secs(60);
/// Then it has failed.
const MEASUREMENT_DEADLINE: Span = Span::from_secs(120);

/// How a path is measured.
pub(super) fn path_measure_config(binding: SocketBinding, to: SocketAddr, key: Option<PresharedKey>) -> MeasureConfig {
    let mut config = MeasureConfig::new(to.ip().to_string(), to.port()).with_changed_plan(|plan| {
        plan.directions = Directions::Up;
        plan.budget.time = Some(MAX_DURATION);
    });
    config.host_claim = Some(HostClaimConfig { max_wait: MAX_HOST_WAIT, if_held: IfHeld::GoOn });
    config.binding = binding;
    config.key = key;
    config.deadline = Some(MEASUREMENT_DEADLINE);
    config
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
    let failed = |reason: String, bytes| MeasurementFailure { reason, bytes };
    let up = report.up.as_ref().ok_or_else(|| failed("the report has no direction up".to_owned(), 0))?;
    let bytes = up.total_bytes_sent();
    let reason = || failed(up.reason.as_ref().map_or_else(|| "no value".to_owned(), ToString::to_string), bytes);
    let delay = report.delay.as_ref().and_then(|delay| delay.up.as_ref());
    Ok(PathMeasurement {
        available: up.available_bits_per_second.ok_or_else(reason)?,
        own_traffic: Rate::from_bytes_over(sent.saturating_sub(bytes), took),
        delay: delay.map(|figures| Span::from_secs_f64(figures.minimum_seconds.value)),
        cost_bytes: bytes,
    })
}
