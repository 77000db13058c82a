//! The writer is killed at any moment; the disk is full.

use crate::directory::Directory;
use crate::suite::{START, batch, make_pairs, probes, settle};
use kumade_archive::{Archive, ArchiveError, Health, Reader, Retention, SeriesQuery, SqliteStore, Taken};
use kumade_sketch::Lane;
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A test of this file that is run as a process of its own: where its archive is.
const CHILD_ARCHIVE: &str = "KUMADE_TEST_ARCHIVE";
const CHILD_FIRST: &str = "KUMADE_TEST_FIRST";

/// Each batch of the killed writer has so many probes, of so much time: an hour is over every thirty batches.
const BATCH_PROBES: i64 = 20;
const BATCH_SECONDS: i64 = 120;

const KILLS: u32 = 50;
/// More than two hours of them, which are rolled up; a slow machine takes more kills.
const BATCHES: u64 = 61;
const MAX_KILLS: u32 = 5000;

fn child(test: &str, archive: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).env(CHILD_ARCHIVE, archive);
    command
}

fn child_archive() -> PathBuf {
    std::env::var_os(CHILD_ARCHIVE).expect("only run by other tests").into()
}

fn batch_time(sequence: u64) -> Time {
    START + Span::from_secs(sequence as i64 * BATCH_SECONDS)
}

fn sent_probes<S: kumade_archive::ReadStore>(reader: &mut Reader<S>, pair: kumade_archive::PairId, to: Time) -> u64 {
    let series = reader.series(&SeriesQuery { pair, from: START, to, points: 4 }).unwrap();
    series.points.iter().map(|point| point.summary[Lane::Up].all().sent()).sum()
}

/// Delivers batches, and tells which are acknowledged, until it is killed.
#[test]
#[ignore = "run by `a_killed_writer_loses_nothing_that_it_acknowledged`"]
fn writer_that_is_killed() {
    let first: u64 = std::env::var(CHILD_FIRST).unwrap().parse().unwrap();
    let store = SqliteStore::open(&child_archive(), 0).unwrap();
    let mut archive = Archive::open(store, Retention::default(), batch_time(first)).unwrap();
    let pairs = make_pairs(&mut archive, 3);
    let mut output = std::io::stdout();
    for sequence in first.. {
        let now = batch_time(sequence + 1);
        let samples = pairs.iter().map(|pair| (*pair, probes(sequence, batch_time(sequence), BATCH_PROBES)));
        let acknowledged = match archive.ingest(&batch(sequence, samples.collect()), now).unwrap() {
            Taken::Repeated => vec![sequence],
            Taken::Staged => archive.commit(now).unwrap().into_iter().map(|batch| batch.sequence).collect(),
        };
        acknowledged.iter().for_each(|sequence| writeln!(output, "acknowledged {sequence}").unwrap());
        settle(&mut archive, now);
    }
}

fn kill(mut writer: Child, after: Duration) -> Option<u64> {
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        writer.kill().unwrap();
        writer.wait().unwrap();
    });
    // The first one follows the name of the test in its line.
    let acknowledged =
        lines.map_while(Result::ok).filter_map(|line| line.split_once("acknowledged ")?.1.parse().ok()).last();
    killer.join().unwrap();
    acknowledged
}

#[test]
fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    let seed = rand_seed();
    println!("seed {seed}");
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let directory = Directory::in_memory();
    let (mut next, mut kills) = (0, 0);
    while kills < KILLS || next < BATCHES {
        assert!(kills < MAX_KILLS, "only {next} batches in {kills} runs");
        kills += 1;
        let mut writer = child("faults::writer_that_is_killed", &directory.archive());
        let writer = writer.env(CHILD_FIRST, next.to_string()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let acknowledged = kill(writer.unwrap(), Duration::from_micros(random.random_range(5_000..150_000)));
        next = acknowledged.map_or(next, |last| last + 1);
        let end = batch_time(next + 1);
        let mut archive =
            Archive::open(SqliteStore::open(&directory.archive(), 0).unwrap(), Retention::default(), end).unwrap();
        let pairs: Vec<_> = archive.pairs().map(|pair| pair.id).collect();
        for pair in pairs {
            // The one after the last acknowledged may be there, whole.
            let sent = sent_probes(archive.read(), pair, end + Span::from_secs(86_400));
            let whole = [next, next + 1].map(|batches| batches * BATCH_PROBES as u64);
            assert!(whole.contains(&sent), "{sent} probes after {next} batches, seed {seed}");
        }
    }
}

