//! What every engine must do.

use kumade_archive::{
    Archive, Batch, Event, Family, Figure, Gap, NewRun, PairId, ReadStore, Reader, Retention, SeriesQuery, Store, Taken,
};
use kumade_sketch::{HOUR_NANOS, Lane, LostIn, Outcome, Sample, Summary};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// 2027-01-15 08:00 UTC.
pub const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
pub const HOUR: Span = Span::from_nanos(HOUR_NANOS);

/// A place where archives can be opened again and again.
pub trait Engine {
    type Store: Store;
    /// Opens the one archive of this place.
    fn open(&self) -> Self::Store;
    /// A reader of it, as other threads have.
    fn reader(&self, store: &mut Self::Store) -> Self::Store;
}

pub fn open<E: Engine>(engine: &E, now: Time) -> Archive<E::Store> {
    Archive::open(engine.open(), Retention::default(), now).expect("it opens")
}

/// So many pairs from one host.
pub fn make_pairs<S: Store>(archive: &mut Archive<S>, count: u32) -> Vec<PairId> {
    let source = archive.put_host("source", "Source", "192.0.2.1", "").unwrap();
    let targets = (0..count).map(|i| archive.put_host(&format!("target-{i}"), "Target", "198.51.100.1", "").unwrap());
    let targets: Vec<_> = targets.collect();
    targets.into_iter().map(|target| archive.put_pair(source, target, Family::V4).unwrap()).collect()
}

/// A probe every second, with queues, losses and disturbances.
pub fn probes(seed: u64, from: Time, seconds: i64) -> Vec<Sample> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut delay = move || Span::from_nanos(20_000_000 + (-(1.0 - random.random::<f64>()).ln() * 300_000.0) as i64);
    let mut random = Pcg64Mcg::seed_from_u64(!seed);
    (0..seconds)
        .map(|second| {
            let sent = from + Span::from_secs(second) + Span::from_nanos(random.random_range(0..900_000_000));
            let outcome = match random.random_range(0..100) {
                0 => Outcome::Lost(LostIn::Up),
                1 => Outcome::Lost(LostIn::EitherWay),
                _ => Outcome::Answered { up: delay(), down: delay() },
            };
            Sample { disturbed: random.random_range(0..50) == 0, ..Sample::new(sent, outcome) }
        })
        .collect()
}

pub fn batch(sequence: u64, samples: Vec<(PairId, Vec<Sample>)>) -> Batch {
    Batch { instance: "agent/1".to_owned(), sequence, samples, ..Batch::default() }
}

/// Does all that is due.
pub fn settle<S: Store>(archive: &mut Archive<S>, now: Time) {
    while archive.maintain(now).expect("it can be maintained") {}
}

fn sum<S: ReadStore>(reader: &mut Reader<S>, pair: PairId, from: Time, to: Time, points: usize) -> Summary {
    let series = reader.series(&SeriesQuery { pair, from, to, points }).unwrap();
    series.points.iter().map(|point| &point.summary).collect()
}

/// All of the suite.
pub fn run<E: Engine>(new: impl Fn() -> E) {
    a_batch_counts_once(&new());
    what_was_acknowledged_is_there_after_a_restart(&new());
    rolling_up_changes_no_answer(&new());
    late_batches_join_what_is_rolled_up(&new());
    hosts_keep_their_number(&new());
    runs_are_read_by_name_and_kept_as_they_came(&new());
    records_are_found_by_time(&new());
    what_is_too_old_goes_and_sums_stay(&new());
    state_is_kept(&new());
}

