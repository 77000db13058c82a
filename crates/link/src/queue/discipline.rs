use super::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use super::parameter::{GivenParameters, Parameter};
use crate::framing::Framing;
use crate::ledger::DropCause;
use kumade_units::{ConfigError, Rate, Time};

/// Decides which packets are queued, sent and dropped. Time never runs backwards from call to call.
pub trait QueueDiscipline<P> {
    /// A packet arrives, at the time that it states, while the link is busy or other packets are queued. Whatever is
    /// dropped because of it is added to `drops`.
    ///
    /// # Errors
    /// The arriving packet is among the dropped ones.
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause>;

    /// The packet whose transmission begins now. What is dropped in its place is added to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>>;

    /// A packet arrives while the link is idle and the queue is empty, so that its transmission can begin at once.
    ///
    /// # Errors
    /// The packet was dropped all the same.
    fn pass_through(
        &mut self,
        packet: QueuedPacket<P>,
        drops: &mut Vec<DroppedPacket<P>>,
    ) -> Result<QueuedPacket<P>, DropCause> {
        let now = packet.arrival;
        self.enqueue(packet, drops)?;
        self.dequeue(now, drops).ok_or(DropCause::Aqm)
    }

    /// When a dequeue that returned nothing from a queue that is not empty may return a packet. A work-conserving
    /// discipline has no such time.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Packets in the queue.
    fn packets(&self) -> usize;

    /// Their bytes.
    fn bytes(&self) -> u64;
}

/// The settings of a discipline: how users name it, which parameters they can set, and how its queue is made.
pub trait DisciplineConfig: Clone + Default + 'static {
    /// The name that users write, such as `fq-codel`.
    const NAME: &'static str;

    /// One line for help texts.
    const SUMMARY: &'static str;

    /// The discipline as users write it ([`DisciplineSettings`](super::DisciplineSettings)) with parameters under which it
    /// acts within a few small packets; together they set each parameter. What must hold for every discipline is tested
    /// with all of them.
    const TEST_SETTINGS: &'static [&'static str];

    /// How much can be queued unless a user says so.
    const DEFAULT_LIMIT: QueueLimit = QueueLimit::Packets(1000);

    /// The queue with these settings.
    type Queue<P>: QueueDiscipline<P>;

    /// The parameters that users can set.
    fn parameters() -> Vec<Parameter<Self>> {
        Vec::new()
    }

    /// Adapts the parameters that are not `given` to a link of about this rate, and to those that are.
    fn adapt_to_rate(&mut self, _rate: Option<Rate>, _given: &GivenParameters) {}

    /// Adapts the settings to what the link adds to each packet.
    fn adapt_to_framing(&mut self, _framing: Framing) {}

    /// Whether a queue can be made of these settings.
    ///
    /// # Errors
    /// A value is out of range; the error names it and says what to give instead.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// An empty queue with these settings, which [`DisciplineConfig::check`] accepts. Random decisions follow from `seed`.
    fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> Self::Queue<P>;
}
