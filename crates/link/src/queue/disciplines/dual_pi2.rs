//! DualPI2 (RFC 9332, appendix A): two queues, of which the AQMs are coupled.

mod controller;
mod scheduler;
#[cfg(test)]
mod tests;

use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{
    NUMBER_FORMAT, Parameter, ParameterFormat, RATIO_FORMAT, SWITCH_FORMAT, TIME_FORMAT, parse_choice,
};
use crate::queue::recurring_event::RecurringEvent;
use controller::CoupledPi2;
use kumade_packet::Ecn;
use kumade_units::{ConfigError, Span, Time};
use scheduler::Scheduler;

/// The settings of [`DualPi2`]; the default is that of Linux's `sch_dualpi2`, which follows RFC 9332, appendix A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DualPi2Config {
    /// The delay of the classic queue that the controller steers to.
    pub target: Span,
    /// How often the base probability is calculated.
    pub update: Span,
    /// The controller's integral gain in 1/s: 0.1 · update / (longest round trip)².
    pub alpha: f64,
    /// Its proportional gain in 1/s: 0.3 / longest round trip.
    pub beta: f64,
    /// Packets of the L4S queue are marked from about this sojourn time on, …
    pub step_threshold: Span,
    /// … with a probability that rises from 0 to 1 over this range around it; 0 is a step.
    pub ramp: Span,
    /// … if on arrival they found at least so many packets in that queue.
    pub min_step_packets: u32,
    /// How many times the base probability a packet of the L4S queue is marked with.
    pub coupling_factor: u32,
    /// Whether overload is answered with drops, also of packets that can be marked; else the queue may fill.
    pub drops_on_overload: bool,
    /// Which queue is served.
    pub scheduler: DualQueueScheduler,
    /// The part of the link that weighted round robin keeps for the classic queue.
    pub classic_protection: f64,
    /// How much longer a classic packet must have waited than one of the L4S queue to leave first, with time shift.
    pub time_shift: Span,
}

/// Which of the two queues is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DualQueueScheduler {
    /// Weighted round robin, by bytes.
    #[default]
    WeightedRoundRobin,
    /// The packet that has waited longest, those of the L4S queue by the time shift longer (time-shifted FIFO).
    TimeShift,
}

/// Dual-queue coupled AQM (DualPI2, RFC 9332): a queue of its own, served first, for senders that expect frequent marks, that is for
/// packets that are ECT(1) or CE; and one for the rest.
///
/// One base probability p follows the delay, as in PIE. Classic packets are dropped, or marked, with p²; those of the L4S queue are
/// marked with k·p, or because they waited, whichever is more. As the rate of a classic sender goes by the inverse square root of the
/// probability and that of a scalable one by its inverse, all get about the same rate on equal round trips, though nobody counts flows.
///
/// Where k·p reaches 1, packets of both queues are dropped with p², whatever their ECN field, so that senders which react to nothing
/// can't drive out the others. Drops and marks come at even distances, as in the RFC's pseudocode (Linux draws random numbers).
#[derive(Debug)]
pub struct DualPi2<P> {
    config: DualPi2Config,
    limit: QueueLimit,
    classic: Buffer<P>,
    /// With each packet, whether it may be marked for its sojourn time.
    low_latency: Buffer<StepPacket<P>>,
    controller: CoupledPi2,
    scheduler: Scheduler,
    classic_signals: RecurringEvent,
    low_latency_marks: RecurringEvent,
    low_latency_drops: RecurringEvent,
}

#[derive(Debug)]
struct StepPacket<P> {
    content: P,
    applies_step: bool,
}

/// With less than this queued nothing is dropped or marked for the sake of the base probability, as in Linux: two packets.
const MIN_SIGNALLED_BYTES: u64 = 2 * 1514;

const FREQUENCY_FORMAT: ParameterFormat<f64> =
    ParameterFormat { placeholder: "HZ", read: parse_frequency, show: f64::to_string };
const SCHEDULER_FORMAT: ParameterFormat<DualQueueScheduler> = ParameterFormat {
    placeholder: "wrr|time-shift",
    read: |text| {
        let choices = [("wrr", DualQueueScheduler::WeightedRoundRobin), ("time-shift", DualQueueScheduler::TimeShift)];
        parse_choice(text, choices)
    },
    show: |scheduler| match scheduler {
        DualQueueScheduler::WeightedRoundRobin => "wrr".to_owned(),
        DualQueueScheduler::TimeShift => "time-shift".to_owned(),
    },
};

fn parse_frequency(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| format!("`{text}` is not a number such as 0.16"))
}

