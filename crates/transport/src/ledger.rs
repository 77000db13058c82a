//! The packets of a train that have been sent or received so far, with their time stamps.

use crate::limits::STAMP_WAIT;
use crate::parts::{Receiving, Sending};
use net::pace::sleep_until;
use net::stamp::StampSource;
use net::{clock, pace::Pacer};
use units::{Span, Time};
use wire::{Arrival, Departure};

/// Minimum gap in a train in which time stamps are read: reading one must not delay the next packet.
const USABLE_GAP: Span = Span::from_micros(20);
/// A kernel time stamp that is earlier than the send call by more than this belongs to another packet.
const CLOCK_SLIP: Span = Span::from_millis(1);
/// Poll interval when waiting for time stamps.
const POLL_INTERVAL: Span = Span::from_micros(200);

/// The packets of a train that have been sent so far.
#[derive(Debug)]
pub(crate) struct Departing {
    packets: Vec<Left>,
    awaiting: usize,
}

#[derive(Debug)]
struct Left {
    index: u32,
    size: u32,
    user: Time,
    kernel: Option<Time>,
    is_awaited: bool,
}

impl Departing {
    pub(crate) fn new(count: u32) -> Self {
        Departing { packets: Vec::with_capacity(count as usize), awaiting: 0 }
    }

    /// Records a sent packet; `user` is the time just before. Returns its place in this ledger.
    pub(crate) fn left(&mut self, index: u32, size: u32, user: Time) -> usize {
        self.packets.push(Left { index, size, user, kernel: None, is_awaited: true });
        self.awaiting += 1;
        self.packets.len() - 1
    }

    /// Records the kernel's time stamp of the packet at `place`. The first one counts: TCP stamps retransmissions, too.
    pub(crate) fn stamp(&mut self, place: usize, at: Time) {
        let Some(packet) = self.packets.get_mut(place) else { return };
        if packet.kernel.is_none() && at > packet.user - CLOCK_SLIP {
            packet.kernel = Some(at);
            self.settle(place);
        }
    }

    /// Stops waiting for the time stamp of the packet at `place`.
    pub(crate) fn settle(&mut self, place: usize) {
        if let Some(packet) = self.packets.get_mut(place).filter(|packet| packet.is_awaited) {
            packet.is_awaited = false;
            self.awaiting -= 1;
        }
    }

    /// Number of packets whose time stamps may still arrive.
    pub(crate) fn awaiting(&self) -> usize {
        self.awaiting
    }

    /// The first packet from `place` on whose time stamp may still arrive: its place, and its index in the train.
    pub(crate) fn first_awaiting(&self, place: usize) -> Option<(usize, u32)> {
        let rest = self.packets.get(place..)?;
        rest.iter().position(|p| p.is_awaited).map(|skipped| (place + skipped, rest[skipped].index))
    }

    /// Whether the kernel has stamped any packet.
    pub(crate) fn any_stamp(&self) -> bool {
        self.packets.iter().any(|p| p.kernel.is_some())
    }

    pub(crate) fn finish(self) -> Sending {
        let source = source(self.packets.len(), self.any_stamp());
        let departure = |p: Left| Departure {
            index: p.index,
            size: p.size,
            sent: if source == StampSource::Kernel { p.kernel } else { Some(p.user) },
        };
        Sending { departures: self.packets.into_iter().map(departure).collect(), source }
    }
}

/// The kernel, unless there are packets and it has stamped none of them.
fn source(packets: usize, any_kernel_stamp: bool) -> StampSource {
    if packets == 0 || any_kernel_stamp { StampSource::Kernel } else { StampSource::User }
}

/// Whether the time until `offset` suffices to read a time stamp.
pub(crate) fn is_usable_gap(pacer: &Pacer, offset: Span) -> bool {
    pacer.remaining(offset) > USABLE_GAP
}

/// After the last send: calls `collect` to read time stamps until all have arrived, none has for `quiet`, or
/// [`STAMP_WAIT`] has passed.
pub(crate) fn await_stamps(departing: &mut Departing, quiet: Span, mut collect: impl FnMut(&mut Departing)) {
    let begin = clock::monotonic();
    let mut last_news = begin;
    loop {
        let before = departing.awaiting();
        collect(departing);
        let now = clock::monotonic();
        if departing.awaiting() < before {
            last_news = now;
        }
        if departing.awaiting() == 0 || now - last_news > quiet || now - begin > STAMP_WAIT {
            return;
        }
        sleep_until(now + POLL_INTERVAL);
    }
}

