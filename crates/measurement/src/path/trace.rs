//! The routers on the way of a direction: which packets are sent so that each of them answers, and what the answers say.
//!
//! The measurement's own flow goes first; where routers answer, further flows follow, as many as it takes to see whether load balancers spread
//! them over several routers. Over UDP, a few packets go to the far end itself, with one more hop than there are routers: how their mark arrives is
//! what the last router made of it. Those that end on the way come back as quotes, which show the mark as it was there (RFC 1812, 4.3.2.3).

use super::icmp::icmp_name;
use super::trace_changes::{changes, dscp_name, ecn_name};
use super::trace_members::{confidence, members, needed_flows};
use crate::report::{FarEndMarkReport, HopReport, TraceReport};
use kumade_probe_train::{
    HopAnswer, HopProbe, HopTrace, HopTraceRecord, Mark, MarkedRecord, MarkedTrain, PortProtocol, statistics,
};
use kumade_units::{Direction, Span};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// A packet that is not answered is sent again.
const MAX_TRIES: u32 = 2;
/// Rounds: of the own flow, of six, eleven, 16, 21 and 27 flows, and of what was not answered.
const MAX_ROUNDS: u32 = 8;
/// Packets for the far end before each round: its turns end where no train comes.
const ARRIVAL_PACKETS: usize = 4;
/// From each of these to the next.
const ARRIVAL_INTERVAL: Span = Span::from_millis(2);
/// Routers that are asked at most: what traceroute(8) asks.
const MAX_HOPS: u8 = 30;
/// Where no packet arrives, so many more are asked than there are routers by the packets of the other kinds.
const EXTRA_HOPS: u8 = 2;
/// No round is longer without packets for the far end, which ends a client's turn after five seconds without a train.
const MAX_SILENCE: Span = Span::from_secs(3);
/// Rounds that are divided so in [`TraceProbe::MAX_TIME`].
const MAX_DIVIDED_ROUNDS: u32 = 4;
/// How long an answer may take beyond a round trip to the far end: routers answer when they have nothing better to do.
const ANSWER_SLACK: Span = Span::from_millis(200);

/// The next packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TraceStep {
    /// For the far end.
    Arrival(MarkedTrain),
    /// For the routers.
    Hops(HopTrace),
}

/// What is known of a hop by one flow.
#[derive(Debug, Clone, PartialEq, Default)]
struct FlowTally {
    sent: u32,
    answers: Vec<HopAnswer>,
}