fn a_batch_counts_once(engine: &impl Engine) {
    let mut archive = open(engine, START);
    let pair = make_pairs(&mut archive, 1)[0];
    let now = START + Span::from_secs(100);
    let batches = [7, 3, 7].map(|sequence| batch(sequence, vec![(pair, probes(sequence, START, 60))]));
    let taken = batches.each_ref().map(|batch| archive.ingest(batch, now).unwrap());
    assert_eq!(taken, [Taken::Staged, Taken::Staged, Taken::Repeated]);
    let sequences: Vec<_> = archive.commit(now).unwrap().into_iter().map(|batch| batch.sequence).collect();
    assert_eq!(sequences, [7, 3]);
    assert_eq!(archive.ingest(&batches[0], now).unwrap(), Taken::Repeated);
    assert_eq!(archive.commit(now).unwrap(), []);
    assert_eq!(sum(archive.read(), pair, START, now, 10)[Lane::Up].all().sent(), 120);
    drop(archive);
    let mut archive = open(engine, now);
    assert_eq!(archive.ingest(&batches[1], now).unwrap(), Taken::Repeated);
    // Another instance counts from any number.
    let other = Batch { instance: "agent/2".to_owned(), ..batches[1].clone() };
    assert_eq!(archive.ingest(&other, now).unwrap(), Taken::Staged);
    // The future, the distant past, and unknown pairs are refused.
    let wrong = [
        (pair, probes(1, now + HOUR, 10)),
        (pair, probes(1, now - Span::from_secs(8 * 86_400), 10)),
        (PairId(99), probes(1, START, 10)),
    ];
    archive.ingest(&batch(8, wrong.into()), now).unwrap();
    let acknowledged = archive.commit(now).unwrap();
    assert_eq!(acknowledged.iter().map(|batch| batch.refused_samples).collect::<Vec<_>>(), [0, 30]);
}

fn what_was_acknowledged_is_there_after_a_restart(engine: &impl Engine) {
    let mut archive = open(engine, START);
    let pairs = make_pairs(&mut archive, 3);
    let now = START + Span::from_secs(1200);
    for (sequence, part) in (0..20).enumerate() {
        let from = START + Span::from_secs(part * 60);
        let samples = pairs.iter().map(|pair| (*pair, probes(sequence as u64, from, 60))).collect();
        archive.ingest(&batch(sequence as u64, samples), now).unwrap();
        archive.commit(now).unwrap();
    }
    // Taken, and never committed.
    archive.ingest(&batch(99, vec![(pairs[0], probes(99, START, 60))]), now).unwrap();
    let before = pairs.iter().map(|pair| sum(archive.read(), *pair, START, now, 20)).collect::<Vec<_>>();
    let states = archive.read().latest().unwrap();
    let open_samples = archive.open_samples();
    drop(archive);
    let mut archive = open(engine, now);
    assert_eq!(archive.open_samples(), open_samples);
    let after = pairs.iter().map(|pair| sum(archive.read(), *pair, START, now, 20)).collect::<Vec<_>>();
    assert_eq!(before, after);
    assert_eq!(archive.read().latest().unwrap(), states);
    assert_eq!(archive.ingest(&batch(99, vec![(pairs[0], probes(99, START, 60))]), now).unwrap(), Taken::Staged);
}

