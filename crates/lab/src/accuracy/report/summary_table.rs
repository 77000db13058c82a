use super::case;
use super::document::Report;
use super::format::{MEGABIT, RateUnit, format_or_dash, format_percent};
use crate::accuracy::summary::ByMethod;
use crate::report::Table;
use kumade_units::Span;

/// A heading, and the cell below it for a transport and a method.
type SummaryColumn<'a> = (&'static str, Box<dyn Fn(&str, &str) -> String + 'a>);

/// The summary, a line for each transport and method.
pub(super) fn summary_table(report: &Report, unit: RateUnit) -> Table {
    let columns = summary_columns(report, unit);
    let line = |(transport, method): (&str, String)| {
        let cells = columns.iter().map(|(_, cell)| cell(transport, &method));
        [transport.to_owned(), method.clone()].into_iter().chain(cells).collect()
    };
    let rows = report.combinations().into_iter().map(line).collect();
    let headings = ["transport", "method"].into_iter().chain(columns.iter().map(|(heading, _)| *heading));
    let of_what = if case::cases_vary(report) { "relative to the bottleneck's rate" } else { unit.name };
    Table {
        caption: format!("Mean of |estimate − truth| and its cost, {of_what}"),
        columns: headings.map(str::to_owned).collect(),
        rows,
    }
}

fn summary_columns(report: &Report, unit: RateUnit) -> Vec<SummaryColumn<'_>> {
    let s = &report.summary;
    let mut columns = Vec::new();
    let varied = case::cases_vary(report);
    columns.push(match varied {
        true => figure_column("mean error", &s.mean_absolute_error_to_capacity_ratio, format_percent),
        false => {
            figure_column("mean error", &s.mean_absolute_error_bits_per_second, move |bits| unit.format_rate(bits))
        }
    });
    if s.published.as_ref().is_some_and(|p| !p.mean_absolute_error_bits_per_second.is_empty()) {
        let cell = move |transport: &str, method: &str| {
            format_or_dash(s.published_error(transport, method), |bits| unit.format_rate(bits))
        };
        columns.push(("published", Box::new(cell)));
    }
    // In the caption's unit, where that is one.
    let (bias, bias_unit) = if varied { ("bias, Mbit/s", MEGABIT) } else { ("bias", unit) };
    columns.extend([
        figure_column(bias, &s.bias_bits_per_second, move |bits| bias_unit.format_signed(bits)),
        figure_column("median error", &s.median_relative_error_ratio, format_percent),
        figure_column("coverage", &s.interval_coverage_ratio, format_percent),
        figure_column("sent, kB", &s.mean_sent_bytes, |bytes| format!("{:.0}", bytes / 1e3)),
        figure_column("time, s", &s.mean_duration_seconds, |seconds| format!("{seconds:.2}")),
    ]);
    if !s.mean_full_seconds.is_empty() {
        columns.push(figure_column("full measurement, s", &s.mean_full_seconds, |seconds| format!("{seconds:.2}")));
    }
    columns.extend([
        count_column("runs", &s.runs),
        count_column("no estimate", &s.runs_without_estimate),
        count_column("repeated", &s.repeats),
        count_column("disturbed", &s.runs_disturbed),
    ]);
    if !s.mean_max_sending_delay_seconds.is_empty() {
        let write = |seconds| Span::from_secs_f64(seconds).to_string();
        columns.push(figure_column("max. sending delay", &s.mean_max_sending_delay_seconds, write));
    }
    columns
}

fn figure_column<'a>(
    heading: &'static str,
    by: &'a ByMethod<Option<f64>>,
    write: impl Fn(f64) -> String + 'a,
) -> SummaryColumn<'a> {
    let value = |transport: &str, method: &str| by.get(transport)?.get(method).copied().flatten();
    (heading, Box::new(move |transport, method| format_or_dash(value(transport, method), &write)))
}

fn count_column<'a>(heading: &'static str, by: &'a ByMethod<u32>) -> SummaryColumn<'a> {
    let value = |transport: &str, method: &str| by.get(transport)?.get(method).copied();
    (heading, Box::new(move |transport, method| value(transport, method).unwrap_or(0).to_string()))
}
