//! What the published methods have in common: the time stamps of a train in seconds, and the account of what was sent.

use crate::config::Budget;
use crate::method::{Outcome, Rejection, Step};
use crate::reason::Reason;
use crate::warning::Warning;
use kumade_probe_train::{Estimate, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use std::collections::BTreeMap;

/// After this many unusable trains in a row nothing more is tried.
const MAX_FAILURES_IN_ROW: u32 = 8;

/// Packets that leave later than this after their planned time were held back by the sender.
const MAX_LATENESS_SECONDS: f64 = 0.010;

/// Clocks may differ by this part: it must not look like a queue that grows. A rate that exceeds the available bandwidth
/// by a hundredth of a percent of the capacity looks the same.
const MAX_SKEW_RATIO: f64 = 100e-6;

/// A packet that has both stamps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ArrivedPacket {
    /// In seconds after the train's first packet left, by the sender's clock.
    pub(crate) sent: f64,
    /// One-way delay in seconds, up to a constant.
    delay: f64,
    size: u32,
}

/// One train's stamps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flight {
    /// When each packet left, in seconds after the first, and its bytes.
    sent: Vec<(f64, u32)>,
    /// In the order of sending.
    pub(crate) arrived: Vec<ArrivedPacket>,
}

impl Flight {
    fn from_record(train: &Train, record: &TrainRecord) -> Result<Self, Rejection> {
        let left: Vec<_> = record.packets.iter().zip(train.packets()).filter(|(p, _)| p.sent.is_some()).collect();
        let Some((first, _)) = left.first() else { return Err(Rejection::PacketsMissing) };
        let (start, zero) =
            (first.sent.unwrap_or_default(), left.iter().find_map(|(p, _)| Some(p.received? - p.sent?)));
        let Some(zero) = zero else { return Err(Rejection::PacketsMissing) };
        let mut flight = Flight { sent: Vec::with_capacity(left.len()), arrived: Vec::with_capacity(left.len()) };
        let mut off_plan = 0;
        for (packet, planned) in left {
            let at = packet.sent.unwrap_or_default();
            let sent = (at - start).as_secs_f64();
            off_plan += usize::from((sent - planned.offset.as_secs_f64()).abs() > MAX_LATENESS_SECONDS);
            flight.sent.push((sent, packet.size));
            if let Some(received) = packet.received {
                let delay = ((received - at) - zero).as_secs_f64();
                flight.arrived.push(ArrivedPacket { sent, delay, size: packet.size });
            }
        }
        if off_plan * 10 > flight.sent.len() { Err(Rejection::SendingDisturbed) } else { Ok(flight) }
    }

    /// The part of the packets that left and did not come.
    pub(crate) fn loss_fraction(&self) -> f64 {
        1.0 - self.arrived.len() as f64 / self.sent.len() as f64
    }

    /// One-way delays in seconds, up to a constant, less what the receiver's clock may have gained since the first.
    ///
    /// Pathload and pathChirp look for any rise, and their papers trust that a train is too short for the clocks to
    /// drift apart. Next to the kernel's exact stamps it is not: a few µs rise steadily on an idle path.
    pub(crate) fn delays(&self) -> Vec<f64> {
        self.arrived.iter().map(|packet| packet.delay - MAX_SKEW_RATIO * packet.sent).collect()
    }

    /// The gaps in seconds between packets next to each other as they left and as they arrived, in the order of sending.
    pub(crate) fn gaps(&self) -> Vec<(f64, f64)> {
        let gap = |pair: &[ArrivedPacket]| {
            let input = pair[1].sent - pair[0].sent;
            (input, input + pair[1].delay - pair[0].delay)
        };
        self.arrived.windows(2).map(gap).collect()
    }

    /// The rate at which the packets left, in bit/s. A stamp is taken when a packet begins to leave or has arrived: the
    /// first packet's own bits are outside the time between the stamps.
    pub(crate) fn sending_rate(&self) -> Option<f64> {
        rate(self.sent.iter().copied())
    }

    /// The rate at which they arrived, in bit/s; lost packets count as time without bits.
    pub(crate) fn receiving_rate(&self) -> Option<f64> {
        rate(self.arrived.iter().map(|p| (p.sent + p.delay, p.size)))
    }
}

fn rate(packets: impl Iterator<Item = (f64, u32)>) -> Option<f64> {
    let mut packets: Vec<_> = packets.collect();
    packets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [(first, _), rest @ ..] = &packets[..] else { return None };
    let took = rest.last()?.0 - first;
    let bits: f64 = rest.iter().map(|&(_, size)| f64::from(size) * 8.0).sum();
    (took > 0.0).then(|| bits / took)
}

/// What was sent, and how many trains were used.
#[derive(Debug, Default)]
pub(crate) struct ProbeAccount {
    started: Option<Time>,
    bytes: u64,
    train_in_flight: Option<Train>,
    trains_used: u32,
    trains_rejected: BTreeMap<Rejection, u32>,
    failures_in_row: u32,
}

