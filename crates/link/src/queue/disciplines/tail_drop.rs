use crate::ledger::DropCause;
use crate::queue::buffer::Buffer;
use crate::queue::discipline::{DisciplineConfig, QueueDiscipline};
use crate::queue::packet::{Dropped, Limit, Queued};
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
    const TRIALS: &'static [&'static str] = &["tail-drop"];
    type Queue<P> = TailDrop<P>;

    fn queue<P>(&self, limit: Limit, _seed: u64) -> TailDrop<P> {
        TailDrop(Buffer::new(limit))
    }
}

impl<P> QueueDiscipline<P> for TailDrop<P> {
    fn enqueue(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        self.0.push(packet, drops)
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.0.pop()
    }

    /// As in Linux (`TCQ_F_CAN_BYPASS`), so that a link whose queue has no room at all still forwards.
    fn pass(&mut self, packet: Queued<P>, _drops: &mut Vec<Dropped<P>>) -> Result<Queued<P>, DropCause> {
        Ok(packet)
    }

    fn packets(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}
