use crate::plan::{Segment, Train, TrainError};
use kumade_units::Span;
use serde::{Deserialize, Serialize};

/// What a small packet carries in its IP header, to see what becomes of it on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// The octet of DSCP (RFC 2474) and ECN (RFC 3168): IPv4's Type of Service, IPv6's Traffic Class.
    pub ds_field: u8,
    /// TTL or hop limit; none for that which the sender's system uses.
    pub hop_limit: Option<u8>,
}

/// Small packets, each with a mark of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MarkedTrain {
    /// From each packet to the next.
    pub interval: Span,
    /// In the order of sending.
    pub marks: Vec<Mark>,
}

/// A packet of a marked train as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedArrival {
    /// Its place in the train, counted from zero.
    pub index: u32,
    /// None where the receiver's system does not say.
    pub ds_field: Option<u8>,
    /// None where the receiver's system does not say.
    pub hop_limit: Option<u8>,
}

/// What became of a marked train.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MarkedRecord {
    /// The places of the packets that left.
    pub sent: Vec<u32>,
    /// Those that arrived.
    pub arrivals: Vec<MarkedArrival>,
}

impl MarkedTrain {
    /// More packets are never sent in one marked train.
    pub const MAX_PACKETS: usize = 512;
    /// No marked train lasts longer.
    pub const MAX_DURATION: Span = Span::from_secs(5);
    /// What each packet is counted as, in bytes: the IP and UDP headers with IPv6, and what tells the packet from others.
    pub const PACKET_BYTES: u32 = 72;

    /// From the first packet to the last.
    pub fn duration(&self) -> Span {
        self.interval * (self.marks.len() as i64 - 1).max(0)
    }

    /// When this packet leaves, counted from the first.
    pub fn offset(&self, index: usize) -> Span {
        self.interval * index as i64
    }

    /// The same without marks, by which it is counted.
    pub fn unmarked(&self) -> Train {
        let count = self.marks.len() as u32;
        Train {
            segments: vec![Segment {
                count,
                interval: self.interval,
                first_size: MarkedTrain::PACKET_BYTES,
                size_step: 0,
            }],
        }
    }

    /// Whether a sender may send this: a plan that came from a peer is checked before anything is done with it.
    ///
    /// # Errors
    /// Names the limit that the plan exceeds.
    pub fn check(&self) -> Result<(), TrainError> {
        let (count, limit) = (self.marks.len(), Self::MAX_PACKETS);
        if !(1..=limit).contains(&count) {
            return Err(TrainError::new(format!("{count} marked packets, allowed are 1 to {limit}")));
        }
        // The interval first: a duration of any interval might overflow.
        if !(Span::ZERO..=Self::MAX_DURATION).contains(&self.interval) || self.duration() > Self::MAX_DURATION {
            let limit = Self::MAX_DURATION;
            return Err(TrainError::new(format!("marked packets for longer than {limit}, or at a negative interval")));
        }
        match self.marks.iter().any(|mark| mark.hop_limit == Some(0)) {
            true => Err(TrainError::new("a hop limit of zero, with which no packet leaves".to_owned())),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(count: usize, interval: Span) -> MarkedTrain {
        MarkedTrain { interval, marks: vec![Mark { ds_field: 2, hop_limit: None }; count] }
    }

    #[test]
    fn a_train_beyond_a_limit_is_refused() {
        assert_eq!(train(512, Span::from_millis(5)).check(), Ok(()));
        for refused in [
            train(0, Span::ZERO),
            train(513, Span::ZERO),
            train(512, Span::from_millis(10)),
            train(2, Span::MAX),
            train(2, Span::from_nanos(-1)),
            MarkedTrain { interval: Span::ZERO, marks: vec![Mark { ds_field: 0, hop_limit: Some(0) }] },
        ] {
            assert!(refused.check().is_err(), "{refused:?}");
        }
    }

    #[test]
    fn it_is_counted_as_a_train_of_as_many_packets() {
        let marked = train(7, Span::from_millis(2));
        let counted = marked.unmarked();
        assert_eq!((counted.packet_count(), counted.duration()), (7, marked.duration()));
        assert_eq!(counted.bytes(), 7 * u64::from(MarkedTrain::PACKET_BYTES));
        assert_eq!(marked.offset(6), marked.duration());
    }
}
