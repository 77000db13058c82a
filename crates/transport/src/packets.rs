//! The packets of a train that have been sent or received so far, with their time stamps.

use crate::limits::STAMP_WAIT;
use crate::one_sided_records::{ReceivedTrain, SentTrain};
use kumade_net::clock;
use kumade_net::platform::pacing::Pacer;
use kumade_net::platform::pacing::sleep_until;
use kumade_net::platform::stamp::StampSource;
use kumade_probe_train::TrainRecord;
use kumade_units::{Span, Time};
use kumade_wire::{Arrival, Departure};

/// Minimum gap in a train in which time stamps are read: reading one must not delay the next packet.
const MIN_USABLE_GAP: Span = Span::from_micros(20);
/// A kernel time stamp that is earlier than the send call by more than this belongs to another packet.
const MAX_STAMP_LEAD: Span = Span::from_millis(1);
/// A packet that takes no longer from the program to the device has met no queue, but a busy host at most …
pub(crate) const MAX_UNQUEUED_DELAY: Span = Span::from_micros(300);
/// … which seldom delays so many packets of a train and a tenth of them …
const MIN_QUEUED_PACKETS: usize = 3;
const QUEUED_FRACTION_DIVISOR: usize = 10;
/// … or so many of a short one and half of it: a token bucket lets the first two packets of the shortest trains, which have four, pass at once.
const MIN_QUEUED_PACKETS_OF_FEW: usize = 2;
/// Trains of less packets are stamped before the queue discipline from the beginning on: to read a stamp takes as long as to send a packet,
/// and longer trains are sent at high rates.
const LONG_TRAIN_PACKETS: usize = 64;
/// Poll interval when waiting for time stamps.
const POLL_INTERVAL: Span = Span::from_micros(200);

/// The packets of a train that have been sent so far.
#[derive(Debug)]
pub(crate) struct SentPackets {
    packets: Vec<SentPacket>,
    /// The place of the first packet of each send that the kernel stamps by itself.
    send_starts: Vec<usize>,
    awaited_count: usize,
}

#[derive(Debug)]
struct SentPacket {
    index: u32,
    size: u32,
    user_stamp: Time,
    /// Before the interface's queue discipline.
    queue_stamp: Option<Time>,
    /// At the device.
    kernel_stamp: Option<Time>,
    is_awaited: bool,
}

impl SentPackets {
    pub(crate) fn new(count: u32) -> Self {
        let packets = Vec::with_capacity(count as usize);
        SentPackets { packets, send_starts: Vec::with_capacity(count as usize), awaited_count: 0 }
    }

    /// Records a sent packet; `user` is the time just before. Returns its place among them.
    pub(crate) fn record_packet(&mut self, index: u32, size: u32, user: Time) -> usize {
        self.record_burst([index], size, user);
        self.packets.len() - 1
    }

    /// Records packets that were sent as one, which the kernel stamps once.
    pub(crate) fn record_burst(&mut self, indices: impl IntoIterator<Item = u32>, size: u32, user: Time) {
        self.send_starts.push(self.packets.len());
        let packet = |index| SentPacket {
            index,
            size,
            user_stamp: user,
            queue_stamp: None,
            kernel_stamp: None,
            is_awaited: true,
        };
        self.packets.extend(indices.into_iter().map(packet));
        self.awaited_count += self.packets.len() - self.send_starts.last().copied().unwrap_or(0);
    }

    /// Calls `stamp` with the place of each packet of the send at place `send` among all sends.
    pub(crate) fn for_each_in_send(&mut self, send: usize, stamp: impl Fn(&mut Self, usize)) {
        let Some(&first) = self.send_starts.get(send) else { return };
        let end = self.send_starts.get(send + 1).copied().unwrap_or(self.packets.len());
        (first..end).for_each(|place| stamp(self, place));
    }

    /// Records when the packet at `place` entered the queue discipline of the interface. The first time counts.
    pub(crate) fn set_queue_stamp(&mut self, place: usize, at: Time) {
        if let Some(packet) = self.packets.get_mut(place).filter(|packet| at > packet.user_stamp - MAX_STAMP_LEAD) {
            packet.queue_stamp.get_or_insert(at);
        }
    }

