//! The papers' method: one train of constant interval and linearly growing size, and the turning point in it.

use crate::{Method, Outcome, Rejection, Step};
use std::collections::BTreeMap;
use train::{Estimate, Segment, Train, TrainRecord};
use units::{Rate, Span, Time};

/// The four numbers of a PathRakeTCP or PathQuick3 train. The rate of packet *i* is
/// `8 · (first_size + i · size_step) / interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearScanConfig {
    /// Between packets.
    pub interval: Span,
    /// The first packet's bytes.
    pub first_size: u32,
    /// What each further packet has more, in bytes.
    pub size_step: i32,
    /// Packets in the train.
    pub packets: u32,
    /// The largest packet that the transport carries whole; the train ends before it would need a larger one.
    pub max_packet: u32,
}

impl LinearScanConfig {
    /// The paper's numbers: 0.1 ms, 32 B, 12 B, 120 packets, which scan 2.6 … 116 Mbit/s (PathRakeTCP, 5.1).
    pub fn paper(max_packet: u32) -> Self {
        LinearScanConfig { interval: Span::from_micros(100), first_size: 32, size_step: 12, packets: 120, max_packet }
    }
}

/// The published rule, kept as it is: "the transmission rate of the packet just before the one from which the
/// reception interval is longer than the transmission interval" (PathRakeTCP, 2.1). It states no confidence.
#[derive(Debug)]
pub struct LinearScan {
    config: LinearScanConfig,
    state: State,
}

