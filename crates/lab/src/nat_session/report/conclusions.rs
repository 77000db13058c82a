//! The results in sentences, and what the numbers do not show.

use super::document::NatSessionReport;
use crate::nat_session::summary::{CaseSummary, Spread};
use crate::report::describe_disturbances;
use kumade_multipath::nat_session::NatConfig;
use kumade_units::Span;

/// What each case shows, beside what the paper's Fig. 3 says.
pub(super) fn conclusions(report: &NatSessionReport) -> Vec<String> {
    let of = |case| {
        [
            begin_conclusion(case),
            wait_conclusion(case),
            idle_conclusion(case),
            survival_conclusion(case),
            packet_conclusion(case),
        ]
        .into_iter()
        .flatten()
    };
    report.summary.cases.iter().flat_map(of).collect()
}

fn begin_conclusion(case: &CaseSummary) -> Option<String> {
    let CaseSummary { case: label, opened, sessions, max_requests, .. } = case;
    let Some(Spread { median, max, .. }) = case.opened_seconds else {
        return Some(format!("{label}: no flow is divided"));
    };
    let again = if *max_requests > 1 { format!(", asked for up to {max_requests} times") } else { String::new() };
    Some(format!(
        "{label}: sessions open by themselves ({opened} of {sessions}){again}; flows are divided {} after their first packet, {} at \
         most",
        span_from_seconds(median),
        span_from_seconds(max)
    ))
}

fn wait_conclusion(case: &CaseSummary) -> Option<String> {
    let Spread { median, max, .. } = case.first_packet_wait_seconds?;
    Some(format!(
        "{}: a flow's first packet waits {}, {} at most",
        case.case,
        span_from_seconds(median),
        span_from_seconds(max)
    ))
}

fn idle_conclusion(case: &CaseSummary) -> Option<String> {
    let Spread { min, median, max } = case.idle_ratio?;
    let paper = NatConfig::default().idle_timeout;
    Some(format!(
        "{}: sessions end {median:.2} idle times after the last packet ({min:.2} to {max:.2}, {} sessions); the paper's {paper} would \
         be {:.0} s",
        case.case,
        case.idle,
        median * paper.as_secs_f64()
    ))
}

fn survival_conclusion(case: &CaseSummary) -> Option<String> {
    let Spread { median, max, .. } = case.recovered_seconds?;
    Some(format!(
        "{}: flows have a new session {} after the kill, {} at most",
        case.case,
        span_from_seconds(median),
        span_from_seconds(max)
    ))
}

fn packet_conclusion(case: &CaseSummary) -> Option<String> {
    let CaseSummary { sent_packets, lost_packets, altered_packets, .. } = case;
    (lost_packets + altered_packets > 0).then(|| {
        format!(
            "{}: of {sent_packets} packets, {lost_packets} are lost, and {altered_packets} reach their host from another address",
            case.case
        )
    })
}

fn span_from_seconds(seconds: f64) -> Span {
    Span::from_micros((seconds * 1e6).round() as i64)
}

/// Disturbed and repeated runs, and where the gateways differ from the paper's.
pub(super) fn run_notes(report: &NatSessionReport) -> Vec<String> {
    let mut notes = describe_disturbances(report.rows.iter().map(|row| (row.repeats, row.disturbed)));
    notes.push(
        "in the paper, the sending gateway divides until its FIN is confirmed; here it stops before, so that no packet comes \
         without a rule"
            .into(),
    );
    notes.push(
        "packets of a flow without a session take the first path, and are not held back; the paper has messages and data travel at \
         the same time as well"
            .into(),
    );
    notes.push(match report.virtual_time {
        true => "in virtual time, kernels, hosts and keys are models; the session protocol is the gateways' own".into(),
        false => {
            "what gateways do is read from their status every 5 ms; their hosts share one namespace at either site"
                .into()
        }
    });
    notes
}
