//! How fast the archive takes probes, how much room a year takes, how fast it answers.
//!
//! `cargo run --release -p kumade-archive --example archive_speed [ingest|year|matrix] [--pairs N] [--days N]`
//!
//! `ingest --postgres ADDRESS` takes them into an empty database instead of a file; with `--server PID`, the number of the server's first
//! process, it says how much of a core that takes. `--seconds N` ends it before the hour is over.

mod paths;

use kumade_archive::{
    AnyStore, Archive, Batch, Family, Forecast, Kept, NewRun, PairId, PostgresStore, Reader, Retention, SeriesQuery,
    SqliteStore, Store,
};
use kumade_sketch::HOUR_NANOS;
use kumade_units::{Span, Time};
use paths::PathModel;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// 2027-01-15 08:00 UTC.
const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
/// A mesh of 100 sites: a session serves both directions.
const MESH_PAIRS: u32 = 4_950;
const DAY: Span = Span::from_secs(86_400);
const YEAR_DAYS: i64 = 366;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, default: i64| {
        let place = arguments.iter().position(|argument| argument == name);
        place.and_then(|place| arguments.get(place + 1)?.parse().ok()).unwrap_or(default)
    };
    let chosen = |name: &str| {
        arguments.iter().all(|argument| !["ingest", "year", "matrix"].contains(&argument.as_str()))
            || arguments.iter().any(|argument| argument == name)
    };
    let directory = Directory::new();
    if chosen("ingest") {
        let place = arguments.iter().position(|argument| argument == "--postgres");
        let address = place.and_then(|place| arguments.get(place + 1));
        let store = match address {
            Some(address) => open_postgres(address),
            None => SqliteStore::open(&directory.0.join("ingest.db"), 0).unwrap().into(),
        };
        let server = u32::try_from(option("--server", 0)).ok().filter(|server| *server > 0);
        ingest(store, option("--pairs", i64::from(MESH_PAIRS)) as u32, option("--seconds", 3600), server);
    }
    if chosen("year") {
        year(&directory.0.join("year.db"), option("--pairs", 4) as u32, option("--days", YEAR_DAYS));
    }
    if chosen("matrix") {
        matrix(&directory.0.join("matrix.db"));
    }
}

/// An hour of a mesh, or less, a probe a second, as fast as it goes.
fn ingest(store: AnyStore, pairs: u32, seconds: i64, server: Option<u32>) {
    let (mut archive, pairs) = new_archive(store, pairs);
    let mut models: Vec<_> = pairs.iter().map(|pair| PathModel::new(u64::from(pair.0))).collect();
    let step = 5;
    let server_time = || server.map_or(Duration::ZERO, process_group_time);
    let server_before = server_time();
    let (mut probes, mut taking, mut longest) = (0u64, Cost::default(), Duration::ZERO);
    for second in (0..seconds).step_by(step as usize) {
        let from = START + Span::from_secs(second);
        let now = from + Span::from_secs(step);
        // As many agents as a mesh has, each with its part of the pairs.
        let parts = pairs.len().div_ceil(100);
        let batches: Vec<_> = pairs
            .chunks(parts)
            .zip(models.chunks_mut(parts))
            .enumerate()
            .map(|(agent, (pairs, models))| Batch {
                instance: format!("agent-{agent}"),
                sequence: (second / step) as u64,
                samples: pairs.iter().zip(models).map(|(pair, model)| (*pair, model.probes(from, step))).collect(),
                ..Batch::default()
            })
            .collect();
        probes += batches.iter().flat_map(|batch| &batch.samples).map(|(_, samples)| samples.len() as u64).sum::<u64>();
        let begin = Cost::now();
        batches.iter().for_each(|batch| _ = archive.ingest(batch, now).unwrap());
        let commit = Instant::now();
        archive.commit(now).unwrap();
        longest = longest.max(commit.elapsed());
        while archive.maintain(now).unwrap() {}
        taking.add(begin.elapsed());
    }
    let resident = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let resident = resident.lines().find(|line| line.starts_with("Pss:")).unwrap_or_default().to_owned();
    let log = archive.store().checkpoint().unwrap();
    println!("ingest: {} pairs, {seconds} s of a probe a second, {} one-way samples", pairs.len(), 2 * probes);
    println!("  {} samples in memory, {resident} (with the bench's own), log {log} bytes", archive.open_samples());
    let begin = Cost::now();
    let end = START + Span::from_secs(2 * 3600);
    while archive.maintain(end).unwrap() {}
    let mut all = begin.elapsed();
    all.add(taking);
    let rate = |time: Duration| 2.0 * probes as f64 / time.as_secs_f64() / 1e3;
    println!("  longest commit {:.1} ms", longest.as_secs_f64() * 1e3);
    for (name, cost) in [("taken and committed", taking), ("and rolled up", all)] {
        let seconds = cost.cpu.as_secs_f64();
        println!(
            "  {name:20} {:6.0} k samples/s; {seconds:.1} s of a core: {:.0} k samples each",
            rate(cost.wall),
            rate(cost.cpu)
        );
    }
    if server.is_some() {
        println!("  the server took      {:.1} s of a core", (server_time() - server_before).as_secs_f64());
    }
}

