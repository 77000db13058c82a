//! The packets of a train that have been sent or received so far, with their time stamps.

use crate::limits::STAMP_WAIT;
use crate::parts::{ReceivedTrain, SentTrain};
use kumade_net::pace::sleep_until;
use kumade_net::stamp::StampSource;
use kumade_net::{clock, pace::Pacer};
use kumade_probe_train::TrainRecord;
use kumade_units::{Span, Time};
use kumade_wire::{Arrival, Departure};

/// Minimum gap in a train in which time stamps are read: reading one must not delay the next packet.
const USABLE_GAP: Span = Span::from_micros(20);
/// A kernel time stamp that is earlier than the send call by more than this belongs to another packet.
const CLOCK_SLIP: Span = Span::from_millis(1);
/// A packet that takes no longer from the program to the device has met no queue, but a busy host at most …
const MAX_UNHELD: Span = Span::from_micros(300);
/// … which seldom delays so many packets of a train …
const MIN_HELD: usize = 3;
/// … and a tenth of them.
const MIN_HELD_DIVISOR: usize = 10;
/// Poll interval when waiting for time stamps.
const POLL_INTERVAL: Span = Span::from_micros(200);

/// The packets of a train that have been sent so far.
#[derive(Debug)]
pub(crate) struct SentPackets {
    packets: Vec<SentPacket>,
    /// The place of the first packet of each send that the kernel stamps by itself.
    sends: Vec<usize>,
    awaiting: usize,
}

#[derive(Debug)]
struct SentPacket {
    index: u32,
    size: u32,
    user: Time,
    /// Before the interface's queue discipline.
    queued: Option<Time>,
    /// At the device.
    kernel: Option<Time>,
    is_awaited: bool,
}

impl SentPackets {
    pub(crate) fn new(count: u32) -> Self {
        let packets = Vec::with_capacity(count as usize);
        SentPackets { packets, sends: Vec::with_capacity(count as usize), awaiting: 0 }
    }

    /// Records a sent packet; `user` is the time just before. Returns its place among them.
    pub(crate) fn add(&mut self, index: u32, size: u32, user: Time) -> usize {
        self.add_burst([index], size, user);
        self.packets.len() - 1
    }

    /// Records packets that were sent as one, which the kernel stamps once.
    pub(crate) fn add_burst(&mut self, indices: impl IntoIterator<Item = u32>, size: u32, user: Time) {
        self.sends.push(self.packets.len());
        let packet = |index| SentPacket { index, size, user, queued: None, kernel: None, is_awaited: true };
        self.packets.extend(indices.into_iter().map(packet));
        self.awaiting += self.packets.len() - self.sends.last().copied().unwrap_or(0);
    }

    /// Calls `stamp` with the place of each packet of the send at place `send` among all sends.
    pub(crate) fn each_of(&mut self, send: usize, stamp: impl Fn(&mut Self, usize)) {
        let Some(&first) = self.sends.get(send) else { return };
        let end = self.sends.get(send + 1).copied().unwrap_or(self.packets.len());
        (first..end).for_each(|place| stamp(self, place));
    }

    /// Records when the packet at `place` entered the queue discipline of the interface. The first time counts.
    pub(crate) fn stamp_queued(&mut self, place: usize, at: Time) {
        if let Some(packet) = self.packets.get_mut(place).filter(|packet| at > packet.user - CLOCK_SLIP) {
            packet.queued.get_or_insert(at);
        }
    }

