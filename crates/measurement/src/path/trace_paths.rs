//! Which routers each flow has met, where a load balancer spreads flows over several paths, and how sure it is that all of these are known.
//!
//! Veitch, Augustin, Teixeira, Friedman 2009, "Failure control in multipath route tracing".

use crate::report::TraceMemberReport;
use kumade_probe_train::HopTrace;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// With what probability one more router is to be seen, if it takes as many flows as each of the others at its hop.
const MIN_CONFIDENCE: f64 = 0.95;

/// The probability that so many flows, of which each takes any of `members` routers alike, meet all of these (inclusion and exclusion).
fn coverage(members: u32, flows: u32) -> f64 {
    if flows < members {
        return 0.0;
    }
    let members = f64::from(members);
    let (mut sum, mut binomial, mut missed) = (1.0, 1.0, 1.0);
    while missed < members {
        binomial *= -(members - missed + 1.0) / missed;
        sum += binomial * (1.0 - missed / members).powf(f64::from(flows));
        missed += 1.0;
    }
    sum.clamp(0.0, 1.0)
}

/// With what probability one router more than `found` would have been seen by so many flows.
pub(super) fn confidence(found: u32, flows: u32) -> f64 {
    coverage(found + 1, flows)
}

/// Flows to be sent to a hop at which so many routers have been found.
pub(super) fn needed_flows(found: u32) -> u8 {
    if found == 0 {
        return 1;
    }
    let is_enough = |flows: &u8| confidence(found, (*flows).into()) >= MIN_CONFIDENCE;
    (1..HopTrace::MAX_FLOWS).find(is_enough).unwrap_or(HopTrace::MAX_FLOWS)
}

/// By hop, from the first one on: who has answered.
type Route = Vec<Option<IpAddr>>;

/// Flows that met the same routers, as far as these have answered; the one with most flows first. A flow that may belong to several, as those answered
/// it by whom it differs from none, counts for none.
pub(super) fn members(flows: &BTreeMap<u8, Route>) -> Vec<TraceMemberReport> {
    let mut routes: Vec<&Route> = flows.values().filter(|route| route.iter().any(Option::is_some)).collect();
    routes.sort_by_key(|route| route.iter().filter(|hop| hop.is_none()).count());
    let mut found: Vec<(u32, Route)> = Vec::new();
    for route in routes {
        let is_same = |known: &Route| {
            known.iter().zip(route).all(|(one, other)| one.is_none() || other.is_none() || one == other)
        };
        let mut same: Vec<_> = found.iter_mut().filter(|(_, known)| is_same(known)).collect();
        match &mut same[..] {
            [] => found.push((1, route.clone())),
            [(count, known)] => {
                *count += 1;
                known.iter_mut().zip(route).for_each(|(one, other)| *one = one.or(*other));
            }
            _ => {}
        }
    }
    found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let address = |hop: &Option<IpAddr>| hop.map(|ip| ip.to_string());
    found
        .iter()
        .map(|(flows, route)| TraceMemberReport { flows: *flows, addresses: route.iter().map(address).collect() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn as_many_flows_are_sent_as_are_published() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(needed_flows), [1, 6, 11, 16, 21, 27]);
        assert_eq!(needed_flows(9), HopTrace::MAX_FLOWS);
        assert!(confidence(9, 27) < MIN_CONFIDENCE);
        assert_eq!((confidence(1, 1), confidence(3, 2), confidence(0, 1)), (0.0, 0.0, 1.0));
    }

    /// Of 4000 draws, all routers are met as often as is said, within four standard deviations.
    #[test]
    fn the_confidence_is_the_frequency_with_which_all_are_met() {
        let (draws, mut random) = (4000, Pcg64Mcg::seed_from_u64(44));
        for (members, flows) in [(2, 3), (2, 6), (3, 11), (4, 9), (6, 27)] {
            let mut met_all = 0;
            for _ in 0..draws {
                let met: std::collections::BTreeSet<u32> =
                    (0..flows).map(|_| random.random_range(0..members)).collect();
                met_all += u32::from(met.len() == members as usize);
            }
            let (expected, seen) = (confidence(members - 1, flows), f64::from(met_all) / f64::from(draws));
            let deviation = (expected * (1.0 - expected) / f64::from(draws)).sqrt();
            assert!((expected - seen).abs() <= 4.0 * deviation, "{members} routers, {flows} flows: {expected} {seen}");
        }
    }

    fn found(routes: &[&[u8]]) -> Vec<(u32, Vec<u8>)> {
        let hop = |octet: &u8| (*octet > 0).then(|| IpAddr::from([10, 0, 0, *octet]));
        let flows = (0..).zip(routes).map(|(flow, route)| (flow, route.iter().map(hop).collect())).collect();
        let octet =
            |text: &Option<String>| text.as_ref().map_or(0, |ip| ip.rsplit('.').next().unwrap().parse().unwrap());
        members(&flows).iter().map(|member| (member.flows, member.addresses.iter().map(octet).collect())).collect()
    }

    #[test]
    fn flows_with_the_same_routers_are_of_one_member_and_those_of_which_that_is_not_known_of_none() {
        assert_eq!(found(&[&[1, 2, 4], &[1, 3, 4], &[1, 2, 4]]), [(2, vec![1, 2, 4]), (1, vec![1, 3, 4])]);
        // A router limits how often it answers.
        assert_eq!(found(&[&[1, 2, 0], &[0, 3, 4], &[0, 2, 4]]), [(2, vec![1, 2, 4]), (1, vec![0, 3, 4])]);
        assert_eq!(found(&[&[1, 2], &[1, 3], &[1, 0]]), [(1, vec![1, 2]), (1, vec![1, 3])]);
        assert_eq!(found(&[&[0, 0], &[0, 0]]), []);
    }
}