    /// Whether this host's own interface held many packets back: how long they were in its queue discipline is known from the stamps before and
    /// behind it alone. From the system call on, a packet may have waited for a busy host as well, or in TCP.
    pub(crate) fn is_queued_locally(&self) -> bool {
        self.are_many_held(|packet| packet.queue_stamp)
    }

    /// Whether the next train is to be stamped before the queue discipline, too, as this one was or not: until a long train has not waited
    /// there, and again where one took long to the device.
    pub(crate) fn needs_queue_stamps(&self, has_queue_stamps: bool) -> bool {
        let may_be_queued = self.are_many_held(|packet| packet.queue_stamp.or(Some(packet.user_stamp)));
        may_be_queued || has_queue_stamps && self.packets.len() < LONG_TRAIN_PACKETS
    }

    /// Whether many packets that have come to the device, of which not all may have yet, took long from this time on.
    fn are_many_held(&self, since: impl Fn(&SentPacket) -> Option<Time>) -> bool {
        let wait = |packet: &SentPacket| Some(packet.kernel_stamp? - since(packet)?);
        let waits: Vec<Span> = self.packets.iter().filter_map(wait).collect();
        let held = waits.iter().filter(|wait| **wait > MAX_UNQUEUED_DELAY).count();
        held >= MIN_QUEUED_PACKETS && held * QUEUED_FRACTION_DIVISOR >= waits.len()
            || held >= MIN_QUEUED_PACKETS_OF_FEW && held * 2 >= waits.len()
    }

    /// Records the kernel's time stamp of the packet at `place`. The first one counts: TCP stamps retransmissions, too.
    pub(crate) fn set_kernel_stamp(&mut self, place: usize, at: Time) {
        let Some(packet) = self.packets.get_mut(place) else { return };
        if packet.kernel_stamp.is_none() && at > packet.user_stamp - MAX_STAMP_LEAD {
            packet.kernel_stamp = Some(at);
            self.stop_awaiting(place);
        }
    }

    /// Stops waiting for the time stamp of the packet at `place`.
    pub(crate) fn stop_awaiting(&mut self, place: usize) {
        if let Some(packet) = self.packets.get_mut(place).filter(|packet| packet.is_awaited) {
            packet.is_awaited = false;
            self.awaited_count -= 1;
        }
    }

    /// Number of packets whose time stamps may still arrive.
    pub(crate) fn awaited_count(&self) -> usize {
        self.awaited_count
    }

    /// The first packet from `place` on whose time stamp may still arrive: its place, and its index in the train.
    pub(crate) fn first_awaited(&self, place: usize) -> Option<(usize, u32)> {
        let rest = self.packets.get(place..)?;
        rest.iter().position(|p| p.is_awaited).map(|skipped| (place + skipped, rest[skipped].index))
    }

    /// Whether the kernel has stamped any packet.
    pub(crate) fn has_kernel_stamps(&self) -> bool {
        self.packets.iter().any(|p| p.kernel_stamp.is_some())
    }

    pub(crate) fn finish(self) -> SentTrain {
        let source = match stamp_source(self.packets.len(), self.has_kernel_stamps()) {
            StampSource::Kernel if self.is_queued_locally() => StampSource::Queue,
            source => source,
        };
        let sent = |p: &SentPacket| match source {
            StampSource::Kernel => p.kernel_stamp,
            StampSource::Queue => Some(p.queue_stamp.unwrap_or(p.user_stamp)),
            StampSource::User => Some(p.user_stamp),
        };
        let departure = |p: SentPacket| Departure { index: p.index, size: p.size, sent: sent(&p) };
        let submitted = self.packets.iter().map(|p| Some(p.user_stamp)).collect();
        SentTrain { departures: self.packets.into_iter().map(departure).collect(), submitted, stamp_source: source }
    }
}

