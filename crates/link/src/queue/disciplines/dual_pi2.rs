//! DualPI2 (RFC 9332, appendix A): two queues, of which the AQMs are coupled.

mod config;
mod controller;
mod scheduler;
#[cfg(test)]
mod tests;

pub use config::{DualPi2Config, DualQueueScheduler};

use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::Parameter;
use crate::queue::recurring_event::RecurringEvent;
use controller::CoupledPi2;
use kumade_packet::Ecn;
use kumade_units::{ConfigError, Span, Time};
use scheduler::Scheduler;

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
        config::parameters()
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.check_ranges()
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
