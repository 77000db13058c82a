//! The tables of a report, the same for terminal and HTML.

use super::full::judged;
use super::{Report, cases, full};
use crate::accuracy::row::Row;
use crate::accuracy::summary::ByMethod;
use crate::statistics::{mean, median};
use std::collections::{BTreeMap, BTreeSet};
use units::Span;

/// Text in rows and columns.
pub(crate) struct Table {
    /// What it shows, with units.
    pub(crate) caption: String,
    /// One heading for each column.
    pub(crate) columns: Vec<String>,
    /// As many cells as columns.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Whether that column holds words, which begin at the left, and not numbers.
    pub(super) fn is_words(&self, column: &usize) -> bool {
        self.rows.iter().all(|row| row[*column].starts_with(|c: char| c.is_ascii_alphabetic()))
    }
}

/// The unit that all rates of a report are written in, so that columns can be compared.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Its name.
    pub(super) name: &'static str,
    /// How many bits per second it is.
    pub(super) bits: f64,
}

const MEGABIT: Unit = Unit { name: "Mbit/s", bits: 1e6 };

impl Unit {
    /// The unit that fits a bottleneck of that rate.
    pub(super) fn fitting(bits_per_second: u64) -> Self {
        match bits_per_second {
            0..1_000_000 => Unit { name: "kbit/s", bits: 1e3 },
            _ => MEGABIT,
        }
    }

    pub(super) fn of(self, bits_per_second: f64) -> String {
        format!("{:.2}", bits_per_second / self.bits)
    }

    pub(super) fn signed(self, bits_per_second: f64) -> String {
        let text = format!("{:+.2}", bits_per_second / self.bits);
        if text == "-0.00" { "+0.00".to_owned() } else { text }
    }
}

/// All tables of a report: what was measured, then what it comes to.
pub(super) fn all(report: &Report) -> Vec<Table> {
    let levels: BTreeSet<_> = report.rows.iter().map(|row| row.cross_bits_per_second).collect();
    let unit = Unit::fitting(report.bottleneck.rate_bits_per_second);
    let mut tables = match () {
        () if cases::vary(report) => cases::tables(report),
        () if levels.len() > 1 => vec![by_level(report, unit)],
        () => vec![by_run(report, unit)],
    };
    tables.extend(cases::published(report));
    tables.extend(full::tables(report));
    tables.push(summary(report, unit));
    tables
}

/// What the numbers can't say: why there are none, and what was warned of, each with how often.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in &report.rows {
        let who = format!("{} {}", row.transport, row.estimator());
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

/// What each transport and method came to, in a sentence.
pub(super) fn verdicts(report: &Report) -> Vec<String> {
    let s = &report.summary;
    let unit = Unit::fitting(report.bottleneck.rate_bits_per_second);
    let varied = cases::vary(report);
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
    report.combinations().into_iter().map(verdict).chain(full::verdicts(report)).collect()
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

pub(super) fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// The path and its traffic in a line.
pub(super) fn setting(report: &Report) -> String {
    let b = &report.bottleneck;
    let rate = rates(report);
    let shaper = match b.kind.as_str() {
        "htb" => "the kernel's HTB",
        "virtual" => "a virtual link",
        _ => "the lab's own link",
    };
    let delay = match b.delay_seconds {
        0.0 => "no delay".to_owned(),
        seconds => format!("{} each way", Span::from_secs_f64(seconds)),
    };
    let kinds: BTreeSet<_> = report.rows.iter().map(|row| row.cross_kind.as_str()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let cross = match (if kinds.is_empty() { "no" } else { kinds.as_str() }, report.cross_by.as_str()) {
        ("tcp", _) => "cross traffic by one TCP connection that sends what it may".to_owned(),
        (kind, "link") => format!("{kind} cross traffic computed inside the link"),
        (kind, _) => format!("{kind} cross traffic sent as UDP packets"),
    };
    let firewall = if report.firewall.is_empty() { "none".to_owned() } else { report.firewall.join("; ") };
    let besides = [
        (report.rows.iter().any(|row| row.later_bits_per_second.is_some()), "with a later hop"),
        (report.rows.iter().any(|row| row.burst_bytes.is_some()), "as a token bucket"),
    ];
    let besides = besides.iter().filter(|(any, _)| *any).map(|(_, what)| format!(", also {what}")).collect::<String>();
    let queue = size(b.queue_bytes);
    format!("bottleneck {rate} ({shaper}){besides}, {delay}, queue {queue}; {cross}; firewall: {firewall}")
}

/// The bottleneck's rates: of a sweep, all of them.
fn rates(report: &Report) -> String {
    let write = |bits: u64| units::Rate::from_bits_per_second(bits).to_string();
    let of = |direction: &str| {
        let rows = report.rows.iter().filter(|row| row.direction == direction);
        let rates: BTreeSet<_> = rows.map(|row| row.bottleneck_bits_per_second).collect();
        rates.into_iter().map(write).collect::<Vec<_>>().join(", ")
    };
    match (of("up"), of("down")) {
        (up, down) if up.is_empty() || up == down => {
            if down.is_empty() {
                write(report.bottleneck.rate_bits_per_second)
            } else {
                down
            }
        }
        (up, down) if down.is_empty() => up,
        (up, down) => format!("{up} up, {down} down"),
    }
}

/// In the unit that it was set in: a scenario's `256kb` are 256 KiB, as in `tc`.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        1024.. if bytes.is_multiple_of(1024) => format!("{} KiB", bytes / 1024),
        _ => format!("{bytes} bytes"),
    }
}

