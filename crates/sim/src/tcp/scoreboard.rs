use super::ranges::{NumberRanges, SackBlock};
use kumade_units::Time;
use std::collections::VecDeque;

/// What is known of a segment that was sent and is not acknowledged in sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentSegment {
    /// When it was last sent.
    pub(super) sent: Time,
    /// How many were sent before that: their order, where many are sent at one instant.
    pub(super) order: u64,
    /// When the flight's first was sent ([`Delivery::first_sent`](super::delivery::DeliveryRateSampler)) as of its sending.
    pub(super) first_sent: Time,
    /// What had been delivered when it was sent, …
    pub(super) delivered: u64,
    /// … and when the last of that was.
    pub(super) delivered_at: Time,
    pub(super) state: SegmentState,
    /// Whether it was ever sent again.
    pub(super) was_retransmitted: bool,
    /// Whether the sender had less to send than it might have sent.
    pub(super) is_application_limited: bool,
}

/// Where a segment is believed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentState {
    /// On its way.
    InFlight,
    /// With the receiver, by SACK.
    Arrived,
    /// Lost, and not yet sent again.
    Lost,
}

/// The segments between the first unacknowledged and the next new one (RFC 6675), in a ring.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<SentSegment>,
    first: u32,
    arrived: NumberRanges,
    arrived_count: u32,
    /// Duplicate acknowledgements: so many of those in flight have arrived, it is not known which (without SACK).
    duplicate_acks: u32,
    lost_count: u32,
    /// Sent more than once and in flight.
    retransmitted_in_flight: u32,
    /// No segment before this one is lost.
    search_from: u32,
    /// Every transmission whose segment may yet be found lost, in order of sending: for RACK.
    transmissions: VecDeque<(u32, u64)>,
}

impl Scoreboard {
    /// The first segment that is not acknowledged in sequence.
    pub(super) fn first_outstanding(&self) -> u32 {
        self.first
    }

    /// The first that was never sent.
    pub(super) fn next_unsent(&self) -> u32 {
        self.first + self.segments.len() as u32
    }

