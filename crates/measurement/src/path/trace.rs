//! The routers on the way of a direction: which packets are sent so that each of them answers, and what the answers say.
//!
//! The measurement's own flow goes first; where routers answer, further flows follow, as many as it takes to see whether load balancers spread
//! them over several routers. Over UDP, a few packets go to the far end itself, with one more hop than there are routers: how their mark arrives is
//! what the last router made of it. Those that end on the way come back as quotes, which show the mark as it was there (RFC 1812, 4.3.2.3).

use super::icmp::icmp_name;
use super::trace_changes::{changes, dscp_name, ecn_name};
use super::trace_paths::{
    HopTally, MAX_TRIES, REPEATED_FLOWS, compare_flows, flows_like_own, flows_to_repeat, is_unsteady, needed_flows,
    routers_of,
};
use crate::report::{FarEndMarkReport, HopReport, TraceReport};
use kumade_probe_train::{
    HopAnswer, HopProbe, HopTrace, HopTraceRecord, Mark, MarkedRecord, MarkedTrain, PortProtocol, statistics,
};
use kumade_units::{Direction, Span};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Rounds: of the own flow, of six, eleven, 16, 21 and 27 flows, and of what was not answered, or is asked again.
const MAX_ROUNDS: u32 = 8;
/// Packets for the far end before each round: its turns end where no train comes.
const ARRIVAL_PACKETS: usize = 4;
/// From each of these to the next.
const ARRIVAL_INTERVAL: Span = Span::from_millis(2);
/// Routers that are asked at most: what traceroute(8) asks.
const MAX_HOPS: u8 = 30;
/// Packets for the far end have so many hops more than it takes as far as is known: other flows' ways may be longer, or the route changes.
const FAR_END_MARGIN: u8 = 3;
/// Where no packet arrives, so many more are asked than there are routers by the packets of the other kinds.
const EXTRA_HOPS: u8 = 2;
/// No round is longer without packets for the far end, which ends a client's turn after five seconds without a train.
const MAX_SILENCE: Span = Span::from_secs(3);
/// Rounds that are divided so in [`TraceProbe::MAX_TIME`].
const MAX_DIVIDED_ROUNDS: u32 = 4;
/// More steps are never taken, whatever the far end says of what it has sent.
const MAX_STEPS: u32 = MAX_ROUNDS + MAX_DIVIDED_ROUNDS;
/// How long an answer may take beyond a round trip to the far end: routers answer when they have nothing better to do.
const ANSWER_SLACK: Span = Span::from_millis(200);
/// Over TCP no longer: after a second, Linux sends a SYN again (RFC 6298), which would count for nothing.
const MAX_SYN_TIMEOUT: Span = Span::from_millis(900);

/// The next packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TraceStep {
    /// For the far end.
    Arrival(MarkedTrain),
    /// For the routers.
    Hops(HopTrace),
}

/// What the routers on the way of a direction have answered.
#[derive(Debug, Clone)]
pub(crate) struct TraceProbe {
    direction: Direction,
    protocol: PortProtocol,
    ds_field: u8,
    /// On the way to the far end.
    routers: u8,
    timeout: Span,
    /// Packets that were sent to the far end; none before the first.
    sent_to_far_end: Option<u32>,
    /// Octets with which these arrived; none where it does not say.
    arrived: Vec<Option<u8>>,
    /// Whether packets for the far end come next, as far as there are others.
    is_far_end_next: bool,
    hops: BTreeMap<u8, HopTally>,
    rounds_left: u32,
    steps_left: u32,
    /// Of which packets could not be sent.
    lost_flows: BTreeSet<u8>,
    /// To be sent in this round.
    queue: VecDeque<HopProbe>,
    can_read_quotes: bool,
}

impl TraceProbe {
    /// All of it takes no longer.
    pub(crate) const MAX_TIME: Span = Span::from_secs(10);

