//! How far values are off beside Poisson cross traffic in virtual time, where stamps are late by 3 µs at most: off the average of the time that the
//! report names, and off what was left while trains passed.
//!
//! `cargo run --release -p kumade-sim --example sampling -- RUNS SEED`, on the links of `kumade`'s example `clients`
use kumade_link::{CrossConfig, CrossKind, LinkConfig, SizeMix};
use kumade_measurement::{Directions, Event, Measurement, MeasurementPlan, TransportChoice};
use kumade_probe_train::{TrainRecord, Transport};
use kumade_sim::{PathHop, Stamping, VirtualPath, VirtualPaths};
use kumade_units::{ConfigError, Rate, Span, Time};

const RATES: [Rate; 2] = [Rate::from_mbit(20), Rate::from_mbit(100)];
/// Percent of the rate that cross traffic takes.
const CROSS_PERCENT: [u64; 5] = [0, 20, 40, 60, 80];

/// A value, in parts of what was left.
struct Value {
    /// Less what was left in the time that the report says it is an average over, …
    error: f64,
    /// … and less what was left while trains passed.
    error_while_trains: f64,
    /// Which part of that time these took.
    share_with_trains: f64,
    is_covered: bool,
}

fn main() -> Result<(), ConfigError> {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse().expect("a number"));
    let (runs, seed): (u64, u64) = (numbers.next().unwrap_or(40), numbers.next().unwrap_or(1));
    println!("errors are medians, in percent of what was left; {runs} runs a row, seeds from {seed}\n");
    println!(
        "| transport | link | cross traffic | values | covered | off the average of its time | off what trains met | time with trains |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for transport in [Transport::Udp, Transport::Rake] {
        let mut all = Vec::new();
        for (rate, percent) in RATES.iter().flat_map(|&rate| CROSS_PERCENT.map(|percent| (rate, percent))) {
            let mut values = Vec::new();
            for number in 0..runs {
                values.extend(measure(rate, percent, transport, seed + number)?);
            }
            print(&format!("{transport} | {rate} | {percent} %"), &values);
            all.extend(values);
        }
        print(&format!("{transport} | all | all"), &all);
    }
    Ok(())
}

fn print(row: &str, values: &[Value]) {
    let percent = |of: fn(&Value) -> f64| {
        let mut sorted: Vec<f64> = values.iter().map(|value| of(value).abs() * 100.0).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let covered = values.iter().filter(|value| value.is_covered).count();
    let [error, while_trains, share] = [
        percent(|value| value.error),
        percent(|value| value.error_while_trains),
        percent(|value| value.share_with_trains),
    ];
    println!("| {row} | {} | {covered} | {error:.2} | {while_trains:.2} | {share:.0} % |", values.len());
}

/// None where there is no value.
fn measure(rate: Rate, percent: u64, transport: Transport, seed: u64) -> Result<Option<Value>, ConfigError> {
    let mut paths = paths(rate, percent, seed)?;
    let plan = MeasurementPlan {
        directions: Directions::Up,
        transport: TransportChoice::Fixed(transport),
        seed,
        ..MeasurementPlan::default()
    };
    let mut trains = Vec::new();
    let mut note = |event: &Event| {
        if let Event::Train { record, .. } = event {
            trains.extend(span(record));
        }
    };
    let measured = paths.measure(Measurement::new(plan, paths.session()), &mut note).expect("a report");
    let said = measured.report.up.and_then(|report| report.available_bits_per_second);
    let (Some(said), Some(truth), Some((from, to))) = (said, measured.truth[0], measured.windows[0]) else {
        return Ok(None);
    };
    // Of trains that the time has in part, that part.
    let inside =
        trains.iter().map(|&(first, last)| (first.max(from), last.min(to))).filter(|(first, last)| first < last);
    let (mut bits, mut seconds) = (0.0, 0.0);
    for (first, last) in inside {
        let length = (last - first).as_secs_f64();
        bits += paths.up.true_available(first, last).as_f64() * length;
        seconds += length;
    }
    let error = |truth: f64| (said.value.as_f64() - truth) / truth;
    Ok(Some(Value {
        error: error(truth.as_f64()),
        error_while_trains: error(bits / seconds),
        share_with_trains: seconds / (to - from).as_secs_f64(),
        is_covered: (said.low..=said.high).contains(&truth),
    }))
}

/// From the departure of the first packet on, for as long as packets arrive: the receiver has another clock.
fn span(record: &TrainRecord) -> Option<(Time, Time)> {
    let first = record.packets.iter().filter_map(|packet| packet.sent).min()?;
    let arrivals = || record.packets.iter().filter_map(|packet| packet.received);
    Some((first, first + (arrivals().max()? - arrivals().min()?)))
}

/// A queue as long as that of `clients`, and hosts beside it.
fn paths(rate: Rate, percent: u64, seed: u64) -> Result<VirtualPaths, ConfigError> {
    let link = LinkConfig {
        rate: Some(rate),
        queue_bytes: rate.bits_per_second() / 80,
        delay: Span::from_micros(50),
        seed,
        ..LinkConfig::default()
    };
    let cross = Rate::from_bits_per_second(rate.bits_per_second() * percent / 100);
    let kind = CrossKind::Poisson { rate: cross, sizes: SizeMix::fixed(1500) };
    let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed };
    let way = |cross| {
        let mut path =
            VirtualPath::new(&[PathHop { link: link.clone(), queue: None, cross }], Stamping::default(), seed)?;
        path.wait(Span::from_millis(100));
        Ok::<_, ConfigError>(path)
    };
    let cross = if percent > 0 { vec![cross] } else { Vec::new() };
    Ok(VirtualPaths { up: way(cross)?, down: way(Vec::new())?, passes_udp: true })
}