/// One line for each level of cross traffic, a column for each measurement: the paper's rule has its own.
fn by_level(report: &Report, unit: Unit) -> Table {
    let combinations = report.combinations();
    let mut columns = vec!["cross".to_owned(), "truth".to_owned()];
    columns.extend(combinations.iter().map(|(transport, method)| format!("{transport} {method}")));
    let mut levels: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
    for row in &report.rows {
        levels.entry(row.cross_bits_per_second).or_default().push(row);
    }
    let rows = levels.into_iter().map(|(cross, rows)| {
        let truths: Vec<_> = rows.iter().map(|row| row.truth_bits_per_second as f64).collect();
        let mut cells = vec![unit.of(cross as f64), mean(&truths).map_or_else(String::new, |truth| unit.of(truth))];
        cells.extend(combinations.iter().map(|(transport, method)| {
            let own = rows.iter().filter(|row| row.transport == *transport && row.estimator() == *method);
            median_and_error(own, unit)
        }));
        cells
    });
    let rows = rows.collect();
    Table { caption: format!("Median estimate of the runs and its error, {}", unit.name), columns, rows }
}

fn median_and_error<'a>(rows: impl Iterator<Item = &'a &'a Row> + Clone, unit: Unit) -> String {
    let values: Vec<_> = rows.clone().filter_map(|r| r.available_bits_per_second.map(|i| i.value as f64)).collect();
    let errors: Vec<_> = rows.filter_map(|row| row.error_bits_per_second.map(|error| error as f64)).collect();
    match (median(&values), median(&errors)) {
        (Some(value), Some(error)) => format!("{} ({})", unit.of(value), unit.signed(error)),
        _ => "none".to_owned(),
    }
}

/// One line for each run: for experiments with one level of cross traffic.
fn by_run(report: &Report, unit: Unit) -> Table {
    let columns = ["run", "transport", "method", "way", "truth", "estimate", "interval", "error", "sent kB", "seconds"];
    let rows = report.rows.iter().map(|row| {
        let none = || "none".to_owned();
        let estimate = row.available_bits_per_second;
        vec![
            row.run.to_string(),
            row.transport.clone(),
            row.estimator(),
            row.direction.clone(),
            unit.of(row.truth_bits_per_second as f64),
            estimate.map_or_else(none, |i| unit.of(i.value as f64)),
            match estimate {
                Some(i) if i.confidence > 0.0 => format!("{} … {}", unit.of(i.low as f64), unit.of(i.high as f64)),
                _ => none(),
            },
            row.error_bits_per_second.map_or_else(none, |error| unit.signed(error as f64)),
            format!("{:.0}", row.bytes_sent as f64 / 1e3),
            format!("{:.2}", row.duration_seconds),
        ]
    });
    let rows = rows.collect();
    let columns = columns.map(str::to_owned).to_vec();
    Table { caption: format!("Every run: truth at the bottleneck beside the estimate, {}", unit.name), columns, rows }
}

