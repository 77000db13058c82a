//! How long an address translator or a firewall keeps state of a flow that is idle: several flows at once, each idle for another time; then
//! more of them between the longest that was kept and the shortest that was not.
//!
//! State counts as kept where the far end's packet arrives down the flow after the idle time.

use crate::report::{IdleTimeoutReport, IdleTimeoutsReport};
use kumade_units::Span;

/// Flows of each kind in the first round: at 5 minutes, one lasts by a third longer than the one before.
const FLOWS: i32 = 16;
/// The shortest idle time of the first round is this part of the longest one.
const SHORTEST_PART: f64 = 1.0 / 64.0;
/// Flows between the two in the second round, and …
const REFINING_FLOWS: i32 = 10;
/// … those that are to confirm the shortest idle time after which state was gone.
const CONFIRMING_FLOWS: usize = 2;
/// So many flows without state, longer than all with state, show that it was not lost packets; the upper end is that of the last of them.
const MIN_EXPIRED_FLOWS: usize = 2;

/// A kind of flow, which translators and firewalls keep for a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowKind {
    /// UDP: one packet each way.
    Udp,
    /// UDP: packets each way for longer than two seconds, as Linux takes for a stream.
    UdpStream,
    /// An open TCP connection.
    Tcp,
}

impl FlowKind {
    /// All of them.
    pub const ALL: [FlowKind; 3] = [FlowKind::Udp, FlowKind::UdpStream, FlowKind::Tcp];
}

/// Flows that are to be idle at the same time, each for this long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleRound {
    /// At most [`IdleRound::MAX_FLOWS`].
    pub flows: Vec<(FlowKind, Span)>,
}

/// What became of such a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleFlowResult {
    /// For how long it was idle, at least and at most.
    pub idle: [Span; 2],
    /// Whether what the far end then sent has arrived.
    pub has_passed_down: bool,
    /// Whether what this host then sent has arrived at the far end, as of the same flow.
    pub has_passed_up: bool,
}

impl IdleRound {
    /// Flows of a round at most.
    pub const MAX_FLOWS: usize = 3 * FLOWS as usize;

    /// The longest idle time.
    pub fn duration(&self) -> Span {
        self.flows.iter().map(|(_, idle)| *idle).max().unwrap_or(Span::ZERO)
    }
}

/// The search for idle timeouts.
#[derive(Debug)]
pub(crate) struct IdleTimeoutProbe {
    max_idle: Span,
    rounds: u32,
    pending: Option<IdleRound>,
    results: Vec<(FlowKind, IdleFlowResult)>,
}

impl IdleTimeoutProbe {
    /// Up to this idle time.
    pub(crate) fn new(max_idle: Span) -> Self {
        IdleTimeoutProbe { max_idle, rounds: 0, pending: None, results: Vec::new() }
    }

    /// The next flows; none where all is known that two rounds tell.
    pub(crate) fn next_round(&mut self) -> Option<IdleRound> {
        self.rounds += 1;
        let flows: Vec<_> = match self.rounds {
            1 => FlowKind::ALL.iter().flat_map(|kind| self.first_times().map(|idle| (*kind, idle))).collect(),
            2 => FlowKind::ALL
                .iter()
                .flat_map(|kind| self.refining_times(*kind).into_iter().map(|idle| (*kind, idle)))
                .collect(),
            _ => Vec::new(),
        };
        self.pending = (!flows.is_empty()).then_some(IdleRound { flows });
        self.pending.clone()
    }

    fn first_times(&self) -> impl Iterator<Item = Span> + use<> {
        geometric(scaled(self.max_idle, SHORTEST_PART), self.max_idle, FLOWS)
    }

