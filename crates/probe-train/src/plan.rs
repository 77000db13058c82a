use kumade_units::Span;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use thiserror::Error;

/// Packets at one interval, with sizes that grow (or shrink) by a constant step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// How many packets.
    pub count: u32,
    /// From each packet of this segment to the packet that follows it; zero sends back to back.
    pub interval: Span,
    /// The first packet's size: bytes of the whole IP packet.
    pub first_size: u32,
    /// What each further packet of the segment has more than the one before it, in bytes.
    pub size_step: i32,
}

/// A packet train as planned: its segments, sent one behind the other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Train {
    /// In the order of sending.
    pub segments: Vec<Segment>,
}

/// One packet of a planned train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedPacket {
    /// When it leaves, counted from the train's first packet.
    pub offset: Span,
    /// Bytes of the IP packet. A transport whose headers alone are larger sends its smallest packet instead and
    /// records that size.
    pub size: u32,
}

/// Packets of a train that a sender gives to the kernel at once: see [`Train::bursts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burst {
    /// Their places in the train.
    pub packets: Range<u32>,
    /// When they leave, counted from the train's first packet.
    pub offset: Span,
    /// Bytes of each IP packet, which are all of one size.
    pub size: u32,
}

/// A plan that no transport can or may send.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("train refused: {0}")]
pub struct TrainError(String);

impl TrainError {
    pub(crate) fn new(reason: String) -> Self {
        TrainError(reason)
    }
}

impl Train {
    /// No packet of a train is larger, in bytes of the IP packet: networks with jumbo frames have this size in common.
    pub const MAX_PACKET_BYTES: u32 = 9000;
    /// The largest IP packet of Ethernet without jumbo frames, in bytes: beyond the first hop nobody promises more.
    pub const MAX_ETHERNET_PACKET_BYTES: u32 = 1500;
    /// More packets than this are never sent in one train.
    pub const MAX_PACKETS: u32 = 10_000;
    /// No train has more segments.
    pub const MAX_SEGMENTS: usize = 512;
    /// No train lasts longer than this.
    pub const MAX_DURATION: Span = Span::from_secs(30);

    /// A long segment whose packets are closer together than this is too fast to be sent packet by packet: a system call for
    /// each takes 5 µs, and three times as long where a host forwards the packet before the call returns.
    pub const MIN_PACED_INTERVAL: Span = Span::from_micros(16);
    /// Shorter segments are sent packet by packet, however close together their packets are.
    pub const MIN_BURST_SEGMENT_PACKETS: u32 = 64;
    /// From one burst to the next, about.
    const BURST_PERIOD: Span = Span::from_micros(50);
    /// No burst has more bytes: one packet of the kernel has no more before it is segmented.
    const MAX_BURST_BYTES: u32 = 64_000;
    /// No burst has more packets: Linux segments into no more of them (`UDP_MAX_SEGMENTS`, before 6.9).
    const MAX_BURST_PACKETS: u32 = 64;

    /// How many packets of this size, so far apart, are one burst; none where they are sent packet by packet.
    pub fn packets_per_burst(interval: Span, size: u32) -> Option<u32> {
        let is_fast = Span::ZERO < interval && interval < Self::MIN_PACED_INTERVAL;
        let wanted = (Self::BURST_PERIOD.as_nanos() / interval.as_nanos().max(1)).max(2) as u32;
        is_fast.then(|| wanted.min(Self::max_packets_per_burst(size)))
    }

    fn max_packets_per_burst(size: u32) -> u32 {
        (Self::MAX_BURST_BYTES / size.max(1)).clamp(1, Self::MAX_BURST_PACKETS)
    }

    /// The train as bursts, each of which a sender that can do so gives to the kernel at once; none where every packet is sent by
    /// itself. A train is sent like that if a long segment has its packets too close together. Its rate is then true over a few
    /// bursts, and within a burst packets follow each other as fast as the device sends. Bursts do not reach from one segment
    /// into the next.
    pub fn bursts(&self) -> Option<Vec<Burst>> {
        let of_segment = |s: &Segment| {
            let is_long = s.count >= Self::MIN_BURST_SEGMENT_PACKETS && s.size_step == 0;
            Self::packets_per_burst(s.interval, s.first_size).filter(|_| is_long)
        };
        let most = self.segments.iter().find_map(of_segment)?;
        let mut bursts = Vec::new();
        let (mut first, mut offset) = (0, Span::ZERO);
        for segment in &self.segments {
            let size = segment.first_size;
            let is_fast = segment.interval < Self::MIN_PACED_INTERVAL && segment.size_step == 0;
            let most = if is_fast { most.min(Self::max_packets_per_burst(size)) } else { 1 };
            for index in (0..segment.count).step_by(most as usize) {
                let packets = first + index..first + (index + most).min(segment.count);
                let size = (i64::from(size) + i64::from(index) * i64::from(segment.size_step)).max(0) as u32;
                bursts.push(Burst { packets, offset: offset + segment.interval * i64::from(index), size });
            }
            first += segment.count;
            offset += segment.interval * i64::from(segment.count);
        }
        Some(bursts)
    }

