//! A train for the connections of one link.

use super::EcmpLink;
use kumade_probe_train::{Segment, Train, TrainRecord, Transport};
use kumade_units::Span;

/// The smallest packets that every transport can send, in bytes.
const FILLER_BYTES: u32 = 64;

/// A train among whose packets are small ones, for the connections that take other links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EcmpTrainLayout {
    /// What is to be sent.
    pub(crate) train: Train,
    /// Where in it the packets of the train for one link are.
    packet_indices: Vec<usize>,
}

impl EcmpTrainLayout {
    /// The packets of `train`, at its times, on connections of the member. None where that exceeds what connections may carry, or
    /// a train may have.
    pub(crate) fn new(train: &Train, member: &EcmpLink) -> Option<Self> {
        let connections = member.connections.len();
        if member.connection_count() == 0 {
            return None;
        }
        let mut packets: Vec<(Span, u32)> = Vec::new();
        let mut places = Vec::new();
        let mut last = Span::ZERO;
        for planned in train.packets() {
            while !member.connections[packets.len() % connections] {
                packets.push((last, FILLER_BYTES));
            }
            places.push(packets.len());
            packets.push((planned.offset, planned.size));
            last = planned.offset;
        }
        let train = Train { segments: to_segments(&packets) };
        let fits = packets.len() <= connections * Transport::MAX_PACKETS_PER_CONNECTION as usize;
        (fits && train.check(Train::MAX_PACKET_BYTES).is_ok())
            .then_some(EcmpTrainLayout { train, packet_indices: places })
    }

    /// What became of the packets of the train for one link.
    pub(crate) fn select_record(&self, record: &TrainRecord) -> TrainRecord {
        TrainRecord {
            packets: self.packet_indices.iter().filter_map(|place| record.packets.get(*place).copied()).collect(),
        }
    }
}

/// Packets at these offsets and of these sizes.
fn to_segments(packets: &[(Span, u32)]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (place, &(offset, first_size)) in packets.iter().enumerate() {
        let interval = packets.get(place + 1).map_or(Span::ZERO, |next| next.0 - offset);
        match segments.last_mut() {
            Some(last) if (last.interval, last.first_size) == (interval, first_size) => last.count += 1,
            _ => segments.push(Segment { count: 1, interval, first_size, size_step: 0 }),
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::PacketRecord;
    use kumade_units::Time;

    fn member(connections: &[bool]) -> EcmpLink {
        EcmpLink { connections: connections.to_vec(), extra_delay: Span::ZERO }
    }

    #[test]
    fn packets_keep_their_times_and_sizes_on_connections_of_the_member() {
        let interval = Span::from_micros(100);
        let train = Train { segments: vec![Segment { count: 4, interval, first_size: 1000, size_step: 10 }] };
        let layout = EcmpTrainLayout::new(&train, &member(&[false, true, true, false])).unwrap();
        let sent: Vec<_> = layout.train.packets().collect();
        let planned: Vec<_> = train.packets().collect();
        assert_eq!(layout.packet_indices, [1, 2, 5, 6]);
        let kept: Vec<_> = layout.packet_indices.iter().map(|place| sent[*place]).collect();
        assert_eq!(kept, planned);
        let others = sent.iter().enumerate().filter(|(place, _)| !layout.packet_indices.contains(place));
        assert!(others.clone().all(|(_, packet)| packet.size == FILLER_BYTES) && others.count() == 3);
        let received = |at: usize| Some(Time::from_nanos(at as i64));
        let record = |at: usize| PacketRecord { size: 64, sent: None, submitted: None, received: received(at) };
        let record = layout.select_record(&TrainRecord { packets: (0..7).map(record).collect() });
        let received: Vec<_> = record.packets.iter().map(|packet| packet.received.unwrap().as_nanos()).collect();
        assert_eq!(received, [1, 2, 5, 6]);
    }

    #[test]
    fn a_train_that_the_connections_may_not_carry_is_refused() {
        let train = |count| {
            let segment = Segment { count, interval: Span::ZERO, first_size: 1000, size_step: 0 };
            Train { segments: vec![segment] }
        };
        let one_of_four = member(&[false, false, true, false]);
        assert!(EcmpTrainLayout::new(&train(10), &one_of_four).is_some());
        assert_eq!(EcmpTrainLayout::new(&train(11), &one_of_four), None);
        assert_eq!(EcmpTrainLayout::new(&train(1), &member(&[false, false])), None);
    }
}