    /// With packets of this octet of DSCP and ECN, to a receiver behind so many routers, a round trip away.
    pub(crate) fn new(
        direction: Direction,
        protocol: PortProtocol,
        ds_field: u8,
        routers: u8,
        round_trip: Span,
    ) -> Self {
        TraceProbe {
            direction,
            protocol,
            ds_field,
            routers,
            timeout: match protocol {
                PortProtocol::Udp => round_trip + ANSWER_SLACK,
                PortProtocol::Tcp => (round_trip + ANSWER_SLACK).min(MAX_SYN_TIMEOUT),
            },
            sent_to_far_end: None,
            arrived: Vec::new(),
            is_far_end_next: true,
            hops: BTreeMap::new(),
            rounds_left: MAX_ROUNDS,
            steps_left: MAX_STEPS,
            lost_flows: BTreeSet::new(),
            queue: VecDeque::new(),
            can_read_quotes: false,
        }
    }

    /// More packets are never sent.
    pub(crate) fn max_packets(&self) -> u32 {
        let flows = u32::from(HopTrace::MAX_FLOWS) + REPEATED_FLOWS as u32;
        let for_routers = MAX_TRIES * flows * u32::from(self.routers.saturating_add(EXTRA_HOPS).min(MAX_HOPS));
        let for_far_end = ARRIVAL_PACKETS as u32 * MAX_STEPS;
        for_routers + if self.has_arrivals() { for_far_end } else { 0 }
    }

    /// What to send next, in this time; none once all has been asked.
    pub(crate) fn next_step(&mut self, time_left: Span) -> Option<TraceStep> {
        if time_left <= Span::ZERO || self.steps_left == 0 {
            return None;
        }
        let is_begun = self.sent_to_far_end.is_some() || !self.has_arrivals();
        if is_begun && self.queue.is_empty() && self.rounds_left > 0 {
            self.rounds_left -= 1;
            self.queue = self.plan_round();
        }
        if self.is_far_end_next && self.has_arrivals() && !(is_begun && self.queue.is_empty()) {
            let mark = Mark { ds_field: self.ds_field, hop_limit: Some(self.far_end_hop_limit()) };
            let marks = vec![mark; ARRIVAL_PACKETS];
            return Some(TraceStep::Arrival(MarkedTrain { interval: ARRIVAL_INTERVAL, marks }));
        }
        let probes: Vec<HopProbe> = self.queue.iter().copied().take(HopTrace::MAX_PROBES).collect();
        let (ds_field, timeout) = (self.ds_field, self.timeout.min(HopTrace::MAX_DURATION));
        let max_duration = time_left.min(MAX_SILENCE);
        if probes.is_empty() {
            return None;
        }
        self.steps_left -= 1;
        Some(TraceStep::Hops(HopTrace { ds_field, probes, timeout, max_duration }))
    }

    fn far_end_hop_limit(&self) -> u8 {
        self.routers.saturating_add(1 + FAR_END_MARGIN)
    }

    /// Whether packets for the far end show with which mark they arrive. (SYNs would open connections.)
    fn has_arrivals(&self) -> bool {
        self.protocol == PortProtocol::Udp
    }

    /// What has not been answered yet, of as many flows as it takes, and what is asked again. A hop where nobody answers is asked by others than the own
    /// flow only where flows are known to be spread. Where packets of a flow are, more flows tell no more.
    fn plan_round(&self) -> VecDeque<HopProbe> {
        let is_unsteady = self.hops.values().any(is_unsteady);
        let found = self.hops.values().map(|tally| routers_of(tally).len() as u32).max().unwrap_or(0);
        let flows = needed_flows(if is_unsteady { found.min(1) } else { found });
        let mut probes = VecDeque::new();
        for hop_limit in 1..=self.last_hop() {
            let tally = self.hops.get(&hop_limit);
            let is_silent = tally.is_none_or(|tally| tally.values().all(|flow| flow.answers.is_empty()));
            let repeated = tally.filter(|_| !is_unsteady).map(flows_to_repeat).unwrap_or_default();
            let is_open = |flow: u8| match tally.and_then(|tally| tally.get(&flow)) {
                None => true,
                Some(known) => known.answers.is_empty() && known.sent < MAX_TRIES && !(is_silent && flow > 0),
            };
            let flows = if is_silent && found < 2 { 1 } else { flows };
            let asked = (0..HopTrace::MAX_FLOWS)
                .filter(|flow| *flow < flows && is_open(*flow) || repeated.contains(flow))
                .filter(|flow| !self.lost_flows.contains(flow));
            probes.extend(asked.map(|flow| HopProbe { flow, hop_limit }));
        }
        probes
    }

