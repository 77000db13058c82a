//! The papers' method: one train of constant interval and linearly growing size, and the turning point in it.

use crate::bound::{Bound, BoundKind};
use crate::config::{Budget, Conditions, MethodConfig, Parameter, set_parameter};
use crate::method::{Method, Outcome, Rejection, Step};
use crate::reason::Reason;
use crate::warning::Warning;
use kumade_probe_train::{Estimate, Segment, Train, TrainRecord};
use kumade_units::{Rate, Span, Time, exact_text, parse};
use std::collections::BTreeMap;

/// The four numbers of a PathRakeTCP or PathQuick3 train. The rate of packet *i* is
/// `8 · (first_size + i · size_step) / interval`.
///
/// The default is the paper's: 0.1 ms, 32 B, 12 B, 120 packets, which scan 2.6 … 116 Mbit/s (PathRakeTCP, 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearScanConfig {
    /// Between packets; where none is set, the paper's, or as [adapted](MethodConfig::adapt_to_rate) to a rate.
    pub interval: Option<Span>,
    /// The first packet's bytes.
    pub first_size: u32,
    /// What each further packet has more, in bytes. The train ends before it would need a packet larger than the
    /// transport's.
    pub size_step: i32,
    /// Packets in the train.
    pub packets: u32,
}

/// The paper's interval, and the bottleneck of its experiment, to which it fits.
const PUBLISHED_INTERVAL: Span = Span::from_micros(100);
const PUBLISHED_RATE: Rate = Rate::from_mbit(100);

/// No transport carries larger packets.
const MAX_PACKET_BYTES: u32 = 1500;

impl Default for LinearScanConfig {
    fn default() -> Self {
        LinearScanConfig { interval: None, first_size: 32, size_step: 12, packets: 120 }
    }
}

impl LinearScanConfig {
    fn interval(&self) -> Span {
        self.interval.unwrap_or(PUBLISHED_INTERVAL)
    }
}

impl MethodConfig for LinearScanConfig {
    const NAME: &'static str = "linear-scan";
    const SUMMARY: &'static str = "the papers' rule: one train of growing packets";
    const BUDGET: Option<Budget> = None;
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "interval",
            value: "TIME",
            default: "100us",
            help: "time between two packets",
            set: |config, text| set_parameter(&mut config.interval, parse_interval(text).map(Some)),
            get: |config| exact_text::span(config.interval.unwrap_or(Span::ZERO)),
        },
        Parameter {
            name: "first-size",
            value: "BYTES",
            default: "32",
            help: "bytes of the first packet",
            set: |config, text| set_parameter(&mut config.first_size, parse::number(text)),
            get: |config| config.first_size.to_string(),
        },
        Parameter {
            name: "size-step",
            value: "BYTES",
            default: "12",
            help: "how many bytes each packet is larger than the one before",
            set: |config, text| set_parameter(&mut config.size_step, parse::number(text)),
            get: |config| config.size_step.to_string(),
        },
        Parameter {
            name: "packets",
            value: "N",
            default: "120",
            help: "packets in the train",
            set: |config, text| set_parameter(&mut config.packets, parse::number(text)),
            get: |config| config.packets.to_string(),
        },
    ];

    fn max_packets(&self) -> u32 {
        self.packets
    }

    /// Packets that would grow too large are left out; everything else must be valid.
    fn check(&self) -> Result<(), String> {
        let (first_size, size_step) = (self.first_size, self.size_step.min(0));
        let segment = Segment { count: self.packets, interval: self.interval(), first_size, size_step };
        Train { segments: vec![segment] }.check(MAX_PACKET_BYTES).map_err(|error| error.to_string())
    }

    /// The interval that lets the train scan the same share of this rate as of the paper's.
    fn adapt_to_rate(&mut self, rate: Rate) {
        let interval = PUBLISHED_INTERVAL.as_secs_f64() * PUBLISHED_RATE.as_f64() / rate.as_f64();
        self.interval.get_or_insert(Span::from_secs_f64(interval));
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(LinearScan::new(*self, conditions))
    }
}