/// The kernel, unless there are packets and it has stamped none of them.
fn stamp_source(packets: usize, any_kernel_stamp: bool) -> StampSource {
    if packets == 0 || any_kernel_stamp { StampSource::Kernel } else { StampSource::User }
}

/// Whether the time until `offset` suffices to read a time stamp.
pub(crate) fn is_usable_gap(pacer: &Pacer, offset: Span) -> bool {
    pacer.remaining(offset) > MIN_USABLE_GAP
}

/// After the last send: calls `collect` to read time stamps until all have arrived, none has for `quiet`, or
/// [`STAMP_WAIT`] has passed.
pub(crate) fn await_stamps(sent_packets: &mut SentPackets, quiet: Span, mut collect: impl FnMut(&mut SentPackets)) {
    let begin = clock::monotonic();
    let mut last_news = begin;
    loop {
        let before = sent_packets.awaited_count();
        collect(sent_packets);
        let now = clock::monotonic();
        if sent_packets.awaited_count() < before {
            last_news = now;
        }
        if sent_packets.awaited_count() == 0 || now - last_news > quiet || now - begin > STAMP_WAIT {
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
    user_stamp: Option<Time>,
    kernel_stamp: Option<Time>,
}

/// Those that have [overtaken](TrainRecord::MIN_OVERTAKERS) a packet are among so many sent after it.
const MAX_LATER_PACKETS: usize = 256;

impl ReceivedPackets {
    pub(crate) fn new(count: u32) -> Self {
        ReceivedPackets { packets: vec![None; count as usize], missing: count as usize }
    }

    /// Records the arrival of packet `index`, read by the program at `user`. Duplicates and unplanned indices are ignored.
    pub(crate) fn record_packet(&mut self, index: u32, kernel: Option<Time>, user: Time) {
        if let Some(packet @ None) = self.packets.get_mut(index as usize) {
            *packet = Some(ReceivedPacket { user_stamp: Some(user), kernel_stamp: kernel });
            self.missing -= 1;
        }
    }

    /// Takes note that the time stamp of packet `index`, read by the program at `user`, is that of a later packet with which the kernel has
    /// joined it, though it was not there yet at `absent`. Where others had overtaken it by then, it was sent again, and has come only now;
    /// else it is not known when it came.
    pub(crate) fn restamp_coalesced(&mut self, index: u32, absent: Time, user: Time) {
        let place = index as usize;
        let later = self.packets.get(place + 1..).unwrap_or_default().iter().take(MAX_LATER_PACKETS).flatten();
        let overtook = later
            .filter(|packet| packet.kernel_stamp.is_some_and(|at| at < absent))
            .take(TrainRecord::MIN_OVERTAKERS)
            .count();
        let stamp = (overtook == TrainRecord::MIN_OVERTAKERS).then_some(user);
        if let Some(Some(packet)) = self.packets.get_mut(place) {
            *packet = ReceivedPacket { user_stamp: stamp, kernel_stamp: stamp };
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn finish(self) -> ReceivedTrain {
        let mut arrived = self.packets.iter().flatten();
        let source = stamp_source(arrived.clone().count(), arrived.any(|p| p.kernel_stamp.is_some()));
        let arrivals = self.packets.iter().zip(0..).filter_map(|(packet, index)| {
            let packet = (*packet)?;
            Some(Arrival {
                index,
                received: if source == StampSource::Kernel { packet.kernel_stamp } else { packet.user_stamp },
            })
        });
        ReceivedTrain { arrivals: arrivals.collect(), stamp_source: source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn time_at_micros(micros: i64) -> Time {
        Time::from_nanos(1_000_000_000_000 + micros * 1_000)
    }

    #[test]
    fn the_first_stamp_counts_and_an_impossible_one_does_not() {
        let mut sent_packets = SentPackets::new(2);
        let place = sent_packets.record_packet(0, 100, time_at_micros(0));
        sent_packets.set_kernel_stamp(place, time_at_micros(-2_000));
        assert_eq!(sent_packets.awaited_count(), 1);
        sent_packets.set_kernel_stamp(place, time_at_micros(3));
        sent_packets.set_kernel_stamp(place, time_at_micros(200_000));
        sent_packets.set_kernel_stamp(17, time_at_micros(3));
        let sending = sent_packets.finish();
        assert_eq!(sending.stamp_source, StampSource::Kernel);
        assert_eq!(sending.departures, [Departure { index: 0, size: 100, sent: Some(time_at_micros(3)) }]);
        assert_eq!(sending.submitted, [Some(time_at_micros(0))]);
    }

    #[test]
    fn packets_that_were_sent_as_one_have_its_stamp() {
        let mut sent_packets = SentPackets::new(5);
        sent_packets.record_packet(0, 100, time_at_micros(0));
        sent_packets.record_burst(1..4, 100, time_at_micros(10));
        sent_packets.record_packet(4, 100, time_at_micros(20));
        assert_eq!(sent_packets.awaited_count(), 5);
        for (send, micros) in [(0, 1), (1, 12), (2, 21), (3, 30)] {
            sent_packets
                .for_each_in_send(send, |packets, place| packets.set_kernel_stamp(place, time_at_micros(micros)));
        }
        assert_eq!(sent_packets.awaited_count(), 0);
        let train = sent_packets.finish();
        let sent: Vec<_> = train.departures.iter().map(|d| (d.index, d.sent.unwrap())).collect();
        assert_eq!(
            sent,
            [
                (0, time_at_micros(1)),
                (1, time_at_micros(12)),
                (2, time_at_micros(12)),
                (3, time_at_micros(12)),
                (4, time_at_micros(21))
            ]
        );
        assert_eq!(train.submitted[1..4], [Some(time_at_micros(10)); 3]);
    }

    /// Finding 1 of the review by a new user: behind a shaper on the host's own interface there was no value.
    #[test]
    fn packets_that_the_own_interface_holds_back_count_from_before_it() {
        let train = |held: i64| {
            let mut sent_packets = SentPackets::new(20);
            for i in 0..20 {
                let place = sent_packets.record_packet(i, 100, time_at_micros(i.into()));
                let wait = if i64::from(i) < held { 600 } else { 3 };
                if i != 7 {
                    sent_packets.set_queue_stamp(place, time_at_micros(i64::from(i) + 1));
                }
                sent_packets.set_kernel_stamp(place, time_at_micros(i64::from(i) + wait));
            }
            sent_packets
        };
        let held = train(10);
        assert!(held.is_queued_locally() && !train(2).is_queued_locally());
        let train = held.finish();
        assert_eq!(train.stamp_source, StampSource::Queue);
        let sent: Vec<_> = train.departures.iter().map(|d| d.sent.unwrap()).collect();
        assert_eq!((sent[6], sent[7], sent[19]), (time_at_micros(7), time_at_micros(7), time_at_micros(20)));
    }

    /// Stamps before the own interface's queue were asked for only where there were some: never, so that the host seemed to send no faster.
    #[test]
    fn a_queue_of_the_own_interface_is_suspected_before_it_is_known() {
        // Those of a short train that a token bucket does not let pass at once.
        for (count, held) in [(20, 10), (4, 2), (3, 2)] {
            let mut sent_packets = SentPackets::new(count);
            for i in 0..count {
                let place = sent_packets.record_packet(i, 100, time_at_micros(i.into()));
                let wait = if i >= count - held { 40_000 } else { 3 };
                sent_packets.set_kernel_stamp(place, time_at_micros(i64::from(i) + wait));
            }
            assert!(sent_packets.needs_queue_stamps(false) && !sent_packets.is_queued_locally(), "{count}");
            (0..count).for_each(|i| sent_packets.set_queue_stamp(i as usize, time_at_micros(i64::from(i) + 1)));
            assert!(sent_packets.is_queued_locally(), "{count}");
            // Those behind are in the queue still.
            (count..10 * count).for_each(|i| _ = sent_packets.record_packet(i, 100, time_at_micros(i.into())));
            assert!(sent_packets.is_queued_locally(), "{count}");
        }
    }

    /// "Packets waited in the queue of the sender's own interface" was said where there was none: TCP, or a busy host, held them before it.
    #[test]
    fn packets_that_waited_before_the_own_interface_did_not_wait_in_its_queue() {
        for is_queue_known in [false, true] {
            let mut sent_packets = SentPackets::new(20);
            for i in 0..20 {
                let place = sent_packets.record_packet(i, 100, time_at_micros(i.into()));
                if is_queue_known {
                    sent_packets.set_queue_stamp(place, time_at_micros(i64::from(i) + 5_000));
                }
                sent_packets.set_kernel_stamp(place, time_at_micros(i64::from(i) + 5_003));
            }
            assert!(!sent_packets.is_queued_locally());
            assert_eq!(sent_packets.finish().stamp_source, StampSource::Kernel);
        }
    }

    #[test]
    fn a_stamp_that_will_not_come_is_not_waited_for() {
        let mut sent_packets = SentPackets::new(2);
        let (first, second) = (
            sent_packets.record_packet(0, 100, time_at_micros(0)),
            sent_packets.record_packet(3, 100, time_at_micros(1)),
        );
        assert_eq!(sent_packets.first_awaited(0), Some((first, 0)));
        sent_packets.stop_awaiting(first);
        sent_packets.stop_awaiting(first);
        assert_eq!((sent_packets.awaited_count(), sent_packets.first_awaited(0)), (1, Some((second, 3))));
        sent_packets.set_kernel_stamp(second, time_at_micros(2));
        assert_eq!((sent_packets.awaited_count(), sent_packets.first_awaited(0)), (0, None));
    }

    #[test]
    fn stamps_of_one_train_are_never_mixed() {
        let mut sent_packets = SentPackets::new(2);
        sent_packets.record_packet(0, 100, time_at_micros(0));
        let place = sent_packets.record_packet(1, 100, time_at_micros(10));
        sent_packets.set_kernel_stamp(place, time_at_micros(11));
        let sent: Vec<_> = sent_packets.finish().departures.iter().map(|d| d.sent).collect();
        assert_eq!(sent, [None, Some(time_at_micros(11))]);

        let mut received_packets = ReceivedPackets::new(3);
        received_packets.record_packet(0, None, time_at_micros(0));
        received_packets.record_packet(2, None, time_at_micros(2));
        let receiving = received_packets.finish();
        assert_eq!(receiving.stamp_source, StampSource::User);
        let expected = [(0, Some(time_at_micros(0))), (2, Some(time_at_micros(2)))]
            .map(|(index, received)| Arrival { index, received });
        assert_eq!(receiving.arrivals, expected);
    }

    /// Behind a policer, packets that were sent again counted as arrived at an unknown time, so that much fewer seemed to be lost.
    #[test]
    fn a_packet_that_was_overtaken_before_it_was_joined_with_another_came_late() {
        let received = |absent: i64| {
            let mut received_packets = ReceivedPackets::new(6);
            (1..5).for_each(|index| {
                received_packets.record_packet(index, Some(time_at_micros(index.into())), time_at_micros(index.into()))
            });
            received_packets.record_packet(0, Some(time_at_micros(30)), time_at_micros(31));
            received_packets.record_packet(5, Some(time_at_micros(30)), time_at_micros(32));
            received_packets.restamp_coalesced(0, time_at_micros(absent), time_at_micros(32));
            received_packets.finish().arrivals[0].received
        };
        assert_eq!([received(2), received(10)], [None, Some(time_at_micros(32))]);
    }

    #[test]
    fn the_first_copy_counts_and_a_foreign_index_is_ignored() {
        let mut received_packets = ReceivedPackets::new(1);
        received_packets.record_packet(1, Some(time_at_micros(0)), time_at_micros(1));
        assert!(!received_packets.is_complete());
        received_packets.record_packet(0, Some(time_at_micros(2)), time_at_micros(3));
        received_packets.record_packet(0, Some(time_at_micros(4)), time_at_micros(5));
        assert!(received_packets.is_complete());
        assert_eq!(received_packets.finish().arrivals, [Arrival { index: 0, received: Some(time_at_micros(2)) }]);
    }
}
