use super::row::{FlowRow, NatSessionRow, SessionEnd, SessionRow};
use super::scenario::NatSessionExperiment;
use crate::paper::Paper;
use crate::statistics::{median, min_and_max};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rows summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NatSessionSummary {
    /// One for each case that was run, in their order.
    pub cases: Vec<CaseSummary>,
    /// The published experiment that this one repeats; null where it repeats none.
    pub published: Option<Paper>,
}

/// The runs of one case. Where nothing of a kind happened, its value is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseSummary {
    /// What happened.
    pub case: String,
    /// How many runs.
    pub runs: u32,
    /// Flows in all runs.
    pub flows: u64,
    /// Sessions of these.
    pub sessions: u64,
    /// How many of them were opened.
    pub opened: u64,
    /// How many ended as idle.
    pub idle: u64,
    /// How many ended because a gateway was killed or no longer answered.
    pub lost: u64,
    /// From a flow's first packet until its first session is asked for.
    pub asked_seconds: Option<Spread>,
    /// From a flow's first packet until the receiving gateway has its rule.
    pub granted_seconds: Option<Spread>,
    /// From a flow's first packet until it is divided.
    pub opened_seconds: Option<Spread>,
    /// From a flow's last packet until it is divided no more, relative to the idle time; of sessions that end as idle.
    pub idle_ratio: Option<Spread>,
    /// From then until the receiving gateway has removed its rule.
    pub removed_seconds: Option<Spread>,
    /// From then until the sending gateway has forgotten the session.
    pub forgotten_seconds: Option<Spread>,
    /// From the moment when a gateway was killed until a flow had its next session.
    pub recovered_seconds: Option<Spread>,
    /// The most requests for one session.
    pub max_requests: u32,
    /// How much longer than its path takes a flow's first packet was under way.
    pub first_packet_wait_seconds: Option<Spread>,
    /// Packets that hosts have sent.
    pub sent_packets: u64,
    /// Packets that did not arrive.
    pub lost_packets: u64,
    /// Packets that arrived from another address than their host's.
    pub altered_packets: u64,
    /// Packets that were divided.
    pub divided_packets: u64,
}

/// The middle and the ends of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The maximum.
    pub max: f64,
}

impl NatSessionSummary {
    pub(super) fn from_rows(rows: &[NatSessionRow], experiment: &NatSessionExperiment) -> Self {
        let cases = experiment.cases.iter().filter_map(|case| {
            let own: Vec<_> = rows.iter().filter(|row| row.case == case.label).collect();
            (!own.is_empty()).then(|| CaseSummary::from_case_rows(&case.label, &own))
        });
        NatSessionSummary { cases: cases.collect(), published: experiment.paper.clone() }
    }
}

impl CaseSummary {
    fn from_case_rows(case: &str, rows: &[&NatSessionRow]) -> Self {
        let flows = || rows.iter().flat_map(|row| &row.flows);
        let sessions = || flows().flat_map(|flow| &flow.sessions);
        let first = |value: fn(&SessionRow) -> Option<f64>| {
            Spread::from_values(flows().filter_map(|flow| value(flow.sessions.first()?)))
        };
        let idle = |value: fn(&SessionRow) -> Option<f64>| {
            Spread::from_values(sessions().filter(|session| session.end == SessionEnd::Idle).filter_map(value))
        };
        let ended = |end: SessionEnd| sessions().filter(|session| session.end == end).count() as u64;
        let total = |packets: fn(&FlowRow) -> u64| flows().map(packets).sum();
        CaseSummary {
            case: case.to_owned(),
            runs: rows.len() as u32,
            flows: flows().count() as u64,
            sessions: sessions().count() as u64,
            opened: sessions().filter(|session| session.opened_seconds.is_some()).count() as u64,
            idle: ended(SessionEnd::Idle),
            lost: ended(SessionEnd::Lost),
            asked_seconds: first(|session| Some(session.asked_seconds)),
            granted_seconds: first(|session| session.granted_seconds),
            opened_seconds: first(|session| session.opened_seconds),
            idle_ratio: idle(|session| session.idle_ratio),
            removed_seconds: idle(|session| Some(session.removed_seconds? - session.left_seconds?)),
            forgotten_seconds: idle(|session| Some(session.forgotten_seconds? - session.left_seconds?)),
            recovered_seconds: Spread::from_values(flows().filter_map(recovery_seconds)),
            max_requests: sessions().map(|session| session.requests).max().unwrap_or(0),
            first_packet_wait_seconds: Spread::from_values(flows().filter_map(|flow| flow.first_packet_wait_seconds)),
            sent_packets: total(|flow| flow.sent_packets),
            lost_packets: total(|flow| flow.lost_packets),
            altered_packets: total(|flow| flow.altered_packets),
            divided_packets: sessions().map(|session| session.divided_packets).sum(),
        }
    }
}

/// How long after a gateway was killed the next session was opened.
fn recovery_seconds(flow: &FlowRow) -> Option<f64> {
    let killed = flow.killed_seconds?;
    let opened = flow.sessions.iter().filter_map(|session| session.opened_seconds);
    opened.map(|opened| opened - killed).find(|after| *after > 0.0)
}

impl Spread {
    fn from_values(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<_> = values.collect();
        let (min, max) = min_and_max(&values)?;
        Some(Spread { min, median: median(&values)?, max })
    }
}