#[derive(Debug)]
enum State {
    Planned,
    Sent,
    Read(Result<Reading, Rejection>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Reading {
    value: Rate,
    low: Rate,
    high: Rate,
    at_edge: Option<&'static str>,
}

impl LinearScan {
    /// Scans once with these numbers.
    pub fn new(config: LinearScanConfig) -> Self {
        LinearScan { config, state: State::Planned }
    }

    fn train(&self) -> Train {
        let c = &self.config;
        let room = i64::from(c.max_packet) - i64::from(c.first_size);
        let fitting = if c.size_step > 0 { room.max(0) / i64::from(c.size_step) + 1 } else { i64::MAX };
        let count = i64::from(c.packets).min(fitting) as u32;
        let (first_size, size_step) = (c.first_size, c.size_step);
        Train { segments: vec![Segment { count, interval: c.interval, first_size, size_step }] }
    }

    fn rate_of(&self, packet: usize, record: &TrainRecord) -> Rate {
        Rate::from_bytes_over(u64::from(record.packets[packet].size), self.config.interval)
    }

    fn read(&self, record: &TrainRecord) -> Result<Reading, Rejection> {
        let delays: Vec<(usize, f64)> = delays(record).collect();
        if delays.len() * 10 < record.packets.len() * 9 || delays.len() < 3 {
            return Err(Rejection::PacketsMissing);
        }
        if sending_disturbed(record, self.config.interval) {
            return Err(Rejection::SendingDisturbed);
        }
        // "Stays longer": after the turning point the delay never again comes near its floor. Nearer than an interval
        // is near: so much a larger packet takes longer than the first small ones even on an idle link.
        let floor = delays.iter().map(|&(_, d)| d).fold(f64::INFINITY, f64::min);
        let threshold = floor + self.config.interval.as_secs_f64();
        let place = delays.iter().rposition(|&(_, d)| d <= threshold).unwrap_or(0);
        let last = delays.len() - 1;
        Ok(Reading {
            value: self.rate_of(delays[place].0, record),
            low: self.rate_of(delays[place.saturating_sub(1)].0, record),
            high: self.rate_of(delays[(place + 1).min(last)].0, record),
            at_edge: match place {
                0 => Some("the available bandwidth lies at or below the lowest rate of the train"),
                p if p == last => Some("the available bandwidth lies at or above the highest rate of the train"),
                _ => None,
            },
        })
    }
}

impl Method for LinearScan {
    fn next(&mut self, _now: Time) -> Step {
        match &self.state {
            State::Planned => {
                self.state = State::Sent;
                Step::Send { wait: Span::ZERO, train: self.train() }
            }
            State::Sent => Step::Done(outcome(&Err(Rejection::PacketsMissing))),
            State::Read(reading) => Step::Done(outcome(reading)),
        }
    }

    fn record(&mut self, record: &TrainRecord) {
        self.state = State::Read(self.read(record));
    }

    fn so_far(&self) -> Option<Rate> {
        match &self.state {
            State::Read(Ok(reading)) => Some(reading.value),
            _ => None,
        }
    }
}

/// One-way delays in seconds, up to a constant, of the packets that have both stamps.
fn delays(record: &TrainRecord) -> impl Iterator<Item = (usize, f64)> + '_ {
    record.packets.iter().enumerate().filter_map(|(i, p)| Some((i, (p.received? - p.sent?).as_secs_f64())))
}

/// Whether most packets left much later than planned: a congestion window that held them back.
fn sending_disturbed(record: &TrainRecord, interval: Span) -> bool {
    let sent: Vec<(i64, Time)> =
        record.packets.iter().enumerate().filter_map(|(i, p)| Some((i as i64, p.sent?))).collect();
    let Some(&(first, start)) = sent.first() else { return true };
    let off_plan =
        |&&(i, at): &&(i64, Time)| ((at - start) - interval * (i - first)).as_nanos().unsigned_abs() > 10_000_000;
    sent.iter().filter(off_plan).count() * 10 > sent.len()
}

fn outcome(reading: &Result<Reading, Rejection>) -> Outcome {
    let mut outcome = Outcome {
        available: None,
        reason: None,
        spread: None,
        capacity: None,
        trains_used: 0,
        trains_rejected: BTreeMap::new(),
        warnings: vec!["linear-scan is the published rule: it states no confidence".to_owned()],
    };
    match reading {
        Ok(reading) => {
            let Reading { value, low, high, at_edge } = *reading;
            outcome.trains_used = 1;
            outcome.available = Some(Estimate { value, low, high, confidence: 0.0 });
            outcome.warnings.extend(at_edge.map(str::to_owned));
        }
        Err(rejection) => {
            outcome.trains_rejected.insert(*rejection, 1);
            outcome.reason = Some(format!("the only train could not be used: {rejection}"));
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::PacketRecord;

    /// A fluid queue: what exceeds the available bandwidth waits at the capacity's pace.
    fn fluid(train: &Train, available: f64, capacity: f64) -> TrainRecord {
        let (mut backlog, mut before) = (0.0_f64, 0.0);
        let packets = train.packets().map(|p| {
            let at = p.offset.as_secs_f64();
            backlog = (backlog - available * (at - before)).max(0.0) + f64::from(p.size) * 8.0;
            before = at;
            let delay = 0.01 + (backlog - f64::from(p.size) * 8.0) / capacity;
            let sent = Time::ZERO + p.offset;
            PacketRecord { size: p.size, sent: Some(sent), received: Some(sent + Span::from_secs_f64(delay)) }
        });
        TrainRecord { packets: packets.collect() }
    }

    fn scan(record: impl Fn(&Train) -> TrainRecord) -> Outcome {
        let mut method = LinearScan::new(LinearScanConfig::paper(1500));
        let Step::Send { train, .. } = method.next(Time::ZERO) else { panic!("no train") };
        method.record(&record(&train));
        match method.next(Time::ZERO) {
            Step::Done(outcome) => outcome,
            Step::Send { .. } => panic!("a second train"),
        }
    }

    #[test]
    fn finds_the_turning_point() {
        for available in [10e6, 40e6, 75e6] {
            let value = scan(|train| fluid(train, available, 100e6)).available.unwrap().value.as_f64();
            // The threshold lets a few packets of excess pass before it believes in a queue.
            assert!((value - available).abs() < 18e6, "{available}: {value}");
        }
    }

    #[test]
    fn says_when_the_range_does_not_reach() {
        let outcome = scan(|train| fluid(train, 1e9, 1e9));
        assert!(outcome.warnings.iter().any(|w| w.contains("highest rate")), "{:?}", outcome.warnings);
    }

    #[test]
    fn gives_a_reason_instead_of_a_number() {
        let lost = scan(|train| {
            let mut record = fluid(train, 50e6, 100e6);
            record.packets.iter_mut().step_by(3).for_each(|p| p.received = None);
            record
        });
        assert!(lost.available.is_none() && lost.reason.unwrap().contains("missing"));

        let window = scan(|train| {
            let mut record = fluid(train, 50e6, 100e6);
            record.packets[10..].iter_mut().for_each(|p| p.sent = p.sent.map(|t| t + Span::from_millis(40)));
            record
        });
        assert!(window.available.is_none() && window.reason.unwrap().contains("when it was asked to"));
    }

    #[test]
    fn the_train_ends_where_packets_would_be_too_large() {
        let method = LinearScan::new(LinearScanConfig { max_packet: 1000, ..LinearScanConfig::paper(1000) });
        assert!(method.train().check(1000).is_ok());
        assert_eq!(method.train().count(), 81);
    }
}
