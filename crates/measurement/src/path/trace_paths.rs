//! What is known of each flow at each hop, which paths flows take where a load balancer spreads them, and how sure it is that all of these are known.
//!
//! Flows are compared at hops that answered all of them, or showed several routers. What is different for two flows is a path of each only if a
//! flow that is asked again meets the same router again.
//!
//! Veitch, Augustin, Teixeira, Friedman 2009, "Failure control in multipath route tracing".

use crate::report::TracePathReport;
use kumade_probe_train::{HopAnswer, HopTrace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A packet that is not answered is sent again.
pub(super) const MAX_TRIES: u32 = 2;
/// Flows that are asked again at a hop where several routers answered: where each packet takes any of two alike, that shows with 98 % probability.
pub(super) const REPEATED_FLOWS: usize = 6;
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

/// What is known of a hop by one flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct FlowTally {
    pub(super) sent: u32,
    /// Of these, how many once the flow had been answered there.
    pub(super) repeats: u32,
    pub(super) answers: Vec<HopAnswer>,
}

impl FlowTally {
    /// Who has answered each of its packets, as far as that is known.
    fn routers(&self) -> impl Iterator<Item = IpAddr> {
        self.answers.iter().filter_map(|answer| answer.from)
    }

    fn router(&self) -> Option<IpAddr> {
        self.routers().next()
    }

    fn has_met_several(&self) -> bool {
        self.routers().any(|router| Some(router) != self.router())
    }

    fn has_met_one_twice(&self) -> bool {
        self.routers().count() > 1 && !self.has_met_several()
    }
}

/// What is known of a hop, by flow.
pub(super) type HopTally = BTreeMap<u8, FlowTally>;

/// Who has answered.
pub(super) fn routers_of(tally: &HopTally) -> BTreeSet<IpAddr> {
    tally.values().flat_map(FlowTally::routers).collect()
}

/// Whether some flow has met several routers at this hop.
pub(super) fn is_unsteady(tally: &HopTally) -> bool {
    tally.values().any(FlowTally::has_met_several)
}

/// Flows to be asked again, to see whether each meets the router again that it has met: those first that have met different ones. None where all
/// have met one.
pub(super) fn flows_to_repeat(tally: &HopTally) -> Vec<u8> {
    if routers_of(tally).len() < 2 {
        return Vec::new();
    }
    let mut met = BTreeSet::new();
    let rank = |(flow, known): (&u8, &FlowTally)| {
        let is_first = met.insert(known.router()?);
        // Who was asked again remains one of them.
        Some((known.repeats == 0, !is_first, *flow))
    };
    let mut ranked: Vec<_> = tally.iter().filter_map(rank).collect();
    ranked.sort_unstable();
    let is_open = |flow: &u8| tally.get(flow).is_some_and(|known| known.answers.len() < 2 && known.repeats < MAX_TRIES);
    ranked.into_iter().take(REPEATED_FLOWS).map(|(_, _, flow)| flow).filter(is_open).collect()
}

/// Whether flows were spread there, of which two at least have met the same router twice, each another one; or there is one router.
fn is_spread_by_flow(tally: &HopTally) -> bool {
    let steady: BTreeSet<_> = tally.values().filter(|flow| flow.has_met_one_twice()).map(FlowTally::router).collect();
    routers_of(tally).len() < 2 || steady.len() > 1
}

/// Whether all flows that were asked were answered.
fn is_known(tally: &HopTally) -> bool {
    tally.values().all(|flow| flow.router().is_some())
}

/// With what probability one more router of equal share would have been seen.
fn hop_confidence(tally: &HopTally) -> f64 {
    let flows = tally.values().filter(|flow| flow.router().is_some()).count();
    confidence(routers_of(tally).len() as u32, flows as u32)
}

/// What flows have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ComparedFlows {
    /// That of most flows first; none where it is not known.
    pub(super) paths: Vec<TracePathReport>,
    /// The least of all hops that are compared.
    pub(super) confidence: Option<f64>,
    /// Where flows have met several routers each.
    pub(super) unsteady_hops: Vec<u8>,
    /// Which answered not all flows, or none.
    pub(super) unknown_hops: Vec<u8>,
}

/// Compares the flows of a trace.
pub(super) fn compare_flows(hops: &BTreeMap<u8, HopTally>) -> ComparedFlows {
    let hops_where = |is_one: fn(&HopTally) -> bool| -> Vec<u8> {
        hops.iter().filter(|(_, tally)| is_one(tally)).map(|(hop, _)| *hop).collect()
    };
    let unsteady_hops = hops_where(is_unsteady);
    let unknown_hops = hops_where(|tally| !is_known(tally));
    let (mut paths, mut confidence) = (Vec::new(), None);
    if unsteady_hops.is_empty() && hops.values().all(is_spread_by_flow) {
        let compared = hops_where(|tally| {
            let routers = routers_of(tally).len();
            routers > 1 || routers == 1 && is_known(tally)
        });
        confidence = compared.iter().map(|hop| hop_confidence(&hops[hop])).reduce(f64::min);
        paths = paths_at(hops, &compared);
    }
    ComparedFlows { paths, confidence, unsteady_hops, unknown_hops }
}

