use super::{Dropped, Limit, QueueDiscipline, Queued, turn_away};
use crate::DropCause;
use std::collections::VecDeque;
use units::Time;

/// Packets in order of arrival, and how many bytes they are.
#[derive(Debug)]
pub(super) struct Buffer<P> {
    packets: VecDeque<Queued<P>>,
    bytes: u64,
    limit: Limit,
}

/// First in, first out; what finds no room is turned away (`bfifo`, `pfifo`).
#[derive(Debug)]
pub struct TailDrop<P>(Buffer<P>);

impl<P> Buffer<P> {
    pub(super) fn new(limit: Limit) -> Self {
        Buffer { packets: VecDeque::new(), bytes: 0, limit }
    }

    /// Takes the packet, or drops it where there is no room.
    pub(super) fn push(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        if !self.limit.leaves_room(self.packets.len(), self.bytes, packet.size) {
            return turn_away(packet, DropCause::QueueFull, drops);
        }
        self.bytes += u64::from(packet.size);
        self.packets.push_back(packet);
        Ok(())
    }

    /// The packet that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Queued<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    /// Takes a packet out of the middle: in time proportional to the length, for disciplines that do so seldom.
    pub(super) fn remove(&mut self, place: usize) -> Option<Queued<P>> {
        let packet = self.packets.remove(place)?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(super) fn flow_at(&self, place: usize) -> Option<u64> {
        self.packets.get(place).map(|packet| packet.flow)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<P> TailDrop<P> {
    pub(super) fn new(limit: Limit) -> Self {
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

    /// As Linux does (`TCQ_F_CAN_BYPASS`), so that a link without any room to wait still forwards.
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
