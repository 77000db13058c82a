//! What a measurement's document says, in the figures that are shown.

use crate::status::{RunFigure, RunStatus};
use kumade_archive::{Figure, Figures, Run};
use kumade_client::Report;
use kumade_client::report::{ErrorReport, SCHEMA};
use kumade_units::Time;

/// The document of a measurement that failed, as `kumade measure --json` prints one.
pub(crate) fn failed_document(peer: &str, started: Time, error: ErrorReport) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        peer: peer.to_owned(),
        started: utc_text(started),
        up: None,
        down: None,
        delay: None,
        path: None,
        error: Some(error),
    }
}

/// RFC 3339.
pub(crate) fn utc_text(time: Time) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(time.as_nanos()));
    time.map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// A run as it is shown.
pub(crate) fn run_status(run: &Run) -> RunStatus {
    // That of the whole document.
    let error = match run.figures.get("") {
        Some(Figure::Missing { reason }) => Some(reason.clone()),
        _ => None,
    };
    RunStatus {
        id: run.id,
        start_seconds: run.started.as_secs_f64(),
        duration_seconds: (run.ended - run.started).as_secs_f64(),
        up: figure(&run.figures, "up"),
        down: figure(&run.figures, "down"),
        error,
    }
}

/// Available bandwidth in one direction; none where the document has no such direction.
fn figure(figures: &Figures, direction: &str) -> Option<RunFigure> {
    match figures.get(&format!("{direction}.available_bits_per_second"))? {
        Figure::Estimate { value, low, high, .. } => Some(RunFigure::Known { value: *value, low: *low, high: *high }),
        Figure::Value { value } => Some(RunFigure::Known { value: *value, low: *value, high: *value }),
        Figure::Missing { reason } => Some(RunFigure::Unknown { reason: reason.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_archive::PairId;

    #[test]
    fn why_a_measurement_failed_is_shown() {
        let message = "the quota is exceeded; come again tomorrow".to_owned();
        let error = ErrorReport { kind: "refused".to_owned(), message: message.clone(), hint: None };
        let report = failed_document("192.0.2.1", Time::ZERO, error);
        let figures = Figures::from_document(&serde_json::to_value(report).unwrap());
        let run =
            Run { id: 1, pair: PairId(1), started: Time::ZERO, ended: Time::ZERO, schema: String::new(), figures };
        assert_eq!(run_status(&run).error, Some(message));
    }
}
