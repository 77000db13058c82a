use crate::random::mix;
use std::f64::consts::LN_2;
use units::{Span, Time};

/// How much each flow has sent lately, for a bounded number of flows: a cache of small sets, in which a new flow takes
/// the place of the one of its set that sends least.
#[derive(Debug)]
pub(super) struct FlowRates {
    entries: Vec<FlowRate>,
    window: Span,
    seed: u64,
}

/// One flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowRate {
    flow: u64,
    last: Time,
    /// Bytes that arrived, each counting half as much for every half-life since: at a steady rate, those of a window.
    pub bytes: f64,
    /// Bytes that it owes to a discipline which charges flows.
    pub charge: f64,
}

/// Entries that are searched for a flow.
const WAYS: usize = 8;
/// Of so many packets of new flows one takes another flow's place.
const NEWCOMERS: u64 = 8;

impl FlowRates {
    pub(super) fn new(flows: u32, window: Span, seed: u64) -> Self {
        let sets = (flows as usize).div_ceil(WAYS).next_power_of_two();
        let unused = FlowRate { flow: 0, last: Time::ZERO, bytes: 0.0, charge: 0.0 };
        FlowRates { entries: vec![unused; sets * WAYS], window, seed }
    }

    /// Flows that have sent something within the last window.
    pub(super) fn active(&self, now: Time) -> usize {
        self.entries.iter().filter(|entry| entry.bytes > 0.0 && now - entry.last < self.window).count()
    }

    /// With so many active flows, there may be others that found no place.
    pub(super) fn most(&self) -> usize {
        self.entries.len() / 2
    }

    /// Counts a packet, and gives its flow's entry; none if there are others enough to follow.
    pub(super) fn arrival(&mut self, flow: u64, size: u32, now: Time) -> Option<&mut FlowRate> {
        let sets = self.entries.len() / WAYS;
        let first = (mix(flow ^ self.seed) as usize & (sets - 1)) * WAYS;
        let set = &mut self.entries[first..first + WAYS];
        let place = match set.iter().position(|entry| entry.flow == flow && entry.bytes > 0.0) {
            Some(place) => place,
            None => {
                let bytes = |entry: &FlowRate| entry.bytes * decay(now - entry.last, self.window);
                let least = (0..WAYS).min_by(|a, b| bytes(&set[*a]).total_cmp(&bytes(&set[*b])))?;
                // Flows of one packet each would drive out every other before its second, were they all let in.
                let chance = mix(flow ^ self.seed ^ now.as_nanos() as u64);
                if bytes(&set[least]) >= 1.0 && !chance.is_multiple_of(NEWCOMERS) {
                    return None;
                }
                set[least] = FlowRate { flow, last: now, bytes: 0.0, charge: 0.0 };
                least
            }
        };
        let entry = &mut set[place];
        entry.bytes = entry.bytes * decay(now - entry.last, self.window) + f64::from(size);
        entry.last = now;
        Some(entry)
    }
}

/// What remains after `age`: e^(−age/window), by halves and a polynomial between them, which is the same on every
/// machine.
fn decay(age: Span, window: Span) -> f64 {
    let half_lives = age.as_nanos().max(0) as f64 / (window.as_nanos() as f64 * LN_2);
    if half_lives >= 63.0 {
        return 0.0;
    }
    let whole = half_lives as u32;
    let rest = (half_lives - f64::from(whole)) * LN_2;
    // Taylor's series; the next term would be 8e-6.
    let rest = 1.0
        - rest * (1.0 - rest / 2.0 * (1.0 - rest / 3.0 * (1.0 - rest / 4.0 * (1.0 - rest / 5.0 * (1.0 - rest / 6.0)))));
    rest / (1u64 << whole) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Span = Span::from_millis(500);

    fn rates(flows: u32) -> FlowRates {
        FlowRates::new(flows, WINDOW, 1)
    }

    #[test]
    fn at_a_steady_rate_it_counts_the_bytes_of_a_window() {
        let mut rates = rates(64);
        let bytes = (0..10_000).map(|milli| {
            let now = Time::from_nanos(milli * 1_000_000);
            rates.arrival(2, 300, now);
            rates.arrival(1, 1000, now).unwrap().bytes
        });
        let last = bytes.last().unwrap_or_default();
        assert!((500e3..502e3).contains(&last), "{last}");
    }

    #[test]
    fn the_flows_that_send_most_are_remembered() {
        let mut rates = rates(8);
        for packet in 0..10_000u64 {
            let now = Time::from_nanos(packet as i64 * 100_000);
            // Half of the traffic is of seven flows, the other of ever new ones.
            rates.arrival(packet % 7, 1000, now);
            rates.arrival(1000 + packet, 1000, now);
        }
        let now = Time::from_nanos(1_000_000_000);
        assert!((0..7).all(|flow| rates.arrival(flow, 0, now).is_some_and(|entry| entry.bytes > 300e3)));
        assert_eq!(rates.entries.len(), 8);
    }

    proptest! {
        #[test]
        fn memory_fades_exponentially(first in 0i64..1 << 40, more in 0i64..1 << 40) {
            let (young, old) = (Span::from_nanos(first), Span::from_nanos(first + more));
            prop_assert!(decay(old, WINDOW) <= decay(young, WINDOW) * (1.0 + 1e-5));
            let curve = (-young.as_secs_f64() / WINDOW.as_secs_f64()).exp();
            prop_assert!((decay(young, WINDOW) - curve).abs() <= 1e-4 * curve + 1e-18);
        }
    }
}
