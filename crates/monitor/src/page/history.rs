//! What the archive says, in the documents that the page reads.

use crate::pair_recorder::idle_delays;
use crate::run_document::run_status;
use crate::status::{LaneDelay, RunStatus};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use kumade_archive::{AnyStore, ArchiveError, Gap, PairId, Point, Reader, SeriesQuery};
use kumade_sketch::{Lane, Tally};
use kumade_units::Time;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use thiserror::Error;

/// Puts questions to the archive, from any thread.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// Connections that nobody uses at present; as many questions are answered at a time as there are.
    idle: Arc<Mutex<Vec<Reader<AnyStore>>>>,
    numbers: PairNumbers,
}

/// The archive's number of each pair, by the id of its target, as far as known.
pub(crate) type PairNumbers = Arc<RwLock<BTreeMap<String, PairId>>>;

/// Why a question has no answer.
#[derive(Debug, Error)]
pub(crate) enum HistoryError {
    /// The path's parts make no sense.
    #[error("the range makes no sense: give `from` and a later `to`, in seconds since 1970 (UTC)")]
    InvalidRange,
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// More questions at a time than there are connections.
    #[error("too many questions at a time: try again")]
    Busy,
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// The probes of a pair.
#[derive(Debug, Serialize)]
pub(crate) struct SeriesDocument {
    /// Length of a bucket.
    resolution_seconds: f64,
    /// By time; none where there was no probe.
    buckets: Vec<Bucket>,
    /// Times without probes, and why.
    gaps: Vec<GapEntry>,
}

/// The probes of one stretch of time: those that were sent while no measurement ran.
#[derive(Debug, Serialize)]
struct Bucket {
    from_seconds: f64,
    length_seconds: f64,
    sent: u64,
    lost: u64,
    /// Of these, what is known to be lost on the way there, …
    lost_up: u64,
    /// … and on the way back.
    lost_down: u64,
    late: u64,
    duplicated: u64,
    delays: Vec<LaneDelay>,
    /// Probes that were sent while a measurement ran, which are in none of the others.
    disturbed: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct GapEntry {
    from_seconds: f64,
    to_seconds: f64,
    cause: String,
}

/// Measurements of a pair, by time.
#[derive(Debug, Serialize)]
pub(crate) struct RunsDocument {
    runs: Vec<RunStatus>,
}

/// A measurement with its document.
#[derive(Debug, Serialize)]
pub(crate) struct RunDocument {
    pair: String,
    #[serde(flatten)]
    run: RunStatus,
    /// As it came; none where it is no longer kept.
    document: Option<Box<RawValue>>,
}

/// What happened, the latest first.
#[derive(Debug, Serialize)]
pub(crate) struct EventsDocument {
    events: Vec<EventEntry>,
}

#[derive(Debug, Serialize)]
struct EventEntry {
    time_seconds: f64,
    kind: String,
    pair: Option<String>,
    text: String,
}

/// Who has done what, the latest first.
#[derive(Debug, Serialize)]
pub(crate) struct AuditDocument {
    entries: Vec<AuditLine>,
}

#[derive(Debug, Serialize)]
struct AuditLine {
    time_seconds: f64,
    who: String,
    what: String,
}

/// More are no list to read; a smaller range has them.
const MAX_EVENTS: u32 = 1000;
/// More cannot be told apart in a plot.
const MAX_RUNS: u32 = 5000;

impl History {
    pub(crate) fn new(readers: Vec<Reader<AnyStore>>, numbers: PairNumbers) -> Self {
        History { idle: Arc::new(Mutex::new(readers)), numbers }
    }

