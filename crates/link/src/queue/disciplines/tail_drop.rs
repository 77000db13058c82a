use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use kumade_units::Time;

/// Tail drop has no settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TailDropConfig;

/// First in, first out; what finds no room is dropped on arrival (`bfifo`, `pfifo`).
#[derive(Debug)]
pub struct TailDrop<P>(Buffer<P>);

impl DisciplineConfig for TailDropConfig {
    const NAME: &'static str = "tail-drop";
    const SUMMARY: &'static str = "first in, first out; drops on arrival what exceeds the limit";
    const TEST_SETTINGS: &'static [&'static str] = &["tail-drop"];
    type Queue<P> = TailDrop<P>;

    fn new_queue<P>(&self, limit: QueueLimit, _seed: u64) -> TailDrop<P> {
        TailDrop(Buffer::new(limit))
    }
}

impl<P> QueueDiscipline<P> for TailDrop<P> {
    fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        self.0.push(packet, drops)
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
        self.0.pop()
    }

    /// As in Linux (`TCQ_F_CAN_BYPASS`), so that a link whose queue has no room at all still forwards.
    fn pass_through(
        &mut self,
        packet: QueuedPacket<P>,
        _drops: &mut Vec<DroppedPacket<P>>,
    ) -> Result<QueuedPacket<P>, DropCause> {
        Ok(packet)
    }

    fn packets(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}
