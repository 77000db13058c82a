//! An archive with the last half an hour of two paths.

use kumade_archive::{Archive, Batch, Family, NewRun, Reader, Retention, SqliteStore};
use kumade_monitor::remote_write::Position;
use kumade_net::clock;
use kumade_sketch::{Outcome, Sample};
use kumade_units::{Span, Time};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const MINUTES: i64 = 20;
pub(crate) const PROBES_IN_MINUTE: i64 = 6;
pub(crate) const SETTLE: Span = Span::from_secs(10);

pub(crate) struct History {
    pub(crate) archive: Archive<SqliteStore>,
    /// Of the first minute.
    pub(crate) start: Time,
    pub(crate) now: Time,
    pub(crate) run_ended: Time,
    directory: PathBuf,
}

impl History {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("kumade-remote-write-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let now = clock::realtime();
        let minute = Span::from_secs(60).as_nanos();
        let start = Time::from_nanos((now.as_nanos() / minute - MINUTES) * minute);
        let store = SqliteStore::open(&directory.join("archive.db"), 0).unwrap();
        let mut archive = Archive::open(store, Retention::default(), now).unwrap();
        let here = archive.put_host("@self", "here", "", "").unwrap();
        let pairs = ["near", "far"].map(|name| {
            let host = archive.put_host(name, name, "", "").unwrap();
            archive.put_pair(here, host, Family::V4).unwrap()
        });
        let probe = |number: i64| {
            let outcome = Outcome::Answered { up: Span::from_micros(9_000 + number), down: Span::from_micros(8_000) };
            Sample::new(start + Span::from_secs(number * 60 / PROBES_IN_MINUTE), outcome)
        };
        let probes: Vec<_> = (0..MINUTES * PROBES_IN_MINUTE).map(probe).collect();
        let document = r#"{"schema": "kumade.measure/1", "up": {"available_bits_per_second":
            {"value": 48000000, "low": 45000000, "high": 51000000, "confidence": 0.95}}}"#;
        let run = |ended: Time| NewRun {
            pair: pairs[0],
            started: now - Span::from_secs(608),
            ended,
            document: document.to_owned(),
        };
        let run_ended = now - Span::from_secs(600);
        let batch = Batch {
            instance: "here/1".to_owned(),
            sequence: 1,
            samples: pairs.iter().map(|pair| (*pair, probes.clone())).collect(),
            // The second one by a clock that was an hour ahead.
            runs: vec![run(run_ended), run(now + Span::from_secs(3600))],
            ..Batch::default()
        };
        archive.ingest(&batch, now).unwrap();
        archive.commit(now).unwrap();
        History { archive, start, now, run_ended, directory }
    }

    pub(crate) fn reader(&mut self) -> Reader<SqliteStore> {
        Reader::new(self.archive.store().reader().unwrap())
    }

    pub(crate) fn stored_position(&mut self) -> Position {
        Position::decode(self.archive.read().state(Position::STATE_KEY).unwrap().as_deref())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.directory);
    }
}
