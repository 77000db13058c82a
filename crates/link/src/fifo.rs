use std::collections::VecDeque;
use units::Time;

/// A packet in the queue; without content it is computed cross traffic.
#[derive(Debug)]
pub(crate) struct Queued<P> {
    pub packet: Option<P>,
    pub size: u32,
    pub arrival: Time,
}

/// First in, first out; what finds no room is turned away (tail drop by bytes, `bfifo`).
#[derive(Debug)]
pub(crate) struct Fifo<P> {
    packets: VecDeque<Queued<P>>,
    bytes: u64,
    limit: u64,
}

impl<P> Fifo<P> {
    pub(crate) fn new(limit: u64) -> Self {
        Fifo { packets: VecDeque::new(), bytes: 0, limit }
    }

    /// Takes the packet, or gives it back where there is no room.
    pub(crate) fn enqueue(&mut self, packet: Queued<P>) -> Result<(), Queued<P>> {
        if u64::from(packet.size) > self.limit - self.bytes {
            return Err(packet);
        }
        self.bytes += u64::from(packet.size);
        self.packets.push_back(packet);
        Ok(())
    }

    /// The packet whose service begins now. Called at that moment only, so that a discipline may decide by it.
    pub(crate) fn dequeue(&mut self) -> Option<Queued<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