    /// Sent and not acknowledged in sequence.
    pub(super) fn outstanding(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Believed to be on their way (RFC 6675's pipe).
    pub(super) fn in_flight(&self) -> u32 {
        self.outstanding() - self.arrived_count - self.lost_count - self.duplicate_acks
    }

    /// Arrived beyond the first.
    pub(super) fn arrived_count(&self) -> u32 {
        self.arrived_count
    }

    /// Arrived, as duplicate acknowledgements say.
    pub(super) fn duplicate_acks(&self) -> u32 {
        self.duplicate_acks
    }

    /// A duplicate acknowledgement has come: something beyond the first has arrived.
    pub(super) fn add_duplicate_ack(&mut self) {
        self.duplicate_acks += 1;
    }

    /// What is lost, one at least, has not arrived. Returns whether there were more duplicate acknowledgements than the rest.
    pub(super) fn limit_duplicate_acks(&mut self) -> bool {
        let rest = self.outstanding() - self.lost_count.max(1).min(self.outstanding());
        let are_more = self.duplicate_acks > rest;
        self.duplicate_acks = self.duplicate_acks.min(rest);
        are_more
    }

    /// Takes nothing for arrived any more because of duplicate acknowledgements.
    pub(super) fn clear_duplicate_acks(&mut self) {
        self.duplicate_acks = 0;
    }

    fn bound_duplicate_acks(&mut self) {
        self.duplicate_acks = self.duplicate_acks.min(self.outstanding() - self.arrived_count - self.lost_count);
    }

    /// Lost and not yet sent again.
    pub(super) fn lost_count(&self) -> u32 {
        self.lost_count
    }

    /// In flight for not the first time.
    pub(super) fn retransmitted_count(&self) -> u32 {
        self.retransmitted_in_flight
    }

    /// The end of what has arrived beyond the first.
    pub(super) fn arrived_end(&self) -> u32 {
        self.arrived.end().unwrap_or(self.first)
    }

    /// When the first was last sent.
    pub(super) fn head_sent(&self) -> Option<Time> {
        self.segments.front().map(|segment| segment.sent)
    }

    /// Whether a segment was sent and is not known to have arrived.
    pub(super) fn is_awaited(&self, number: u32) -> bool {
        self.get(number).is_some_and(|segment| segment.state != SegmentState::Arrived)
    }

    /// Notes the sending of a new segment.
    pub(super) fn push(&mut self, segment: SentSegment) -> u32 {
        let number = self.next_unsent();
        self.transmissions.push_back((number, segment.order));
        self.segments.push_back(segment);
        number
    }

    /// Notes that a segment that it [awaits](Self::is_awaited) is sent again. `template` has the present time and totals.
    pub(super) fn retransmit(&mut self, number: u32, template: SentSegment) {
        let Some(segment) = self.segments.get_mut((number - self.first) as usize) else { return };
        self.lost_count -= u32::from(segment.state == SegmentState::Lost);
        self.retransmitted_in_flight +=
            u32::from(!(segment.was_retransmitted && segment.state == SegmentState::InFlight));
        *segment = SentSegment { state: SegmentState::InFlight, was_retransmitted: true, ..template };
        self.transmissions.push_back((number, segment.order));
    }

    /// The first lost segment.
    pub(super) fn next_lost(&mut self) -> Option<u32> {
        if self.lost_count == 0 {
            return None;
        }
        let from = self.search_from.max(self.first);
        let mut rest = self.segments.range((from - self.first) as usize..);
        let found = from + rest.position(|segment| segment.state == SegmentState::Lost)? as u32;
        self.search_from = found;
        Some(found)
    }

    /// All before `next` has arrived; each that was not known to is told to `delivered`.
    pub(super) fn acknowledge(&mut self, next: u32, mut delivered: impl FnMut(u32, SentSegment)) {
        // One was missing; the rest had arrived.
        self.duplicate_acks -= self.duplicate_acks.min(next.saturating_sub(self.first + 1));
        while self.first < next {
            let Some(segment) = self.segments.pop_front() else { return };
            match segment.state {
                SegmentState::Arrived => self.arrived_count -= 1,
                SegmentState::Lost => self.lost_count -= 1,
                SegmentState::InFlight => self.retransmitted_in_flight -= u32::from(segment.was_retransmitted),
            }
            if segment.state != SegmentState::Arrived {
                delivered(self.first, segment);
            }
            self.first += 1;
        }
        self.arrived.remove_before(next);
        self.bound_duplicate_acks();
        if self.segments.is_empty() {
            self.transmissions.clear();
        }
    }

    /// A block beyond the first has arrived; each segment that was not known to have is told to `delivered`.
    pub(super) fn acknowledge_block(&mut self, block: SackBlock, mut delivered: impl FnMut(u32, SentSegment)) {
        let block = SackBlock { start: block.start.max(self.first), end: block.end.min(self.next_unsent()) };
        let (first, segments) = (self.first, &mut self.segments);
        let (arrived_count, lost, again) =
            (&mut self.arrived_count, &mut self.lost_count, &mut self.retransmitted_in_flight);
        self.arrived.insert(block, |fresh| {
            for number in fresh.start..fresh.end {
                let segment = &mut segments[(number - first) as usize];
                *lost -= u32::from(segment.state == SegmentState::Lost);
                *again -= u32::from(segment.state == SegmentState::InFlight && segment.was_retransmitted);
                segment.state = SegmentState::Arrived;
                *arrived_count += 1;
                delivered(number, *segment);
            }
        });
    }

    /// Goes through the transmissions in flight in order of sending and takes each for lost of which `is_lost` says so,
    /// up to the first of which it does not: that one is returned.
    pub(super) fn mark_lost(&mut self, mut is_lost: impl FnMut(&SentSegment) -> bool) -> Option<SentSegment> {
        while let Some((number, order)) = self.transmissions.front().copied() {
            // Acknowledged, arrived, or sent again since: nothing to decide about this transmission.
            let current = |segment: &&SentSegment| segment.state == SegmentState::InFlight && segment.order == order;
            if let Some(segment) = self.get(number).filter(current).copied() {
                if !is_lost(&segment) {
                    return Some(segment);
                }
                self.retransmitted_in_flight -= u32::from(segment.was_retransmitted);
                self.record_lost((number - self.first) as usize);
            }
            self.transmissions.pop_front();
        }
        None
    }

    /// Takes the first for lost, even if the receiver once said that it had it (RFC 2018, section 8).
    pub(super) fn mark_first_lost(&mut self) {
        match self.segments.front().map(|segment| segment.state) {
            Some(SegmentState::Arrived) => {
                self.arrived_count -= 1;
                self.arrived.remove_before(self.first + 1);
                self.record_lost(0);
            }
            Some(SegmentState::InFlight) => {
                self.retransmitted_in_flight -= u32::from(self.segments[0].was_retransmitted);
                self.record_lost(0);
            }
            Some(SegmentState::Lost) | None => (),
        }
    }

    /// Takes nothing for lost any more.
    pub(super) fn restore_lost(&mut self) {
        for segment in self.segments.iter_mut().filter(|segment| segment.state == SegmentState::Lost) {
            segment.state = SegmentState::InFlight;
            self.retransmitted_in_flight += u32::from(segment.was_retransmitted);
        }
        self.lost_count = 0;
        let in_flight = |(place, segment): (usize, &SentSegment)| {
            (segment.state == SegmentState::InFlight).then_some((self.first + place as u32, segment.order))
        };
        self.transmissions = self.segments.iter().enumerate().filter_map(in_flight).collect();
        self.transmissions.make_contiguous().sort_by_key(|(_, order)| *order);
    }

    fn get(&self, number: u32) -> Option<&SentSegment> {
        self.segments.get(number.checked_sub(self.first)? as usize)
    }

    fn record_lost(&mut self, place: usize) {
        self.segments[place].state = SegmentState::Lost;
        self.lost_count += 1;
        self.bound_duplicate_acks();
        self.search_from = self.search_from.min(self.first + place as u32);
    }
}
