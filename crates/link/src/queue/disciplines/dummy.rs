use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{Dropped, Limit, Queued};
use crate::queue::parameter::{NUMBER, Parameter};
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
    arrived: u32,
    buffer: Buffer<P>,
}

impl DisciplineConfig for DummyConfig {
    const NAME: &'static str = "dummy";
    const SUMMARY: &'static str = "a test of the table of disciplines";
    const TRIALS: &'static [&'static str] = &["dummy", "dummy:drop-every=3"];
    type Queue<P> = Dummy<P>;

    fn parameters() -> Vec<Parameter<Self>> {
        let help = "drop one of this many packets; 0 for none";
        vec![Parameter::new("drop-every", NUMBER, help, |config: &mut Self| &mut config.drop_every)]
    }

    fn queue<P>(&self, limit: Limit, _seed: u64) -> Dummy<P> {
        Dummy { config: *self, arrived: 0, buffer: Buffer::new(limit) }
    }
}

impl<P> QueueDiscipline<P> for Dummy<P> {
    fn enqueue(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        self.arrived = self.arrived.wrapping_add(1);
        if self.config.drop_every > 0 && self.arrived.is_multiple_of(self.config.drop_every) {
            return packet.dropped(DropCause::Managed, drops);
        }
        self.buffer.push(packet, drops)
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.buffer.pop()
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}
