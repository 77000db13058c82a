//! What a turn may use, and what is left of it.

use kumade_probe_train::{DsFieldTrain, HopTrace, Train};
use kumade_units::{Span, Time};
use kumade_wire::Limits;

/// Maximum number of bytes in a turn of packets with DSCPs of the client's choice: such packets may be treated better than those of others, by
/// this host's network too. A client plans 8 MB in each direction to tell queues apart (`kumade_measurement::path`); its marked packets come to less
/// than 0.3 MB.
const MAX_DSCP_BYTES: u64 = 20_000_000;
/// Maximum number of packets in a turn that end on the way to the client, so that routers answer. A client plans 1980 at most
/// (`kumade_measurement::path`: 66 to each of thirty routers).
pub(super) const MAX_HOP_PROBES: u32 = 2000;
/// No packet counts as less, in bytes: headers of IPv6 and UDP, and what tells it from others.
const MIN_COUNTED_BYTES: u64 = 64;

/// The reason for a refusal that ends the session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) String);

/// The remaining part of the limits.
pub(super) struct RemainingLimits {
    pub(super) bytes: u64,
    packets: u64,
    /// Of packets with a DSCP.
    dscp_bytes: u64,
    /// Packets that end on the way.
    hop_probes: u32,
    pub(super) end_time: Time,
    pub(super) limits: Limits,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Refusal(reason)
    }
}

impl RemainingLimits {
    /// Of a turn that begins now.
    pub(super) fn new(limits: Limits, now: Time) -> Self {
        let Limits { bytes, packets, turn, .. } = limits;
        let (dscp_bytes, hop_probes) = (MAX_DSCP_BYTES, MAX_HOP_PROBES);
        RemainingLimits { bytes, packets, dscp_bytes, hop_probes, end_time: now + turn, limits }
    }

    pub(super) fn deduct_train(&mut self, train: &Train, now: Time) -> Result<(), Refusal> {
        let refuse = |what: String| Err(Self::limit_exceeded(&what));
        self.check_time(train.duration(), now)?;
        let Some(packets) = self.packets.checked_sub(u64::from(train.packet_count())) else {
            return refuse(format!("the limit is {} packets", self.limits.packets));
        };
        let Some(bytes) = self.bytes.checked_sub(count_bytes(train)) else {
            return refuse(format!("the limit is {} bytes", self.limits.bytes));
        };
        (self.packets, self.bytes) = (packets, bytes);
        Ok(())
    }

    pub(super) fn deduct_dscp_bytes(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.dscp_bytes = self.dscp_bytes.checked_sub(bytes).ok_or_else(|| {
            Refusal(format!("the limit is {MAX_DSCP_BYTES} bytes of packets with a DSCP each per turn"))
        })?;
        Ok(())
    }

    /// Deducts the packets of a trace; false where no more than are left may be sent.
    pub(super) fn deduct_hop_probes(&mut self, trace: &HopTrace, now: Time) -> Result<bool, Refusal> {
        self.check_time(trace.max_duration, now)?;
        let left = self.hop_probes.checked_sub(trace.probes.len() as u32);
        self.hop_probes = left.unwrap_or(self.hop_probes);
        Ok(left.is_some())
    }

    /// Of a trace, so many packets were not sent.
    pub(super) fn refund_hop_probes(&mut self, unsent: usize) {
        self.hop_probes = (self.hop_probes + unsent as u32).min(MAX_HOP_PROBES);
    }

    pub(super) fn check_time(&self, duration: Span, now: Time) -> Result<(), Refusal> {
        if now + duration > self.end_time {
            Err(Self::limit_exceeded(&format!("the limit is {}", self.limits.turn)))
        } else {
            Ok(())
        }
    }

    fn limit_exceeded(limit: &str) -> Refusal {
        Refusal(format!("{limit} per turn: measure with a smaller budget"))
    }
}

/// What packets of a train are counted as that have another DSCP than zero.
pub(super) fn dscp_bytes(train: &DsFieldTrain) -> u64 {
    let octets = train.train.packets().zip(&train.ds_fields).filter(|(_, octet)| **octet >> 2 != 0);
    octets.map(|(packet, _)| u64::from(packet.size).max(MIN_COUNTED_BYTES)).sum()
}

