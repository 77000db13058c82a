//! The results in sentences, and what the numbers do not show.

use super::case;
use super::document::Report;
use super::format::{Unit, hundredths, judged, percent};
use crate::accuracy::full::{CapacitySummary, DelaySummary, Limits, ShaperSummary};
use std::collections::BTreeMap;
use units::Span;

/// What each transport and method came to, in a sentence.
pub(super) fn all(report: &Report) -> Vec<String> {
    let s = &report.summary;
    let unit = Unit::fitting(report.bottleneck.rate_bits_per_second);
    let varied = case::vary(report);
    let verdict = |(transport, method): (&str, String)| {
        let method = method.as_str();
        let runs = s.runs[transport][method];
        let measured = runs - s.runs_without_estimate[transport][method];
        let error = match varied {
            false => s.mean_absolute_error_bits_per_second[transport][method]
                .map(|bits| format!("{} {}", unit.of(bits), unit.name)),
            true => s.mean_error_of_capacity_ratio[transport][method]
                .map(|ratio| format!("{:.1} % of the bottleneck's rate", ratio * 100.0)),
        };
        let relative = s.median_relative_error_ratio[transport][method];
        let cost = (s.mean_sent_bytes[transport][method], s.mean_duration_seconds[transport][method]);
        match (error, relative, cost) {
            (Some(error), Some(relative), (Some(bytes), Some(seconds))) => format!(
                "{transport} with {method} measured in {measured} of {runs} runs: {error} off the truth in the mean, {}, \
                 with {:.0} kB in {seconds:.2} s{}",
                judged(relative, "in the median", report.limits.available_median_error_ratio, percent),
                bytes / 1e3,
                everything(report, transport, method)
            ),
            _ => format!("{transport} with {method} could not measure this path in any of {runs} runs"),
        }
    };
    report.combinations().into_iter().map(verdict).chain(full_measurements(report)).collect()
}

/// How long measurements of everything took, where such were made in real time.
fn everything(report: &Report, transport: &str, method: &str) -> String {
    let seconds = report.summary.mean_whole_seconds.get(transport).and_then(|methods| methods[method]);
    let write = |seconds: f64| {
        let write = |seconds: f64| format!("{seconds:.2} s");
        format!("; everything took {}", judged(seconds, "in the mean", report.limits.mean_whole_seconds, write))
    };
    seconds.map_or(String::new(), write)
}

/// What each transport came to, in a sentence for each quantity.
pub(super) fn full_measurements(report: &Report) -> Vec<String> {
    let limits = &report.limits;
    let mut verdicts = Vec::new();
    for (transport, whole) in &report.summary.whole {
        let said = [
            capacity_verdict(limits, &whole.capacity),
            shaper_verdict(limits, &whole.shaper),
            delay_verdict(limits, &whole.delay),
        ];
        verdicts.extend(said.into_iter().flatten().map(|verdict| format!("{transport}: {verdict}")));
    }
    verdicts
}

fn capacity_verdict(limits: &Limits, found: &CapacitySummary) -> Option<String> {
    let runs = found.runs;
    let (Some(median), Some(worst)) = (found.median_error_ratio, found.worst_error_ratio) else {
        return (runs > 0).then(|| format!("no capacity in any of {runs} runs"));
    };
    let held = found.interval_coverage_ratio;
    let held = held.map_or(String::new(), |held| format!("; the interval held the truth in {}", percent(held)));
    Some(format!(
        "capacity in {} of {runs} runs, off the truth by {} and {}{held}",
        runs - found.refusals,
        judged(median, "in the median", limits.capacity_median_error_ratio, hundredths),
        judged(worst, "at worst", limits.capacity_worst_error_ratio, hundredths),
    ))
}

fn shaper_verdict(limits: &Limits, found: &ShaperSummary) -> Option<String> {
    let runs = found.runs;
    let seen = match (found.worst_rate_error_ratio, found.worst_burst_error_ratio) {
        (Some(rate), Some(burst)) => Some(format!(
            "the token bucket in {} of {runs} runs, its rate off the truth by {}, its burst by {}",
            runs - found.unseen,
            judged(rate, "at worst", limits.shaped_rate_worst_error_ratio, hundredths),
            judged(burst, "at worst", limits.burst_worst_error_ratio, hundredths)
        )),
        _ => (runs > 0).then(|| format!("the token bucket in none of {runs} runs")),
    };
    let alarms = match found.false_alarms {
        0 => None,
        alarms => Some(format!("a token bucket was seen in {alarms} runs where there is none")),
    };
    let parts: Vec<_> = seen.into_iter().chain(alarms).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn delay_verdict(limits: &Limits, found: &DelaySummary) -> Option<String> {
    Some(format!(
        "idle delay one way off the truth by {} in the median and {}; the bound held the truth in {} and is {} wide in \
         the median",
        hundredths(found.median_error_ratio?),
        judged(found.worst_error_ratio?, "at worst", limits.delay_worst_error_ratio, hundredths),
        percent(found.bound_coverage_ratio?),
        Span::from_secs_f64(found.median_bound_width_seconds?)
    ))
}

/// What the numbers can't say: why there are none, and what was warned of, each with how often.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in &report.rows {
        let who = format!("{} {}", row.transport, row.method);
        if let Some(reason) = &row.reason {
            *counts.entry(format!("{who}: no estimate, as {reason}")).or_default() += 1;
        }
        if let Some(reason) = &row.capacity_reason {
            *counts.entry(format!("{}: no capacity, as {reason}", row.transport)).or_default() += 1;
        }
        for warning in &row.warnings {
            *counts.entry(format!("{who}: {warning}")).or_default() += 1;
        }
    }
    for (transport, method) in report.combinations() {
        let stalled = report.summary.runs_stalled[transport][&method] as usize;
        if stalled > 0 {
            let note = "the machine stalled, and no repetition was left; the figures are not the path's";
            counts.insert(format!("{transport} {method}: {note}"), stalled);
        }
    }
    let times = |(note, count)| if count == 1 { note } else { format!("{note} ({count} runs)") };
    counts.into_iter().map(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::samples;

    #[test]
    fn why_there_is_no_estimate_is_told() {
        let notes = notes(&samples::firewall());
        assert_eq!(notes, ["udp primed: no estimate, as UDP is rejected on the way to 10.0.1.2"]);
    }
}
