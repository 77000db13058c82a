use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{Parameter, SWITCH_FORMAT, TIME_FORMAT};
use crate::queue::recurring_event::RecurringEvent;
use kumade_packet::Ecn;
use kumade_units::{ConfigError, Span, Time};

/// The settings of [`CeThreshold`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CeThresholdConfig {
    /// Packets that waited longer than this are marked, …
    pub threshold: Span,
    /// … with a probability that rises from 0 there to 1 after this much more; 0 is a step.
    pub ramp: Span,
    /// Only ECT(1) is marked, as L4S has it (RFC 9331); else every packet that can be.
    pub is_l4s: bool,
}

/// First in, first out; marks CE by the time that a packet has waited: a step, as the `ce_threshold` of Linux's FQ-CoDel, or a
/// ramp, as L4S has it for low delay (RFC 9332, appendix A.1). Drops only what exceeds the limit.
#[derive(Debug)]
pub struct CeThreshold<P> {
    config: CeThresholdConfig,
    buffer: Buffer<P>,
    marks: RecurringEvent,
}

/// The threshold of [`DualPi2Config`](super::DualPi2Config), which is that of Linux.
impl Default for CeThresholdConfig {
    fn default() -> Self {
        CeThresholdConfig { threshold: Span::from_millis(1), ramp: Span::ZERO, is_l4s: false }
    }
}

impl DisciplineConfig for CeThresholdConfig {
    const NAME: &'static str = "ce-threshold";
    const SUMMARY: &'static str = "first in, first out; marks what has waited longer than a threshold";
    const TEST_SETTINGS: &'static [&'static str] =
        &["ce-threshold:threshold=50us", "ce-threshold:threshold=20us:ramp=100us:l4s=on"];
    type Queue<P> = CeThreshold<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let ramp = "further waiting time over which the probability of a mark rises to 1; 0 is a step";
        vec![
            Parameter::new(
                "threshold",
                TIME_FORMAT,
                "waiting time above which packets are marked",
                |config: &mut Self| &mut config.threshold,
            ),
            Parameter::new("ramp", TIME_FORMAT, ramp, |config: &mut Self| &mut config.ramp),
            Parameter::new("l4s", SWITCH_FORMAT, "mark packets with ECT(1) only", |config: &mut Self| {
                &mut config.is_l4s
            }),
        ]
    }

    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("CE threshold");
        for (name, value) in [("threshold", self.threshold), ("ramp", self.ramp)] {
            if value < Span::ZERO {
                return Err(error(name, value.to_string(), "which is negative", "give 0 or more"));
            }
        }
        Ok(())
    }

    fn new_queue<P>(&self, limit: QueueLimit, _seed: u64) -> CeThreshold<P> {
        CeThreshold { config: *self, buffer: Buffer::new(limit), marks: RecurringEvent::default() }
    }
}

impl<P> CeThreshold<P> {
    fn marks(&mut self, ecn: Ecn, sojourn: Span) -> bool {
        let can_be_marked = if self.config.is_l4s { ecn == Ecn::Ect1 } else { ecn != Ecn::NotEct };
        let above = sojourn - self.config.threshold;
        if !can_be_marked || above <= Span::ZERO {
            return false;
        }
        above >= self.config.ramp || self.marks.recurs(above.as_secs_f64() / self.config.ramp.as_secs_f64())
    }
}

impl<P> QueueDiscipline<P> for CeThreshold<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        self.buffer.push(packet, drops)
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        let mut packet = self.buffer.pop()?;
        packet.marked |= self.marks(packet.ecn, now - packet.arrival);
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these packets are marked when they have waited for 0, 1, 2, … ms.
    fn marked(config: CeThresholdConfig, ecn: Ecn, packets: i64) -> Vec<i64> {
        let mut queue = config.new_queue(QueueLimit::Packets(1000), 1);
        let after = |millis: i64| {
            let arrived = QueuedPacket { ecn, ..QueuedPacket::new((), 1500, 1, Time::ZERO) };
            queue.enqueue(arrived, &mut Vec::new()).unwrap();
            queue.dequeue(Time::ZERO + Span::from_millis(millis), &mut Vec::new()).unwrap().marked.then_some(millis)
        };
        (0..packets).filter_map(after).collect()
    }

    #[test]
    fn a_step_marks_all_that_waited_longer_and_can_be_marked() {
        let step = CeThresholdConfig { threshold: Span::from_millis(3), ..CeThresholdConfig::default() };
        assert_eq!([Ecn::Ect0, Ecn::Ect1].map(|ecn| marked(step, ecn, 7)), [[4, 5, 6]; 2]);
        assert_eq!(marked(step, Ecn::NotEct, 7), [0; 0]);
        let l4s = CeThresholdConfig { is_l4s: true, ..step };
        assert_eq!([Ecn::Ect0, Ecn::Ect1].map(|ecn| marked(l4s, ecn, 7).len()), [0, 3]);
    }

    #[test]
    fn a_ramp_marks_more_the_longer_packets_waited() {
        let ramp = Span::from_millis(100);
        let config = CeThresholdConfig { threshold: Span::from_millis(100), ramp, is_l4s: true };
        let times = marked(config, Ecn::Ect1, 250);
        let within = |from: i64, to: i64| times.iter().filter(|millis| (from..to).contains(*millis)).count() as i64;
        assert_eq!(within(0, 101), 0);
        assert_eq!(within(200, 250), 50);
        // The integral of the ramp.
        assert!((within(100, 150) - 12).abs() <= 1 && (within(150, 200) - 37).abs() <= 1, "{times:?}");
    }
}
