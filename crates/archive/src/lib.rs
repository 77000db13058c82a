//! The archive of the monitor: light probes, exclusive runs, events and gaps of years, in SQLite.
//!
//! One [`Archive`] writes, in one thread; [`Reader`]s answer in others. The time is passed in. Samples are taken by
//! [`ingest`](Archive::ingest), written by [`commit`](Archive::commit), and only then acknowledged: what was acknowledged survives
//! SIGKILL and a loss of power, and what is delivered again changes nothing. [`maintain`](Archive::maintain) does the rest in
//! short steps: hours become blocks of minutes, days blocks of hours, 32 days blocks of days; what is too old goes.
//!
//! An engine ([`Store`]) keeps bytes by keys and makes several changes at once or none; what the bytes mean is the same code
//! for all engines, so that the same question has the same answer to the bit.
//!
//! ```
//! use kumade_archive::{Archive, Batch, Family, NewRun, Reader, Retention, SeriesQuery, SqliteStore};
//! use kumade_sketch::{Lane, Outcome, Sample};
//! use kumade_units::{Span, Time};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("kumade-archive-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! # let path = directory.join("archive.db");
//! let now = Time::from_nanos(1_800_000_000_000_000_000);
//! let mut archive = Archive::open(SqliteStore::open(&path, 0)?, Retention::default(), now)?;
//! let office = archive.put_host("office", "Office", "192.0.2.1", "")?;
//! let lab = archive.put_host("lab", "Laboratory", "198.51.100.1", "")?;
//! let pair = archive.put_pair(office, lab, Family::V4)?;
//!
//! // What an agent delivers: probes, and runs that have ended.
//! let probe = |second: i64| {
//!     let (up, down) = (Span::from_micros(9_000 + second), Span::from_micros(8_000));
//!     Sample::new(now + Span::from_secs(second - 600), Outcome::Answered { up, down })
//! };
//! let document = r#"{"schema": "kumade.measure/1", "up": {"available_bits_per_second":
//!     {"value": 48000000, "low": 45000000, "high": 51000000, "confidence": 0.95}}}"#;
//! let run = NewRun { pair, started: now - Span::from_secs(300), ended: now - Span::from_secs(292), document: document.to_owned() };
//! let batch = Batch {
//!     instance: "office/1".to_owned(),
//!     sequence: 1,
//!     samples: vec![(pair, (0..600).map(probe).collect())],
//!     runs: vec![run],
//!     ..Batch::default()
//! };
//! archive.ingest(&batch, now)?;
//! let acknowledged = archive.commit(now)?;
//! assert_eq!(acknowledged[0].sequence, 1);
//! while archive.maintain(now)? {}
//!
//! // Another thread asks.
//! let mut reader = Reader::new(archive.store().reader()?);
//! let series = reader.series(&SeriesQuery { pair, from: now - Span::from_secs(600), to: now, points: 10 })?;
//! let sent: u64 = series.points.iter().map(|point| point.summary[Lane::Up].idle.sent()).sum();
//! assert_eq!(sent, 600);
//! let state = &reader.latest()?[0];
//! assert_eq!(state.up.unwrap().lost, 0);
//! let run = &reader.latest_runs()?[0];
//! assert!(run.figures.get("up.available_bits_per_second").is_some());
//! assert_eq!(reader.document(run.id)?.as_deref(), Some(document));
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod any_store;
mod archive;
mod batch;
mod bytes;
mod catalogue;
mod decoding;
mod delivered;
mod document_codec;
mod error;
mod figure_codec;
mod figures;
mod forecast;
mod maintenance;
mod postgres;
mod reader;
mod recent;
mod records;
mod retention;
mod run;
mod schedule;
mod segment;
mod series;
mod sqlite;
mod staged;
mod store;

pub use any_store::AnyStore;
pub use archive::{Archive, Health};
pub use batch::{Acknowledged, Batch, Taken};
pub use catalogue::{Family, Host, HostId, NewHost, Pair, PairId};
pub use error::ArchiveError;
pub use figures::{Figure, Figures};
pub use forecast::{Forecast, ForecastBytes};
pub use postgres::{Leader, PostgresAddress, PostgresAddressError, PostgresStore};
pub use reader::Reader;
pub use recent::{LaneState, PairState};
pub use records::{AuditEntry, Event, Gap};
pub use retention::Retention;
pub use run::{NewRun, Run};
pub use series::{Point, Series, SeriesQuery};
pub use sqlite::{DEFAULT_RESERVE_BYTES, SqliteStore};
pub use store::{DiskUsage, Kept, ReadStore, Segment, SegmentId, Store, StoredRun, Write};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
