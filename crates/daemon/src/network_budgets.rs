use crate::network::Network;
use kumade_units::{Span, Time, TokenBucket};
use std::collections::BTreeMap;

/// Maximum number of networks that are told apart; beyond it, those that have spent least are forgotten.
const MAX_NETWORKS: usize = 1024;

/// How much of something strangers may cause: a budget of time for each network: a token bucket.
///
/// **Contract.** Pure: times come in, on a clock that never goes back.
#[derive(Debug)]
pub struct NetworkBudgets {
    /// How much may be spent at once.
    burst: Span,
    buckets: BTreeMap<Network, TokenBucket>,
}

impl NetworkBudgets {
    /// Budgets of which `burst` may be spent at once.
    pub fn new(burst: Span) -> Self {
        NetworkBudgets { burst, buckets: BTreeMap::new() }
    }

    /// Whether a network has spent its own.
    pub fn is_spent(&self, network: Network, now: Time) -> bool {
        self.buckets.get(&network).is_some_and(|bucket| bucket.missing(now) > self.burst)
    }

    /// Spends so much, also where there is less.
    pub fn charge(&mut self, network: Network, cost: Span, now: Time) {
        self.buckets.entry(network).or_insert(TokenBucket::FULL).charge(cost, now);
        if self.buckets.len() > MAX_NETWORKS {
            self.buckets.retain(|_, bucket| bucket.missing(now) > Span::ZERO);
        }
        let least = || self.buckets.iter().min_by_key(|(_, bucket)| bucket.missing(now)).map(|(network, _)| *network);
        if self.buckets.len() > MAX_NETWORKS
            && let Some(least) = least()
        {
            self.buckets.remove(&least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn network(number: u32) -> Network {
        Network::containing(Ipv4Addr::from_bits(number << 8).into())
    }

    #[test]
    fn a_network_spends_its_burst_then_its_rate_and_takes_nothing_from_another() {
        let mut budgets = NetworkBudgets::new(Span::from_secs(10));
        let mut spent = 0;
        for step in 0..100_000 {
            let now = Time::ZERO + Span::from_millis(step);
            if !budgets.is_spent(network(1), now) {
                budgets.charge(network(1), Span::from_secs(1), now);
                spent += 1;
            }
        }
        assert!((109..=112).contains(&spent), "{spent} in 100 s");
        assert!(!budgets.is_spent(network(2), Time::ZERO + Span::from_secs(100)));
    }

    #[test]
    fn memory_is_bounded_and_who_spends_most_is_remembered() {
        let mut budgets = NetworkBudgets::new(Span::from_secs(1));
        budgets.charge(network(0), Span::from_secs(100), Time::ZERO);
        for number in 1..5000 {
            budgets.charge(network(number), Span::from_secs(1), Time::ZERO);
        }
        assert_eq!(budgets.buckets.len(), MAX_NETWORKS);
        assert!(budgets.is_spent(network(0), Time::ZERO));
    }
}