impl Default for DualPi2Config {
    fn default() -> Self {
        DualPi2Config {
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            step_threshold: Span::from_millis(1),
            ramp: Span::ZERO,
            min_step_packets: 1,
            coupling_factor: 2,
            drops_on_overload: true,
            scheduler: DualQueueScheduler::default(),
            classic_protection: 0.1,
            time_shift: Span::from_millis(30),
        }
    }
}

impl DisciplineConfig for DualPi2Config {
    const NAME: &'static str = "dualpi2";
    const SUMMARY: &'static str =
        "DualPI2: a queue of low latency for ECT(1), coupled with one for the rest (RFC 9332, L4S)";
    const TEST_SETTINGS: &'static [&'static str] = &[
        "dualpi2:target=20us:tupdate=100us:alpha=30:beta=300:step-thresh=50us:classic-protection=20%:coupling-factor=3",
        "dualpi2:target=20us:tupdate=100us:alpha=30:beta=300:step-thresh=50us:ramp=40us:min-qlen-step=0:drop-on-overload=off:\
         scheduler=time-shift:time-shift=100us",
    ];
    /// 125 ms at 1 Gbit/s, as in Linux.
    const DEFAULT_LIMIT: QueueLimit = QueueLimit::Packets(10_000);
    type Queue<P> = DualPi2<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let step = "sojourn time from which packets of the L4S queue are marked";
        let ramp = "range around it over which they are marked with a rising probability; 0 is a step";
        let min_step = "packets that one must find in the L4S queue to be marked for its sojourn time";
        let coupling = "how many times the base probability packets of the L4S queue are marked with";
        let overload = "drop packets that could be marked, too, where senders do not react";
        let protection = "part of the link kept for classic packets, with wrr";
        let shift = "how much longer a classic packet must have waited to leave first, with time-shift";
        vec![
            Parameter::new("target", TIME_FORMAT, "delay that the classic queue is steered to", |config: &mut Self| {
                &mut config.target
            }),
            Parameter::new(
                "tupdate",
                TIME_FORMAT,
                "interval between calculations of the probability",
                |config: &mut Self| &mut config.update,
            ),
            Parameter::new("alpha", FREQUENCY_FORMAT, "integral gain", |config: &mut Self| &mut config.alpha),
            Parameter::new("beta", FREQUENCY_FORMAT, "proportional gain", |config: &mut Self| &mut config.beta),
            Parameter::new("step-thresh", TIME_FORMAT, step, |config: &mut Self| &mut config.step_threshold),
            Parameter::new("ramp", TIME_FORMAT, ramp, |config: &mut Self| &mut config.ramp),
            Parameter::new("min-qlen-step", NUMBER_FORMAT, min_step, |config: &mut Self| &mut config.min_step_packets),
            Parameter::new("coupling-factor", NUMBER_FORMAT, coupling, |config: &mut Self| &mut config.coupling_factor),
            Parameter::new("drop-on-overload", SWITCH_FORMAT, overload, |config: &mut Self| {
                &mut config.drops_on_overload
            }),
            Parameter::new("scheduler", SCHEDULER_FORMAT, "which queue is served", |config: &mut Self| {
                &mut config.scheduler
            }),
            Parameter::new("classic-protection", RATIO_FORMAT, protection, |config: &mut Self| {
                &mut config.classic_protection
            }),
            Parameter::new("time-shift", TIME_FORMAT, shift, |config: &mut Self| &mut config.time_shift),
        ]
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("DualPI2 queue");
        for (name, span, remedy) in [
            ("target", self.target, "give 0 or more; 15 ms is usual"),
            ("step threshold", self.step_threshold, "give 0 or more; 1 ms is usual"),
            ("ramp", self.ramp, "give 0 or more; 0 or 400 us is usual"),
            ("time shift", self.time_shift, "give 0 or more; twice the target is usual"),
        ] {
            if span < Span::ZERO {
                return Err(error(name, span.to_string(), "which is negative", remedy));
            }
        }
        if self.update < Span::from_micros(10) || self.update > Span::from_secs(1) {
            let remedy = "give 10 us to 1 s; 16 ms is usual";
            return Err(error("interval of calculations", self.update.to_string(), "out of range", remedy));
        }
        let is_gain = |gain: f64| gain.is_finite() && (0.0..=1e6).contains(&gain);
        if !is_gain(self.alpha) || !is_gain(self.beta) {
            let gains = format!("{} and {}", self.alpha, self.beta);
            return Err(error("gains", gains, "out of range", "give 0 to 1000000 Hz; 0.16 and 3.2 are usual"));
        }
        if !(1..=255).contains(&self.coupling_factor) {
            let remedy = "give 1 to 255; 2 is usual";
            return Err(error("coupling factor", self.coupling_factor.to_string(), "out of range", remedy));
        }
        if !(0.0..=1.0).contains(&self.classic_protection) {
            let remedy = "give 0% to 100%; 10% is usual";
            return Err(error("classic protection", self.classic_protection.to_string(), "out of range", remedy));
        }
        Ok(())
    }

    fn new_queue<P>(&self, limit: QueueLimit, _seed: u64) -> DualPi2<P> {
        DualPi2 {
            config: *self,
            limit,
            classic: Buffer::new(limit),
            low_latency: Buffer::new(limit),
            controller: CoupledPi2::default(),
            scheduler: Scheduler::new(self),
            classic_signals: RecurringEvent::default(),
            low_latency_marks: RecurringEvent::default(),
            low_latency_drops: RecurringEvent::default(),
        }
    }
}