    /// Times within what is known, and the upper end of it once more.
    fn refining_times(&self, kind: FlowKind) -> Vec<Span> {
        let Bracket { kept, first_gone: Some(gone), .. } = self.bracket(kind) else { return Vec::new() };
        // No longer than was asked for: the driver's times may be a little longer.
        let gone = gone.min(self.max_idle);
        let low = kept.unwrap_or_else(|| scaled(gone, SHORTEST_PART));
        let between = geometric(low, gone, REFINING_FLOWS + 2).skip(1).take(REFINING_FLOWS as usize);
        between.chain(std::iter::repeat_n(gone, CONFIRMING_FLOWS)).collect()
    }

    /// Notes down what became of the flows, in their order; none of those that could not be opened.
    pub(crate) fn record_round(&mut self, results: &[Option<IdleFlowResult>]) {
        let Some(round) = self.pending.take() else { return };
        for ((kind, _), result) in round.flows.iter().zip(results) {
            self.results.extend(result.map(|result| (*kind, result)));
        }
    }

    fn bracket(&self, kind: FlowKind) -> Bracket {
        let of_kind = || self.results.iter().filter(move |(of, _)| *of == kind).map(|(_, result)| result);
        let kept = of_kind().filter(|result| result.has_passed_down).map(|result| result.idle[0]).max();
        let is_later =
            |result: &&IdleFlowResult| !result.has_passed_down && kept.is_none_or(|kept| result.idle[1] > kept);
        let mut expired: Vec<_> = of_kind().filter(is_later).collect();
        expired.sort_by_key(|result| result.idle[1]);
        let passed_up = expired.iter().filter(|result| result.has_passed_up).count();
        Bracket {
            kept,
            first_gone: expired.first().map(|result| result.idle[1]),
            gone: expired.get(MIN_EXPIRED_FLOWS - 1).or(expired.last()).map(|result| result.idle[1]),
            expired: expired.len(),
            passed_up,
            flows: of_kind().count(),
            lost_earlier: of_kind().filter(|result| !result.has_passed_down).count() - expired.len(),
        }
    }

    /// What is known; `failure` is the reason why no more is.
    pub(crate) fn report(&self, failure: Option<String>) -> IdleTimeoutsReport {
        let [udp, udp_stream, tcp] = FlowKind::ALL.map(|kind| self.bracket(kind).report());
        IdleTimeoutsReport { max_idle_seconds: self.max_idle.as_secs_f64(), udp, udp_stream, tcp, failure }
    }
}

/// What is known of a kind of flow.
#[derive(Debug)]
struct Bracket {
    /// The longest idle time after which state was still there.
    kept: Option<Span>,
    /// The shortest that is longer, after which it was not: by lost packets, maybe.
    first_gone: Option<Span>,
    /// One that is longer, after which it was not; also after one between them, where there are several: lost packets look the same.
    gone: Option<Span>,
    /// How many flows show the latter, and through how many of them packets passed up afterwards.
    expired: usize,
    passed_up: usize,
    flows: usize,
    lost_earlier: usize,
}

impl Bracket {
    fn report(&self) -> Option<IdleTimeoutReport> {
        let is_sure = self.gone.is_none() || self.expired >= MIN_EXPIRED_FLOWS;
        (self.flows > 0).then(|| IdleTimeoutReport {
            longer_than_seconds: self.kept.map(Span::as_secs_f64),
            at_most_seconds: self.gone.map(Span::as_secs_f64),
            is_sure: is_sure && (self.kept.is_some() || self.gone.is_some()),
            flows: self.flows as u32,
            lost_earlier: self.lost_earlier as u32,
            resumes_up: match (self.expired, self.passed_up) {
                (0, _) => None,
                (expired, passed) if passed == expired => Some(true),
                (_, 0) => Some(false),
                _ => None,
            },
        })
    }
}

fn scaled(span: Span, factor: f64) -> Span {
    Span::from_secs_f64(span.as_secs_f64() * factor)
}

