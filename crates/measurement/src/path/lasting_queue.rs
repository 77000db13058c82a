//! Whether the queue of the narrow link marks packets with CE once they have waited for long, as classic AQMs do: a train that fills the queue and then
//! keeps it for a second.
//!
//! CoDel (RFC 8289) marks what waits for more than 5 ms for 100 ms in a row, PIE (RFC 8033) with a probability that grows from 15 ms on,
//! RED by an average over hundreds of packets. Trains that show from which delay on other queues mark are over by then. That nothing is marked is said
//! where both CoDel and PIE with the parameters of their RFCs would have marked several packets by what these waited; others may have left them alone:
//! RED with a high threshold, or CoDel or CAKE with a longer interval.

use super::overload::{OverloadPlan, QueueFillingProbe, one_way_delay};
use super::pie::expected_marks;
use crate::report::{FirstMarkReport, LastingQueueKind, LastingQueueReport};
use kumade_packet::Ecn;
use kumade_probe_train::{DsFieldPacket, DsFieldRecord, DsFieldTrain, Segment, Train};
use kumade_units::{Rate, Span, Time};

/// For how long the queue is kept, …
const DURATION: Span = Span::from_secs(1);
/// … or for less, where that takes more packets than a train may have.
const MAX_PACKETS: u32 = Train::MAX_PACKETS;
/// Packets are sent so much faster than the link serves them, as the rate that is known may be less than that.
const EXCESS: f64 = 1.05;
/// Queueing delays above this count: CoDel's target (RFC 8289), the shortest in use.
const MIN_QUEUEING_DELAY: Span = Span::from_millis(5);
/// CoDel has marked seven packets of a queue that lasts for so long …
const MIN_LASTING_TIME: Span = Span::from_millis(500);
/// … and is no shorter, …
const MIN_MEDIAN_DELAY: Span = Span::from_millis(30);
/// … of which PIE would have marked so many: none of them in one of a hundred cases by chance.
const MIN_PIE_MARKS: f64 = 5.0;
/// CE of packets that waited for less may have another reason than this queue: the step of RFC 9332 is 1 ms.
const MIN_MARKING_DELAY: Span = Span::from_millis(1);
/// Fewer packets with CE may be somebody else's doing.
const MIN_MARKED: u32 = 2;

/// A packet that arrived: when it was sent, how long it waited, and whether it came with CE.
#[derive(Debug, Clone, Copy)]
struct WaitedPacket {
    sent: Time,
    waited: Span,
    is_marked: bool,
}

/// The train of a direction.
#[derive(Debug, Clone)]
pub(crate) struct LastingQueueProbe {
    plan: OverloadPlan,
    /// From one packet to the next once the queue is filled.
    interval: Span,
    is_sent: bool,
    sent: u32,
    arrived: Vec<WaitedPacket>,
}

impl LastingQueueProbe {
    /// Of a direction whose narrow link serves one flow at this rate, with packets of so many bytes at most.
    pub(crate) fn new(rate: Rate, max_packet: u32) -> Self {
        let plan = OverloadPlan::new(rate, max_packet);
        let sent_at = Rate::from_f64(rate.as_f64() * EXCESS);
        let interval = sent_at.time_for(plan.bytes(1)).max(Span::from_nanos(1));
        LastingQueueProbe { plan, interval, is_sent: false, sent: 0, arrived: Vec::new() }
    }

