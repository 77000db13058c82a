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

/// No more of a train's packets overtake others in one queue for all, whatever stamps are worth.
const MAX_OVERTAKING: f64 = 0.05;

impl TrainRecord {
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

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

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