/// So many times from the first to the last, each longer than the one before by the same part.
fn geometric(first: Span, last: Span, count: i32) -> impl Iterator<Item = Span> {
    let ratio = (last.as_secs_f64() / first.as_secs_f64()).powf(1.0 / f64::from(count - 1));
    (0..count).map(move |place| if place == count - 1 { last } else { scaled(first, ratio.powi(place)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const DELAY: Span = Span::from_millis(40);

    /// Searches where flows are forgotten after these times, and what is sent after the idle time is lost with this probability (three copies).
    fn search(timeouts: [f64; 3], loss: f64, seed: u64, max_idle: Span) -> (IdleTimeoutsReport, Vec<Span>) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut probe = IdleTimeoutProbe::new(max_idle);
        let mut durations = Vec::new();
        while let Some(round) = probe.next_round() {
            assert!(round.flows.len() <= IdleRound::MAX_FLOWS && round.duration() <= max_idle);
            durations.push(round.duration());
            let result = |(kind, idle): &(FlowKind, Span)| {
                let is_kept = (*idle + DELAY / 2).as_secs_f64() < timeouts[*kind as usize];
                let is_lost = random.random_bool(loss.powi(3));
                Some(IdleFlowResult {
                    idle: [*idle, *idle + DELAY],
                    has_passed_down: is_kept && !is_lost,
                    has_passed_up: true,
                })
            };
            let results: Vec<_> = round.flows.iter().map(result).collect();
            probe.record_round(&results);
        }
        (probe.report(None), durations)
    }

    #[test]
    fn timeouts_are_within_what_is_reported() {
        let (report, durations) = search([30.0, 120.0, 432_000.0], 0.0, 1, Span::from_secs(300));
        for (found, truth) in [(report.udp, 30.0), (report.udp_stream, 120.0)] {
            let found = found.unwrap();
            let (low, high) = (found.longer_than_seconds.unwrap(), found.at_most_seconds.unwrap());
            assert!(low <= truth && truth <= high && high / low < 1.1, "{found:?}");
            assert!(found.is_sure && found.resumes_up == Some(true) && found.lost_earlier == 0, "{found:?}");
        }
        let tcp = report.tcp.unwrap();
        assert_eq!((tcp.longer_than_seconds, tcp.at_most_seconds, tcp.is_sure), (Some(300.0), None, true));
        assert_eq!(durations.len(), 2);
        assert!(durations[1] < Span::from_secs(170), "{durations:?}: no longer than it takes to refine");
    }

    /// Lost packets make flows look forgotten: what is called sure is right all the same.
    #[test]
    fn losses_do_not_make_wrong_intervals_sure() {
        let mut sure = 0;
        for seed in 0..500 {
            let truth = 2.0 + seed as f64;
            let (report, _) = search([truth, truth, truth], 0.1, seed, Span::from_secs(310));
            for found in [report.udp, report.udp_stream, report.tcp].into_iter().flatten().filter(|found| found.is_sure)
            {
                sure += 1;
                let low = found.longer_than_seconds.unwrap_or(0.0);
                let high = found.at_most_seconds.unwrap_or(f64::INFINITY);
                assert!(low <= truth && truth <= high, "seed {seed}, truth {truth}: {found:?}");
            }
        }
        assert!(sure > 1400, "{sure} of 1500");
    }

    #[test]
    fn what_is_shorter_than_all_idle_times_has_an_upper_end_alone() {
        let (report, _) = search([1.0, 1.0, 1.0], 0.0, 1, Span::from_secs(300));
        let udp = report.udp.unwrap();
        assert!(udp.at_most_seconds.unwrap() < 5.0 && udp.is_sure, "{udp:?}");
    }

    #[test]
    fn flows_that_could_not_be_opened_tell_nothing() {
        let mut probe = IdleTimeoutProbe::new(Span::from_secs(10));
        let round = probe.next_round().unwrap();
        probe.record_round(&vec![None; round.flows.len()]);
        assert_eq!(probe.next_round(), None);
        let report = probe.report(Some("why".to_owned()));
        assert_eq!((report.udp, report.tcp, report.failure.as_deref()), (None, None, Some("why")));
    }
}