    /// More is never sent.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.plan.bytes(self.train().packet_count())
    }

    fn train(&self) -> Train {
        let mut segments = vec![self.plan.lead(), self.plan.burst()];
        let before: u32 = segments.iter().map(|segment: &Segment| segment.count).sum();
        let count = (DURATION.as_nanos() / self.interval.as_nanos()).clamp(1, i64::from(MAX_PACKETS - before));
        segments.push(self.plan.segment(count as u32, self.interval));
        Train { segments }
    }

    /// What it comes to; none where no packet has arrived.
    pub(crate) fn report(&self) -> Option<LastingQueueReport> {
        let stretches = waiting_stretches(&self.arrived);
        let marked = stretches.iter().flatten().filter(|packet| packet.is_marked).count() as u32;
        let is_elsewhere = |packet: &&WaitedPacket| packet.is_marked && packet.waited < MIN_MARKING_DELAY;
        let marked_without_queue = self.arrived.iter().filter(is_elsewhere).count() as u32;
        let longest = stretches.iter().max_by_key(|stretch| duration(stretch)).cloned().unwrap_or_default();
        let (duration, median) = (duration(&longest), median_delay(&longest));
        let is_long = duration >= MIN_LASTING_TIME && median.is_some_and(|median| median >= MIN_MEDIAN_DELAY);
        let delays = longest.iter().map(|packet| (packet.sent, packet.waited));
        let is_any_marked = self.arrived.iter().any(|packet| packet.is_marked);
        let kind = match (marked, marked_without_queue) {
            (0, 0) if !is_any_marked && is_long && expected_marks(delays) >= MIN_PIE_MARKS => {
                LastingQueueKind::NotMarked
            }
            (MIN_MARKED.., 0) => LastingQueueKind::Marked,
            _ => LastingQueueKind::NotSure,
        };
        let first_mark = stretches.iter().find_map(|stretch| {
            let packet = stretch.iter().find(|packet| packet.is_marked)?;
            Some(FirstMarkReport {
                after_seconds: (packet.sent - stretch.first()?.sent).as_secs_f64(),
                queueing_delay_seconds: packet.waited.as_secs_f64(),
            })
        });
        (!self.arrived.is_empty()).then(|| LastingQueueReport {
            kind,
            mark: Ecn::Ect0.to_string(),
            sent: self.sent,
            arrived: self.arrived.len() as u32,
            marked,
            marked_without_queue,
            duration_seconds: duration.as_secs_f64(),
            median_queueing_delay_seconds: median.map(Span::as_secs_f64),
            first_mark,
        })
    }
}

impl QueueFillingProbe for LastingQueueProbe {
    fn next_train(&mut self) -> Option<(Span, DsFieldTrain)> {
        if std::mem::replace(&mut self.is_sent, true) {
            return None;
        }
        let train = self.train();
        let packets = train.packet_count();
        // What trains before have left in the queue.
        let wait = self.plan.service_time(self.plan.burst().count);
        Some((wait, DsFieldTrain { ds_fields: vec![Ecn::Ect0 as u8; packets as usize], train }))
    }

    fn record_train(&mut self, record: &DsFieldRecord) {
        self.sent += record.packets.iter().filter(|packet| packet.sent.is_some()).count() as u32;
        let delays = record.packets.iter().filter_map(one_way_delay).map(|(_, delay)| delay);
        let Some(least) = delays.min() else { return };
        let waited = |packet: &DsFieldPacket| {
            let (sent, delay) = one_way_delay(packet)?;
            let ecn = Ecn::from_bits(packet.arrival?.ds_field? & 0b11);
            Some(WaitedPacket { sent, waited: delay - least, is_marked: ecn == Ecn::Ce })
        };
        self.arrived.extend(record.packets.iter().filter_map(waited));
    }
}

/// Packets in a row that all waited for long, in a queue that did not empty between them.
fn waiting_stretches(arrived: &[WaitedPacket]) -> Vec<Vec<WaitedPacket>> {
    let goes_on = |one: &WaitedPacket, next: &WaitedPacket| {
        let is_long = |packet: &WaitedPacket| packet.waited > MIN_QUEUEING_DELAY;
        is_long(one) && is_long(next) && next.sent - one.sent <= one.waited
    };
    let mut packets = arrived.to_vec();
    packets.sort_by_key(|packet| packet.sent);
    let stretches = packets.chunk_by(goes_on).map(<[WaitedPacket]>::to_vec);
    stretches.filter(|stretch| stretch[0].waited > MIN_QUEUEING_DELAY).collect()
}

/// From the first packet to the last.
fn duration(stretch: &[WaitedPacket]) -> Span {
    stretch.first().zip(stretch.last()).map_or(Span::ZERO, |(first, last)| last.sent - first.sent)
}

