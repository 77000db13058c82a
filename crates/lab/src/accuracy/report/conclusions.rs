//! The results in sentences, and what the numbers do not show.

use super::case;
use super::document::Report;
use super::format::{RateUnit, format_percent, format_small_percent, format_with_limit};
use crate::accuracy::full_measurement::{AccuracyLimits, CapacitySummary, DelaySummary, ShaperSummary};
use kumade_link::MAX_UNDISTURBED_LATENESS;
use kumade_units::Span;
use std::collections::BTreeMap;

/// The results of each transport and method in one sentence, then those of full measurements.
pub(super) fn conclusions(report: &Report) -> Vec<String> {
    let verdict = |(transport, method): (&str, String)| method_conclusion(report, transport, &method);
    report.combinations().into_iter().map(verdict).chain(full_measurement_conclusions(report)).collect()
}

fn method_conclusion(report: &Report, transport: &str, method: &str) -> String {
    let s = &report.summary;
    let runs = s.runs[transport][method];
    let measured = runs - s.runs_without_estimate[transport][method];
    let relative = s.median_relative_error_ratio[transport][method];
    let cost = (s.mean_sent_bytes[transport][method], s.mean_duration_seconds[transport][method]);
    let (Some(error), Some(relative), (Some(bytes), Some(seconds))) =
        (mean_error(report, transport, method), relative, cost)
    else {
        return format!("{transport} {method}: no estimate in any of {runs} runs");
    };
    format!(
        "{transport} {method}: an estimate in {measured} of {runs} runs{}; mean absolute error {error}, median relative error \
         {}; {:.0} kB and {seconds:.2} s per direction on average{}",
        describe_disturbed(s.runs_disturbed[transport][method]),
        format_with_limit(relative, report.limits.available_median_error_ratio, format_percent),
        bytes / 1e3,
        full_duration(report, transport, method)
    )
}

/// Runs whose figures are not the method's.
fn describe_disturbed(runs: u32) -> String {
    if runs == 0 { String::new() } else { format!(" ({runs} of them disturbed by this host)") }
}

/// In the report's unit, or relative to the bottleneck's rate where that was varied.
fn mean_error(report: &Report, transport: &str, method: &str) -> Option<String> {
    let s = &report.summary;
    if case::cases_vary(report) {
        let ratio = s.mean_absolute_error_to_capacity_ratio[transport][method]?;
        return Some(format!("{} of the bottleneck's rate", format_percent(ratio)));
    }
    let unit = RateUnit::for_rate(report.bottleneck.rate_bits_per_second);
    let bits = s.mean_absolute_error_bits_per_second[transport][method]?;
    Some(format!("{} {}", unit.format_rate(bits), unit.name))
}

/// How long full measurements took, where there were any in real time.
fn full_duration(report: &Report, transport: &str, method: &str) -> String {
    let seconds = report.summary.mean_full_seconds.get(transport).and_then(|methods| methods[method]);
    let judged =
        |seconds| format_with_limit(seconds, report.limits.mean_full_seconds, |seconds| format!("{seconds:.2} s"));
    seconds.map_or(String::new(), |seconds| format!("; a full measurement took {} on average", judged(seconds)))
}

/// The results of each transport, in one sentence for each quantity.
pub(super) fn full_measurement_conclusions(report: &Report) -> Vec<String> {
    let limits = &report.limits;
    let mut verdicts = Vec::new();
    for (transport, full) in &report.summary.full {
        let sentences = [
            capacity_conclusion(limits, &full.capacity),
            shaper_conclusion(limits, &full.shaper),
            delay_conclusion(limits, &full.delay),
        ];
        verdicts.extend(sentences.into_iter().flatten().map(|verdict| format!("{transport}: {verdict}")));
    }
    verdicts
}

