use super::packet::QueuedPacket;
use kumade_units::Time;

/// Packets by the round in which they are to leave, first come first served within a round, in one memory: it grows to
/// the most that ever waited, and is used again from then on. Packets that are to leave at once come before any round.
#[derive(Debug)]
pub(super) struct Calendar<P> {
    nodes: Vec<CalendarNode<P>>,
    first_free_node: u32,
    /// The packets that leave first.
    immediate_list: SlotList,
    immediate_packets: usize,
    /// A ring of rounds, from the current one on.
    round_lists: Vec<SlotList>,
    /// Which places of the ring are not empty, a bit each; and which words of these are not zero.
    used_bits: Vec<u64>,
    used_words: Vec<u64>,
    current: u64,
    packets: usize,
    bytes: u64,
}

/// A packet that is no longer in the calendar.
#[derive(Debug)]
pub(super) struct TakenPacket<P> {
    pub(super) packet: QueuedPacket<P>,
    /// What it was pushed with.
    pub(super) owner: u32,
    /// What [`Calendar::push`] returned.
    pub(super) node_index: u32,
    /// When it was to leave: the round in which it waited, which is the last for all that are later.
    pub(super) round: ServiceRound,
}

/// Where a packet waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceRound {
    Immediate,
    Round(u64),
}

#[derive(Debug, Clone, Copy)]
struct SlotList {
    head: u32,
    tail: u32,
}

#[derive(Debug)]
struct CalendarNode<P> {
    packet: Option<QueuedPacket<P>>,
    /// What the caller wants to know it by.
    owner: u32,
    next: u32,
}

const NO_NODE: u32 = u32::MAX;
const EMPTY_LIST: SlotList = SlotList { head: NO_NODE, tail: NO_NODE };

impl<P> Calendar<P> {
    /// With this many rounds, rounded up: what is to leave later waits for the last of them.
    pub(super) fn new(rounds: usize) -> Self {
        let rounds = rounds.next_power_of_two().max(64);
        let words = rounds / 64;
        Calendar {
            nodes: Vec::new(),
            first_free_node: NO_NODE,
            immediate_list: EMPTY_LIST,
            immediate_packets: 0,
            round_lists: vec![EMPTY_LIST; rounds],
            used_bits: vec![0; words],
            used_words: vec![0; words.div_ceil(64)],
            current: 0,
            packets: 0,
            bytes: 0,
        }
    }

    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The round whose packets leave now.
    pub(super) fn current_round(&self) -> u64 {
        self.current
    }

    /// Goes on to a later round while nothing waits.
    pub(super) fn skip_to(&mut self, round: u64) {
        debug_assert_eq!(self.packets, 0, "a round that packets wait for is not skipped");
        self.current = self.current.max(round);
    }

    /// Adds a packet, in the current round if its own has passed. Returns its place, unique while it waits.
    pub(super) fn push(&mut self, turn: ServiceRound, packet: QueuedPacket<P>, owner: u32) -> u32 {
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        let index = self.store(CalendarNode { packet: Some(packet), owner, next: NO_NODE });
        let list = match turn {
            ServiceRound::Immediate => {
                self.immediate_packets += 1;
                &mut self.immediate_list
            }
            ServiceRound::Round(round) => {
                let ahead = round.saturating_sub(self.current).min(self.round_lists.len() as u64 - 1);
                let slot = self.slot(self.current + ahead);
                self.used_bits[slot / 64] |= 1 << (slot % 64);
                self.used_words[slot / 4096] |= 1 << (slot / 64 % 64);
                &mut self.round_lists[slot]
            }
        };
        match list.tail {
            NO_NODE => list.head = index,
            tail => self.nodes[tail as usize].next = index,
        }
        list.tail = index;
        index
    }

    /// The packet whose turn it is. Later rounds begin when none is left of those before.
    pub(super) fn pop(&mut self) -> Option<TakenPacket<P>> {
        if self.immediate_packets > 0 { self.pop_immediate() } else { self.pop_round() }
    }

    /// The next packet of those that leave first.
    pub(super) fn pop_immediate(&mut self) -> Option<TakenPacket<P>> {
        let place = self.immediate_list.head;
        if place == NO_NODE {
            return None;
        }
        self.immediate_list.head = self.nodes[place as usize].next;
        if self.immediate_list.head == NO_NODE {
            self.immediate_list.tail = NO_NODE;
        }
        self.immediate_packets -= 1;
        self.release_node(place, ServiceRound::Immediate)
    }

    /// The next packet of the rounds.
    pub(super) fn pop_round(&mut self) -> Option<TakenPacket<P>> {
        let now = self.slot(self.current);
        let slot = self.next_used(now)?;
        self.current += (slot.wrapping_sub(now) & (self.round_lists.len() - 1)) as u64;
        self.take_from_slot(slot)
    }

    /// Removes a packet of the last round; of those that leave first where they are more than those in rounds.
    pub(super) fn remove_last(&mut self) -> Option<TakenPacket<P>> {
        if self.immediate_packets * 2 > self.packets {
            return self.pop_immediate();
        }
        let slot = self.last_used()?;
        self.take_from_slot(slot)
    }

    /// When the next of those that leave first came, and its owner.
    pub(super) fn next_immediate(&self) -> Option<(Time, u32)> {
        let node = self.nodes.get(self.immediate_list.head as usize)?;
        node.packet.as_ref().map(|packet| (packet.arrival, node.owner))
    }

    /// The owner of the next packet of the rounds.
    pub(super) fn next_owner(&self) -> Option<u32> {
        let slot = self.next_used(self.slot(self.current))?;
        self.nodes.get(self.round_lists[slot].head as usize).map(|node| node.owner)
    }

