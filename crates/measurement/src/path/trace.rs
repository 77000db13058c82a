//! The routers on the way up: which packets are sent so that each of them answers, and what the answers say.
//!
//! A few packets go to the far end itself, with one more hop than there are routers: how their mark arrives is what the last router made of it.
//! Those that end on the way come back as quotes, which show the mark as it was there (RFC 1812, 4.3.2.3).

use super::icmp::icmp_name;
use super::{dscp, ecn};
use crate::report::{FarEndMarkReport, HopReport, MarkChangeReport, TraceReport};
use kumade_probe_train::{HopAnswer, HopTrace, HopTraceRecord, Mark, MarkedRecord, MarkedTrain, statistics};
use kumade_units::Span;
use std::collections::{BTreeMap, VecDeque};

/// Packets for each router: Linux answers a host with six in a row, and then one a second (`net.ipv4.icmp_ratelimit`).
const ROUNDS: u32 = 3;
/// A router that has answered none of so many is not asked again.
const MAX_SILENT_ROUNDS: u32 = 2;
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

/// What is known of a router.
#[derive(Debug, Clone, PartialEq, Default)]
struct HopTally {
    sent: u32,
    answers: Vec<HopAnswer>,
}

/// What the routers on the way up have answered.
#[derive(Debug, Clone)]
pub(crate) struct TraceProbe {
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
    queue: VecDeque<u8>,
    can_read_quotes: bool,
}

impl TraceProbe {
    /// All of it takes no longer.
    pub(crate) const MAX_TIME: Span = Span::from_secs(10);

    /// With packets of this octet of DSCP and ECN, to a far end behind so many routers, a round trip away.
    pub(crate) fn new(ds_field: u8, routers: u8, round_trip: Span) -> Self {
        TraceProbe {
            ds_field,
            routers: routers.min(MAX_HOPS),
            timeout: round_trip + ANSWER_SLACK,
            sent_to_far_end: None,
            arrived: Vec::new(),
            is_far_end_next: true,
            hops: BTreeMap::new(),
            rounds_left: ROUNDS,
            queue: VecDeque::new(),
            can_read_quotes: false,
        }
    }

    /// More packets are never sent.
    pub(crate) fn max_packets(&self) -> u32 {
        ARRIVAL_PACKETS as u32 * (ROUNDS + MAX_DIVIDED_ROUNDS) + ROUNDS * u32::from(self.routers + EXTRA_HOPS)
    }

    /// What to send next, in this time; none once all has been asked.
    pub(crate) fn next_step(&mut self, time_left: Span) -> Option<TraceStep> {
        if time_left <= Span::ZERO {
            return None;
        }
        if self.sent_to_far_end.is_some() && self.queue.is_empty() && self.rounds_left > 0 {
            self.rounds_left -= 1;
            self.queue = (1..=self.last_hop()).filter(|hop| self.is_open(*hop)).collect();
        }
        let is_over = self.sent_to_far_end.is_some() && self.queue.is_empty();
        if self.is_far_end_next && !is_over {
            let mark = Mark { ds_field: self.ds_field, hop_limit: Some(self.routers + 1) };
            let marks = vec![mark; ARRIVAL_PACKETS];
            return Some(TraceStep::Arrival(MarkedTrain { interval: ARRIVAL_INTERVAL, marks }));
        }
        let hop_limits: Vec<u8> = self.queue.iter().copied().collect();
        let (ds_field, timeout, max_duration) = (self.ds_field, self.timeout, time_left.min(MAX_SILENCE));
        (!hop_limits.is_empty()).then_some(TraceStep::Hops(HopTrace { ds_field, hop_limits, timeout, max_duration }))
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
        let hop = |index: u32| Some((index, trace.hop_limits.get(index as usize).copied()?));
        let mut sent: BTreeMap<u32, u8> = record.sent.iter().filter_map(|index| hop(*index)).collect();
        for hop in sent.values() {
            self.hops.entry(*hop).or_default().sent += 1;
        }
        for answer in &record.answers {
            // Each packet is answered once.
            let Some(hop) = sent.remove(&answer.index) else { continue };
            self.hops.entry(hop).or_default().answers.push(*answer);
        }
        self.is_far_end_next = true;
        self.can_read_quotes |= record.can_read_quotes;
        // What could not be sent now can't be sent later, either.
        let done = record.sent.last().map_or(trace.hop_limits.len(), |last| *last as usize + 1);
        self.queue.drain(..done.min(self.queue.len()));
    }

