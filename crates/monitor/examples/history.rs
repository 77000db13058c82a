//! Makes the archive of a monitor that has run for a day, with faults of many kinds, to look at its page without waiting for one:
//!
//! `cargo run -p kumade-monitor --example history -- DIRECTORY [PATHS]`, then `kumade monitor --config DIRECTORY/monitor.toml`

use kumade_archive::{Archive, Batch, DEFAULT_RESERVE_BYTES, Family, Gap, NewRun, PairId, Retention, SqliteStore};
use kumade_net::clock;
use kumade_sketch::{LostIn, Outcome, Sample};
use kumade_units::{Span, Time};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::error::Error;
use std::fs;
use std::path::PathBuf;

const DAY: Span = Span::from_secs(86_400);
const PROBE_INTERVAL: Span = Span::from_secs(5);
const RUN_INTERVAL: Span = Span::from_secs(1800);
const BATCH: Span = Span::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("give a directory")?);
    let paths: u32 = arguments.next().map_or(Ok(24), |count| count.parse())?;
    fs::create_dir_all(directory.join("archive"))?;
    let names: Vec<_> = (0..paths).map(|path| format!("site-{:02}.example.org", path + 1)).collect();
    let mut text = format!("[monitor]\nname = \"campus\"\narchive = {:?}\n", directory.join("archive"));
    for (path, name) in names.iter().enumerate() {
        text += &format!("[[target]]\nhost = \"127.0.0.{}\"\nname = \"{name}\"\nid = \"{name}\"\n", path + 1);
        text += "measure = \"6h\"\n";
    }
    fs::write(directory.join("monitor.toml"), text)?;

    let end = clock::realtime();
    let begin = end - DAY;
    let store = SqliteStore::open(&directory.join("archive/archive.db"), DEFAULT_RESERVE_BYTES)?;
    let mut archive = Archive::open(store, Retention::default(), begin)?;
    let own = archive.put_host("@self", "campus", "", "")?;
    let mut pairs = Vec::new();
    for (path, name) in names.iter().enumerate() {
        let host = archive.put_host(name, name, &format!("127.0.0.{}", path + 1), "")?;
        pairs.push(archive.put_pair(own, host, Family::V4)?);
    }
    let mut random = StdRng::seed_from_u64(7);
    let mut from = begin;
    for sequence in 0..DAY.as_nanos() / BATCH.as_nanos() {
        let mut batch = Batch { instance: "history".to_owned(), sequence: sequence as u64, ..Batch::default() };
        for (path, pair) in pairs.iter().enumerate() {
            fill(&mut batch, path as u32, *pair, from, (from - begin).as_secs_f64() / 3600.0, &mut random);
        }
        from += BATCH;
        archive.ingest(&batch, from)?;
        archive.commit(from)?;
        while archive.maintain(from)? {}
    }
    Ok(())
}

/// What a path saw in one batch, `hour` after the beginning.
fn fill(batch: &mut Batch, path: u32, pair: PairId, from: Time, hour: f64, random: &mut StdRng) {
    let is_within = |begin: f64, end: f64| (begin..end).contains(&hour);
    if is_within(9.0, 10.0) || (path == 5 && hour < 14.0) {
        let cause = if path == 5 { "the monitor did not know this path" } else { "the monitor did not run" };
        batch.gaps.push(Gap { pair, from, to: from + BATCH, cause: cause.to_owned() });
        return;
    }
    let busy = if is_within(13.0, 20.0) { 1.0 } else { 0.1 };
    let loss = match path {
        3 if is_within(4.0, 6.5) => 1.0,
        _ if path % 8 == 2 && is_within(16.0, 16.4) => 1.0,
        7 => 0.08 * busy,
        11 if hour > 17.0 => 0.3,
        path if path % 5 == 1 => 0.012 * busy,
        _ => 0.0,
    };
    let base = 2e-3 + f64::from(path) * 1.7e-3;
    let probes = (0..BATCH.as_nanos() / PROBE_INTERVAL.as_nanos()).map(|number| {
        let sent = from + PROBE_INTERVAL * number;
        let delay = Span::from_secs_f64(base + random.random::<f64>() * random.random::<f64>() * 6e-3 * busy);
        let is_lost = random.random::<f64>() < loss;
        Sample::new(sent, if is_lost { Outcome::Lost(LostIn::RoundTrip) } else { Outcome::RoundTrip(delay) })
    });
    batch.samples.push((pair, probes.collect()));
    let is_due = from.as_nanos() / BATCH.as_nanos() % (RUN_INTERVAL.as_nanos() / BATCH.as_nanos()) == 0;
    if is_due && path % 4 != 3 {
        let free = (1.0 - 0.6 * busy * random.random::<f64>()) * if path == 8 && hour > 15.0 { 0.3 } else { 1.0 };
        let document = document(90e6 * free, path == 12 && busy > 0.5);
        batch.runs.push(NewRun { pair, started: from, ended: from + Span::from_secs(8), document });
    }
}

fn document(rate: f64, is_unknown: bool) -> String {
    let direction = |rate: f64| {
        let [value, low, high] = [rate, rate * 0.93, rate * 1.06].map(f64::round);
        let estimate = format!(r#"{{"value":{value},"low":{low},"high":{high},"confidence":0.95}}"#);
        let [estimate, reason] =
            if is_unknown { ["null", r#""the host delays packets""#] } else { [&estimate, "null"] };
        format!(r#"{{"available_bits_per_second":{estimate},"reason":{reason}}}"#)
    };
    format!(r#"{{"schema":"kumade.measure/1","up":{},"down":{}}}"#, direction(rate), direction(rate * 0.9))
}