/// What a process and its children have used of cores, those that have ended included.
fn process_group_time(process: u32) -> Duration {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let own = |process: u32, fields: Range<usize>| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Behind the name, which may have spaces: utime, stime, and those of children that have ended (proc(5)).
        let fields =
            text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(fields.start).take(fields.len());
        fields.map(|ticks| ticks.parse::<u64>().unwrap_or(0)).sum()
    };
    let running = children.split_whitespace().filter_map(|child| child.parse().ok()).map(|child| own(child, 11..13));
    // The kernel counts them in hundredths of a second for programs.
    Duration::from_millis(10 * (own(process, 11..15) + running.sum::<u64>()))
}

/// Time that passed, and of a core.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: Duration,
    cpu: Duration,
}

/// When something began.
struct Begin(Instant, Duration);

impl Cost {
    fn now() -> Begin {
        Begin(Instant::now(), cpu_time())
    }

    fn add(&mut self, other: Cost) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

impl Begin {
    fn elapsed(&self) -> Cost {
        Cost { wall: self.0.elapsed(), cpu: cpu_time() - self.1 }
    }
}

/// A virtual year of some pairs, with runs every six hours; what it takes, for a mesh of 100 sites.
fn year(path: &Path, pairs: u32, days: i64) {
    let (mut archive, ids) = new_archive(SqliteStore::open(path, 0).unwrap(), pairs);
    let mut models: Vec<_> = ids.iter().map(|pair| PathModel::new(u64::from(pair.0))).collect();
    let begin = Instant::now();
    for hour in 0..days * 24 {
        let from = START + Span::from_nanos(HOUR_NANOS * hour);
        let now = from + Span::from_nanos(HOUR_NANOS);
        let samples = ids.iter().zip(&mut models).map(|(pair, model)| (*pair, model.probes(from, 3600))).collect();
        let run = |(pair, model): (&PairId, &mut PathModel)| NewRun {
            pair: *pair,
            started: from,
            ended: from + Span::from_secs(8),
            document: model.document(),
        };
        let runs = if hour % 6 == 0 { ids.iter().zip(&mut models).map(run).collect() } else { Vec::new() };
        let batch = Batch { instance: "agent".to_owned(), sequence: hour as u64, samples, runs, ..Batch::default() };
        archive.ingest(&batch, now).unwrap();
        archive.commit(now).unwrap();
        while archive.maintain(now + Span::from_secs(130)).unwrap() {}
        if (hour + 1) % (24 * YEAR_DAYS) == 0 && hour + 1 < days * 24 {
            println!("year: {pairs} pairs, after {} days:", (hour + 1) / 24);
            print_usage(&mut archive, pairs, (hour + 1) / 24);
        }
        if hour % (24 * 30) == 24 * 30 - 1 {
            eprintln!("  day {}, {:.0} s", hour / 24 + 1, begin.elapsed().as_secs_f64());
        }
    }
    let end = START + Span::from_nanos(HOUR_NANOS * days * 24);
    while archive.maintain(end + Span::from_secs(130)).unwrap() {}
    println!("year: {pairs} pairs, {days} days, in {:.0} s", begin.elapsed().as_secs_f64());
    print_usage(&mut archive, pairs, days);
    drop(archive);
    let store = SqliteStore::open_read_only(path).unwrap();
    let mut reader = Reader::new(store);
    for (name, from, points) in
        [("the year", START, 1000), ("30 days", end - Span::from_secs(30 * 86_400), 1000), ("a day", end - DAY, 1440)]
    {
        drop_pages(path);
        let (begin, cpu) = (Instant::now(), cpu_time());
        let series = reader.series(&SeriesQuery { pair: ids[0], from, to: end, points }).unwrap();
        let runs = reader.runs(ids[0], from..end, 2000).unwrap();
        let (time, points, cpu) = (begin.elapsed(), series.points.len(), cpu_time() - cpu);
        println!(
            "  pair's page of {name:8} {:6.1} ms ({:.1} ms of a core), {points} points, {} runs",
            time.as_secs_f64() * 1e3,
            cpu.as_secs_f64() * 1e3,
            runs.len()
        );
    }
}

fn print_usage(archive: &mut Archive<SqliteStore>, pairs: u32, days: i64) {
    let usage = archive.read().disk_usage().unwrap();
    let scale = f64::from(MESH_PAIRS) / f64::from(pairs) / 1e9;
    let forecast = Forecast {
        pairs: u64::from(pairs),
        probes_per_second: 1.0,
        runs_per_day: 4.0,
        retention: Retention::default(),
    };
    let forecast = forecast.bytes_after(Span::from_secs(days * 86_400));
    println!("  {:10} {:>14} {:>16} {:>16}", "", "bytes", "GB for a mesh", "GB forecast");
    let mut sum = 0.0;
    for (kept, bytes) in &usage.kept {
        let expected = forecast.kept.iter().find(|(found, _)| found == kept).map_or(0, |(_, bytes)| *bytes);
        println!("  {:10} {bytes:14} {:16.2} {:16.2}", kept.name(), *bytes as f64 * scale, expected as f64 * scale);
        sum += *bytes as f64 * scale;
    }
    println!("  {:10} {:14} {sum:16.2} {:16.2}", "sum", "", forecast.total() as f64 * scale);
    println!("  file {} bytes, free in it {}, log {}", usage.total_bytes, usage.free_bytes, usage.log_bytes);
    let packets = usage.kept.iter().find(|(kept, _)| *kept == Kept::Packets).map_or(0, |(_, bytes)| *bytes);
    println!(
        "  {:.2} bytes a one-way sample while packets are kept",
        packets as f64 / f64::from(pairs) / (days.min(7) * 86_400 * 2) as f64
    );
}

/// The state of all pairs of a mesh, and their latest runs.
fn matrix(path: &Path) {
    let (mut archive, pairs) = new_archive(SqliteStore::open(path, 0).unwrap(), MESH_PAIRS);
    let mut models: Vec<_> = pairs.iter().map(|pair| PathModel::new(u64::from(pair.0))).collect();
    let now = START + Span::from_secs(300);
    let samples = pairs.iter().zip(&mut models).map(|(pair, model)| (*pair, model.probes(START, 300))).collect();
    let runs = pairs.iter().zip(&mut models).map(|(pair, model)| NewRun {
        pair: *pair,
        started: START,
        ended: START + Span::from_secs(8),
        document: model.document(),
    });
    let batch = Batch { instance: "agent".to_owned(), sequence: 1, samples, runs: runs.collect(), ..Batch::default() };
    archive.ingest(&batch, now).unwrap();
    archive.commit(now).unwrap();
    archive.maintain(now + DAY).unwrap();
    let mut reader = Reader::new(archive.store().reader().unwrap());
    drop_pages(path);
    let begin = Instant::now();
    let (states, runs) = (reader.latest().unwrap(), reader.latest_runs().unwrap());
    println!("matrix: {} states, {} runs in {:.1} ms", states.len(), runs.len(), begin.elapsed().as_secs_f64() * 1e3);
}

fn open_postgres(address: &str) -> AnyStore {
    let mut store = PostgresStore::open(&address.parse().unwrap()).unwrap();
    let epoch = store.leader().unwrap().epoch;
    store.take_over(epoch, Span::ZERO, "bench").unwrap();
    store.into()
}

fn new_archive<S: Store>(store: S, pairs: u32) -> (Archive<S>, Vec<PairId>) {
    let mut archive = Archive::open(store, Retention::default(), START).unwrap();
    let hosts = (1..).find(|hosts| hosts * (hosts - 1) / 2 >= pairs).unwrap_or(2).max(2);
    let hosts: Vec<_> = (0..hosts).map(|host| archive.put_host(&format!("host-{host}"), "", "", "").unwrap()).collect();
    let all = hosts
        .iter()
        .enumerate()
        .flat_map(|(place, source)| hosts[place + 1..].iter().map(move |target| (*source, *target)));
    let all: Vec<_> = all.take(pairs as usize).collect();
    let ids = all.into_iter().map(|(source, target)| archive.put_pair(source, target, Family::V4).unwrap()).collect();
    archive.store().checkpoint().unwrap();
    (archive, ids)
}

/// What this thread has used of a core: other work on the machine does not count.
fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    Duration::new(time.tv_sec() as u64, time.tv_nsec() as u32)
}

/// Out of the system's cache, so that the next question reads the disk.
fn drop_pages(path: &Path) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}

/// Goes when this does.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("kumade-archive-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