fn median_delay(packets: &[WaitedPacket]) -> Option<Span> {
    let mut delays: Vec<Span> = packets.iter().map(|packet| packet.waited).collect();
    delays.sort_unstable();
    delays.get(delays.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::DsFieldArrival;

    /// What a link of this rate makes of the train, which marks a packet by how long it has waited, in milliseconds, and its number.
    fn report(mbit: u64, known_mbit: u64, marks: impl Fn(f64, u32) -> bool) -> LastingQueueReport {
        let mut probe = LastingQueueProbe::new(Rate::from_mbit(known_mbit), 1500);
        let (_, train) = probe.next_train().unwrap();
        assert_eq!(train.check(), Ok(()));
        assert!(train.train.bytes() <= probe.max_bytes());
        let mut free = Time::ZERO;
        let arrivals: Vec<_> = (0..)
            .zip(train.train.packets())
            .map(|(index, packet)| {
                let sent = Time::ZERO + packet.offset;
                let waited = (free - sent).max(Span::ZERO).as_secs_f64() * 1e3;
                free = free.max(sent) + Rate::from_mbit(mbit).time_for(packet.size.into());
                let ecn = if marks(waited, index) { Ecn::Ce } else { Ecn::Ect0 };
                DsFieldArrival { index, received: Some(free), ds_field: Some(ecn as u8) }
            })
            .collect();
        let sent = (0..).zip(train.train.packets()).map(|(index, packet)| (index, Time::ZERO + packet.offset));
        probe.record_train(&DsFieldRecord::new(train.ds_fields.len(), sent, &arrivals));
        assert_eq!(probe.next_train(), None);
        probe.report().unwrap()
    }

    #[test]
    fn what_marks_packets_that_have_waited_for_long_is_told_with_when_it_begins() {
        for mbit in [1, 10, 100] {
            let found = report(mbit, mbit, |waited, index| waited > 5.0 && index % 300 == 299);
            assert_eq!(found.kind, LastingQueueKind::Marked, "{found:?}");
            assert!(found.first_mark.unwrap().queueing_delay_seconds > 0.005, "{found:?}");
            let found = report(mbit, mbit, |_, _| false);
            assert_eq!((found.kind, found.first_mark), (LastingQueueKind::NotMarked, None), "{found:?}");
            assert!(found.duration_seconds > 0.5 && found.median_queueing_delay_seconds.unwrap() > 0.03, "{found:?}");
        }
    }

    #[test]
    fn without_a_queue_that_lasts_or_with_a_single_mark_nothing_is_said() {
        // Faster than was known, and so fast that a train is too short.
        for (mbit, known) in [(20, 10), (1000, 1000)] {
            assert_eq!(report(mbit, known, |_, _| false).kind, LastingQueueKind::NotSure);
        }
        assert_eq!(report(10, 10, |_, index| index == 700).kind, LastingQueueKind::NotSure);
        // Somebody else marks: packets that found no queue, besides others, or alone.
        let found = report(10, 10, |waited, index| index < 3 || waited > 5.0 && index % 300 == 299);
        assert_eq!((found.kind, found.marked_without_queue), (LastingQueueKind::NotSure, 3), "{found:?}");
        let found = report(10, 10, |_, index| index < 3);
        assert_eq!((found.kind, found.marked, found.first_mark), (LastingQueueKind::NotSure, 0, None), "{found:?}");
        let mut probe = LastingQueueProbe::new(Rate::from_mbit(1), 1500);
        let (_, train) = probe.next_train().unwrap();
        probe.record_train(&DsFieldRecord::new(train.ds_fields.len(), [], &[]));
        assert_eq!(probe.report(), None);
    }

    #[test]
    fn a_queue_that_empties_in_between_counts_by_its_longest_stretch() {
        let packet = |sent, waited| WaitedPacket {
            sent: Time::ZERO + Span::from_millis(sent),
            waited: Span::from_millis(waited),
            is_marked: false,
        };
        let durations = |packets: &[WaitedPacket]| -> Vec<i64> {
            waiting_stretches(packets).iter().map(|stretch| duration(stretch).as_nanos() / 1_000_000).collect()
        };
        let lasting: Vec<_> = (0..100).map(|place| packet(10 * place, 40)).collect();
        assert_eq!(durations(&lasting), [990]);
        let once_empty: Vec<_> = (0..100).map(|place| packet(10 * place, if place == 30 { 5 } else { 40 })).collect();
        assert_eq!(durations(&once_empty), [290, 680]);
        // Nothing is known of 50 ms, in which the queue may have emptied.
        let lost: Vec<_> = lasting[..30].iter().chain(&lasting[34..]).copied().collect();
        assert_eq!(durations(&lost), [290, 650]);
    }
}