/// What happens to a packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    None,
    Mark,
    Drop,
}

impl<P> DualPi2<P> {
    /// Brings the base probability up to date.
    fn update_until(&mut self, now: Time) {
        let heads = (self.classic.first_arrival(), self.low_latency.first_arrival());
        self.controller.update_until(now, heads.0.into_iter().chain(heads.1).min(), &self.config);
    }

    /// What becomes of a classic packet: p², and no mark where marks are not heeded.
    fn classic_signal(&mut self, has_backlog: bool) -> Signal {
        let probability = if has_backlog { self.controller.classic_probability() } else { 0.0 };
        match self.classic_signals.recurs(probability) {
            false => Signal::None,
            true if self.controller.is_overloaded(&self.config) => Signal::Drop,
            true => Signal::Mark,
        }
    }

    /// What becomes of a packet of the L4S queue.
    fn low_latency_signal(&mut self, has_backlog: bool, sojourn: Span, applies_step: bool) -> Signal {
        let step = if applies_step { ramp_probability(sojourn, &self.config) } else { 0.0 };
        let coupled = if has_backlog { self.controller.coupled_probability(&self.config) } else { 0.0 };
        let is_overloaded = has_backlog && self.controller.is_overloaded(&self.config);
        if is_overloaded
            && self.config.drops_on_overload
            && self.low_latency_drops.recurs(self.controller.classic_probability())
        {
            return Signal::Drop;
        }
        if self.low_latency_marks.recurs(step.max(coupled)) { Signal::Mark } else { Signal::None }
    }

    /// The packet whose turn it is, and what becomes of it.
    fn take_next(&mut self, now: Time) -> Option<(QueuedPacket<P>, Signal)> {
        let has_backlog = self.bytes() >= MIN_SIGNALLED_BYTES;
        let heads = (self.classic.first_arrival(), self.low_latency.first_arrival());
        if self.scheduler.serves_low_latency(heads)? {
            let packet = self.low_latency.pop()?;
            self.scheduler.record_low_latency(packet.size, heads.0.is_some());
            let signal = self.low_latency_signal(has_backlog, now - packet.arrival, packet.content.applies_step);
            return Some((packet.map(|step| step.content), signal));
        }
        let packet = self.classic.pop()?;
        self.scheduler.record_classic(packet.size, heads.1.is_some());
        let signal = self.classic_signal(has_backlog);
        Some((packet, signal))
    }
}

impl<P> QueueDiscipline<P> for DualPi2<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        self.update_until(packet.arrival);
        if !self.limit.has_room(self.packets(), self.bytes(), packet.size) {
            return packet.drop_into(DropCause::QueueFull, drops);
        }
        // RFC 9331, section 5.1: what is CE already was perhaps ECT(1).
        if !matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce) {
            return self.classic.push(packet, drops);
        }
        let applies_step = self.low_latency.len() as u64 >= u64::from(self.config.min_step_packets);
        // Room was looked for above: nothing is dropped.
        self.low_latency.push(packet.map(|content| StepPacket { content, applies_step }), &mut Vec::new())
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.update_until(now);
        loop {
            let (mut packet, signal) = self.take_next(now)?;
            let passes = match signal {
                Signal::None => true,
                Signal::Mark => packet.mark(),
                Signal::Drop => false,
            };
            if passes {
                return Some(packet);
            }
            drops.push(DroppedPacket { packet, cause: DropCause::Aqm });
        }
    }

    fn packets(&self) -> usize {
        self.classic.len() + self.low_latency.len()
    }

    fn bytes(&self) -> u64 {
        self.classic.bytes() + self.low_latency.bytes()
    }
}

/// The native AQM of the L4S queue: none below the ramp around the threshold, all above it.
fn ramp_probability(sojourn: Span, config: &DualPi2Config) -> f64 {
    let above = sojourn - (config.step_threshold - config.ramp / 2);
    if above <= Span::ZERO {
        0.0
    } else if above >= config.ramp {
        1.0
    } else {
        above.as_secs_f64() / config.ramp.as_secs_f64()
    }
}
