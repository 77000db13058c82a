use kumade_units::Time;

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
    pub first_arrivals: Vec<Option<Time>>,
    /// How many packets of the train there are up to the end of each.
    burst_ends: Vec<usize>,
}

impl JoinedBursts {
    /// How many bursts are wholly among the first `packets` packets of the train.
    pub fn whole_bursts_within(&self, packets: usize) -> usize {
        self.burst_ends.partition_point(|&end| end <= packets)
    }
}

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
            for packet in join_burst(burst) {
                joined.record.packets.push(packet);
                joined.burst_ends.push(end);
                let head = burst.iter().filter_map(|packet| packet.received).min();
                joined.first_arrivals.push(packet.received.and(head));
            }
        }
        joined
    }
}

/// One packet of those of a burst that arrived, and one of those that did not, if there are any of either.
fn join_burst(burst: &[PacketRecord]) -> impl Iterator<Item = PacketRecord> {
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
    use kumade_units::Span;

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
            assert_eq!(record.with_bursts_joined().whole_bursts_within(mark), joined, "{mark}");
        }
        let joined = record.with_bursts_joined();
        assert_eq!(joined.record.packets, expected);
        assert_eq!(joined.first_arrivals, [Some(10), Some(13), None, Some(20), Some(22), None].map(at));
        assert_eq!(joined.record.with_bursts_joined().record, joined.record);
    }
}