fn rand_seed() -> u64 {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    std::env::var("KUMADE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(clock.as_nanos() as u64)
}

/// In a mount namespace of its own, on a file system of 12 MB.
#[test]
fn a_full_disk_stops_writing_and_loses_nothing() {
    let directory = Directory::new();
    let inside = directory.0.join("small");
    std::fs::create_dir(&inside).unwrap();
    let run = child("faults::archive_on_a_small_disk", &inside.join("archive.db"));
    let script = "mount -t tmpfs -o size=12m kumade \"$1\" || exit 77; shift; exec \"$@\"";
    let root = nix::unistd::geteuid().is_root();
    let mut command = Command::new("unshare");
    command.args(if root { &["--mount"][..] } else { &["--mount", "--map-root-user"] });
    command.args(["sh", "-c", script, "sh"]).arg(&inside).arg(run.get_program()).args(run.get_args());
    command.env(CHILD_ARCHIVE, inside.join("archive.db"));
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output)
            if output.status.code() == Some(77) || String::from_utf8_lossy(&output.stderr).contains("unshare") =>
        {
            println!("passed over: this user may not mount a small file system");
        }
        Ok(output) => {
            panic!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => println!("passed over: there is no `unshare`: {error}"),
    }
}

#[test]
#[ignore = "run by `a_full_disk_stops_writing_and_loses_nothing`"]
fn archive_on_a_small_disk() {
    let path = child_archive();
    let mut archive = Archive::open(SqliteStore::open(&path, 2 << 20).unwrap(), Retention::default(), START).unwrap();
    let pairs = make_pairs(&mut archive, 20);
    let time = |hour: u64| START + Span::from_secs(hour as i64 * 3600);
    let mut acknowledged = 0;
    let full = (0..).find_map(|hour| {
        let samples = pairs.iter().map(|pair| (*pair, probes(hour, time(hour), 3600))).collect();
        archive.ingest(&batch(hour, samples), time(hour + 1)).unwrap();
        match archive.commit(time(hour + 1)) {
            Ok(batches) => acknowledged += batches.len() as u64,
            Err(error) => return Some((hour, error)),
        }
        loop {
            match archive.maintain(time(hour + 1) + Span::from_secs(130)) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some((hour, error)),
            }
        }
    });
    let (hour, error) = full.unwrap();
    assert!(matches!(error, ArchiveError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert!(matches!(archive.health(), Health::DiskFull(_)));
    assert!(archive.ingest(&batch(9999, Vec::new()), time(hour + 2)).is_err());
    let check = |archive: &mut Archive<SqliteStore>, batches: u64| {
        let mut reader = Reader::new(archive.store().reader().unwrap());
        for pair in &pairs {
            assert_eq!(sent_probes(&mut reader, *pair, time(batches + 48)), batches * 3600);
        }
    };
    check(&mut archive, acknowledged);
    // Nothing is old enough to go: it stays as it is, however often it is asked.
    (0..20).for_each(|i| _ = archive.maintain(time(hour + 2) + Span::from_secs(i * 20)));
    check(&mut archive, acknowledged);
    // Packets of the first days are too old a week later: there is room again.
    let later = time(hour) + Span::from_secs(8 * 86_400);
    let resumed = (0..5000).find(|i| {
        _ = archive.maintain(later + Span::from_secs(*i));
        archive.health() == Health::Writing
    });
    assert!(resumed.is_some(), "{:?}", archive.read().disk_usage());
    // What was taken before is written first, if it was not.
    acknowledged += archive.commit(later).unwrap().len() as u64;
    check(&mut archive, acknowledged);
    let events = archive.read().events(START..later + Span::from_secs(9999), None, None, 9).unwrap();
    assert_eq!(events[0].kind, "disk-full");
    assert!(archive.read().disk_usage().unwrap().reserve_bytes > 0);
}