    fn last_hop(&self) -> u8 {
        if self.arrived.is_empty() { (self.routers + EXTRA_HOPS).min(MAX_HOPS) } else { self.routers }
    }

    fn is_open(&self, hop: u8) -> bool {
        self.hops.get(&hop).is_none_or(|tally| tally.sent < MAX_SILENT_ROUNDS || !tally.answers.is_empty())
    }

    /// What has been found; none where nothing was sent.
    pub(crate) fn report(&self) -> Option<TraceReport> {
        let arrived_octets: Vec<u8> = self.arrived.iter().copied().flatten().collect();
        let far_end = FarEndMarkReport {
            sent: self.sent_to_far_end?,
            arrived: self.arrived.len() as u32,
            dscp: count_names(&arrived_octets, dscp_name),
            ecn: count_names(&arrived_octets, ecn_name),
        };
        let hops = self.hops.iter().map(|(hop, tally)| hop_report(*hop, tally)).collect();
        Some(TraceReport {
            dscp: dscp_name(self.ds_field),
            ecn: ecn_name(self.ds_field),
            hops,
            far_end,
            changes: self.changes(&arrived_octets),
        })
    }

    /// Why it is not known at which routers marks change; none where it is.
    pub(crate) fn missing_quotes(&self) -> Option<String> {
        let has_answers = self.hops.values().any(|tally| !tally.answers.is_empty());
        let text = "at which router DSCP and ECN change: only a process with CAP_NET_RAW may read what routers quote (run it as root)";
        (has_answers && !self.can_read_quotes).then(|| text.to_owned())
    }

    /// Where the mark changes: between two places where it is known.
    fn changes(&self, arrived_octets: &[u8]) -> Vec<MarkChangeReport> {
        let found = MarkField::BOTH.into_iter().flat_map(|MarkField { field, part, name }| {
            let seen = self.hops.iter().filter_map(|(hop, tally)| {
                let quoted: Vec<u8> = tally.answers.iter().filter_map(|answer| answer.quoted_ds_field).collect();
                Some((Some(*hop), most_frequent(&quoted, part)?))
            });
            let at_far_end = most_frequent(arrived_octets, part).map(|value| (None, value));
            let places: Vec<_> = [(Some(0), part(self.ds_field))].into_iter().chain(seen).chain(at_far_end).collect();
            changes_between(&places).into_iter().map(move |[(after, from), (before, to)]| MarkChangeReport {
                field: field.to_owned(),
                from: name(from),
                to: name(to),
                after_hop: after.unwrap_or(0),
                before_hop: before,
            })
        });
        found.collect()
    }
}

/// A part of the octet.
struct MarkField {
    field: &'static str,
    part: fn(u8) -> u8,
    /// Of an octet.
    name: fn(u8) -> String,
}

impl MarkField {
    const BOTH: [MarkField; 2] = [
        MarkField { field: "DSCP", part: |octet| octet & !0b11, name: dscp_name },
        MarkField { field: "ECN", part: |octet| octet & 0b11, name: ecn_name },
    ];
}

/// A hop, none for the far end, and a value there.
type Place = (Option<u8>, u8);

/// Where a value changes for good: what is there again further on has not been changed, but was quoted as it was to leave.
fn changes_between(places: &[Place]) -> Vec<[Place; 2]> {
    let (mut changes, mut next) = (Vec::new(), 0);
    while let Some((_, value)) = places.get(next) {
        let last = places.iter().rposition(|(_, other)| other == value).unwrap_or(next);
        if let Some(changed) = places.get(last + 1) {
            changes.push([places[last], *changed]);
        }
        next = last + 1;
    }
    changes
}