fn parse_interval(text: &str) -> Result<Span, String> {
    match parse::span(text) {
        Ok(interval) if interval > Span::ZERO => Ok(interval),
        Ok(_) => Err("packets need a time between them; give at least 1us".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The published rule, kept as it is: "the transmission rate of the packet just before the one from which the
/// reception interval is longer than the transmission interval" (PathRakeTCP, 2.1). It states no confidence.
#[derive(Debug)]
pub struct LinearScan {
    config: LinearScanConfig,
    max_packet: u32,
    state: ScanState,
}

#[derive(Debug)]
enum ScanState {
    Planned,
    Sent,
    Evaluated(Result<ScanResult, Rejection>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ScanResult {
    value: Rate,
    low: Rate,
    high: Rate,
    /// Where the train's range does not reach the turning point.
    bound: Option<Bound>,
}

impl LinearScan {
    /// Scans once with these numbers.
    pub fn new(config: LinearScanConfig, conditions: &Conditions) -> Self {
        LinearScan { config, max_packet: conditions.max_packet, state: ScanState::Planned }
    }

    fn train(&self) -> Train {
        let c = &self.config;
        let room = i64::from(self.max_packet) - i64::from(c.first_size);
        let fitting = if c.size_step > 0 { room.max(0) / i64::from(c.size_step) + 1 } else { i64::MAX };
        let count = i64::from(c.packets).min(fitting) as u32;
        let (first_size, size_step) = (c.first_size, c.size_step);
        Train { segments: vec![Segment { count, interval: c.interval(), first_size, size_step }] }
    }

    fn packet_rate(&self, packet: usize, record: &TrainRecord) -> Rate {
        Rate::from_bytes_over(u64::from(record.packets[packet].size), self.config.interval())
    }

    fn interpret_record(&self, record: &TrainRecord) -> Result<ScanResult, Rejection> {
        let delays: Vec<(usize, f64)> = delays(record).collect();
        if delays.len() * 10 < record.packets.len() * 9 || delays.len() < 3 {
            return Err(Rejection::PacketsMissing);
        }
        if sending_disturbed(record, self.config.interval()) {
            return Err(Rejection::SendingDisturbed);
        }
        // "Stays longer": after the turning point the delay never again comes near its floor. Nearer than an interval
        // is near: so much a larger packet takes longer than the first small ones even on an idle link.
        let floor = delays.iter().map(|&(_, d)| d).fold(f64::INFINITY, f64::min);
        let threshold = floor + self.config.interval().as_secs_f64();
        let place = delays.iter().rposition(|&(_, d)| d <= threshold).unwrap_or(0);
        let last = delays.len() - 1;
        let value = self.packet_rate(delays[place].0, record);
        Ok(ScanResult {
            value,
            low: self.packet_rate(delays[place.saturating_sub(1)].0, record),
            high: self.packet_rate(delays[(place + 1).min(last)].0, record),
            bound: match place {
                0 => Some(Bound::AtMost(value, BoundKind::RateRange)),
                p if p == last => Some(Bound::AtLeast(value, BoundKind::RateRange)),
                _ => None,
            },
        })
    }
}

impl Method for LinearScan {
    fn next(&mut self, _now: Time) -> Step {
        match &self.state {
            ScanState::Planned => {
                self.state = ScanState::Sent;
                Step::Send { wait: Span::ZERO, train: self.train() }
            }
            ScanState::Sent => Step::Done(outcome(&Err(Rejection::PacketsMissing))),
            ScanState::Evaluated(reading) => Step::Done(outcome(reading)),
        }
    }

    fn record(&mut self, record: &TrainRecord) {
        self.state = ScanState::Evaluated(self.interpret_record(record));
    }

    fn current_estimate(&self) -> Option<Rate> {
        match &self.state {
            ScanState::Evaluated(Ok(reading)) => Some(reading.value),
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

fn outcome(reading: &Result<ScanResult, Rejection>) -> Outcome {
    let mut outcome = Outcome {
        available: None,
        bound: None,
        reason: None,
        spread: None,
        capacity: None,
        tight_link: None,
        hidden_bucket: None,
        refused: None,
        trains_used: 0,
        trains_rejected: BTreeMap::new(),
        warnings: vec![Warning::NoConfidence(LinearScanConfig::NAME)],
    };
    match reading {
        Ok(reading) => {
            let ScanResult { value, low, high, bound } = *reading;
            outcome.trains_used = 1;
            outcome.available = Some(Estimate { value, low, high, confidence: 0.0 });
            outcome.bound = bound;
        }
        Err(rejection) => {
            outcome.trains_rejected.insert(*rejection, 1);
            outcome.reason = Some(Reason::OnlyTrainRejected(*rejection));
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::PacketRecord;

    /// A fluid queue: what exceeds the available bandwidth waits at the capacity's pace.
    fn fluid(train: &Train, available: f64, capacity: f64) -> TrainRecord {
        let (mut backlog, mut before) = (0.0_f64, 0.0);
        let packets = train.packets().map(|p| {
            let at = p.offset.as_secs_f64();
            backlog = (backlog - available * (at - before)).max(0.0) + f64::from(p.size) * 8.0;
            before = at;
            let delay = 0.01 + (backlog - f64::from(p.size) * 8.0) / capacity;
            let sent = Time::ZERO + p.offset;
            PacketRecord {
                size: p.size,
                sent: Some(sent),
                submitted: None,
                received: Some(sent + Span::from_secs_f64(delay)),
            }
        });
        TrainRecord { packets: packets.collect() }
    }

    fn scan(record: impl Fn(&Train) -> TrainRecord) -> Outcome {
        let mut method = LinearScan::new(LinearScanConfig::default(), &Conditions::new(1500));
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
        assert_eq!(outcome.bound.unwrap().lower_bound(), Some(outcome.available.unwrap().value));
    }

    #[test]
    fn gives_a_reason_instead_of_a_number() {
        let lost = scan(|train| {
            let mut record = fluid(train, 50e6, 100e6);
            record.packets.iter_mut().step_by(3).for_each(|p| p.received = None);
            record
        });
        assert!(lost.available.is_none() && lost.reason == Some(Reason::OnlyTrainRejected(Rejection::PacketsMissing)));

        let window = scan(|train| {
            let mut record = fluid(train, 50e6, 100e6);
            record.packets[10..].iter_mut().for_each(|p| p.sent = p.sent.map(|t| t + Span::from_millis(40)));
            record
        });
        assert!(
            window.available.is_none() && window.reason == Some(Reason::OnlyTrainRejected(Rejection::SendingDisturbed))
        );
    }

    #[test]
    fn the_train_ends_where_packets_would_be_too_large() {
        let method = LinearScan::new(LinearScanConfig::default(), &Conditions::new(1000));
        assert!(method.train().check(1000).is_ok());
        assert_eq!(method.train().packet_count(), 81);
    }
}