    /// Every packet in the order of sending.
    pub fn packets(&self) -> impl Iterator<Item = PlannedPacket> + '_ {
        let mut offset = Span::ZERO;
        self.segments.iter().flat_map(|s| (0..s.count).map(move |i| (s, i))).map(move |(segment, i)| {
            let size = i64::from(segment.first_size) + i64::from(i) * i64::from(segment.size_step);
            let packet = PlannedPacket { offset, size: size.clamp(0, i64::from(u16::MAX)) as u32 };
            offset += segment.interval;
            packet
        })
    }

    /// How many packets it has.
    pub fn packet_count(&self) -> u32 {
        self.segments.iter().fold(0, |sum, s| sum.saturating_add(s.count))
    }

    /// IP bytes of all its packets.
    pub fn bytes(&self) -> u64 {
        self.packets().map(|p| u64::from(p.size)).sum()
    }

    /// From the first packet to the last.
    pub fn duration(&self) -> Span {
        self.packets().last().map_or(Span::ZERO, |p| p.offset)
    }

    /// Whether a transport with packets of at most `max_size` bytes may send this: a plan that came from a peer is
    /// checked before anything is done with it.
    ///
    /// # Errors
    /// Names the limit that the plan exceeds.
    pub fn check(&self, max_size: u32) -> Result<(), TrainError> {
        let refuse = |why: String| Err(TrainError(why));
        let (segments, limit) = (self.segments.len(), Self::MAX_SEGMENTS);
        if segments > limit {
            return refuse(format!("{segments} segments, the limit is {limit}"));
        }
        if !(1..=Self::MAX_PACKETS).contains(&self.packet_count()) {
            return refuse(format!("{} packets, allowed are 1 to {}", self.packet_count(), Self::MAX_PACKETS));
        }
        if self.segments.iter().any(|s| s.interval < Span::ZERO || s.interval > Self::MAX_DURATION) {
            return refuse("an interval is negative or too long".into());
        }
        if self.duration() > Self::MAX_DURATION {
            return refuse(format!("it lasts {}, the limit is {}", self.duration(), Self::MAX_DURATION));
        }
        match self.packets().find(|p| p.size == 0 || p.size > max_size) {
            Some(packet) => refuse(format!("a packet of {} bytes, allowed are 1 to {max_size}", packet.size)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(count: u32, interval_us: i64, first_size: u32, size_step: i32) -> Segment {
        Segment { count, interval: Span::from_micros(interval_us), first_size, size_step }
    }

    #[test]
    fn the_papers_train_spans_its_published_range() {
        // "0.1 ms, 32 Bytes, 12 Bytes, 120 packets" gives 2.6 … 116 Mbit/s (PathRakeTCP, 5.1).
        let train = Train { segments: vec![segment(120, 100, 32, 12)] };
        let sizes: Vec<_> = train.packets().map(|p| p.size).collect();
        assert_eq!((sizes[0], sizes[119]), (32, 1460));
        assert_eq!(train.duration(), Span::from_micros(11_900));
        assert_eq!(train.bytes(), sizes.iter().map(|&s| u64::from(s)).sum::<u64>());
    }

    #[test]
    fn segments_follow_each_other_at_their_own_intervals() {
        let train = Train { segments: vec![segment(2, 0, 1000, 0), segment(2, 50, 500, -10)] };
        let packets: Vec<_> = train.packets().map(|p| (p.offset, p.size)).collect();
        let at = Span::from_micros;
        assert_eq!(packets, [(at(0), 1000), (at(0), 1000), (at(0), 500), (at(50), 490)]);
    }

    #[test]
    fn a_fast_train_is_sent_in_bursts_that_keep_its_rate() {
        let nanos = Span::from_nanos;
        // 10 Gbit/s of 1500 bytes, behind 100 packets back to back, and one packet that is far behind.
        let body = Segment { count: 3000, interval: nanos(1200), first_size: 1500, size_step: 0 };
        let train = Train { segments: vec![segment(100, 0, 1500, 0), body, segment(1, 100, 1500, 0)] };
        let bursts = train.bursts().unwrap();
        let next = bursts.iter().skip(1).map(|burst| burst.packets.start).chain([train.packet_count()]);
        assert!(bursts.iter().zip(next).all(|(burst, next)| burst.packets.end == next && !burst.packets.is_empty()));
        assert!(bursts.iter().all(|burst| burst.packets.len() as u32 * burst.size <= 64_000));
        let planned: Vec<_> = train.packets().collect();
        assert!(bursts.iter().all(|burst| {
            let first = planned[burst.packets.start as usize];
            (burst.offset, burst.size) == (first.offset, first.size)
        }));
        let full = |burst: &&Burst| burst.packets.len() == 41;
        assert!(bursts.iter().filter(full).count() >= 75, "{:?}", &bursts[..9]);
        // No burst is of two segments.
        assert!(bursts.iter().any(|burst| burst.packets.start == 100));
    }

    #[test]
    fn packets_that_can_be_sent_one_by_one_are() {
        let slow = segment(1000, 16, 1500, 0);
        let short = segment(8, 3, 1500, 0);
        let back_to_back = segment(150, 0, 1500, 0);
        let growing = segment(120, 10, 32, 12);
        for segments in [vec![slow], vec![back_to_back, slow], vec![short], vec![back_to_back], vec![growing]] {
            assert_eq!(Train { segments }.bursts(), None);
        }
    }

    #[test]
    fn a_peers_plan_is_held_to_limits() {
        let refused = |train: Train, part: &str| {
            let error = train.check(1500).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        assert!(Train { segments: vec![segment(120, 100, 32, 12)] }.check(1500).is_ok());
        refused(Train::default(), "0 packets");
        refused(Train { segments: vec![segment(u32::MAX, 0, 100, 0); 2] }, "packets, allowed");
        refused(Train { segments: vec![segment(1, 0, 1501, 0)] }, "1501 bytes");
        refused(Train { segments: vec![segment(10, 0, 5, -1)] }, "a packet of 0 bytes");
        refused(Train { segments: vec![segment(2, -1, 100, 0)] }, "negative");
        refused(Train { segments: vec![segment(1000, 1_000_000, 100, 0)] }, "it lasts");
        refused(Train { segments: vec![segment(1, 0, 100, 0); 513] }, "513 segments");
    }
}