/// Two days and some, asked before and after each hour was rolled up: the same bits.
fn rolling_up_changes_no_answer(engine: &impl Engine) {
    let mut archive = open(engine, START);
    let pairs = make_pairs(&mut archive, 2);
    let mut all = vec![Summary::default(); pairs.len()];
    let hours = 52;
    for hour in 0..hours {
        let from = START + Span::from_nanos(HOUR_NANOS * hour);
        let now = from + HOUR;
        let seconds = if hour == 20 { 0 } else { 600 };
        let samples = |pair: &PairId| (*pair, probes(hour as u64 * 100 + u64::from(pair.0), from, seconds));
        archive.ingest(&batch(hour as u64, pairs.iter().map(samples).collect()), now).unwrap();
        archive.commit(now).unwrap();
        let in_hour = |archive: &mut Archive<_>, pair| sum(archive.read(), pair, from, now, 60);
        let before: Vec<_> = pairs.iter().map(|pair| in_hour(&mut archive, *pair)).collect();
        settle(&mut archive, now + Span::from_secs(300));
        let after: Vec<_> = pairs.iter().map(|pair| in_hour(&mut archive, *pair)).collect();
        assert_eq!(before, after, "hour {hour}");
        all.iter_mut().zip(after).for_each(|(all, hour)| all.merge(&hour));
    }
    assert_eq!(archive.open_samples(), 0);
    let end = START + Span::from_nanos(HOUR_NANOS * hours);
    let mut reader = Reader::new(engine.reader(archive.store()));
    for points in [4000, 300, 60, 20, 2, 1] {
        for (pair, all) in pairs.iter().zip(&all) {
            assert_eq!(&sum(&mut reader, *pair, START, end, points), all, "{points} points");
        }
    }
    let series = reader.series(&SeriesQuery { pair: pairs[0], from: START, to: end, points: 60 }).unwrap();
    assert_eq!(series.step, HOUR);
    assert_eq!(series.points.len(), hours as usize - 1, "an hour without probes is no point");
    let packets = reader.packets(pairs[0], START..START + HOUR, 10_000).unwrap();
    assert_eq!(packets.len(), 600);
    assert!(packets.is_sorted_by_key(|sample| sample.sent));
}

fn late_batches_join_what_is_rolled_up(engine: &impl Engine) {
    let mut archive = open(engine, START);
    let pairs = make_pairs(&mut archive, 2);
    let now = START + Span::from_secs(6 * 86_400);
    let early = START + HOUR + HOUR;
    archive.ingest(&batch(1, vec![(pairs[0], probes(1, early, 600))]), early + HOUR).unwrap();
    archive.commit(early + HOUR).unwrap();
    settle(&mut archive, now);
    // Days later the rest of it, of a pair that was silent, too.
    let late = pairs.iter().map(|pair| (*pair, probes(2, early, 900))).collect();
    archive.ingest(&batch(2, late), now).unwrap();
    archive.commit(now).unwrap();
    let end = now + HOUR;
    let totals = |archive: &mut Archive<_>| {
        let each = |pair: &PairId| [2000, 100, 5, 1].map(|points| sum(archive.read(), *pair, START, end, points));
        pairs.iter().map(each).collect::<Vec<_>>()
    };
    let before = totals(&mut archive);
    settle(&mut archive, now + Span::from_secs(100));
    assert_eq!(archive.open_samples(), 0);
    let after = totals(&mut archive);
    assert_eq!(before, after);
    for (sums, sent) in after.iter().zip([1500, 900]) {
        assert!(sums.iter().all(|sum| *sum == sums[0]), "each layer has them");
        assert_eq!(sums[0][Lane::Up].all().sent(), sent);
    }
    assert_eq!(archive.read().packets(pairs[0], early..early + HOUR, 9999).unwrap().len(), 1500);
}

fn hosts_keep_their_number(engine: &impl Engine) {
    let mut archive = open(engine, START);
    let here = archive.put_host("a", "Alpha", "192.0.2.1", "").unwrap();
    let there = archive.put_host("b", "Beta", "192.0.2.2", "").unwrap();
    let pair = archive.put_pair(here, there, Family::V6).unwrap();
    assert_ne!(archive.put_pair(there, here, Family::V6).unwrap(), pair);
    assert_ne!(archive.put_pair(here, there, Family::V4).unwrap(), pair);
    assert!(archive.put_pair(here, kumade_archive::HostId(77), Family::V4).is_err());
    drop(archive);
    let mut archive = open(engine, START);
    assert_eq!(archive.put_host("a", "Renamed", "203.0.113.9", "{}").unwrap(), here);
    assert_eq!(archive.put_pair(here, there, Family::V6).unwrap(), pair);
    let hosts = archive.read().hosts().unwrap();
    assert_eq!(hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["Renamed", "Beta"]);
    assert_eq!(archive.read().pairs().unwrap().len(), 3);
}