fn capacity_conclusion(limits: &AccuracyLimits, found: &CapacitySummary) -> Option<String> {
    let runs = found.runs;
    let (Some(median), Some(worst)) = (found.median_error_ratio, found.worst_error_ratio) else {
        return (runs > 0).then(|| format!("no capacity in any of {runs} runs"));
    };
    let coverage = found.interval_coverage_ratio;
    let coverage =
        coverage.map_or(String::new(), |ratio| format!("; coverage of the interval {}", format_percent(ratio)));
    Some(format!(
        "a capacity in {} of {runs} runs; median error {}, worst error {}{coverage}",
        runs - found.refusals,
        format_with_limit(median, limits.capacity_median_error_ratio, format_small_percent),
        format_with_limit(worst, limits.capacity_worst_error_ratio, format_small_percent),
    ))
}

fn shaper_conclusion(limits: &AccuracyLimits, found: &ShaperSummary) -> Option<String> {
    let runs = found.runs;
    let detected = match (found.worst_rate_error_ratio, found.worst_burst_error_ratio) {
        (Some(rate), Some(burst)) => Some(format!(
            "token bucket detected in {} of {runs} runs; worst error of its rate {}, of its burst {}",
            runs - found.undetected,
            format_with_limit(rate, limits.shaped_rate_worst_error_ratio, format_small_percent),
            format_with_limit(burst, limits.burst_worst_error_ratio, format_small_percent)
        )),
        _ => (runs > 0).then(|| format!("token bucket not detected in any of {runs} runs")),
    };
    let false_positives = match found.false_positives {
        0 => None,
        runs => Some(format!("token bucket detected in {runs} runs where there is none")),
    };
    let parts: Vec<_> = detected.into_iter().chain(false_positives).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn delay_conclusion(limits: &AccuracyLimits, found: &DelaySummary) -> Option<String> {
    Some(format!(
        "one-way delay of the idle path: median error {}, worst error {}; coverage of the bounds {}, {} apart in the median",
        format_small_percent(found.median_error_ratio?),
        format_with_limit(found.worst_error_ratio?, limits.delay_worst_error_ratio, format_small_percent),
        format_percent(found.bound_coverage_ratio?),
        Span::from_secs_f64(found.median_bound_width_seconds?)
    ))
}

/// Why figures are missing, warnings, and disturbed runs, each with the number of runs.
pub(super) fn run_notes(report: &Report) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in &report.rows {
        let who = format!("{} {}", row.transport, row.method);
        let no_estimate = row.reason.iter().map(|reason| format!("{who}: no estimate: {reason}"));
        let no_capacity = row.capacity_reason.iter().map(|reason| format!("{}: no capacity: {reason}", row.transport));
        let warnings = row.warnings.iter().map(|warning| format!("{who}: {warning}"));
        let disturbed = row.disturbed.then(|| {
            format!(
                "{who}: host scheduling delay of more than {MAX_UNDISTURBED_LATENESS} in every repetition; the figures are not the path's"
            )
        });
        for note in no_estimate.chain(no_capacity).chain(warnings).chain(disturbed) {
            *counts.entry(note).or_default() += 1;
        }
    }
    let times = |(note, count)| if count == 1 { note } else { format!("{note} ({count} runs)") };
    counts.into_iter().map(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::sample_reports;

    #[test]
    fn notes_state_why_there_is_no_estimate() {
        let notes = run_notes(&sample_reports::firewall_report());
        assert_eq!(notes, ["udp primed: no estimate: UDP is rejected on the way to 10.0.1.2"]);
    }

    #[test]
    fn notes_count_disturbed_runs() {
        let mut report = sample_reports::firewall_report();
        report.rows.iter_mut().for_each(|row| (row.disturbed, row.transport) = (true, crate::accuracy::Transport::Udp));
        let notes = run_notes(&report);
        assert!(
            notes[0].contains("host scheduling delay of more than 300 µs") && notes[0].ends_with("(2 runs)"),
            "{notes:?}"
        );
    }
}
