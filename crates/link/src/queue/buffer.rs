use super::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use crate::ledger::DropCause;
use kumade_units::Time;
use std::collections::VecDeque;

/// Packets in order of arrival, and the sum of their sizes.
#[derive(Debug)]
pub(super) struct Buffer<P> {
    packets: VecDeque<QueuedPacket<P>>,
    bytes: u64,
    limit: QueueLimit,
}

impl<P> Buffer<P> {
    pub(super) fn new(limit: QueueLimit) -> Self {
        Buffer { packets: VecDeque::new(), bytes: 0, limit }
    }

    /// Queues the packet, or drops it where there is no room.
    pub(super) fn push(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        if !self.limit.has_room(self.packets.len(), self.bytes, packet.size) {
            return packet.drop_into(DropCause::QueueFull, drops);
        }
        self.bytes += u64::from(packet.size);
        self.packets.push_back(packet);
        Ok(())
    }

    /// The packet that was queued first.
    pub(super) fn pop(&mut self) -> Option<QueuedPacket<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    /// Removes a packet from the middle, in time proportional to the length: for disciplines that rarely do so.
    pub(super) fn remove_at(&mut self, place: usize) -> Option<QueuedPacket<P>> {
        let packet = self.packets.remove(place)?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(super) fn flow_at(&self, place: usize) -> Option<u64> {
        self.packets.get(place).map(|packet| packet.flow)
    }

    /// When the packet came that was queued first.
    pub(super) fn first_arrival(&self) -> Option<Time> {
        self.packets.front().map(|packet| packet.arrival)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
