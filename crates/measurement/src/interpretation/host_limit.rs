//! Over connections, each packet passes the stacks of both hosts by itself. Where packets follow each other as fast as hosts may take for that, it
//! is not told whether a link or a host sets their pace: stamps of the receiver are taken when its stack gets to a packet.

use kumade_estimate::{Bound, BoundKind, Outcome, Reason};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// A packet takes hosts so long at most. Behind emulated links of 5 and 10 Gbit/s on a virtual machine with two cores, packets of trains arrived every
/// 4 to 10 µs.
const MAX_HOST_TIME_PER_PACKET: Span = Span::from_micros(11);

/// The outcome of trains over connections, of packets of so many bytes: where hosts may be the limit, what it claims at least.
pub(crate) fn refuse_host_limited_rate(packet_bytes: u32, outcome: Outcome) -> Outcome {
    let is_of_hosts = |found: &Estimate<Rate>| found.value.time_for(packet_bytes.into()) < MAX_HOST_TIME_PER_PACKET;
    let Some(found) = outcome.available.filter(|found| found.confidence > 0.0 && is_of_hosts(found)) else {
        return outcome;
    };
    let pace = found.value.time_for(packet_bytes.into());
    let reason = Some(Reason::HostPace(found.value, pace));
    let bound = (found.low > Rate::ZERO).then_some(Bound::AtLeast(found.low, BoundKind::Host));
    Outcome { available: None, bound, reason, spread: None, capacity: None, ..outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(value: u64) -> Outcome {
        let [low, value, high] = [value * 9 / 10, value, value * 11 / 10].map(Rate::from_mbit);
        let available = Some(Estimate { value, low, high, confidence: 0.95 });
        Outcome { available, reason: None, ..Outcome::without_value(Reason::NoPacketArrived) }
    }

    /// Behind the kernel's HTB at 5 Gbit/s, 0.8 to 1.5 Gbit/s were said to be available where 3.5 were.
    #[test]
    fn at_a_pace_that_may_be_a_hosts_there_is_a_lower_bound_only() {
        let judged = refuse_host_limited_rate(1500, outcome(1300));
        assert_eq!(
            (judged.available, judged.bound),
            (None, Some(Bound::AtLeast(Rate::from_mbit(1170), BoundKind::Host)))
        );
        assert!(matches!(judged.reason, Some(Reason::HostPace(..))));
        assert_eq!(refuse_host_limited_rate(1500, outcome(1000)), outcome(1000));
        assert_eq!(refuse_host_limited_rate(9000, outcome(1300)), outcome(1300));
    }
}