fn runs_are_read_by_name_and_kept_as_they_came(engine: &impl Engine) {
    let mut archive = open(engine, START);
    let pairs = make_pairs(&mut archive, 2);
    let document = |rate: u64| {
        format!(
            r#"{{ "schema":"kumade.measure/1",  "later_field": [1, "ä"], "up": {{"available_bits_per_second":
            {{"value": {rate}, "low": {rate}, "high": 60000000, "confidence": 0.95}}}},
            "down": {{"reason": "the path carries no UDP", "available_bits_per_second": null}}, "novel_seconds": 0.5,
            "novel": {{"value": 2, "low": 1, "high": 3, "confidence": 0.9}}}}"#
        )
    };
    let run = |pair, minute: i64, rate| {
        let started = START + Span::from_secs(minute * 60);
        NewRun { pair, started, ended: started + Span::from_secs(8), document: document(rate) }
    };
    let runs = vec![run(pairs[0], 1, 1_000), run(pairs[0], 3, 3_000), run(pairs[0], 2, 2_000), run(pairs[1], 9, 9_000)];
    archive.ingest(&Batch { runs, ..batch(1, Vec::new()) }, START).unwrap();
    let bad = Batch {
        runs: vec![run(pairs[0], 1, 1), NewRun { document: "[]".to_owned(), ..run(pairs[0], 1, 1) }],
        ..batch(2, Vec::new())
    };
    assert!(archive.ingest(&bad, START).unwrap_err().to_string().contains("schema"));
    archive.commit(START).unwrap();
    drop(archive);
    let mut archive = open(engine, START);
    let mut reader = Reader::new(engine.reader(archive.store()));
    let rate = |run: &kumade_archive::Run| match run.figures.get("up.available_bits_per_second") {
        Some(Figure::Estimate { value, .. }) => *value,
        other => panic!("{other:?}"),
    };
    let found = reader.runs(pairs[0], START..START + HOUR, 2).unwrap();
    assert_eq!(found.iter().map(rate).collect::<Vec<_>>(), [3_000.0, 2_000.0]);
    let missing = Figure::Missing { reason: "the path carries no UDP".to_owned() };
    assert_eq!(found[0].figures.get("down.available_bits_per_second"), Some(&missing));
    assert_eq!(
        found[0].figures.get("novel"),
        Some(&Figure::Estimate { value: 2.0, low: 1.0, high: 3.0, confidence: 0.9 })
    );
    assert_eq!(found[0].schema, "kumade.measure/1");
    assert_eq!(reader.document(found[0].id).unwrap(), Some(document(3_000)));
    assert_eq!(reader.latest_runs().unwrap().iter().map(rate).collect::<Vec<_>>(), [3_000.0, 9_000.0]);
    let id = found[1].id;
    let whole = reader.run(id).unwrap().unwrap();
    assert_eq!(whole.figures.get("novel_seconds"), Some(&Figure::Value { value: 0.5 }));
    assert!(found[1].figures.iter().all(|(name, figure)| whole.figures.get(name) == Some(figure)));
    // Numbers go on.
    archive.ingest(&Batch { runs: vec![run(pairs[1], 10, 10)], ..batch(3, Vec::new()) }, START).unwrap();
    archive.commit(START).unwrap();
    assert_eq!(reader.latest_runs().unwrap()[1].id, 5);
}