/// What is known of a hop, by flow.
type HopTally = BTreeMap<u8, FlowTally>;

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
            routers: routers.min(MAX_HOPS),
            timeout: round_trip + ANSWER_SLACK,
            sent_to_far_end: None,
            arrived: Vec::new(),
            is_far_end_next: true,
            hops: BTreeMap::new(),
            rounds_left: MAX_ROUNDS,
            queue: VecDeque::new(),
            can_read_quotes: false,
        }
    }

    /// More packets are never sent.
    pub(crate) fn max_packets(&self) -> u32 {
        let for_routers = MAX_TRIES * u32::from(HopTrace::MAX_FLOWS) * u32::from(self.routers + EXTRA_HOPS);
        let for_far_end = ARRIVAL_PACKETS as u32 * (MAX_ROUNDS + MAX_DIVIDED_ROUNDS);
        for_routers + if self.has_arrivals() { for_far_end } else { 0 }
    }

    /// What to send next, in this time; none once all has been asked.
    pub(crate) fn next_step(&mut self, time_left: Span) -> Option<TraceStep> {
        if time_left <= Span::ZERO {
            return None;
        }
        let is_begun = self.sent_to_far_end.is_some() || !self.has_arrivals();
        if is_begun && self.queue.is_empty() && self.rounds_left > 0 {
            self.rounds_left -= 1;
            self.queue = self.plan_round();
        }
        if self.is_far_end_next && self.has_arrivals() && !(is_begun && self.queue.is_empty()) {
            let mark = Mark { ds_field: self.ds_field, hop_limit: Some(self.routers + 1) };
            let marks = vec![mark; ARRIVAL_PACKETS];
            return Some(TraceStep::Arrival(MarkedTrain { interval: ARRIVAL_INTERVAL, marks }));
        }
        let probes: Vec<HopProbe> = self.queue.iter().copied().take(HopTrace::MAX_PROBES).collect();
        let (ds_field, timeout) = (self.ds_field, self.timeout.min(HopTrace::MAX_DURATION));
        let max_duration = time_left.min(MAX_SILENCE);
        (!probes.is_empty()).then_some(TraceStep::Hops(HopTrace { ds_field, probes, timeout, max_duration }))
    }

    /// Whether packets for the far end show with which mark they arrive. (SYNs would open connections.)
    fn has_arrivals(&self) -> bool {
        self.protocol == PortProtocol::Udp
    }

    /// What has not been answered yet, of as many flows as it takes. A hop where nobody answers is asked by others than the own flow only where
    /// flows are known to be spread.
    fn plan_round(&self) -> VecDeque<HopProbe> {
        let found = self.hops.values().map(|tally| routers_of(tally).len() as u32).max().unwrap_or(0);
        let flows = needed_flows(found);
        let mut probes = VecDeque::new();
        for hop_limit in 1..=self.last_hop() {
            let tally = self.hops.get(&hop_limit);
            let is_silent = tally.is_none_or(|tally| tally.values().all(|flow| flow.answers.is_empty()));
            let is_open = |flow: &u8| match tally.and_then(|tally| tally.get(flow)) {
                None => true,
                Some(FlowTally { sent, answers }) => {
                    answers.is_empty() && *sent < MAX_TRIES && !(is_silent && *flow > 0)
                }
            };
            let flows = if is_silent && found < 2 { 1 } else { flows };
            probes.extend((0..flows).filter(is_open).map(|flow| HopProbe { flow, hop_limit }));
        }
        probes
    }

    /// Takes in which packets arrived at the far end.
    pub(crate) fn record_arrivals(&mut self, record: &MarkedRecord) {
        // Each counts once, whatever the far end says.
        let arrived: BTreeMap<u32, Option<u8>> =
            record.arrivals.iter().map(|arrival| (arrival.index, arrival.ds_field)).collect();
        self.arrived.extend(record.sent.iter().filter_map(|index| arrived.get(index)));
        self.sent_to_far_end = Some(self.sent_to_far_end.unwrap_or(0) + record.sent.len() as u32);
        self.is_far_end_next = false;
    }

    /// Takes in what the routers have answered.
    pub(crate) fn record_answers(&mut self, trace: &HopTrace, record: &HopTraceRecord) {
        let probe = |index: u32| Some((index, *trace.probes.get(index as usize)?));
        let mut sent: BTreeMap<u32, HopProbe> = record.sent.iter().filter_map(|index| probe(*index)).collect();
        let last = sent.keys().next_back().copied();
        for HopProbe { flow, hop_limit } in sent.values() {
            self.hops.entry(*hop_limit).or_default().entry(*flow).or_default().sent += 1;
        }
        for answer in &record.answers {
            // Each packet is answered once.
            let Some(HopProbe { flow, hop_limit }) = sent.remove(&answer.index) else { continue };
            self.hops.entry(hop_limit).or_default().entry(flow).or_default().answers.push(*answer);
        }
        self.is_far_end_next = true;
        self.can_read_quotes |= record.can_read_quotes;
        // What could not be sent now can't be sent later, either.
        let done = last.map_or(trace.probes.len(), |last| last as usize + 1);
        self.queue.drain(..done.min(self.queue.len()));
    }

    fn last_hop(&self) -> u8 {
        let is_reached = !self.arrived.is_empty() || !self.has_arrivals();
        if is_reached { self.routers } else { (self.routers + EXTRA_HOPS).min(MAX_HOPS) }
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
        let seen: Vec<(u8, Vec<u8>)> = self.hops.iter().map(|(hop, tally)| (*hop, quoted_octets(tally))).collect();
        let confidences = self.hops.values().filter_map(hop_confidence);
        Some(TraceReport {
            protocol: self.protocol,
            dscp: dscp_name(self.ds_field),
            ecn: ecn_name(self.ds_field),
            hops: self.hops.iter().map(|(hop, tally)| hop_report(*hop, tally)).collect(),
            members: members(&self.routes()),
            members_confidence: confidences.reduce(f64::min),
            far_end,
            changes: changes(self.ds_field, &seen, &arrived_octets),
        })
    }

    /// Who has answered each flow, by hop.
    fn routes(&self) -> BTreeMap<u8, Vec<Option<IpAddr>>> {
        let last = self.hops.keys().next_back().copied().unwrap_or(0);
        let flows: BTreeSet<u8> = self.hops.values().flat_map(|tally| tally.keys().copied()).collect();
        let router = |hop: u8, flow: u8| self.hops.get(&hop)?.get(&flow)?.answers.first()?.from;
        flows.into_iter().map(|flow| (flow, (1..=last).map(|hop| router(hop, flow)).collect())).collect()
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

/// Who has answered.
fn routers_of(tally: &HopTally) -> BTreeSet<IpAddr> {
    tally.values().flat_map(|flow| &flow.answers).filter_map(|answer| answer.from).collect()
}

/// With what probability one more router of equal share would have been seen; none where nobody is known.
fn hop_confidence(tally: &HopTally) -> Option<f64> {
    let is_known = |flow: &&FlowTally| flow.answers.iter().any(|answer| answer.from.is_some());
    let (found, flows) = (routers_of(tally).len() as u32, tally.values().filter(is_known).count() as u32);
    (found > 0).then(|| confidence(found, flows))
}

/// Of the measurement's own flow, whose packets arrive at the far end; of all where that has no answer.
fn quoted_octets(tally: &HopTally) -> Vec<u8> {
    let octets = |flow: &FlowTally| flow.answers.iter().filter_map(|answer| answer.quoted_ds_field).collect::<Vec<_>>();
    match tally.get(&0).map(octets) {
        Some(own) if !own.is_empty() => own,
        _ => tally.values().flat_map(octets).collect(),
    }
}

fn hop_report(hop: u8, tally: &HopTally) -> HopReport {
    let answers: Vec<HopAnswer> = tally.values().flat_map(|flow| flow.answers.iter().copied()).collect();
    let quoted: Vec<u8> = answers.iter().filter_map(|answer| answer.quoted_ds_field).collect();
    let times: Vec<f64> = answers.iter().map(|answer| answer.round_trip.as_secs_f64().max(0.0)).collect();
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
mod tests {
    use super::*;
    use kumade_probe_train::MarkedArrival;

    const EF_ECT0: u8 = 46 << 2 | 0b10;
    const TIME_EXCEEDED: u8 = 11;

    /// A router's last octet of 10.0.0.0/24, and the octet that it quotes; none does not answer.
    type Router = Option<(u8, u8)>;

    fn probe(routers: u8, protocol: PortProtocol) -> TraceProbe {
        TraceProbe::new(Direction::Up, protocol, EF_ECT0, routers, Span::from_millis(10))
    }

    /// Traces a path of so many routers, on which a flow meets this router at a hop; the far end gets this octet, if any. In a step, no more than five
    /// packets leave, or all.
    fn trace(
        mut probe: TraceProbe,
        router: impl Fn(u8, u8) -> Router,
        at_far_end: Option<u8>,
        at_once: usize,
    ) -> (TraceProbe, u32) {
        let mut packets = 0;
        while let Some(step) = probe.next_step(Span::from_secs(1)) {
            match step {
                TraceStep::Arrival(train) => {
                    assert_eq!(train.check(), Ok(()));
                    packets += train.marks.len() as u32;
                    let sent = 0..train.marks.len() as u32;
                    let arrival = |index| Some(MarkedArrival { index, ds_field: Some(at_far_end?), hop_limit: None });
                    let arrivals = sent.clone().filter_map(arrival).collect();
                    probe.record_arrivals(&MarkedRecord { sent: sent.collect(), arrivals });
                }
                TraceStep::Hops(trace) => {
                    assert_eq!(trace.check(), Ok(()));
                    let sent: Vec<u32> = (0..trace.probes.len().min(at_once) as u32).collect();
                    packets += sent.len() as u32;
                    let answer = |index: &u32| {
                        let HopProbe { flow, hop_limit } = trace.probes[*index as usize];
                        let (from, quoted) = router(hop_limit, flow)?;
                        Some(HopAnswer {
                            index: *index,
                            from: Some([10, 0, 0, from].into()),
                            is_v6: false,
                            icmp_type: TIME_EXCEEDED,
                            icmp_code: 0,
                            round_trip: Span::from_millis(i64::from(hop_limit)),
                            quoted_ds_field: Some(quoted),
                        })
                    };
                    let answers = sent.iter().filter_map(answer).collect();
                    probe.record_answers(&trace, &HopTraceRecord { sent, answers, can_read_quotes: true });
                }
            }
        }
        assert!(packets <= probe.max_packets(), "{packets}");
        (probe, packets)
    }

    /// Router `n` quotes octet `n - 1` of these to all flows, or does not answer.
    fn trace_one_way(quotes: &[Option<u8>], at_far_end: Option<u8>) -> (TraceProbe, u32) {
        let router = |hop: u8, _| Some((hop, (*quotes.get(usize::from(hop) - 1)?)?));
        trace(probe(quotes.len() as u8, PortProtocol::Udp), router, at_far_end, usize::MAX)
    }

    fn changes(quotes: &[Option<u8>], at_far_end: Option<u8>) -> Vec<(String, String, u8, Option<u8>)> {
        let found = trace_one_way(quotes, at_far_end).0.report().unwrap().changes;
        found.into_iter().map(|change| (change.field, change.to, change.after_hop, change.before_hop)).collect()
    }

    fn change(field: &str, to: &str, after: u8, before: Option<u8>) -> (String, String, u8, Option<u8>) {
        (field.to_owned(), to.to_owned(), after, before)
    }

    #[test]
    fn each_router_is_asked_by_six_flows_and_one_that_does_not_answer_twice() {
        let (probe, packets) = trace_one_way(&[Some(EF_ECT0), None, Some(EF_ECT0), Some(EF_ECT0)], Some(EF_ECT0));
        assert_eq!(packets, 2 * 4 + 3 * 6 + 2);
        let report = probe.report().unwrap();
        let counts: Vec<_> =
            report.hops.iter().map(|hop| (hop.hop, hop.sent, hop.answered, hop.flows_answered)).collect();
        assert_eq!(counts, [(1, 6, 6, 6), (2, 2, 0, 0), (3, 6, 6, 6), (4, 6, 6, 6)]);
        let third = &report.hops[2];
        assert_eq!(third.addresses, [("10.0.0.3".to_owned(), 6)].into());
        assert_eq!(third.answers, [("time exceeded".to_owned(), 6)].into());
        assert_eq!(
            (third.round_trip_seconds, third.dscp.get("EF"), third.ecn.get("ECT(0)")),
            (Some(0.003), Some(&6), Some(&6))
        );
        assert_eq!((report.dscp.as_str(), report.ecn.as_str()), ("EF", "ECT(0)"));
        let far_end = report.far_end.unwrap();
        assert_eq!((far_end.sent, far_end.arrived), (8, 8));
        assert!(report.changes.is_empty(), "{:?}", report.changes);
        let addresses = [Some(1), None, Some(3), Some(4)].map(|hop| hop.map(|hop| format!("10.0.0.{hop}"))).to_vec();
        assert_eq!(report.members, [crate::report::TraceMemberReport { flows: 6, addresses }]);
        assert_eq!(report.members_confidence, Some(1.0 - 2.0 / 64.0));
        assert_eq!(probe.missing_quotes(), None);
    }

    #[test]
    fn where_flows_are_spread_as_many_are_sent_as_it_takes_to_find_all_members() {
        // Two at the second hop; a third router there takes no flow, and one at the third hop does not answer.
        let router = |hop: u8, flow: u8| match hop {
            2 => Some((20 + flow % 2, EF_ECT0)),
            3 if flow % 2 == 1 => None,
            hop => Some((hop, EF_ECT0)),
        };
        let (found, packets) = trace(probe(4, PortProtocol::Udp), router, Some(EF_ECT0), usize::MAX);
        let report = found.report().unwrap();
        assert_eq!(report.hops[1].addresses, [("10.0.0.20".to_owned(), 6), ("10.0.0.21".to_owned(), 5)].into());
        let member = |flows, second, third: Option<u8>| crate::report::TraceMemberReport {
            flows,
            addresses: [Some(1), Some(second), third, Some(4)]
                .map(|hop| hop.map(|hop| format!("10.0.0.{hop}")))
                .to_vec(),
        };
        assert_eq!(report.members, [member(6, 20, Some(3)), member(5, 21, None)]);
        let confidence = report.members_confidence.unwrap();
        assert!((0.95..0.99).contains(&confidence), "{confidence}");
        // Eleven flows at each hop, and five once more where the third one does not answer.
        assert_eq!(packets, 3 * 11 + 11 + 5 + 4 * 4);
        // More than it takes 27 flows to find are not said to be all.
        let (found, _) = trace(probe(1, PortProtocol::Tcp), |_, flow| Some((flow, 0)), None, usize::MAX);
        let report = found.report().unwrap();
        assert_eq!((report.members.len(), report.members_confidence), (27, Some(0.0)));
        assert!(report.far_end.is_none(), "no SYN is sent to the far end");
    }

    #[test]
    fn a_change_is_between_the_places_where_it_is_seen() {
        let (kept, no_dscp) = (Some(EF_ECT0), Some(0b10));
        assert_eq!(changes(&[kept, kept, no_dscp], no_dscp), [change("DSCP", "CS0", 2, Some(3))]);
        assert_eq!(changes(&[kept, None, None], Some(46 << 2)), [change("ECN", "Not-ECT", 1, None)]);
        assert_eq!(
            changes(&[no_dscp], Some(0)),
            [change("DSCP", "CS0", 0, Some(1)), change("ECN", "Not-ECT", 1, None)]
        );
        // A router quotes what it would have sent.
        assert_eq!(changes(&[kept, no_dscp, kept], kept), []);
        assert_eq!(changes(&[], no_dscp), [change("DSCP", "CS0", 0, None)]);
        // Only the way of the own flow is compared with what arrives.
        let router = |hop: u8, flow: u8| Some((hop, if flow == 0 { EF_ECT0 } else { 0b10 }));
        let (found, _) = trace(probe(2, PortProtocol::Udp), router, kept, usize::MAX);
        assert_eq!(found.report().unwrap().changes, []);
    }

    #[test]
    fn answers_beyond_what_was_sent_count_for_nothing() {
        let mut probe = probe(2, PortProtocol::Udp);
        let probes = [1, 2].map(|hop_limit| HopProbe { flow: 0, hop_limit }).to_vec();
        let trace = HopTrace { ds_field: EF_ECT0, probes, timeout: Span::ZERO, max_duration: Span::ZERO };
        let answer = |index| HopAnswer {
            index,
            from: None,
            is_v6: true,
            icmp_type: 3,
            icmp_code: 0,
            round_trip: Span::from_millis(-1),
            quoted_ds_field: None,
        };
        let answers = [0, 0, 1, 7, u32::MAX].map(answer).to_vec();
        probe.record_answers(&trace, &HopTraceRecord { sent: vec![0, 9], answers, can_read_quotes: false });
        probe.record_arrivals(&MarkedRecord {
            sent: vec![0, 1],
            arrivals: [0, 0, 3].map(|index| MarkedArrival { index, ds_field: None, hop_limit: None }).to_vec(),
        });
        let report = probe.report().unwrap();
        assert_eq!((report.hops.len(), report.hops[0].sent, report.hops[0].answered), (1, 1, 1));
        let far_end = report.far_end.unwrap();
        assert_eq!((far_end.sent, far_end.arrived), (2, 1));
        assert_eq!((report.members.len(), report.members_confidence), (0, None));
        assert!(probe.missing_quotes().unwrap().contains("CAP_NET_RAW"));
    }

    #[test]
    fn where_nothing_arrives_some_more_are_asked_and_nothing_is_asked_without_time() {
        let (found, packets) = trace_one_way(&[Some(EF_ECT0), Some(EF_ECT0)], None);
        assert_eq!((packets, found.hops.len()), (2 * 4 + 2 * 6 + 2 * 2, 4));
        assert_eq!(probe(7, PortProtocol::Udp).next_step(Span::ZERO), None);
        assert_eq!(probe(7, PortProtocol::Udp).report(), None);
        // Rounds are divided where there is no time for all.
        let all = |hop: u8, _| Some((hop, EF_ECT0));
        assert_eq!(trace(probe(7, PortProtocol::Udp), all, Some(EF_ECT0), 5).1, 9 * 4 + 6 * 7);
        // No more hops than an octet counts, of as many flows as there may be, of which each answer is another's.
        let (found, packets) =
            trace(probe(255, PortProtocol::Tcp), |hop, flow| Some((hop ^ flow << 3, 0)), None, usize::MAX);
        assert_eq!(packets, 30 * 27);
        assert!(found.max_packets() >= packets);
    }
}
