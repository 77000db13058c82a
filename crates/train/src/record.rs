use units::Time;

/// What became of one packet. The two stamps come from two clocks: only their *changes* may be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// Bytes of the IP packet as sent.
    pub size: u32,
    /// When it left the sender, by the sender's clock; none where it was never sent or its stamp was lost.
    pub sent: Option<Time>,
    /// When the sender's program gave it to the kernel, by the same clock: it left no earlier, and the kernel stamps it late where
    /// the host is busy. None where that is unknown.
    pub submitted: Option<Time>,
    /// When it reached the receiver, by the receiver's clock; none where it was lost or its stamp was.
    pub received: Option<Time>,
}

/// What became of one train, packet by packet in the order of sending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrainRecord {
    /// One for each packet of the plan.
    pub packets: Vec<PacketRecord>,
}

/// A train with each burst as one packet: see [`TrainRecord::with_bursts_joined`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JoinedBursts {
    /// The bursts, and the packets that were sent by themselves.
    pub record: TrainRecord,
    /// When the first packet of each arrived: its own arrival for a packet that was sent by itself, none where it was lost.
    pub heads: Vec<Option<Time>>,
    /// How many packets of the train there are up to the end of each.
    ends: Vec<usize>,
}

impl JoinedBursts {
    /// How many bursts are wholly among the first `packets` packets of the train.
    pub fn within(&self, packets: usize) -> usize {
        self.ends.partition_point(|&end| end <= packets)
    }
}

/// No more of a train's packets overtake others in one queue for all, whatever stamps are worth.
const MAX_OVERTAKING: f64 = 0.05;

impl TrainRecord {
    /// The train with each burst as one packet. A burst is packets with one and the same time of sending, since the kernel took
    /// them at once and stamps them once. It is as large as they are together, and has arrived when all of them have; those that were
    /// lost count as one more packet, sent at the same time.
    ///
    /// Within a burst nothing tells how far apart the sender's device let the packets leave, nor how far apart the receiver's
    /// device reports them. At the edges the rates are true. A train without bursts is left as it is.
    pub fn with_bursts_joined(&self) -> JoinedBursts {
        let is_burst = |one: &PacketRecord, next: &PacketRecord| one.sent.is_some() && one.sent == next.sent;
        let mut joined = JoinedBursts::default();
        let mut end = 0;
        for burst in self.packets.chunk_by(is_burst) {
            end += burst.len();
            for packet in join(burst) {
                joined.record.packets.push(packet);
                joined.ends.push(end);
                let head = burst.iter().filter_map(|packet| packet.received).min();
                joined.heads.push(packet.received.and(head));
            }
        }
        joined
    }

    /// Whether many packets arrived before others that were sent earlier. Those of one flow hardly do so; those of several do where
    /// each has a queue of its own, or a path.
    pub fn is_disordered(&self) -> bool {
        self.overtaking() > MAX_OVERTAKING
    }

    /// Which part of the packets that arrived did so before one that was sent earlier, by more than half the mean time between
    /// arrivals.
    fn overtaking(&self) -> f64 {
        let arrivals: Vec<Time> = self.packets.iter().filter_map(|packet| packet.received).collect();
        let (Some(first), Some(last)) = (arrivals.iter().min(), arrivals.iter().max()) else { return 0.0 };
        let margin = (*last - *first) / (2 * arrivals.len() as i64);
        let mut latest = *first;
        let mut overtaking = 0;
        for time in &arrivals {
            latest = latest.max(*time);
            overtaking += usize::from(*time < latest - margin);
        }
        overtaking as f64 / arrivals.len() as f64
    }
}

/// One packet of those of a burst that arrived, and one of those that did not, if there are any of either.
fn join(burst: &[PacketRecord]) -> impl Iterator<Item = PacketRecord> {
    let part = |has_arrived: bool| {
        let mut packets = burst.iter().filter(move |packet| packet.received.is_some() == has_arrived);
        let first = *packets.next()?;
        let (size, received) = packets.fold((first.size, first.received), |(size, received), packet| {
            (size.saturating_add(packet.size), received.max(packet.received))
        });
        Some(PacketRecord { size, received, ..first })
    };
    [part(true), part(false)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    #[test]
    fn bursts_are_joined_to_packets_that_arrive_with_their_last() {
        let at = |micros: Option<i64>| micros.map(|micros| Time::ZERO + Span::from_micros(micros));
        let packet =
            |size, sent, received| PacketRecord { size, sent: at(sent), submitted: None, received: at(received) };
        let record = TrainRecord {
            packets: vec![
                packet(100, Some(0), Some(10)),
                packet(100, Some(0), Some(12)),
                packet(100, Some(5), Some(14)),
                packet(100, Some(5), None),
                packet(100, Some(5), Some(13)),
                packet(100, None, Some(20)),
                packet(100, None, Some(22)),
                packet(50, Some(9), None),
            ],
        };
        let expected = vec![
            packet(200, Some(0), Some(12)),
            packet(200, Some(5), Some(14)),
            packet(100, Some(5), None),
            packet(100, None, Some(20)),
            packet(100, None, Some(22)),
            packet(50, Some(9), None),
        ];
        for (mark, joined) in [(0, 0), (1, 0), (2, 1), (4, 1), (5, 3), (8, 6)] {
            assert_eq!(record.with_bursts_joined().within(mark), joined, "{mark}");
        }
        let joined = record.with_bursts_joined();
        assert_eq!(joined.record.packets, expected);
        assert_eq!(joined.heads, [Some(10), Some(13), None, Some(20), Some(22), None].map(at));
        assert_eq!(joined.record.with_bursts_joined().record, joined.record);
    }

    #[test]
    fn packets_that_arrive_before_earlier_ones_overtake_them() {
        let overtaking = |millis: &[Option<i64>]| {
            let received = |millis: &i64| Time::ZERO + Span::from_millis(*millis);
            let packet = |at: &Option<i64>| PacketRecord {
                size: 1500,
                sent: None,
                submitted: None,
                received: at.as_ref().map(received),
            };
            TrainRecord { packets: millis.iter().map(packet).collect() }.overtaking()
        };
        assert_eq!(overtaking(&[Some(1), Some(2), None, Some(4), Some(5)]), 0.0);
        // The fourth packet that arrives overtakes one, the third; a little later than it is nothing.
        assert_eq!(overtaking(&[Some(10), Some(20), Some(40), None, Some(30)]), 0.25);
        assert_eq!(overtaking(&[Some(100), Some(200), Some(199), Some(300)]), 0.0);
        assert_eq!((overtaking(&[]), overtaking(&[None, Some(1)])), (0.0, 0.0));
    }
}
