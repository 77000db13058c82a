use super::frontier::AwaitedCounters;
use kumade_units::Time;

/// Packets that wait, in doubly linked lists: one for each path of each bucket.
#[derive(Debug)]
pub(super) struct PacketPool<T> {
    slots: Vec<PoolSlot<T>>,
    /// The first of the slots without a packet, linked by `next`.
    first_free: u32,
    packets: usize,
    bytes: u64,
}

/// A packet that waits.
#[derive(Debug)]
pub(super) struct WaitingPacket<T> {
    pub(super) number: u64,
    pub(super) arrival: Time,
    /// When it or one behind it in its list arrived, whichever was first.
    pub(super) earliest_arrival_onward: Time,
    pub(super) bytes: u32,
    pub(super) awaited: AwaitedCounters,
    pub(super) payload: T,
}

#[derive(Debug)]
struct PoolSlot<T> {
    packet: Option<WaitingPacket<T>>,
    previous: u32,
    next: u32,
}

/// The packets of one bucket that came over one path, by their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolList {
    first: u32,
    last: u32,
}

const NO_SLOT: u32 = u32::MAX;
/// The longest way from the end of a list to a packet's place: a peer that numbers in falling order would have thousands of packets
/// passed for each. Paths that reorder do so by tens of packets.
pub(super) const MAX_INSERTION_DISTANCE: usize = 128;

impl PoolList {
    pub(super) const EMPTY_LIST: PoolList = PoolList { first: NO_SLOT, last: NO_SLOT };

    pub(super) fn is_empty(&self) -> bool {
        self.first == NO_SLOT
    }
}

impl<T> PacketPool<T> {
    pub(super) fn new() -> Self {
        PacketPool { slots: Vec::new(), first_free: NO_SLOT, packets: 0, bytes: 0 }
    }

    pub(super) fn packet_count(&self) -> usize {
        self.packets
    }

    pub(super) fn byte_count(&self) -> u64 {
        self.bytes
    }

    pub(super) fn first(&self, list: &PoolList) -> Option<&WaitingPacket<T>> {
        self.get(list.first)
    }

    pub(super) fn last(&self, list: &PoolList) -> Option<&WaitingPacket<T>> {
        self.get(list.last)
    }

    /// Puts a packet at its place, behind all with its number and lower ones. Paths keep order, so that this is the end
    /// but for a few. Where it is further from the end than [`MAX_INSERTION_DISTANCE`], the packet comes back.
    pub(super) fn insert(&mut self, list: &mut PoolList, mut waiting: WaitingPacket<T>) -> Result<(), T> {
        let (mut before, mut distance) = (list.last, 0);
        while let Some(other) = self.get(before).filter(|other| other.number > waiting.number) {
            if distance == MAX_INSERTION_DISTANCE {
                return Err(waiting.payload);
            }
            distance += 1;
            waiting.earliest_arrival_onward = waiting.earliest_arrival_onward.min(other.earliest_arrival_onward);
            before = self.slots[before as usize].previous;
        }
        let place = self.occupy_slot(waiting);
        self.link_slot(list, before, place);
        Ok(())
    }

    /// Takes the packet with the lowest number out.
    pub(super) fn take_first(&mut self, list: &mut PoolList) -> Option<WaitingPacket<T>> {
        let place = list.first;
        let slot = self.slots.get_mut(place as usize)?;
        let waiting = slot.packet.take()?;
        list.first = std::mem::replace(&mut slot.next, self.first_free);
        self.first_free = place;
        match list.first {
            NO_SLOT => list.last = NO_SLOT,
            first => self.slots[first as usize].previous = NO_SLOT,
        }
        self.packets -= 1;
        self.bytes -= u64::from(waiting.bytes);
        Some(waiting)
    }

    fn get(&self, place: u32) -> Option<&WaitingPacket<T>> {
        self.slots.get(place as usize)?.packet.as_ref()
    }

    fn occupy_slot(&mut self, waiting: WaitingPacket<T>) -> u32 {
        self.packets += 1;
        self.bytes += u64::from(waiting.bytes);
        let place = self.first_free;
        match self.slots.get_mut(place as usize) {
            Some(slot) => {
                self.first_free = slot.next;
                slot.packet = Some(waiting);
                place
            }
            None => {
                self.slots.push(PoolSlot { packet: Some(waiting), previous: NO_SLOT, next: NO_SLOT });
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Links an occupied slot into a list, behind another or to its front.
    fn link_slot(&mut self, list: &mut PoolList, before: u32, place: u32) {
        let next = match before {
            NO_SLOT => std::mem::replace(&mut list.first, place),
            before => std::mem::replace(&mut self.slots[before as usize].next, place),
        };
        match next {
            NO_SLOT => list.last = place,
            next => self.slots[next as usize].previous = place,
        }
        let slot = &mut self.slots[place as usize];
        (slot.previous, slot.next) = (before, next);
    }
}
