//! The results in sentences, and what the numbers do not show.

use super::document::{MultipathReport, WorkloadName};
use super::{blocks, fixed_ratios};
use crate::multipath::comparison::ComparisonResult;
use crate::multipath::summary::PointSummary;
use crate::report::describe_disturbances;

/// With what every gateway is compared.
const REFERENCE_PEER: &str = "mptcp";
/// Of UDP: the part of what the kernel forwards by itself that is to be left with a gateway, …
const REQUIRED_SHARE_OF_SINGLE: f64 = 0.85;
/// … and the part of that with translation.
const REQUIRED_SHARE_OF_DIRECT: f64 = 0.95;

/// What was required, and how it compares with Multipath TCP and with what was published.
pub(super) fn conclusions(report: &MultipathReport) -> Vec<String> {
    match report.workload {
        WorkloadName::Transfer => {
            let points = &report.summary.points;
            let required = points.iter().filter_map(requirement_conclusion);
            let published = points.iter().filter_map(published_conclusion);
            let compared = report.summary.comparisons.iter().map(ComparisonResult::in_words);
            let lines =
                required.chain(peer_conclusions(report)).chain(published).chain(fixed_ratios::comparison_lines(report));
            lines.chain(compared).collect()
        }
        WorkloadName::Blocks => blocks::conclusions(report),
        WorkloadName::Numbered => report.summary.points.iter().filter_map(reordering_conclusion).collect(),
        WorkloadName::Flood => {
            report.summary.cases().into_iter().flat_map(|case| forwarding_conclusions(report, case)).collect()
        }
    }
}

fn requirement_conclusion(point: &PointSummary) -> Option<String> {
    let (required, share) = (point.required_share_ratio?, point.share_of_framing_ratio?.value);
    let verdict = if share >= required { "met" } else { "not met" };
    Some(format!(
        "{}: {} gets {:.1} % of what its framing leaves, minimum {:.1} %; required {:.0} %: {verdict}",
        point.case,
        point.contender,
        share * 100.0,
        point.min_share_of_framing_ratio? * 100.0,
        required * 100.0
    ))
}

/// The planes that put packets in order, beside Multipath TCP.
fn peer_conclusions(report: &MultipathReport) -> Vec<String> {
    let line = |point: &PointSummary| {
        let peer = report.summary.point(&point.case, REFERENCE_PEER)?;
        let (own, other) = (point.goodput_bits_per_second?.value, peer.goodput_bits_per_second?.value);
        let gaps = point.longest_gap_seconds.zip(peer.longest_gap_seconds);
        let gaps = gaps.map_or(String::new(), |(own, other)| {
            format!("; longest gap {:.0} ms against {:.0} ms", own * 1e3, other * 1e3)
        });
        Some(format!(
            "{}: {} {:.2} Mbit/s, Multipath TCP {:.2} Mbit/s ({:+.1} %){gaps}",
            point.case,
            point.contender,
            own / 1e6,
            other / 1e6,
            (own / other - 1.0) * 100.0
        ))
    };
    report.summary.points.iter().filter(|point| point.contender == "bonded").filter_map(line).collect()
}

fn published_conclusion(point: &PointSummary) -> Option<String> {
    let published = point.published.iter().find_map(|published| Some((published, published.share_of_sum_ratio?)));
    let ((published, theirs), ours) = (published?, point.share_of_sum_ratio?.value);
    Some(format!(
        "{}: {} {:.1} % of the sum, {} {:.0} %",
        point.case,
        point.contender,
        ours * 100.0,
        published.source,
        theirs * 100.0
    ))
}

fn reordering_conclusion(point: &PointSummary) -> Option<String> {
    let (reordered, received) = (point.reordered_packets?, point.received_packets?);
    let extent = point.max_extent_packets.map_or(String::new(), |max| format!(", by up to {max} packets"));
    let part = reordered / received.max(1.0) * 100.0;
    let lost = point.lost_packets.unwrap_or(0.0);
    Some(format!(
        "{}: with {}, {reordered:.0} of {received:.0} packets ({part:.1} %) arrive out of order{extent}; {lost:.0} are lost",
        point.case, point.contender
    ))
}

fn forwarding_conclusions(report: &MultipathReport, case: &str) -> Vec<String> {
    let goodput = |plane: &str| {
        let own = report
            .summary
            .points
            .iter()
            .find(|point| point.case == case && point.contender.split(' ').next() == Some(plane));
        Some(own?.goodput_bits_per_second?.value)
    };
    let line = |own: &str, of: &str, required: f64, words: &str| {
        let part = goodput(own)? / goodput(of)?;
        let verdict = if part >= required { "met" } else { "not met" };
        Some(format!("{case}: {words} {:.1} % of that; required {:.0} %: {verdict}", part * 100.0, required * 100.0))
    };
    let kernel =
        goodput("single").map(|single| format!("{case}: the kernel forwards {:.0} Mbit/s by itself", single / 1e6));
    let lines = [
        kernel,
        line("direct", "single", REQUIRED_SHARE_OF_SINGLE, "dividing packets leaves"),
        line("direct-nat", "direct", REQUIRED_SHARE_OF_DIRECT, "translating their addresses as well leaves"),
    ];
    lines.into_iter().flatten().collect()
}

/// Disturbed and repeated runs.
pub(super) fn run_notes(report: &MultipathReport) -> Vec<String> {
    let mut notes = describe_disturbances(report.rows.iter().map(|row| (row.repeats, row.disturbed)));
    notes.extend(report.skipped.iter().map(|skipped| format!("skipped {skipped}")));
    if report.virtual_time {
        notes.push(
            "Multipath TCP and the translation of addresses have no form in virtual time, and are left out".into(),
        );
    }
    if report.virtual_time && report.workload == WorkloadName::Numbered {
        notes.push(
            "in virtual time, only the greatest extent of reordering is known, and not the order of single packets: without --virtual, the \
             report has the median and the 95th percentile of the extent, and the plots of the published figure"
                .into(),
        );
    }
    if report.workload == WorkloadName::Transfer {
        notes.push(
            "framing: the payload of a full packet relative to its length on a path, with all headers (IP, TCP with options, \
             and a tunnel's); what is left of the sum of the paths' rates is that part of it"
                .into(),
        );
    }
    notes
}