/// The packets of a train that have been received so far.
#[derive(Debug)]
pub(crate) struct Arriving {
    packets: Vec<Option<Arrived>>,
    missing: usize,
}

#[derive(Debug, Clone, Copy)]
struct Arrived {
    user: Option<Time>,
    kernel: Option<Time>,
}

impl Arriving {
    pub(crate) fn new(count: u32) -> Self {
        Arriving { packets: vec![None; count as usize], missing: count as usize }
    }

    /// Records the arrival of packet `index`, read by the program at `user`. Duplicates and unplanned indices are ignored.
    pub(crate) fn arrived(&mut self, index: u32, kernel: Option<Time>, user: Time) {
        if let Some(packet @ None) = self.packets.get_mut(index as usize) {
            *packet = Some(Arrived { user: Some(user), kernel });
            self.missing -= 1;
        }
    }

    /// Removes the time stamp of packet `index`, which turned out to be a later packet's.
    pub(crate) fn withdraw_stamp(&mut self, index: u32) {
        if let Some(Some(packet)) = self.packets.get_mut(index as usize) {
            *packet = Arrived { user: None, kernel: None };
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn finish(self) -> Receiving {
        let mut arrived = self.packets.iter().flatten();
        let source = source(arrived.clone().count(), arrived.any(|p| p.kernel.is_some()));
        let arrivals = self.packets.iter().zip(0..).filter_map(|(packet, index)| {
            let packet = (*packet)?;
            Some(Arrival { index, received: if source == StampSource::Kernel { packet.kernel } else { packet.user } })
        });
        Receiving { arrivals: arrivals.collect(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: i64) -> Time {
        Time::from_nanos(1_000_000_000_000 + micros * 1_000)
    }

    #[test]
    fn the_first_stamp_counts_and_an_impossible_one_does_not() {
        let mut departing = Departing::new(2);
        let place = departing.left(0, 100, at(0));
        departing.stamp(place, at(-2_000));
        assert_eq!(departing.awaiting(), 1);
        departing.stamp(place, at(3));
        departing.stamp(place, at(200_000));
        departing.stamp(17, at(3));
        let sending = departing.finish();
        assert_eq!(sending.source, StampSource::Kernel);
        assert_eq!(sending.departures, [Departure { index: 0, size: 100, sent: Some(at(3)) }]);
    }

    #[test]
    fn a_stamp_that_will_not_come_is_not_waited_for() {
        let mut departing = Departing::new(2);
        let (first, second) = (departing.left(0, 100, at(0)), departing.left(3, 100, at(1)));
        assert_eq!(departing.first_awaiting(0), Some((first, 0)));
        departing.settle(first);
        departing.settle(first);
        assert_eq!((departing.awaiting(), departing.first_awaiting(0)), (1, Some((second, 3))));
        departing.stamp(second, at(2));
        assert_eq!((departing.awaiting(), departing.first_awaiting(0)), (0, None));
    }

    #[test]
    fn stamps_of_one_train_are_never_mixed() {
        let mut departing = Departing::new(2);
        departing.left(0, 100, at(0));
        let place = departing.left(1, 100, at(10));
        departing.stamp(place, at(11));
        let sent: Vec<_> = departing.finish().departures.iter().map(|d| d.sent).collect();
        assert_eq!(sent, [None, Some(at(11))]);

        let mut arriving = Arriving::new(3);
        arriving.arrived(0, None, at(0));
        arriving.arrived(2, None, at(2));
        let receiving = arriving.finish();
        assert_eq!(receiving.source, StampSource::User);
        let expected = [(0, Some(at(0))), (2, Some(at(2)))].map(|(index, received)| Arrival { index, received });
        assert_eq!(receiving.arrivals, expected);
    }

    #[test]
    fn the_first_copy_counts_and_a_foreign_index_is_ignored() {
        let mut arriving = Arriving::new(1);
        arriving.arrived(1, Some(at(0)), at(1));
        assert!(!arriving.is_complete());
        arriving.arrived(0, Some(at(2)), at(3));
        arriving.arrived(0, Some(at(4)), at(5));
        assert!(arriving.is_complete());
        assert_eq!(arriving.finish().arrivals, [Arrival { index: 0, received: Some(at(2)) }]);
    }
}
