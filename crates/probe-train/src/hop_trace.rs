use crate::marked::MarkedTrain;
use crate::plan::{Segment, Train, TrainError};
use kumade_units::Span;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Packets whose TTL or hop limit ends on the way, so that routers answer.
///
/// Those of one flow have the same addresses and ports, so that load balancers send them the same way (Augustin et al. 2006, "Avoiding traceroute
/// anomalies with Paris traceroute"). Of each flow, one is on its way at a time: the next one is sent when it has been answered, or its time is
/// over. So an answer that quotes too little of a packet to tell which it was is of that which its flow has sent last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopTrace {
    /// The octet of DSCP (RFC 2474) and ECN (RFC 3168) of all packets.
    pub ds_field: u8,
    /// In the order of sending.
    pub probes: Vec<HopProbe>,
    /// How long an answer is waited for.
    pub timeout: Span,
    /// After that, no packet is sent any more.
    pub max_duration: Span,
}

/// A packet of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopProbe {
    /// The number of its flow: zero is the measurement's own one.
    pub flow: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
}

/// What a router said of a packet of a trace: ICMP (RFC 792) or ICMPv6 (RFC 4443).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopAnswer {
    /// The packet's place in the trace, counted from zero.
    pub index: u32,
    /// Who answered; none where the system does not say, or where the answer quotes too little to show that the packet came there.
    pub from: Option<IpAddr>,
    /// Whether it is ICMPv6.
    pub is_v6: bool,
    /// The type.
    pub icmp_type: u8,
    /// The code.
    pub icmp_code: u8,
    /// From the packet's sending to the answer.
    pub round_trip: Span,
    /// DSCP and ECN of the packet as it came to the router, which quotes its header; none where that cannot be read.
    pub quoted_ds_field: Option<u8>,
}

/// What became of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HopTraceRecord {
    /// The places of the packets that left.
    pub sent: Vec<u32>,
    /// One for each packet at most: the first.
    pub answers: Vec<HopAnswer>,
    /// Whether this process may read what answers quote of headers.
    pub can_read_quotes: bool,
}

impl HopTrace {
    /// More packets are never sent in one trace.
    pub const MAX_PROBES: usize = 512;
    /// Flows of a trace, the measurement's own one included: enough to find five routers of equal share at a hop with 95 % confidence (Veitch,
    /// Augustin, Teixeira, Friedman 2009, "Failure control in multipath route tracing": 27 flows).
    pub const MAX_FLOWS: u8 = 27;
    /// No trace lasts longer, and no answer is waited for longer.
    pub const MAX_DURATION: Span = Span::from_secs(5);

    /// Packets that are on their way at once: those that follow one another with the same hop limit, each of another flow.
    pub fn groups(&self) -> impl Iterator<Item = &[HopProbe]> {
        self.probes.chunk_by(|one, next| one.hop_limit == next.hop_limit && one.flow < next.flow)
    }

    /// A train of as many packets, by which it is counted.
    pub fn counted_train(&self) -> Train {
        let (count, first_size) = (self.probes.len() as u32, MarkedTrain::PACKET_BYTES);
        Train { segments: vec![Segment { count, interval: Span::ZERO, first_size, size_step: 0 }] }
    }

    /// Whether a sender may send this: a plan that came from a peer is checked before anything is done with it.
    ///
    /// # Errors
    /// Names the limit that the plan exceeds.
    pub fn check(&self) -> Result<(), TrainError> {
        let (count, limit) = (self.probes.len(), Self::MAX_PROBES);
        if !(1..=limit).contains(&count) {
            return Err(TrainError::new(format!("{count} packets for routers, allowed are 1 to {limit}")));
        }
        if self.probes.iter().any(|probe| probe.flow >= Self::MAX_FLOWS) {
            return Err(TrainError::new(format!("packets for routers of more flows than {}", Self::MAX_FLOWS)));
        }
        if self.probes.iter().any(|probe| probe.hop_limit == 0) {
            return Err(TrainError::new("a hop limit of zero, with which no packet leaves".to_owned()));
        }
        let allowed = Span::ZERO..=Self::MAX_DURATION;
        match allowed.contains(&self.timeout) && allowed.contains(&self.max_duration) {
            true => Ok(()),
            false => Err(TrainError::new(format!("a trace that lasts longer than {}", Self::MAX_DURATION))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(probes: &[(u8, u8)]) -> HopTrace {
        let probes = probes.iter().map(|(flow, hop_limit)| HopProbe { flow: *flow, hop_limit: *hop_limit }).collect();
        HopTrace { ds_field: 0, probes, timeout: Span::from_millis(1), max_duration: Span::from_secs(5) }
    }

    #[test]
    fn packets_of_one_hop_limit_and_different_flows_are_on_their_way_at_once() {
        let trace = trace(&[(0, 1), (1, 1), (0, 2), (0, 2), (3, 2), (2, 2)]);
        assert_eq!(trace.groups().map(<[_]>::len).collect::<Vec<_>>(), [2, 1, 2, 1]);
    }

    #[test]
    fn a_trace_beyond_a_limit_is_refused() {
        assert_eq!(trace(&[(26, 255); 512]).check(), Ok(()));
        for refused in [
            trace(&[]),
            trace(&[(0, 1); 513]),
            trace(&[(27, 1)]),
            trace(&[(0, 0)]),
            HopTrace { timeout: Span::from_nanos(-1), ..trace(&[(0, 1)]) },
            HopTrace { max_duration: Span::MAX, ..trace(&[(0, 1)]) },
        ] {
            assert!(refused.check().is_err(), "{refused:?}");
        }
    }
}
