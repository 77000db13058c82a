//! The measurement of several links side by side, one after the other.

use super::{EcmpLink, EcmpTrainLayout};
use crate::report::{DirectionReport, LoadBalancingReport};
use kumade_estimate::Reason;
use kumade_probe_train::{Estimate, Train, TrainRecord};
use kumade_units::{Rate, Span};

/// More links leave too few connections for each.
const MAX_LINKS: usize = 8;
/// A link has at least so many connections: fewer carry no train that tells what is available.
const MIN_CONNECTIONS: u32 = 6;
/// Links of equal delays are taken for one: of more links, there may be such, …
const MAX_DISTINGUISHED_LINKS: usize = 4;
/// … and where one has so many times the connections of the others on average: the probabilities of so many from a Poisson distribution of
/// their mean, and of twice that, are then equal.
const MAX_RATIO_TO_OTHER_LINKS: f64 = 1.0 / std::f64::consts::LN_2;
/// If the link of a larger part of all connections is not known, there may be one more link.
const MAX_UNKNOWN_SHARE: f64 = 0.1;
/// A longer train takes the packets of more connections than this, and more segments than a train may have.
const MAX_CONNECTIONS: u32 = 25;

/// The links, and what was measured of them so far.
#[derive(Debug)]
pub(crate) struct EcmpLinks {
    links: Vec<EcmpLink>,
    reports: Vec<DirectionReport>,
    /// The least difference between receive and send stamps on the link that is being measured.
    min_delay: Option<Span>,
    /// How often the transport had been replaced when the links were found: other connections may take others.
    replacements: u32,
}

impl EcmpLinks {
    /// None where there are not several.
    pub(crate) fn new(members: Vec<EcmpLink>, replacements: u32) -> Option<Self> {
        let balanced = EcmpLinks { links: members, reports: Vec::new(), min_delay: None, replacements };
        (balanced.links.len() > 1).then_some(balanced)
    }

    pub(crate) fn link_count(&self) -> u32 {
        self.links.len() as u32
    }

    /// Why the links are not measured; none if they can be.
    pub(crate) fn unmeasurable_reason(&self) -> Option<Reason> {
        let links = self.links.len();
        if links > MAX_LINKS {
            return Some(Reason::TooManyLinks(links as u32));
        }
        let known: u32 = self.links.iter().map(EcmpLink::connection_count).sum();
        let all = self.links.first().map_or(0, |member| member.connections.len());
        if f64::from(known) < (1.0 - MAX_UNKNOWN_SHARE) * all as f64 {
            return Some(Reason::LinksTooBusy);
        }
        let is_too_few = self.links.iter().any(|member| member.connection_count() < MIN_CONNECTIONS);
        is_too_few.then_some(Reason::TooFewConnectionsPerLink)
    }

    /// The connections of the link that is being measured, as far as they serve longer trains.
    pub(crate) fn train_connections(&self) -> u32 {
        self.current_link().map_or(0, |member| member.connection_count().min(MAX_CONNECTIONS))
    }

    /// All connections of the link that is being measured.
    pub(crate) fn measured_connections(&self) -> u32 {
        self.current_link().map_or(0, EcmpLink::connection_count)
    }

    /// A train for the link that is being measured; none where its connections may not carry it.
    pub(crate) fn lay_out_train(&self, train: &Train) -> Option<EcmpTrainLayout> {
        EcmpTrainLayout::new(train, self.current_link()?)
    }

    /// Takes in what became of a train for that link.
    pub(crate) fn record_delay(&mut self, record: &TrainRecord) {
        let delays = record.packets.iter().filter_map(|packet| Some(packet.received? - packet.sent?));
        self.min_delay = self.min_delay.into_iter().chain(delays).min();
    }

    pub(crate) fn min_delay(&self) -> Option<Span> {
        self.min_delay
    }

    /// Takes in the result on that link. Returns whether the next one is to be measured: not after one without a value.
    pub(crate) fn add_link_report(&mut self, report: DirectionReport) -> bool {
        let has_value = report.available_bits_per_second.is_some();
        self.reports.push(report);
        self.min_delay = None;
        has_value && self.reports.len() < self.links.len()
    }

    /// All results as one; none before the first. `replacements` is how often the transport has been replaced by now.
    pub(crate) fn combined_report(self, replacements: u32) -> Option<DirectionReport> {
        let values: Option<Vec<Estimate<Rate>>> =
            self.reports.iter().map(|report| report.available_bits_per_second).collect();
        let values = values.filter(|values| values.len() == self.links.len() && replacements == self.replacements);
        let links = LoadBalancingReport {
            delays_seconds: self.links.iter().map(|member| member.extra_delay.as_secs_f64()).collect(),
            many_flows_bits_per_second: values
                .as_deref()
                .and_then(|links| many_flows_estimate(links, self.may_hide_links())),
        };
        let count = self.links.len() as u32;
        let mut reports = self.reports.into_iter();
        let first = reports.next()?;
        let mut all = reports.fold(first, combine_reports);
        all.available_bits_per_second = values.as_deref().and_then(one_flow_estimate);
        all.load_balancing = Some(links);
        if all.available_bits_per_second.is_none() {
            let reason = match all.reason {
                Some(reason) if reason.is_of_load_balancing() => reason,
                Some(reason) => Reason::OneOfLinks(count, Box::new(reason)),
                None => Reason::ConnectionsOfLinksBroke(count),
            };
            all.reason = Some(reason);
            // Bounds are those of one link.
            (all.at_least_bits_per_second, all.at_most_bits_per_second, all.limited_by) = (None, None, None);
        }
        Some(DirectionReport { fair_share_bits_per_second: None, ..all })
    }