/// Of the flows that were answered at all of these hops.
fn paths_at(hops: &BTreeMap<u8, HopTally>, compared: &[u8]) -> Vec<TracePathReport> {
    let last = hops.keys().next_back().copied().unwrap_or(0);
    let flows: BTreeSet<u8> = hops.values().flat_map(HopTally::keys).copied().collect();
    let router = |hop: u8, flow: u8| hops.get(&hop)?.get(&flow)?.router();
    let mut found: BTreeMap<Vec<Option<IpAddr>>, u32> = BTreeMap::new();
    for flow in flows {
        if !compared.is_empty() && compared.iter().all(|hop| router(*hop, flow).is_some()) {
            let route = (1..=last).map(|hop| router(hop, flow).filter(|_| compared.contains(&hop)));
            *found.entry(route.collect()).or_default() += 1;
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, flows)| Reverse(*flows));
    let address = |hop: &Option<IpAddr>| hop.map(|ip| ip.to_string());
    found
        .iter()
        .map(|(route, flows)| TracePathReport { flows: *flows, addresses: route.iter().map(address).collect() })
        .collect()
}

/// The further flows that have met the own flow's routers wherever that was answered.
pub(super) fn flows_like_own(hops: &BTreeMap<u8, HopTally>) -> BTreeSet<u8> {
    let own: Vec<_> = hops.iter().filter_map(|(hop, tally)| Some((hop, tally.get(&0)?.router()?))).collect();
    let meets = |flow: u8, hop: &u8, router: IpAddr| {
        hops[hop].get(&flow).is_some_and(|known| known.router() == Some(router) && !known.has_met_several())
    };
    let is_like_own = |flow: &u8| !own.is_empty() && own.iter().all(|(hop, router)| meets(*flow, hop, *router));
    (1..HopTrace::MAX_FLOWS).filter(is_like_own).collect()
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

    /// By flow, the last octet of who answered at each hop; zero does not answer. Of each flow, the second one has this at the first hop.
    fn compared(routes: &[&[u8]], again: &[u8]) -> (Vec<(u32, Vec<u8>)>, ComparedFlows) {
        let mut hops: BTreeMap<u8, HopTally> = BTreeMap::new();
        let answer = |octet: u8| HopAnswer {
            index: 0,
            from: (octet > 0).then(|| IpAddr::from([10, 0, 0, octet])),
            is_v6: false,
            icmp_type: 11,
            icmp_code: 0,
            round_trip: kumade_units::Span::ZERO,
            quoted_ds_field: None,
        };
        for (flow, route) in (0..).zip(routes) {
            for (hop, octet) in (1..).zip(*route) {
                let known = hops.entry(hop).or_default().entry(flow).or_default();
                known.sent += 1;
                known.answers.extend((*octet > 0).then(|| answer(*octet)));
                let again = again.get(usize::from(flow)).filter(|_| hop == 1);
                known.answers.extend(again.map(|octet| answer(*octet)));
            }
        }
        let octet =
            |text: &Option<String>| text.as_ref().map_or(0, |ip| ip.rsplit('.').next().unwrap().parse().unwrap());
        let found = compare_flows(&hops);
        (found.paths.iter().map(|path| (path.flows, path.addresses.iter().map(octet).collect())).collect(), found)
    }

    #[test]
    fn flows_take_one_path_as_far_as_hops_answer_all_of_them() {
        let (paths, found) = compared(&[&[1, 2, 4], &[1, 0, 4], &[1, 2, 4]], &[]);
        assert_eq!((paths, found.unknown_hops), (vec![(3, vec![1, 0, 4])], vec![2]));
        let (paths, found) = compared(&[&[1, 2], &[1, 0]], &[]);
        assert_eq!((paths, found.confidence), (vec![(2, vec![1, 0])], Some(confidence(1, 2))));
        let (paths, found) = compared(&[&[1, 0], &[0, 2]], &[]);
        assert_eq!((paths, found.confidence, found.unknown_hops), (vec![], None, vec![1, 2]));
        assert_eq!(compared(&[&[0, 0], &[0, 0]], &[]).0, []);
    }

    #[test]
    fn flows_take_several_paths_only_if_each_meets_its_router_again() {
        let routes: &[&[u8]] = &[&[2, 4], &[3, 4], &[2, 4], &[0, 4]];
        let (paths, found) = compared(routes, &[2, 3]);
        assert_eq!((paths, found.unknown_hops), (vec![(2, vec![2, 4]), (1, vec![3, 4])], vec![1]));
        // Not asked again, or one flow alone, or those of one router.
        for again in [&[][..], &[2], &[2, 0, 2]] {
            let (paths, found) = compared(routes, again);
            assert_eq!((paths, found.confidence, found.unsteady_hops), (vec![], None, vec![]), "{again:?}");
        }
        let (paths, found) = compared(routes, &[2, 2, 2]);
        assert_eq!((paths, found.confidence, found.unsteady_hops), (vec![], None, vec![1]));
    }
}
