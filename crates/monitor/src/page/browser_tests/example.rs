//! What there is to see: a mesh with faults of each kind, and a pair's year.

use crate::status::{
    AgentStatus, AlertStatus, LaneDelay, LossStatus, MonitorStatus, PairStatus, RunFigure, RunStatus, StateStatus,
    UnmeasuredPair,
};
use kumade_archive::{AnyStore, Archive, Batch, Event, Family, Gap, NewRun, PairId};
use kumade_net::clock;
use kumade_sketch::{LostIn, Outcome, Sample};
use kumade_units::{Span, Time};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// So many hosts have no names of cities.
pub(super) const HOSTS_OF_A_LARGE_MESH: usize = 100;
/// In a small mesh as in a large one, this pair has a history.
pub(super) const PAIR_OF_A_YEAR: &str = "h001:h002";
const CITIES: [&str; 8] = ["Berlin", "Paris", "Madrid", "Oslo", "Rome", "Vienna", "Dublin", "Lisbon"];
/// Of the hosts' uplinks, in turn.
const UPLINKS_MBIT: [f64; 8] = [940.0, 480.0, 95.0, 180.0, 940.0, 48.0, 290.0, 19.0];
const DAY: Span = Span::from_secs(86_400);

/// Of so many hosts: one is not connected, one path is down, some lose packets, one has no value, one cannot be measured.
pub(super) fn mesh(hosts: usize) -> MonitorStatus {
    let now = clock::realtime().as_secs_f64();
    let name = |host: usize| match CITIES.get(host) {
        Some(city) if hosts <= CITIES.len() => (*city).to_owned(),
        _ => format!("site-{:03}", host + 1),
    };
    let away = hosts - 2;
    let agents = (0..hosts).map(|host| AgentStatus {
        id: id(host),
        name: name(host),
        is_connected: host != away,
        since_seconds: Some(now - if host == away { 5400.0 } else { 86_400.0 }),
        address: Some(format!("192.0.2.{}", host + 1)),
        faults: Vec::new(),
        used_bytes: 0,
        bytes_per_day: None,
    });
    let pairs = (0..hosts).flat_map(|from| (from + 1..hosts).map(move |to| (from, to)));
    let is_unreachable = |(from, to): &(usize, usize)| (*from, *to) == (1, 5);
    let status = |(from, to)| pair(from, to, [name(from), name(to)], from == away || to == away, now);
    let text = format!("{} → {}: no probe is answered any more", name(2), name(3));
    MonitorStatus {
        time_seconds: now,
        started_seconds: now - 86_400.0 * 40.0,
        agents: agents.collect(),
        pairs: pairs.filter(|pair| !is_unreachable(pair)).map(status).collect(),
        unmeasured: vec![UnmeasuredPair {
            pair: format!("{}:{}", id(1), id(5)),
            reason: "neither end accepts connections".to_owned(),
        }],
        alerts: crate::status::AlertsStatus {
            standing: vec![AlertStatus {
                id: "1-1".to_owned(),
                rule: "down".to_owned(),
                condition: "down".to_owned(),
                pairs: vec![format!("{}:{}", id(2), id(3))],
                text,
                raised_seconds: now - 7200.0,
                is_silent: false,
            }],
            receivers: Vec::new(),
        },
        ..MonitorStatus::empty("network office")
    }
}

fn id(host: usize) -> String {
    format!("h{:03}", host + 1)
}