fn records_are_found_by_time(engine: &impl Engine) {
    let mut archive = open(engine, START);
    let pair = make_pairs(&mut archive, 1)[0];
    let event = |minute: i64, pair| {
        let at = START + Span::from_secs(minute * 60);
        Event { at, kind: "clock-step".to_owned(), host: None, pair, text: format!("Minute {minute}.") }
    };
    (0..5).for_each(|minute| archive.put_event(event(minute, (minute % 2 == 0).then_some(pair))).unwrap());
    let at = |minute: i64| START + Span::from_secs(minute * 60);
    let found = archive.read().events(at(1)..at(4), None, None, 2).unwrap();
    assert_eq!(found, [event(3, None), event(2, Some(pair))]);
    assert_eq!(archive.read().events(at(0)..at(9), None, Some(pair), 9).unwrap().len(), 3);
    let gap = |from, to, cause: &str| Gap { pair, from: at(from), to: at(to), cause: cause.to_owned() };
    archive.put_gap(gap(1, 2, "agent-down")).unwrap();
    let gaps = vec![gap(1, 5, "agent-down"), gap(8, 9, "disk-full")];
    archive.ingest(&Batch { gaps, ..batch(1, Vec::new()) }, START).unwrap();
    archive.commit(START).unwrap();
    assert_eq!(archive.read().gaps(pair, at(3)..at(9)).unwrap(), [gap(1, 5, "agent-down"), gap(8, 9, "disk-full")]);
    assert_eq!(archive.read().gaps(pair, at(5)..at(8)).unwrap(), []);
    let entry = kumade_archive::AuditEntry { at: at(1), who: "admin".to_owned(), what: "silence all".to_owned() };
    archive.put_audit(entry.clone()).unwrap();
    assert_eq!(archive.read().audit(at(0)..at(2), 10).unwrap(), [entry]);
}

/// A year and some, a few probes an hour: each layer keeps its time, and the sum of all days stays right.
fn what_is_too_old_goes_and_sums_stay(engine: &impl Engine) {
    let retention = Retention { hours: Some(Span::from_secs(100 * 86_400)), ..Retention::default() };
    let mut archive = Archive::open(engine.open(), retention, START).unwrap();
    let pairs = make_pairs(&mut archive, 2);
    let days = 200;
    let document = r#"{"schema": "kumade.measure/1"}"#.to_owned();
    for day in 0..days {
        let from = START + Span::from_secs(day * 86_400);
        let now = from + HOUR;
        let samples = pairs.iter().map(|pair| (*pair, probes(day as u64, from, 30))).collect();
        let runs = vec![NewRun { pair: pairs[0], started: from, ended: from, document: document.clone() }];
        archive.ingest(&Batch { runs, ..batch(day as u64, samples) }, now).unwrap();
        archive.commit(now).unwrap();
        settle(&mut archive, now + HOUR);
    }
    let end = START + Span::from_secs(days * 86_400);
    settle(&mut archive, end);
    let oldest = archive.read().oldest().unwrap();
    let age = |kept: &str| {
        let (_, oldest) = oldest.iter().find(|(found, _)| found.name() == kept).unwrap();
        (end - oldest.unwrap()).as_secs_f64() / 86_400.0
    };
    for (kept, least, most) in
        [("packets", 6.0, 8.0), ("minutes", 29.0, 32.0), ("hours", 99.0, 103.0), ("days", 199.0, 233.0)]
    {
        assert!((least..=most).contains(&age(kept)), "{kept}: {} days", age(kept));
    }
    assert!((89.0..=91.0).contains(&age("documents")) && age("runs") > 199.0);
    for points in [1, 10, 200] {
        let sum = sum(archive.read(), pairs[1], START, end, points);
        assert_eq!(sum[Lane::Up].all().sent(), 30 * days as u64, "{points} points");
    }
    // Finer than what is kept: as fine as there is.
    let old = START + Span::from_secs(5 * 86_400);
    let series = archive.read().series(&SeriesQuery { pair: pairs[0], from: old, to: old + HOUR, points: 60 }).unwrap();
    assert_eq!(series.points.len(), 1);
    assert_eq!(series.points[0].length, Span::from_secs(86_400));
}

fn state_is_kept(engine: &impl Engine) {
    let mut archive = open(engine, START);
    archive.put_state("planner/token", Some(b"1")).unwrap();
    archive.put_state("planner/token", Some(b"2")).unwrap();
    archive.put_state("gone", Some(b"x")).unwrap();
    archive.put_state("gone", None).unwrap();
    drop(archive);
    let mut archive = open(engine, START);
    assert_eq!(archive.read().state("planner/token").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(archive.read().state("gone").unwrap(), None);
}
