use super::case;
use super::document::Report;
use super::format::{MEGABIT, Unit, percent};
use crate::accuracy::summary::ByMethod;
use crate::report::Table;
use units::Span;

pub(super) fn of(report: &Report, unit: Unit) -> Table {
    let s = &report.summary;
    let traced = !s.mean_worst_sending_delay_seconds.is_empty();
    let published = s.published.as_ref().is_some_and(|p| !p.mean_absolute_error_bits_per_second.is_empty());
    let varied = case::vary(report);
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