    /// Takes in which packets arrived at the far end.
    pub(crate) fn record_arrivals(&mut self, record: &MarkedRecord) {
        // Each counts once, whatever the far end says.
        let arrived: BTreeMap<u32, Option<u8>> =
            record.arrivals.iter().map(|arrival| (arrival.index, arrival.ds_field)).collect();
        let sent: BTreeSet<u32> = record.sent.iter().copied().filter(|index| *index < ARRIVAL_PACKETS as u32).collect();
        self.arrived.extend(sent.iter().filter_map(|index| arrived.get(index)));
        self.sent_to_far_end = Some(self.sent_to_far_end.unwrap_or(0) + sent.len() as u32);
        self.is_far_end_next = false;
    }

    /// Takes in what the routers have answered.
    pub(crate) fn record_answers(&mut self, trace: &HopTrace, record: &HopTraceRecord) {
        let probe = |index: u32| Some((index, *trace.probes.get(index as usize)?));
        let mut sent: BTreeMap<u32, HopProbe> = record.sent.iter().filter_map(|index| probe(*index)).collect();
        let last = sent.keys().next_back().copied();
        let done = last.map_or(trace.probes.len(), |last| last as usize + 1).min(trace.probes.len());
        // What could not be sent now can't be sent later, either.
        let unsent = (0..).zip(&trace.probes[..done]).filter(|(index, _)| !sent.contains_key(index));
        self.lost_flows.extend(unsent.map(|(_, probe)| probe.flow));
        for HopProbe { flow, hop_limit } in sent.values() {
            let known = self.hops.entry(*hop_limit).or_default().entry(*flow).or_default();
            known.sent += 1;
            known.repeats += u32::from(!known.answers.is_empty());
        }
        for answer in record.answers.iter().filter(|answer| is_possible(answer, trace)) {
            // Each packet is answered once.
            let Some(HopProbe { flow, hop_limit }) = sent.remove(&answer.index) else { continue };
            self.hops.entry(hop_limit).or_default().entry(flow).or_default().answers.push(*answer);
        }
        self.is_far_end_next = true;
        self.can_read_quotes |= record.can_read_quotes;
        self.queue.drain(..done.min(self.queue.len()));
    }

    fn last_hop(&self) -> u8 {
        let is_reached = !self.arrived.is_empty() || !self.has_arrivals();
        let extra = if is_reached { 0 } else { EXTRA_HOPS };
        self.routers.saturating_add(extra).min(MAX_HOPS)
    }

    /// What has been found; none where nothing was sent.
    pub(crate) fn report(&self) -> Option<TraceReport> {
        let arrived_octets: Vec<u8> = self.arrived.iter().copied().flatten().collect();
        if self.sent_to_far_end.is_none() && self.hops.is_empty() {
            return None;
        }
        let far_end = self.sent_to_far_end.map(|sent| FarEndMarkReport {
            sent,
            arrived: self.arrived.len() as u32,
            dscp: count_names(&arrived_octets, dscp_name),
            ecn: count_names(&arrived_octets, ecn_name),
        });
        let found = compare_flows(&self.hops);
        Some(TraceReport {
            protocol: self.protocol,
            dscp: dscp_name(self.ds_field),
            ecn: ecn_name(self.ds_field),
            hops: self.hops.iter().map(|(hop, tally)| hop_report(*hop, tally)).collect(),
            paths: found.paths,
            paths_confidence: found.confidence,
            unsteady_hops: found.unsteady_hops,
            unknown_hops: found.unknown_hops,
            far_end,
            changes: changes(self.ds_field, &self.quoted_octets(), &arrived_octets),
        })
    }

