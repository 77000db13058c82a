use super::frontier::Waits;
use kumade_units::Time;

/// Packets that wait, in doubly linked lists: one for each path of each bucket.
#[derive(Debug)]
pub(super) struct Pool<T> {
    slots: Vec<Slot<T>>,
    /// The first of the slots without a packet, linked by `next`.
    free: u32,
    packets: usize,
    bytes: u64,
}

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub(super) number: u64,
    pub(super) arrived: Time,
    /// When it or one behind it in its list arrived, whichever was first.
    pub(super) since: Time,
    pub(super) bytes: u32,
    pub(super) waits: Waits,
    pub(super) payload: T,
}

#[derive(Debug)]
struct Slot<T> {
    waiting: Option<Waiting<T>>,
    before: u32,
    next: u32,
}

/// The packets of one bucket that came over one path, by their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl List {
    pub(super) const EMPTY: List = List { first: NONE, last: NONE };

    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl<T> Pool<T> {
    pub(super) fn new() -> Self {
        Pool { slots: Vec::new(), free: NONE, packets: 0, bytes: 0 }
    }

    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn first(&self, list: &List) -> Option<&Waiting<T>> {
        self.get(list.first)
    }

    /// Puts a packet at its place, behind all with its number and lower ones. Paths keep order, so that this is the end
    /// but for a few.
    pub(super) fn insert(&mut self, list: &mut List, mut waiting: Waiting<T>) {
        let mut before = list.last;
        while let Some(other) = self.get(before).filter(|other| other.number > waiting.number) {
            waiting.since = waiting.since.min(other.since);
            before = self.slots[before as usize].before;
        }
        let place = self.occupy(waiting);
        self.link(list, before, place);
    }

    /// Takes the packet with the lowest number out.
    pub(super) fn take_first(&mut self, list: &mut List) -> Option<Waiting<T>> {
        let place = list.first;
        let slot = self.slots.get_mut(place as usize)?;
        let waiting = slot.waiting.take()?;
        list.first = std::mem::replace(&mut slot.next, self.free);
        self.free = place;
        match list.first {
            NONE => list.last = NONE,
            first => self.slots[first as usize].before = NONE,
        }
        self.packets -= 1;
        self.bytes -= u64::from(waiting.bytes);
        Some(waiting)
    }

    fn get(&self, place: u32) -> Option<&Waiting<T>> {
        self.slots.get(place as usize)?.waiting.as_ref()
    }

    fn occupy(&mut self, waiting: Waiting<T>) -> u32 {
        self.packets += 1;
        self.bytes += u64::from(waiting.bytes);
        let place = self.free;
        match self.slots.get_mut(place as usize) {
            Some(slot) => {
                self.free = slot.next;
                slot.waiting = Some(waiting);
                place
            }
            None => {
                self.slots.push(Slot { waiting: Some(waiting), before: NONE, next: NONE });
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Links an occupied slot into a list, behind another or to its front.
    fn link(&mut self, list: &mut List, before: u32, place: u32) {
        let next = match before {
            NONE => std::mem::replace(&mut list.first, place),
            before => std::mem::replace(&mut self.slots[before as usize].next, place),
        };
        match next {
            NONE => list.last = place,
            next => self.slots[next as usize].before = place,
        }
        let slot = &mut self.slots[place as usize];
        (slot.before, slot.next) = (before, next);
    }
}