/// What a train is counted as. Smaller packets are padded to the transport's minimum: what is sent counts.
pub(super) fn count_bytes(train: &Train) -> u64 {
    train.bytes().max(u64::from(train.packet_count()) * MIN_COUNTED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::{HopProbe, Segment};

    fn train(count: u32, interval: Span, size: u32) -> Train {
        Train { segments: vec![Segment { count, interval, first_size: size, size_step: 0 }] }
    }

    #[test]
    fn a_turn_ends_at_each_of_its_limits() {
        let limits = Limits { connections: 1, bytes: 10_000, packets: 20, turn: Span::from_secs(10) };
        let fresh = || RemainingLimits::new(limits, Time::ZERO);
        let refused = |remaining: &mut RemainingLimits, train: &Train, part: &str| {
            let Err(Refusal(why)) = remaining.deduct_train(train, Time::ZERO) else { panic!("granted") };
            assert!(why.contains(part), "{why}");
        };
        let mut remaining = fresh();
        assert_eq!(remaining.deduct_train(&train(10, Span::ZERO, 500), Time::ZERO), Ok(()));
        refused(&mut remaining, &train(10, Span::ZERO, 501), "10000 bytes");
        refused(&mut remaining, &train(11, Span::ZERO, 1), "20 packets");
        refused(&mut fresh(), &train(2, Span::from_secs(11), 100), "10 s");
        let mut remaining = RemainingLimits { bytes: 1000, ..fresh() };
        refused(&mut remaining, &train(20, Span::ZERO, 1), "bytes");
    }

    #[test]
    fn trains_with_dscps_have_a_limit_of_their_own_which_what_a_client_plans_keeps() {
        let limits = Limits { connections: 1, bytes: u64::MAX, packets: u64::MAX, turn: Span::from_secs(10) };
        let mut remaining = RemainingLimits::new(limits, Time::ZERO);
        // Queues of both directions.
        for _ in 0..2 * 8 {
            assert_eq!(remaining.deduct_dscp_bytes(1_000_000), Ok(()));
        }
        let refused = (0..5).filter_map(|_| remaining.deduct_dscp_bytes(1_000_000).err()).collect::<Vec<_>>();
        assert!(matches!(&refused[..], [Refusal(why)] if why.contains("20000000 bytes")), "{refused:?}");
        // ECN alone is nobody's privilege.
        let train = train(4, Span::ZERO, 1000);
        let ds_fields = vec![0b01, 0b10, 46 << 2, 46 << 2 | 0b11];
        assert_eq!(dscp_bytes(&DsFieldTrain { train, ds_fields }), 2000);
    }

    #[test]
    fn packets_for_routers_have_a_limit_of_their_own_which_what_a_client_plans_keeps() {
        let limits = Limits { connections: 1, bytes: 0, packets: 0, turn: Span::from_secs(10) };
        let mut remaining = RemainingLimits::new(limits, Time::ZERO);
        let trace = |probes, max_duration| HopTrace {
            ds_field: 0,
            probes: vec![HopProbe { flow: 0, hop_limit: 1 }; probes],
            timeout: Span::ZERO,
            max_duration,
        };
        let mut deduct = |probes| remaining.deduct_hop_probes(&trace(probes, Span::from_secs(1)), Time::ZERO);
        assert_eq!([1980, 21, 20, 1].map(&mut deduct), [Ok(true), Ok(false), Ok(true), Ok(false)]);
        remaining.refund_hop_probes(7);
        let mut deduct = |probes| remaining.deduct_hop_probes(&trace(probes, Span::from_secs(1)), Time::ZERO);
        assert_eq!([8, 7].map(&mut deduct), [Ok(false), Ok(true)]);
        let refused = remaining.deduct_hop_probes(&trace(1, Span::from_secs(11)), Time::ZERO);
        assert!(matches!(&refused, Err(Refusal(why)) if why.contains("10 s")), "{refused:?}");
    }
}