    /// By hop, DSCP and ECN of packets of the measurement's own flow, which arrive at the far end; where it has no answer, of flows that take the same way
    /// as far as is known.
    fn quoted_octets(&self) -> Vec<(u8, Vec<u8>)> {
        let like_own = flows_like_own(&self.hops);
        let of_hop = |tally: &HopTally| -> Vec<u8> {
            let answers = |is_one: &dyn Fn(u8) -> bool| -> Vec<HopAnswer> {
                let flows = tally.iter().filter(|(flow, _)| is_one(**flow));
                flows.flat_map(|(_, known)| known.answers.iter().copied()).collect()
            };
            let quoted = |answers: &[HopAnswer]| answers.iter().filter_map(|answer| answer.quoted_ds_field).collect();
            let own: Vec<u8> = quoted(&answers(&|flow| flow == 0));
            let others = answers(&|flow| like_own.contains(&flow));
            let routers: BTreeSet<_> = others.iter().map(|answer| answer.from).collect();
            let is_one_router = routers.len() == 1 && !routers.contains(&None);
            if own.is_empty() && is_one_router { quoted(&others) } else { own }
        };
        self.hops.iter().map(|(hop, tally)| (*hop, of_hop(tally))).collect()
    }

    /// Why it is not known at which routers marks change; none where it is.
    pub(crate) fn missing_quotes(&self) -> Option<String> {
        let has_answers = self.hops.values().flat_map(HopTally::values).any(|flow| !flow.answers.is_empty());
        let who = match self.direction {
            Direction::Up => "this process may not read what routers quote: that takes CAP_NET_RAW (run it as root)",
            Direction::Down => {
                "the far end may not read what routers quote: that takes CAP_NET_RAW, which `kumade serve` gives up"
            }
        };
        let text = format!("at which router DSCP and ECN change on the way {}: {who}", self.direction);
        (has_answers && !self.can_read_quotes).then_some(text)
    }
}

/// Whether a router may have answered so, whatever the far end says.
fn is_possible(answer: &HopAnswer, trace: &HopTrace) -> bool {
    let is_host = |address: IpAddr| match address {
        IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()),
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast()),
    };
    let is_from_host = |from: IpAddr| from.is_ipv6() == answer.is_v6 && is_host(from);
    (Span::ZERO..=trace.max_duration).contains(&answer.round_trip) && answer.from.is_none_or(is_from_host)
}

fn hop_report(hop: u8, tally: &HopTally) -> HopReport {
    let answers: Vec<HopAnswer> = tally.values().flat_map(|flow| flow.answers.iter().copied()).collect();
    let quoted: Vec<u8> = answers.iter().filter_map(|answer| answer.quoted_ds_field).collect();
    let times: Vec<f64> = answers.iter().map(|answer| answer.round_trip.as_secs_f64()).collect();
    HopReport {
        hop,
        sent: tally.values().map(|flow| flow.sent).sum(),
        answered: answers.len() as u32,
        flows_answered: tally.values().filter(|flow| !flow.answers.is_empty()).count() as u32,
        addresses: count(answers.iter().filter_map(|answer| Some(answer.from?.to_string()))),
        round_trip_seconds: statistics::median(&times),
        answers: count(answers.iter().map(icmp_name)),
        dscp: count_names(&quoted, dscp_name),
        ecn: count_names(&quoted, ecn_name),
    }
}

fn count_names(octets: &[u8], name: fn(u8) -> String) -> BTreeMap<String, u32> {
    count(octets.iter().map(|octet| name(*octet)))
}

fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests;
