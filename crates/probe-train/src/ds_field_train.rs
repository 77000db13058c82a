use crate::plan::{Train, TrainError};
use kumade_units::Time;
use serde::{Deserialize, Serialize};

/// A train whose packets have a DSCP (RFC 2474) and an ECN codepoint (RFC 3168) each, to see what a queue that it fills makes of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DsFieldTrain {
    /// When packets leave, and their sizes.
    pub train: Train,
    /// The octet of DSCP and ECN of each packet, in the order of sending: IPv4's Type of Service, IPv6's Traffic Class.
    pub ds_fields: Vec<u8>,
}

/// A packet of such a train as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DsFieldArrival {
    /// Its place in the train, counted from zero.
    pub index: u32,
    /// By the receiver's clock; none where the kernel gave no stamp of its own to this packet.
    pub received: Option<Time>,
    /// None where the receiver's system does not say.
    pub ds_field: Option<u8>,
}

/// What became of a packet of such a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DsFieldPacket {
    /// When it was to leave, by the sender's clock: before it waited in a queue of the sender's own interface. None where it did not leave.
    pub sent: Option<Time>,
    /// As it arrived; none where it did not.
    pub arrival: Option<DsFieldArrival>,
}

/// What became of such a train: its packets in the order of sending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DsFieldRecord {
    /// As many as were planned.
    pub packets: Vec<DsFieldPacket>,
}

impl DsFieldTrain {
    /// Whether a sender may send this: a plan that came from a peer is checked before anything is done with it.
    ///
    /// # Errors
    /// Names the limit that the plan exceeds.
    pub fn check(&self) -> Result<(), TrainError> {
        self.train.check(Train::MAX_PACKET_BYTES)?;
        let (packets, fields) = (self.train.packet_count(), self.ds_fields.len());
        match fields == packets as usize {
            true => Ok(()),
            false => Err(TrainError::new(format!("{packets} packets, and DSCP and ECN of {fields}"))),
        }
    }
}

impl DsFieldRecord {
    /// Of a train of so many packets, with what each end knows: the place and time of packets that left, and those that arrived.
    pub fn new(packets: usize, departures: impl IntoIterator<Item = (u32, Time)>, arrivals: &[DsFieldArrival]) -> Self {
        let mut record = DsFieldRecord { packets: vec![DsFieldPacket::default(); packets] };
        for (index, sent) in departures {
            if let Some(packet) = record.packets.get_mut(index as usize) {
                packet.sent = Some(sent);
            }
        }
        for arrival in arrivals {
            // What has not left does not arrive.
            if let Some(packet) = record.packets.get_mut(arrival.index as usize).filter(|packet| packet.sent.is_some())
            {
                packet.arrival = Some(*arrival);
            }
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Segment;
    use kumade_units::Span;

    #[test]
    fn a_train_needs_a_field_for_each_packet_and_keeps_the_limits_of_others() {
        let segment = Segment { count: 3, interval: Span::from_micros(9), first_size: 500, size_step: 0 };
        let train =
            |segment, fields| DsFieldTrain { train: Train { segments: vec![segment] }, ds_fields: vec![1; fields] };
        assert_eq!(train(segment, 3).check(), Ok(()));
        assert!(train(segment, 2).check().unwrap_err().to_string().contains("3 packets, and DSCP and ECN of 2"));
        assert!(train(segment, 4).check().is_err());
        let count = Train::MAX_PACKETS + 1;
        assert!(train(Segment { count, ..segment }, count as usize).check().is_err());
        assert!(train(Segment { first_size: 9001, ..segment }, 3).check().is_err());
    }

    #[test]
    fn what_a_peer_says_of_packets_that_were_not_sent_counts_for_nothing() {
        let arrival = |index| DsFieldArrival { index, received: None, ds_field: Some(3) };
        let record =
            DsFieldRecord::new(2, [(1, Time::ZERO), (7, Time::ZERO)], &[arrival(0), arrival(1), arrival(u32::MAX)]);
        let kept = DsFieldPacket { sent: Some(Time::ZERO), arrival: Some(arrival(1)) };
        assert_eq!(record.packets, [DsFieldPacket::default(), kept]);
    }
}
