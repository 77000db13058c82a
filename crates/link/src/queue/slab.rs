use super::packet::{Divide, QueuedPacket};

/// Packets of many queues in one memory: it grows to the most that ever waited, and is used again from then on.
#[derive(Debug)]
pub(super) struct PacketSlab<P> {
    nodes: Vec<SlabNode<P>>,
    free: Option<u32>,
    packets: usize,
    bytes: u64,
}

/// One queue in a [`PacketSlab`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SlabList {
    ends: Option<(u32, u32)>,
    packets: usize,
    bytes: u64,
}

#[derive(Debug)]
struct SlabNode<P> {
    packet: Option<QueuedPacket<P>>,
    next: Option<u32>,
}

impl<P> PacketSlab<P> {
    pub(super) fn new() -> Self {
        PacketSlab { nodes: Vec::new(), free: None, packets: 0, bytes: 0 }
    }

    /// Of all chains together.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, chain: &mut SlabList, packet: QueuedPacket<P>) {
        let size = u64::from(packet.size);
        let node = SlabNode { packet: Some(packet), next: None };
        let index = match self.free {
            Some(index) => {
                self.free = self.nodes[index as usize].next;
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        chain.ends = Some(match chain.ends {
            Some((first, last)) => {
                self.nodes[last as usize].next = Some(index);
                (first, index)
            }
            None => (index, index),
        });
        self.packets += 1;
        chain.packets += 1;
        self.bytes += size;
        chain.bytes += size;
    }

    /// The first packet of a queue.
    pub(super) fn first(&self, chain: &SlabList) -> Option<&QueuedPacket<P>> {
        self.nodes[chain.ends?.0 as usize].packet.as_ref()
    }

    /// As [`Self::pop`]; of a packet that `divide` takes a part of, only that, and the rest stays the first one.
    pub(super) fn pop_divided(&mut self, chain: &mut SlabList, divide: &mut Divide<'_, P>) -> Option<QueuedPacket<P>> {
        let packet = self.nodes[chain.ends?.0 as usize].packet.as_mut()?;
        let before = packet.size;
        let Some(part) = divide(packet) else { return self.pop(chain) };
        let taken = u64::from(before.saturating_sub(packet.size));
        packet.size = packet.size.min(before);
        self.bytes -= taken;
        chain.bytes -= taken;
        Some(part)
    }

    pub(super) fn pop(&mut self, chain: &mut SlabList) -> Option<QueuedPacket<P>> {
        let (first, last) = chain.ends?;
        let node = &mut self.nodes[first as usize];
        let packet = node.packet.take()?;
        chain.ends = node.next.map(|second| (second, last));
        node.next = self.free;
        self.free = Some(first);
        self.packets -= 1;
        chain.packets -= 1;
        self.bytes -= u64::from(packet.size);
        chain.bytes -= u64::from(packet.size);
        Some(packet)
    }
}

impl SlabList {
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Time;

    #[test]
    fn places_are_used_again() {
        let (mut slab, mut chains) = (PacketSlab::new(), [SlabList::default(); 3]);
        for round in 0..100 {
            for (index, chain) in chains.iter_mut().enumerate() {
                slab.push(chain, QueuedPacket::new((index, round), 10, 0, Time::ZERO));
            }
            if round >= 4 {
                for (index, chain) in chains.iter_mut().enumerate() {
                    assert_eq!(slab.pop(chain).map(|packet| packet.content), Some((index, round - 4)));
                }
            }
        }
        assert_eq!((slab.packets(), slab.bytes(), slab.nodes.len()), (12, 120, 15));
        assert_eq!((chains[1].packets(), chains[1].bytes()), (4, 40));
    }
}