fn pair(from: usize, to: usize, names: [String; 2], is_away: bool, now: f64) -> PairStatus {
    let mut random = StdRng::seed_from_u64((from * 1009 + to) as u64);
    let is_down = (from, to) == (2, 3);
    let is_lossy = !is_down && !is_away && (from * 7 + to) % 23 == 5;
    let state = |level: &str, word: &str, detail: &str, age: f64| StateStatus {
        level: level.to_owned(),
        word: word.to_owned(),
        detail: detail.to_owned(),
        since_seconds: now - age,
    };
    let state = match () {
        () if is_away => state("none", "no data", "The agent is not connected.", 5400.0),
        () if is_down => state("bad", "down", "The last 4 probes and more have been lost.", 7200.0),
        () if is_lossy => state("warn", "lossy", "More than 1 % of the probes are lost, as sure as 95 %.", 52_000.0),
        () => state("good", "up", "Probes are answered.", 800_000.0),
    };
    let base = 0.002 + 0.0021 * (from.abs_diff(to) % 31) as f64 + 0.002 * random.random::<f64>();
    let lost = if is_down {
        1.0
    } else if is_lossy {
        0.01 + 0.1 * random.random::<f64>()
    } else {
        0.0
    };
    let loss = LossStatus { sent: 900, ratio: lost, low: lost * 0.8, high: (lost * 1.2 + 0.004).min(1.0) };
    let delay = |lane: &str, part: f64| LaneDelay {
        lane: lane.to_owned(),
        minimum_seconds: base * part,
        quantile_25_seconds: base * part * 1.01,
        median_seconds: base * part * 1.02,
        quantile_75_seconds: base * part * 1.1,
        quantile_95_seconds: base * part * 1.4,
        maximum_seconds: base * part * 2.5,
    };
    let rate = 1e6 * UPLINKS_MBIT[from % 8].min(UPLINKS_MBIT[to % 8]);
    let mut figure = |is_known: bool| {
        let value = rate * (1.0 - 0.6 * random.random::<f64>());
        if is_known {
            RunFigure::Known { value, low: value * 0.96, high: value * 1.03 }
        } else {
            RunFigure::Unknown { reason: "too few packets arrived in time".to_owned() }
        }
    };
    let run = RunStatus {
        id: (from * 1000 + to) as i64,
        start_seconds: now - 60.0 - 17.0 * (to % 30) as f64 - if is_down { 7200.0 } else { 0.0 },
        duration_seconds: 4.2,
        up: Some(figure((from, to) != (0, 4))),
        down: Some(figure(true)),
        error: None,
    };
    let is_heard = !is_down && !is_away;
    PairStatus {
        id: format!("{}:{}", id(from), id(to)),
        name: format!("{} → {}", names[0], names[1]),
        ends: Some([id(from), id(to)]),
        host: format!("192.0.2.{}", to + 1),
        address: Some(format!("192.0.2.{}", to + 1)),
        probe: "stamp".to_owned(),
        interval_seconds: 1.0,
        is_measured: true,
        state,
        delays: if is_heard {
            vec![delay("round_trip", 1.0), delay("up", 0.5), delay("down", 0.5)]
        } else {
            Vec::new()
        },
        loss: (!is_away).then_some(loss),
        loss_up: None,
        loss_down: None,
        run: (!is_away).then_some(run),
    }
}

/// Days of [`PAIR_OF_A_YEAR`], with a probe every ten minutes, a measurement every six hours, and what happens in a year.
pub(super) fn fill_days(archive: &mut Archive<AnyStore>, begin: Time, days: i64) -> PairId {
    let ends = [0, 1].map(|host| archive.put_host(&id(host), CITIES[host], "", "").unwrap());
    let pair = archive.put_pair(ends[0], ends[1], Family::V4).unwrap();
    let mut random = StdRng::seed_from_u64(11);
    for day in 0..days {
        let from = begin + DAY * day;
        let mut batch = Batch { instance: "example".to_owned(), sequence: day as u64, ..Batch::default() };
        if (200..206).contains(&day) {
            batch.gaps.push(Gap { pair, from, to: from + DAY, cause: "the agent did not run".to_owned() });
        } else {
            let probe = |number: i64| {
                let hour = number as f64 / 6.0;
                let busy = if day % 7 < 5 && (8.0..18.0).contains(&hour) { 1.0 } else { 0.1 };
                let base = if day < 120 { 0.009 } else { 0.0062 };
                let queue = 0.012 * busy * random.random::<f64>() * random.random::<f64>();
                let lost = random.random::<f64>() < if (300..330).contains(&day) { 0.04 * busy } else { 0.0005 };
                let outcome = if lost {
                    Outcome::Lost(LostIn::RoundTrip)
                } else {
                    Outcome::RoundTrip(Span::from_secs_f64(base + queue))
                };
                Sample::new(from + Span::from_secs(600) * number, outcome)
            };
            batch.samples.push((pair, (0..144).map(probe).collect()));
            batch.runs.extend((0..4).map(|quarter| {
                let started = from + DAY * quarter / 4;
                let rate = if day < 120 { 95e6 } else { 480e6 } * (1.0 - 0.5 * random.random::<f64>());
                NewRun { pair, started, ended: started + Span::from_secs(4), document: document(rate) }
            }));
        }
        if day == 120 {
            let text = "Berlin → Paris: the route has changed, its least delay is 6.2 ms".to_owned();
            batch.events.push(Event { at: from, kind: "route".to_owned(), host: None, pair: Some(pair), text });
        }
        archive.ingest(&batch, from + DAY).unwrap();
        archive.commit(from + DAY).unwrap();
        while archive.maintain(from + DAY).unwrap() {}
    }
    pair
}

fn document(rate: f64) -> String {
    let direction = |rate: f64| {
        let [value, low, high] = [rate, rate * 0.95, rate * 1.04].map(f64::round);
        format!(
            r#"{{"available_bits_per_second":{{"value":{value},"low":{low},"high":{high},"confidence":0.95}},"reason":null}}"#
        )
    };
    format!(r#"{{"schema":"kumade.measure/1","up":{},"down":{}}}"#, direction(rate), direction(rate * 0.8))
}
