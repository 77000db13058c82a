//! A method that shows what a method needs: it sends one train, and its value is the rate at which that arrived.

use crate::config::{Budget, Conditions, MethodConfig, Parameter, set_parameter};
use crate::method::{Method, Outcome, Rejection, Step};
use crate::reason::Reason;
use kumade_probe_train::{Estimate, Segment, Train, TrainRecord};
use kumade_units::{Rate, Span, Time, parse};
use std::collections::BTreeMap;

/// What it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DummyConfig {
    /// Packets in the train.
    pub packets: u32,
}

impl Default for DummyConfig {
    fn default() -> Self {
        DummyConfig { packets: 10 }
    }
}

impl MethodConfig for DummyConfig {
    const NAME: &'static str = "dummy";
    const SUMMARY: &'static str = "one back-to-back train, a test of the table of methods";
    const BUDGET: Option<Budget> = None;
    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter {
        name: "packets",
        value: "N",
        default: "10",
        help: "packets in the train",
        set: |config, text| set_parameter(&mut config.packets, parse::number(text)),
        get: |config| config.packets.to_string(),
    }];

    fn max_packets(&self) -> u32 {
        self.packets
    }

    fn check(&self) -> Result<(), String> {
        if (2..=100).contains(&self.packets) { Ok(()) } else { Err("give 2 to 100 packets".to_owned()) }
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        Box::new(Dummy { packets: self.packets, max_packet: conditions.max_packet, sent: false, rate: None })
    }
}

/// See [`DummyConfig`].
#[derive(Debug)]
pub struct Dummy {
    packets: u32,
    max_packet: u32,
    sent: bool,
    rate: Option<Rate>,
}

impl Method for Dummy {
    fn next(&mut self, _now: Time) -> Step {
        if self.sent {
            return Step::Done(self.outcome());
        }
        self.sent = true;
        let segment = Segment { count: self.packets, interval: Span::ZERO, first_size: self.max_packet, size_step: 0 };
        Step::Send { wait: Span::ZERO, train: Train { segments: vec![segment] } }
    }

    fn record(&mut self, record: &TrainRecord) {
        let mut arrivals: Vec<_> = record.packets.iter().filter_map(|p| Some((p.received?, p.size))).collect();
        arrivals.sort_unstable();
        let [(first, _), behind @ ..] = &arrivals[..] else { return };
        let Some((last, _)) = behind.last() else { return };
        let bytes = behind.iter().map(|(_, size)| u64::from(*size)).sum();
        self.rate = (last > first).then(|| Rate::from_bytes_over(bytes, *last - *first));
    }

    fn current_estimate(&self) -> Option<Rate> {
        self.rate
    }
}

impl Dummy {
    fn outcome(&self) -> Outcome {
        let rejected = if self.rate.is_some() { BTreeMap::new() } else { [(Rejection::PacketsMissing, 1)].into() };
        Outcome {
            available: self.rate.map(|value| Estimate { value, low: value, high: value, confidence: 0.0 }),
            bound: None,
            reason: self.rate.is_none().then_some(Reason::OnlyTrainLost),
            spread: None,
            capacity: None,
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: self.rate.is_some().into(),
            trains_rejected: rejected,
            warnings: Vec::new(),
        }
    }
}