    fn take_from_slot(&mut self, slot: usize) -> Option<TakenPacket<P>> {
        let list = &mut self.round_lists[slot];
        let place = list.head;
        list.head = self.nodes[place as usize].next;
        if list.head == NO_NODE {
            list.tail = NO_NODE;
            self.used_bits[slot / 64] &= !(1 << (slot % 64));
            if self.used_bits[slot / 64] == 0 {
                self.used_words[slot / 4096] &= !(1 << (slot / 64 % 64));
            }
        }
        let ahead = slot.wrapping_sub(self.slot(self.current)) & (self.round_lists.len() - 1);
        self.release_node(place, ServiceRound::Round(self.current + ahead as u64))
    }

    fn store(&mut self, node: CalendarNode<P>) -> u32 {
        match self.first_free_node {
            NO_NODE => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
            index => {
                self.first_free_node = self.nodes[index as usize].next;
                self.nodes[index as usize] = node;
                index
            }
        }
    }

    fn release_node(&mut self, place: u32, turn: ServiceRound) -> Option<TakenPacket<P>> {
        let node = &mut self.nodes[place as usize];
        let packet = node.packet.take()?;
        node.next = self.first_free_node;
        self.first_free_node = place;
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(TakenPacket { packet, owner: node.owner, node_index: place, round: turn })
    }

    fn slot(&self, round: u64) -> usize {
        round as usize & (self.round_lists.len() - 1)
    }

    /// The first place that is not empty, from `slot` on around the ring.
    fn next_used(&self, slot: usize) -> Option<usize> {
        let here = self.used_bits[slot / 64] >> (slot % 64);
        if here != 0 {
            return Some(slot + here.trailing_zeros() as usize);
        }
        self.next_nonzero_word(slot / 64 + 1).or_else(|| self.next_nonzero_word(0)).map(|word| {
            let mut bits = self.used_bits[word];
            // The ring's end may lie within the word where it began.
            if word == slot / 64 {
                bits &= (1 << (slot % 64)) - 1;
            }
            word * 64 + bits.trailing_zeros() as usize
        })
    }

    /// The first word that is not zero, from `word` on.
    fn next_nonzero_word(&self, word: usize) -> Option<usize> {
        let first = word / 64;
        let mask = u64::MAX << (word % 64);
        let words = self.used_words.iter().enumerate().skip(first);
        let mut found = words.map(|(index, bits)| (index, if index == first { bits & mask } else { *bits }));
        found.find(|(_, bits)| *bits != 0).map(|(index, bits)| index * 64 + bits.trailing_zeros() as usize)
    }

    /// The last place that is not empty, seen from the current round.
    fn last_used(&self) -> Option<usize> {
        let slot = self.slot(self.current);
        self.last_used_before(slot).or_else(|| self.last_used_before(self.round_lists.len()))
    }

    /// The last place below `end` that is not empty.
    fn last_used_before(&self, end: usize) -> Option<usize> {
        let bits = self.used_bits.get(end / 64).map_or(0, |word| word & ((1u64 << (end % 64)) - 1));
        if bits != 0 {
            return Some(end / 64 * 64 + 63 - bits.leading_zeros() as usize);
        }
        let end = end / 64;
        let mask = (1u64 << (end % 64)) - 1;
        let of = |index: usize, bits: u64| {
            let word = index * 64 + 63 - bits.leading_zeros() as usize;
            word * 64 + 63 - self.used_bits[word].leading_zeros() as usize
        };
        let partial = self.used_words.get(end / 64).map_or(0, |words| words & mask);
        if partial != 0 {
            return Some(of(end / 64, partial));
        }
        let whole = (0..(end / 64).min(self.used_words.len())).rev().find(|index| self.used_words[*index] != 0)?;
        Some(of(whole, self.used_words[whole]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list.
        #[test]
        fn packets_leave_by_round_and_in_order_of_arrival_within_it(
            steps in prop::collection::vec((prop::option::of(prop::option::of(0u64..300)), any::<bool>()), 1..400)
        ) {
            let mut calendar = Calendar::new(256);
            // The turn (none is first), the number of arrival.
            let mut model: Vec<(Option<u64>, u32)> = Vec::new();
            for (number, (arriving, takes_last)) in steps.into_iter().enumerate() {
                let current = calendar.current_round();
                match arriving {
                    Some(turn) => {
                        let packet = QueuedPacket::new(number as u32, 10, 0, Time::ZERO);
                        let turn = turn.map(|ahead| current + ahead.min(255));
                        calendar.push(turn.map_or(ServiceRound::Immediate, ServiceRound::Round), packet, 7);
                        model.push((turn, number as u32));
                    }
                    None if takes_last => {
                        let first = model.iter().filter(|(turn, _)| turn.is_none()).count();
                        let turn = if first * 2 > model.len() { None } else { model.iter().filter_map(|(turn, _)| *turn).max() };
                        let place = model.iter().position(|(of, _)| *of == turn);
                        let expected = place.map(|place| model.remove(place).1);
                        prop_assert_eq!(calendar.remove_last().map(|taken| taken.packet.content), expected);
                    }
                    None => {
                        let place = (0..model.len()).min_by_key(|place| model[*place].0);
                        let expected = place.map(|place| model.remove(place));
                        let got = calendar.pop().map(|taken| (taken.round, taken.packet.content, taken.owner));
                        prop_assert_eq!(got, expected.map(|(turn, number)| (turn.map_or(ServiceRound::Immediate, ServiceRound::Round), number, 7)));
                        if let Some((Some(round), _)) = expected {
                            prop_assert_eq!(calendar.current_round(), round);
                        }
                    }
                }
                prop_assert_eq!((calendar.packets(), calendar.bytes()), (model.len(), model.len() as u64 * 10));
            }
        }
    }
}
