use serde::{Deserialize, Serialize};
use thiserror::Error;
use units::Span;

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

/// A plan that no transport can or may send.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("train refused: {0}")]
pub struct TrainError(String);

impl Train {
    /// No packet of a train is larger, in bytes of the IP packet: beyond the first hop nobody promises more than
    /// Ethernet's size, and a too large packet would vanish or be cut up.
    pub const MAX_PACKET: u32 = 1500;
    /// More packets than this are never sent in one train.
    pub const MAX_PACKETS: u32 = 10_000;
    /// No train has more segments.
    pub const MAX_SEGMENTS: usize = 512;
    /// No train lasts longer than this.
    pub const MAX_DURATION: Span = Span::from_secs(30);

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
    pub fn count(&self) -> u32 {
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
        if !(1..=Self::MAX_PACKETS).contains(&self.count()) {
            return refuse(format!("{} packets, allowed are 1 to {}", self.count(), Self::MAX_PACKETS));
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