fn most_frequent(octets: &[u8], part: fn(u8) -> u8) -> Option<u8> {
    let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
    for octet in octets {
        *counts.entry(part(*octet)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

fn hop_report(hop: u8, tally: &HopTally) -> HopReport {
    let HopTally { sent, answers } = tally;
    let quoted: Vec<u8> = answers.iter().filter_map(|answer| answer.quoted_ds_field).collect();
    let times: Vec<f64> = answers.iter().map(|answer| answer.round_trip.as_secs_f64().max(0.0)).collect();
    HopReport {
        hop,
        sent: *sent,
        answered: answers.len() as u32,
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

fn dscp_name(octet: u8) -> String {
    dscp::name(octet >> 2)
}

fn ecn_name(octet: u8) -> String {
    ecn::name(octet & 0b11)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::MarkedArrival;

    const EF_ECT0: u8 = 46 << 2 | 0b10;
    const TIME_EXCEEDED: u8 = 11;

    /// Traces a path on which router `n` quotes octet `n - 1` of these, or does not answer; the far end gets the last one, if any.
    fn trace(quotes: &[Option<u8>], at_far_end: Option<u8>) -> (TraceProbe, u32) {
        let mut probe = TraceProbe::new(EF_ECT0, quotes.len() as u8, Span::from_millis(10));
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
                    // No more than five leave in the time.
                    let sent: Vec<u32> = (0..trace.hop_limits.len().min(5) as u32).collect();
                    packets += sent.len() as u32;
                    let answer = |index: &u32| {
                        let hop = trace.hop_limits[*index as usize];
                        let quoted = (*quotes.get(usize::from(hop) - 1)?)?;
                        Some(HopAnswer {
                            index: *index,
                            from: Some([10, 0, 0, hop].into()),
                            is_v6: false,
                            icmp_type: TIME_EXCEEDED,
                            icmp_code: 0,
                            round_trip: Span::from_millis(i64::from(hop)),
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

    fn changes(quotes: &[Option<u8>], at_far_end: Option<u8>) -> Vec<(String, String, u8, Option<u8>)> {
        let found = trace(quotes, at_far_end).0.report().unwrap().changes;
        found.into_iter().map(|change| (change.field, change.to, change.after_hop, change.before_hop)).collect()
    }

    fn change(field: &str, to: &str, after: u8, before: Option<u8>) -> (String, String, u8, Option<u8>) {
        (field.to_owned(), to.to_owned(), after, before)
    }

    #[test]
    fn each_router_is_asked_three_times_and_one_that_does_not_answer_twice() {
        let (probe, packets) = trace(&[Some(EF_ECT0), None, Some(EF_ECT0), Some(EF_ECT0)], Some(EF_ECT0));
        assert_eq!(packets, 3 * 4 + 3 * 3 + 2);
        let report = probe.report().unwrap();
        let counts: Vec<_> = report.hops.iter().map(|hop| (hop.hop, hop.sent, hop.answered)).collect();
        assert_eq!(counts, [(1, 3, 3), (2, 2, 0), (3, 3, 3), (4, 3, 3)]);
        let third = &report.hops[2];
        assert_eq!(third.addresses, [("10.0.0.3".to_owned(), 3)].into());
        assert_eq!(third.answers, [("time exceeded".to_owned(), 3)].into());
        assert_eq!(
            (third.round_trip_seconds, third.dscp.get("EF"), third.ecn.get("ECT(0)")),
            (Some(0.003), Some(&3), Some(&3))
        );
        assert_eq!((report.dscp.as_str(), report.ecn.as_str()), ("EF", "ECT(0)"));
        assert_eq!((report.far_end.sent, report.far_end.arrived), (12, 12));
        assert!(report.changes.is_empty(), "{report:?}");
        assert_eq!(probe.missing_quotes(), None);
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
    }

    #[test]
    fn answers_beyond_what_was_sent_count_for_nothing() {
        let mut probe = TraceProbe::new(EF_ECT0, 2, Span::ZERO);
        let hop_limits = vec![1, 2];
        let trace = HopTrace { ds_field: EF_ECT0, hop_limits, timeout: Span::ZERO, max_duration: Span::ZERO };
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
        assert_eq!((report.far_end.sent, report.far_end.arrived), (2, 1));
        assert!(probe.missing_quotes().unwrap().contains("CAP_NET_RAW"));
    }

    #[test]
    fn where_nothing_arrives_some_more_are_asked_and_nothing_is_asked_without_time() {
        let (probe, packets) = trace(&[Some(EF_ECT0), Some(EF_ECT0)], None);
        assert_eq!((packets, probe.hops.len()), (3 * 4 + 2 * 3 + 2 * 2, 4));
        assert_eq!(TraceProbe::new(0, 7, Span::ZERO).next_step(Span::ZERO), None);
        assert_eq!(TraceProbe::new(0, 7, Span::ZERO).report(), None);
        // Rounds are divided where there is no time for all.
        assert_eq!(trace(&[Some(EF_ECT0); 7], Some(EF_ECT0)).1, 6 * 4 + 3 * 7);
        // No more hops than an octet counts.
        assert!(TraceProbe::new(0, 255, Span::ZERO).next_step(Span::from_secs(1)).is_some());
    }
}