    /// Whether one of the links may be two, so that there are more than are known.
    fn may_hide_links(&self) -> bool {
        let known: u32 = self.links.iter().map(EcmpLink::connection_count).sum();
        let others = f64::from(self.link_count().saturating_sub(1).max(1));
        let is_large = |count: u32| f64::from(count) > MAX_RATIO_TO_OTHER_LINKS * f64::from(known - count) / others;
        self.links.len() > MAX_DISTINGUISHED_LINKS || self.links.iter().map(EcmpLink::connection_count).any(is_large)
    }

    fn current_link(&self) -> Option<&EcmpLink> {
        self.links.get(self.reports.len())
    }
}

/// The mean of the links, and all that their intervals hold possible.
fn one_flow_estimate(links: &[Estimate<Rate>]) -> Option<Estimate<Rate>> {
    let mean = links.iter().map(|link| link.value.as_f64()).sum::<f64>() / links.len() as f64;
    let (low, high) = (links.iter().map(|link| link.low).min()?, links.iter().map(|link| link.high).max()?);
    let confidence = links.iter().map(|link| link.confidence).fold(1.0, f64::min);
    Some(Estimate { value: Rate::from_f64(mean), low, high, confidence })
}

/// The sum over the links; there may be one more than is known.
fn many_flows_estimate(links: &[Estimate<Rate>], may_hide: bool) -> Option<Estimate<Rate>> {
    let sum = |of: fn(&Estimate<Rate>) -> Rate| Rate::from_f64(links.iter().map(|link| of(link).as_f64()).sum());
    let confidence = links.iter().map(|link| link.confidence).fold(1.0, f64::min);
    let hidden = links.iter().map(|link| link.high).max().filter(|_| may_hide).unwrap_or_default();
    let high = Rate::from_f64(sum(|link| link.high).as_f64() + hidden.as_f64());
    Some(Estimate { value: sum(|link| link.value), low: sum(|link| link.low), high, confidence })
}

/// A result and that of the next link: what they cost, and why there is no value.
fn combine_reports(mut all: DirectionReport, next: DirectionReport) -> DirectionReport {
    all.packets_sent += next.packets_sent;
    all.bytes_sent += next.bytes_sent;
    all.duration_seconds += next.duration_seconds;
    all.trains += next.trains;
    all.fastest_arrival_bits_per_second = all.fastest_arrival_bits_per_second.max(next.fastest_arrival_bits_per_second);
    all.trains_rejected += next.trains_rejected;
    for (why, count) in next.trains_rejected_reasons {
        *all.trains_rejected_reasons.entry(why).or_default() += count;
    }
    if let (Some(all), Some(next)) = (&mut all.capacity, next.capacity) {
        all.packets_sent += next.packets_sent;
        all.bytes_sent += next.bytes_sent;
        all.duration_seconds += next.duration_seconds;
    }
    all.sustained_bytes = all.sustained_bytes.zip(next.sustained_bytes).map(|(one, other)| one.min(other));
    // Each link was measured in a window of its own.
    (all.window_seconds, all.window_start_seconds) = (None, None);
    all.reason = all.reason.or(next.reason);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flow_has_what_any_link_leaves_and_many_have_the_sum() {
        let link = |value| {
            let [low, value, high] = [value - 1, value, value + 1].map(Rate::from_mbit);
            Estimate { value, low, high, confidence: 0.95 }
        };
        let links = [link(20), link(40)];
        let one = one_flow_estimate(&links).unwrap();
        assert_eq!([one.low, one.value, one.high], [19, 30, 41].map(Rate::from_mbit));
        for (may_hide, high) in [(false, 62), (true, 103)] {
            let many = many_flows_estimate(&links, may_hide).unwrap();
            assert_eq!([many.low, many.value, many.high], [58, 60, high].map(Rate::from_mbit));
        }
        assert_eq!(one_flow_estimate(&[]), None);
    }

    /// Of eight links, two had the same delay, and the sum over the seven that were known was said to be what many flows have: 15 % less.
    #[test]
    fn links_of_one_delay_may_hide_among_many_and_behind_one_that_many_connections_take() {
        let hides = |counts: &[usize]| {
            let member = |count: &usize| EcmpLink { connections: vec![true; *count], extra_delay: Span::ZERO };
            EcmpLinks::new(counts.iter().map(member).collect(), 0).unwrap().may_hide_links()
        };
        assert!(hides(&[16, 14, 31, 15, 13, 16, 15]) && hides(&[80, 40]));
        assert!(hides(&[20, 24, 22, 26, 28]) && !hides(&[30, 27, 33, 30]) && !hides(&[65, 55]));
    }
}
