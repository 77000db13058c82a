//! The suite that every engine passes, on SQLite; and what is particular to files.

use crate::directory::Directory;
use crate::suite;
use crate::suite::{START, batch, make_pairs, open, probes};
use kumade_archive::{Archive, ArchiveError, Reader, Retention, SeriesQuery, SqliteStore, Store};
use kumade_sketch::Lane;
use kumade_units::Span;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn sqlite_passes_the_suite() {
    suite::run(Directory::in_memory);
}

#[test]
fn a_later_schema_and_a_foreign_file_are_refused() {
    let directory = Directory::new();
    make_pairs(&mut open(&directory, START), 1);
    let sql = |path: &PathBuf, sql: &str| rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    sql(&directory.archive(), "PRAGMA user_version = 99");
    for error in [
        SqliteStore::open(&directory.archive(), 0).unwrap_err(),
        SqliteStore::open_read_only(&directory.archive()).unwrap_err(),
    ] {
        assert!(matches!(error, ArchiveError::Newer { found: 99, .. }), "{error}");
        assert!(error.to_string().contains("install the later version"), "{error}");
    }
    let foreign = directory.0.join("foreign.db");
    sql(&foreign, "CREATE TABLE theirs(x)");
    assert!(matches!(SqliteStore::open(&foreign, 0), Err(ArchiveError::Foreign { .. })));
    std::fs::write(&foreign, "this is no database, but it has some length to be read".repeat(20)).unwrap();
    assert!(SqliteStore::open(&foreign, 0).is_err());
}

/// The log begins anew after a checkpoint although readers ask all the time.
#[test]
fn the_log_stays_short_under_readers_that_overlap() {
    let directory = Directory::in_memory();
    let mut archive = open(&directory, START);
    let pair = make_pairs(&mut archive, 1)[0];
    let ended = AtomicBool::new(false);
    let readers = [0, 1].map(|_| archive.store().reader().unwrap());
    let longest = std::thread::scope(|threads| {
        for reader in readers {
            threads.spawn(|| {
                let mut reader = Reader::new(reader);
                while !ended.load(Ordering::Relaxed) {
                    reader.series(&SeriesQuery { pair, from: START, to: START + suite::HOUR, points: 60 }).unwrap();
                }
            });
        }
        let mut longest = 0;
        for sequence in 0..400 {
            archive.ingest(&batch(sequence, vec![(pair, probes(sequence, START, 600))]), START + suite::HOUR).unwrap();
            archive.commit(START + suite::HOUR).unwrap();
            if sequence % 20 == 19 {
                longest = longest.max(archive.store().checkpoint().unwrap());
            }
        }
        ended.store(true, Ordering::Relaxed);
        longest
    });
    assert!(longest < 4 << 20, "the log grew to {longest} bytes");
}

#[test]
fn a_backup_of_a_running_archive_has_what_was_acknowledged_before() {
    let directory = Directory::new();
    let mut archive = open(&directory, START);
    let pair = make_pairs(&mut archive, 1)[0];
    let now = START + suite::HOUR;
    let deliver = |archive: &mut Archive<SqliteStore>, sequence| {
        archive.ingest(&batch(sequence, vec![(pair, probes(sequence, START, 60))]), now).unwrap();
        archive.commit(now).unwrap();
    };
    (0..20).for_each(|sequence| deliver(&mut archive, sequence));
    let copy = directory.0.join("copy.db");
    let source = directory.archive();
    std::thread::scope(|threads| {
        let backup = threads.spawn(|| SqliteStore::back_up(&source, &copy));
        (20..60).for_each(|sequence| deliver(&mut archive, sequence));
        backup.join().unwrap().unwrap();
    });
    let error = SqliteStore::back_up(&source, &copy).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    let store = SqliteStore::open(&copy, 0).unwrap();
    let mut restored = Archive::open(store, Retention::default(), now).unwrap();
    let series = restored.read().series(&SeriesQuery { pair, from: START, to: now, points: 1 }).unwrap();
    let sent = series.points[0].summary[Lane::Up].all().sent();
    assert!(sent >= 20 * 60 && sent % 60 == 0, "{sent}");
    deliver(&mut restored, 1000);
    assert!(restored.maintain(now + Span::from_secs(9999)).unwrap());
}