    /// Whether this host's own interface held many packets back.
    pub(crate) fn is_held_back(&self) -> bool {
        let waited = |packet: &&SentPacket| {
            packet.kernel.is_some_and(|at| at - packet.queued.unwrap_or(packet.user) > MAX_UNHELD)
        };
        let held = self.packets.iter().filter(waited).count();
        held >= MIN_HELD && held * MIN_HELD_DIVISOR >= self.packets.len()
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

    pub(crate) fn finish(self) -> SentTrain {
        let source = match source(self.packets.len(), self.any_stamp()) {
            StampSource::Kernel if self.is_held_back() => StampSource::Queue,
            source => source,
        };
        let sent = |p: &SentPacket| match source {
            StampSource::Kernel => p.kernel,
            StampSource::Queue => Some(p.queued.unwrap_or(p.user)),
            StampSource::User => Some(p.user),
        };
        let departure = |p: SentPacket| Departure { index: p.index, size: p.size, sent: sent(&p) };
        let submitted = self.packets.iter().map(|p| Some(p.user)).collect();
        SentTrain { departures: self.packets.into_iter().map(departure).collect(), submitted, source }
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
pub(crate) fn await_stamps(sent_packets: &mut SentPackets, quiet: Span, mut collect: impl FnMut(&mut SentPackets)) {
    let begin = clock::monotonic();
    let mut last_news = begin;
    loop {
        let before = sent_packets.awaiting();
        collect(sent_packets);
        let now = clock::monotonic();
        if sent_packets.awaiting() < before {
            last_news = now;
        }
        if sent_packets.awaiting() == 0 || now - last_news > quiet || now - begin > STAMP_WAIT {
            return;
        }
        sleep_until(now + POLL_INTERVAL);
    }
}

/// The packets of a train that have been received so far.
#[derive(Debug)]
pub(crate) struct ReceivedPackets {
    packets: Vec<Option<ReceivedPacket>>,
    missing: usize,
}

#[derive(Debug, Clone, Copy)]
struct ReceivedPacket {
    user: Option<Time>,
    kernel: Option<Time>,
}

/// Those that have [overtaken](TrainRecord::OVERTAKERS) a packet are among so many sent after it.
const MOST_LATER: usize = 256;

impl ReceivedPackets {
    pub(crate) fn new(count: u32) -> Self {
        ReceivedPackets { packets: vec![None; count as usize], missing: count as usize }
    }

    /// Records the arrival of packet `index`, read by the program at `user`. Duplicates and unplanned indices are ignored.
    pub(crate) fn add(&mut self, index: u32, kernel: Option<Time>, user: Time) {
        if let Some(packet @ None) = self.packets.get_mut(index as usize) {
            *packet = Some(ReceivedPacket { user: Some(user), kernel });
            self.missing -= 1;
        }
    }

    /// Takes note that the time stamp of packet `index`, read by the program at `user`, is that of a later packet with which the kernel has
    /// joined it, though it was not there yet at `absent`. Where others had overtaken it by then, it was sent again, and has come only now;
    /// else it is not known when it came.
    pub(crate) fn joined(&mut self, index: u32, absent: Time, user: Time) {
        let place = index as usize;
        let later = self.packets.get(place + 1..).unwrap_or_default().iter().take(MOST_LATER).flatten();
        let overtook =
            later.filter(|packet| packet.kernel.is_some_and(|at| at < absent)).take(TrainRecord::OVERTAKERS).count();
        let stamp = (overtook == TrainRecord::OVERTAKERS).then_some(user);
        if let Some(Some(packet)) = self.packets.get_mut(place) {
            *packet = ReceivedPacket { user: stamp, kernel: stamp };
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn finish(self) -> ReceivedTrain {
        let mut arrived = self.packets.iter().flatten();
        let source = source(arrived.clone().count(), arrived.any(|p| p.kernel.is_some()));
        let arrivals = self.packets.iter().zip(0..).filter_map(|(packet, index)| {
            let packet = (*packet)?;
            Some(Arrival { index, received: if source == StampSource::Kernel { packet.kernel } else { packet.user } })
        });
        ReceivedTrain { arrivals: arrivals.collect(), source }
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
        let mut sent_packets = SentPackets::new(2);
        let place = sent_packets.add(0, 100, at(0));
        sent_packets.stamp(place, at(-2_000));
        assert_eq!(sent_packets.awaiting(), 1);
        sent_packets.stamp(place, at(3));
        sent_packets.stamp(place, at(200_000));
        sent_packets.stamp(17, at(3));
        let sending = sent_packets.finish();
        assert_eq!(sending.source, StampSource::Kernel);
        assert_eq!(sending.departures, [Departure { index: 0, size: 100, sent: Some(at(3)) }]);
        assert_eq!(sending.submitted, [Some(at(0))]);
    }

    #[test]
    fn packets_that_were_sent_as_one_have_its_stamp() {
        let mut sent_packets = SentPackets::new(5);
        sent_packets.add(0, 100, at(0));
        sent_packets.add_burst(1..4, 100, at(10));
        sent_packets.add(4, 100, at(20));
        assert_eq!(sent_packets.awaiting(), 5);
        for (send, micros) in [(0, 1), (1, 12), (2, 21), (3, 30)] {
            sent_packets.each_of(send, |packets, place| packets.stamp(place, at(micros)));
        }
        assert_eq!(sent_packets.awaiting(), 0);
        let train = sent_packets.finish();
        let sent: Vec<_> = train.departures.iter().map(|d| (d.index, d.sent.unwrap())).collect();
        assert_eq!(sent, [(0, at(1)), (1, at(12)), (2, at(12)), (3, at(12)), (4, at(21))]);
        assert_eq!(train.submitted[1..4], [Some(at(10)); 3]);
    }

    /// Finding 1 of the review by a new user: behind a shaper on the host's own interface there was no value.
    #[test]
    fn packets_that_the_own_interface_holds_back_count_from_before_it() {
        let train = |held: i64| {
            let mut sent_packets = SentPackets::new(20);
            for i in 0..20 {
                let place = sent_packets.add(i, 100, at(i.into()));
                let wait = if i64::from(i) < held { 600 } else { 3 };
                sent_packets.stamp(place, at(i64::from(i) + wait));
            }
            sent_packets
        };
        let mut held = train(10);
        assert!(held.is_held_back() && !train(2).is_held_back());
        held.stamp_queued(7, at(9));
        let train = held.finish();
        assert_eq!(train.source, StampSource::Queue);
        let sent: Vec<_> = train.departures.iter().map(|d| d.sent.unwrap()).collect();
        assert_eq!((sent[6], sent[7], sent[19]), (at(6), at(9), at(19)));
    }

    #[test]
    fn a_stamp_that_will_not_come_is_not_waited_for() {
        let mut sent_packets = SentPackets::new(2);
        let (first, second) = (sent_packets.add(0, 100, at(0)), sent_packets.add(3, 100, at(1)));
        assert_eq!(sent_packets.first_awaiting(0), Some((first, 0)));
        sent_packets.settle(first);
        sent_packets.settle(first);
        assert_eq!((sent_packets.awaiting(), sent_packets.first_awaiting(0)), (1, Some((second, 3))));
        sent_packets.stamp(second, at(2));
        assert_eq!((sent_packets.awaiting(), sent_packets.first_awaiting(0)), (0, None));
    }

    #[test]
    fn stamps_of_one_train_are_never_mixed() {
        let mut sent_packets = SentPackets::new(2);
        sent_packets.add(0, 100, at(0));
        let place = sent_packets.add(1, 100, at(10));
        sent_packets.stamp(place, at(11));
        let sent: Vec<_> = sent_packets.finish().departures.iter().map(|d| d.sent).collect();
        assert_eq!(sent, [None, Some(at(11))]);

        let mut received_packets = ReceivedPackets::new(3);
        received_packets.add(0, None, at(0));
        received_packets.add(2, None, at(2));
        let receiving = received_packets.finish();
        assert_eq!(receiving.source, StampSource::User);
        let expected = [(0, Some(at(0))), (2, Some(at(2)))].map(|(index, received)| Arrival { index, received });
        assert_eq!(receiving.arrivals, expected);
    }

    /// Behind a policer, packets that were sent again counted as arrived at an unknown time, so that much fewer seemed to be lost.
    #[test]
    fn a_packet_that_was_overtaken_before_it_was_joined_with_another_came_late() {
        let received = |absent: i64| {
            let mut received_packets = ReceivedPackets::new(6);
            (1..5).for_each(|index| received_packets.add(index, Some(at(index.into())), at(index.into())));
            received_packets.add(0, Some(at(30)), at(31));
            received_packets.add(5, Some(at(30)), at(32));
            received_packets.joined(0, at(absent), at(32));
            received_packets.finish().arrivals[0].received
        };
        assert_eq!([received(2), received(10)], [None, Some(at(32))]);
    }

    #[test]
    fn the_first_copy_counts_and_a_foreign_index_is_ignored() {
        let mut received_packets = ReceivedPackets::new(1);
        received_packets.add(1, Some(at(0)), at(1));
        assert!(!received_packets.is_complete());
        received_packets.add(0, Some(at(2)), at(3));
        received_packets.add(0, Some(at(4)), at(5));
        assert!(received_packets.is_complete());
        assert_eq!(received_packets.finish().arrivals, [Arrival { index: 0, received: Some(at(2)) }]);
    }
}