impl ProbeAccount {
    /// To be called first in each `next`: a train that was never recorded is a lost one.
    pub(crate) fn begin_measurement(&mut self, now: Time) {
        self.started.get_or_insert(now);
        if self.train_in_flight.take().is_some() {
            self.reject(Rejection::PacketsMissing);
        }
    }

    /// How long it has gone on.
    pub(crate) fn elapsed(&self, now: Time) -> Span {
        now - self.started.unwrap_or(now)
    }

    /// Sends this train, unless the budget forbids it or too many trains in a row were unusable.
    pub(crate) fn send(&mut self, now: Time, wait: Span, train: Train, budget: &Budget) -> Option<Step> {
        let spent = self.bytes.saturating_add(train.bytes());
        let took = self.elapsed(now) + wait + train.duration();
        if self.has_failed() || spent > budget.bytes || took > budget.time {
            return None;
        }
        self.bytes = spent;
        self.train_in_flight = Some(train.clone());
        Some(Step::Send { wait, train })
    }

    /// Takes in the record of the train on its way; none where it cannot be read. Counts as used unless
    /// [rejected](Self::reject) later.
    pub(crate) fn read_record(&mut self, record: &TrainRecord) -> Option<Flight> {
        let train = self.train_in_flight.take()?;
        match Flight::from_record(&train, record) {
            Ok(flight) => Some(flight),
            Err(why) => {
                self.reject(why);
                None
            }
        }
    }

    /// The newest train is used.
    pub(crate) fn accept(&mut self) {
        self.trains_used += 1;
        self.failures_in_row = 0;
    }

    /// The newest train is not used.
    pub(crate) fn reject(&mut self, why: Rejection) {
        *self.trains_rejected.entry(why).or_default() += 1;
        self.failures_in_row += 1;
    }

    /// Whether too many trains in a row were unusable.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures_in_row >= MAX_FAILURES_IN_ROW
    }

    /// The outcome: a value, or the reason why there is none.
    pub(crate) fn outcome(&self, found: Result<Estimate<Rate>, Reason>, warnings: Vec<Warning>) -> Outcome {
        let (available, reason) = match found {
            Ok(estimate) => (Some(estimate), None),
            Err(_) if self.has_failed() => (None, Some(self.failure_reason())),
            Err(reason) => (None, Some(reason)),
        };
        let rejected = self.trains_rejected.clone();
        let (spread, capacity, trains_used) = (None, None, self.trains_used);
        Outcome {
            available,
            bound: None,
            reason,
            spread,
            capacity,
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used,
            trains_rejected: rejected,
            warnings,
        }
    }

    fn failure_reason(&self) -> Reason {
        let most = self.trains_rejected.iter().max_by_key(|(_, count)| **count);
        most.map_or(Reason::NoTrainArrived, |(why, _)| Reason::RejectedInRow(MAX_FAILURES_IN_ROW, *why))
    }
}

/// A fluid queue for the methods' unit tests: what exceeds the available bandwidth waits at the capacity's pace.
#[cfg(test)]
pub(crate) mod fluid {
    use crate::{Method, Outcome, Step};
    use kumade_probe_train::{PacketRecord, Train, TrainRecord};
    use kumade_units::{Span, Time};

    pub(crate) struct Fluid {
        pub(crate) available: f64,
        pub(crate) capacity: f64,
        pub(crate) backlog: f64,
        pub(crate) now: f64,
    }

    impl Fluid {
        pub(crate) fn new(available: f64, capacity: f64) -> Self {
            Fluid { available, capacity, backlog: 0.0, now: 0.0 }
        }

        pub(crate) fn send(&mut self, wait: Span, train: &Train) -> TrainRecord {
            let start = self.now + wait.as_secs_f64();
            let packets = train.packets().map(|p| {
                let at = start + p.offset.as_secs_f64();
                let drained = self.available * (at - self.now);
                self.backlog = (self.backlog - drained).max(0.0) + f64::from(p.size) * 8.0;
                self.now = at;
                let sent = Time::ZERO + Span::from_secs_f64(at);
                let received = sent + Span::from_secs_f64(0.01 + self.backlog / self.capacity);
                PacketRecord { size: p.size, sent: Some(sent), submitted: None, received: Some(received) }
            });
            TrainRecord { packets: packets.collect() }
        }
    }

    /// Everything that a method sends on this path, and what it makes of it.
    pub(crate) fn measure(
        method: &mut dyn Method,
        mut path: impl FnMut(Span, &Train) -> TrainRecord,
    ) -> (Outcome, Vec<Train>) {
        let (mut now, mut trains) = (Time::ZERO, Vec::new());
        loop {
            match method.next(now) {
                Step::Send { wait, train } => {
                    train.check(1500).expect("a train that can be sent");
                    method.record(&path(wait, &train));
                    now += wait + train.duration() + Span::from_millis(20);
                    trains.push(train);
                }
                Step::Done(outcome) => return (outcome, trains),
            }
        }
    }

    /// As if every packet was lost.
    pub(crate) fn nothing(train: &Train) -> TrainRecord {
        let lost = |size| PacketRecord { size, sent: Some(Time::ZERO), submitted: None, received: None };
        TrainRecord { packets: train.packets().map(|p| lost(p.size)).collect() }
    }
}