fn summary(report: &Report, unit: Unit) -> Table {
    let s = &report.summary;
    let traced = !s.mean_worst_sending_delay_seconds.is_empty();
    let published = s.published.as_ref().is_some_and(|p| !p.mean_absolute_error_bits_per_second.is_empty());
    let varied = cases::vary(report);
    let rows = report.combinations().into_iter().map(|(transport, method)| {
        let figure = |by: &ByMethod<Option<f64>>| by.get(transport).and_then(|m| m.get(&method)).copied().flatten();
        let count = |by: &ByMethod<u32>| by.get(transport).and_then(|m| m.get(&method)).map_or(0, |&n| n).to_string();
        let cell = |by: &ByMethod<Option<f64>>, write: &dyn Fn(f64) -> String| figure(by).map_or("–".to_owned(), write);
        let mut cells = vec![transport.to_owned(), method.clone()];
        cells.push(match varied {
            true => cell(&s.mean_error_of_capacity_ratio, &percent),
            false => cell(&s.mean_absolute_error_bits_per_second, &|bits| unit.of(bits)),
        });
        cells.extend(published.then(|| s.published_error(transport).map_or("–".to_owned(), |bits| unit.of(bits))));
        let bias_unit = if varied { MEGABIT } else { unit };
        cells.push(cell(&s.bias_bits_per_second, &|bits| bias_unit.signed(bits)));
        cells.push(cell(&s.median_relative_error_ratio, &percent));
        cells.push(cell(&s.interval_coverage_ratio, &percent));
        cells.push(cell(&s.mean_sent_bytes, &|bytes| format!("{:.0}", bytes / 1e3)));
        cells.push(cell(&s.mean_duration_seconds, &|seconds| format!("{seconds:.2}")));
        cells.extend((!s.mean_whole_seconds.is_empty()).then(|| cell(&s.mean_whole_seconds, &|s| format!("{s:.2}"))));
        cells.extend([
            count(&s.runs),
            count(&s.runs_without_estimate),
            count(&s.stalled_repeats),
            count(&s.runs_stalled),
        ]);
        cells.extend(
            traced.then(|| {
                cell(&s.mean_worst_sending_delay_seconds, &|late| format!("{} late", Span::from_secs_f64(late)))
            }),
        );
        cells
    });
    let rows = rows.collect();
    let whole = !s.mean_whole_seconds.is_empty();
    let columns = summary_columns(varied, published, whole, traced).into_iter().map(str::to_owned).collect();
    let error = if varied { "as a part of the bottleneck's rate" } else { unit.name };
    Table { caption: format!("Mean of |estimate − truth| and what it cost, {error}"), columns, rows }
}

fn summary_columns(varied: bool, published: bool, whole: bool, traced: bool) -> Vec<&'static str> {
    let paper = published.then_some("paper");
    // In the caption's unit, where that is one.
    let bias = if varied { "bias, Mbit/s" } else { "bias" };
    let errors = [bias, "median error", "interval holds"];
    let costs = ["sent kB", "seconds"].into_iter().chain(whole.then_some("everything"));
    let counts = ["runs", "no estimate", "repeated", "stalled"];
    let first = ["transport", "method", "mean error"].into_iter().chain(paper);
    first.chain(errors).chain(costs).chain(counts).chain(traced.then_some("latest packet")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::report::samples;

    #[test]
    fn the_papers_rule_has_a_column_of_its_own() {
        let table = &all(&samples::accuracy())[0];
        assert_eq!(
            table.columns,
            ["cross", "truth", "rake primed", "rake linear-scan", "udp primed", "udp linear-scan"]
        );
        assert_eq!(table.rows[1][..4], ["60.00", "40.00", "40.10 (+0.10)", "50.10 (+10.10)"]);
    }

    #[test]
    fn the_papers_error_stands_beside_ours() {
        let table = &all(&samples::accuracy())[1];
        assert_eq!(table.rows[0][..4], ["rake", "primed", "0.20", "15.60"]);
        assert_eq!(table.rows[3][..4], ["udp", "linear-scan", "10.07", "18.20"]);
    }

    #[test]
    fn every_row_has_as_many_cells_as_there_are_columns() {
        for report in [samples::accuracy(), samples::firewall(), samples::cwnd(), samples::whole()] {
            for table in all(&report) {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.caption);
            }
        }
    }

    #[test]
    fn why_there_is_no_estimate_is_told() {
        let notes = notes(&samples::firewall());
        assert_eq!(notes, ["udp primed: no estimate, as UDP is rejected on the way to 10.0.1.2"]);
    }
}
