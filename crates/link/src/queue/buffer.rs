use super::packet::{Dropped, Limit, Queued};
use crate::ledger::DropCause;
use std::collections::VecDeque;

/// Packets in order of arrival, and the sum of their sizes.
#[derive(Debug)]
pub(super) struct Buffer<P> {
    packets: VecDeque<Queued<P>>,
    bytes: u64,
    limit: Limit,
}

impl<P> Buffer<P> {
    pub(super) fn new(limit: Limit) -> Self {
        Buffer { packets: VecDeque::new(), bytes: 0, limit }
    }

    /// Queues the packet, or drops it where there is no room.
    pub(super) fn push(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        if !self.limit.leaves_room(self.packets.len(), self.bytes, packet.size) {
            return packet.dropped(DropCause::QueueFull, drops);
        }
        self.bytes += u64::from(packet.size);
        self.packets.push_back(packet);
        Ok(())
    }

    /// The packet that was queued first.
    pub(super) fn pop(&mut self) -> Option<Queued<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    /// Removes a packet from the middle, in time proportional to the length: for disciplines that rarely do so.
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