    /// How many questions are answered at a time.
    pub(super) fn readers(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn series(&self, id: &str, range: Range<Time>, points: u32) -> Result<SeriesDocument, HistoryError> {
        let pair = self.number(id)?;
        let query = SeriesQuery { pair, from: range.start, to: range.end, points: points as usize };
        let (series, gaps) = self.read(|reader| Ok((reader.series(&query)?, reader.gaps(pair, range)?)))?;
        Ok(SeriesDocument {
            resolution_seconds: series.step.as_secs_f64(),
            buckets: series.points.iter().map(Bucket::from).collect(),
            gaps: gaps.into_iter().map(GapEntry::from).collect(),
        })
    }

    pub(crate) fn runs(&self, id: &str, range: Range<Time>) -> Result<RunsDocument, HistoryError> {
        let pair = self.number(id)?;
        let mut runs = self.read(|reader| reader.runs(pair, range, MAX_RUNS))?;
        runs.reverse();
        Ok(RunsDocument { runs: runs.iter().map(run_status).collect() })
    }

    pub(crate) fn run(&self, id: i64) -> Result<RunDocument, HistoryError> {
        let (run, document) = self.read(|reader| Ok((reader.run(id)?, reader.document(id)?)))?;
        let run = run.ok_or_else(|| HistoryError::NotFound(format!("measurement {id}")))?;
        let document = document.and_then(|text| RawValue::from_string(text).ok());
        Ok(RunDocument { pair: self.id(run.pair).unwrap_or_default(), run: run_status(&run), document })
    }

    /// Of one pair, or of all and of hosts.
    pub(crate) fn events(&self, pair: Option<&str>, range: Range<Time>) -> Result<EventsDocument, HistoryError> {
        let pair = pair.map(|id| self.number(id)).transpose()?;
        let events = self.read(|reader| reader.events(range, None, pair, MAX_EVENTS))?;
        let entry = |event: kumade_archive::Event| EventEntry {
            time_seconds: event.at.as_secs_f64(),
            kind: event.kind,
            pair: event.pair.and_then(|pair| self.id(pair)),
            text: event.text,
        };
        Ok(EventsDocument { events: events.into_iter().map(entry).collect() })
    }

    pub(crate) fn audit(&self, range: Range<Time>) -> Result<AuditDocument, HistoryError> {
        let entries = self.read(|reader| reader.audit(range, MAX_EVENTS))?;
        let line = |entry: kumade_archive::AuditEntry| AuditLine {
            time_seconds: entry.at.as_secs_f64(),
            who: entry.who,
            what: entry.what,
        };
        Ok(AuditDocument { entries: entries.into_iter().map(line).collect() })
    }

    /// With a connection that nobody else uses meanwhile.
    pub(super) fn read<T>(
        &self,
        question: impl FnOnce(&mut Reader<AnyStore>) -> Result<T, ArchiveError>,
    ) -> Result<T, HistoryError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = idle().pop();
        let mut reader = reader.ok_or(HistoryError::Busy)?;
        let answer = question(&mut reader);
        idle().push(reader);
        Ok(answer?)
    }

    pub(super) fn number(&self, id: &str) -> Result<PairId, HistoryError> {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        numbers.get(id).copied().ok_or_else(|| HistoryError::NotFound(format!("data of a path {id:?} so far")))
    }

    fn id(&self, pair: PairId) -> Option<String> {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        numbers.iter().find(|(_, number)| **number == pair).map(|(id, _)| id.clone())
    }
}

impl From<Gap> for GapEntry {
    fn from(gap: Gap) -> Self {
        GapEntry { from_seconds: gap.from.as_secs_f64(), to_seconds: gap.to.as_secs_f64(), cause: gap.cause }
    }
}

impl From<&Point> for Bucket {
    fn from(point: &Point) -> Self {
        // Each probe counts in the one or in the other.
        let [whole, up, down] = [Lane::RoundTrip, Lane::Up, Lane::Down].map(|lane| &point.summary[lane]);
        let both = [whole, up];
        let idle = |count: fn(&Tally) -> u64| both.iter().map(|lane| count(&lane.idle)).sum();
        Bucket {
            from_seconds: point.start.as_secs_f64(),
            length_seconds: point.length.as_secs_f64(),
            sent: idle(Tally::sent),
            lost: idle(|tally| tally.lost + tally.unknown),
            lost_up: up.idle.lost,
            lost_down: down.idle.lost,
            late: idle(|tally| tally.late),
            duplicated: idle(|tally| tally.duplicated),
            delays: idle_delays(&point.summary),
            disturbed: both.iter().map(|lane| lane.disturbed.sent()).sum(),
        }
    }
}

impl IntoResponse for HistoryError {
    fn into_response(self) -> Response {
        let status = match &self {
            HistoryError::InvalidRange => StatusCode::BAD_REQUEST,
            HistoryError::NotFound(_) => StatusCode::NOT_FOUND,
            HistoryError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            HistoryError::Archive(error) => {
                tracing::error!("the page: {error}");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        (status, format!("{self}\n")).into_response()
    }
}
