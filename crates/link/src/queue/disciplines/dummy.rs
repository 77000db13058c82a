use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::queue::parameter::{NUMBER_FORMAT, Parameter};
use kumade_units::Time;

/// The settings of [`Dummy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DummyConfig {
    /// Drop each packet whose number is a multiple of this; 0 for none.
    pub drop_every: u32,
}

/// A discipline that exists only with the feature `dummy`: the tests of the table of disciplines add it by its line there
/// and expect it wherever disciplines are listed.
#[derive(Debug)]
pub struct Dummy<P> {
    config: DummyConfig,
    arrived_packets: u32,
    buffer: Buffer<P>,
}

impl DisciplineConfig for DummyConfig {
    const NAME: &'static str = "dummy";
    const SUMMARY: &'static str = "a test of the table of disciplines";
    const TEST_SETTINGS: &'static [&'static str] = &["dummy", "dummy:drop-every=3"];
    type Queue<P> = Dummy<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let help = "drop one of this many packets; 0 for none";
        vec![Parameter::new("drop-every", NUMBER_FORMAT, help, |config: &mut Self| &mut config.drop_every)]
    }

    fn new_queue<P>(&self, limit: QueueLimit, _seed: u64) -> Dummy<P> {
        Dummy { config: *self, arrived_packets: 0, buffer: Buffer::new(limit) }
    }
}

impl<P> QueueDiscipline<P> for Dummy<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        self.arrived_packets = self.arrived_packets.wrapping_add(1);
        if self.config.drop_every > 0 && self.arrived_packets.is_multiple_of(self.config.drop_every) {
            return packet.drop_into(DropCause::Aqm, drops);
        }
        self.buffer.push(packet, drops)
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.buffer.pop()
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}
