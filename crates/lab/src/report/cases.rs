//! A plot of values by case: one mark for each case and series, side by side.

use super::plot::{
    Axis, LegendEntry, LegendMark, Plot, PlotResult, Y_LABEL_COUNT, draw_labelled_chart, draw_plot, format_short,
    measured_mark, published_mark,
};
use kumade_probe_train::Estimate;
use plotters::prelude::*;

/// One line or row of marks: a name, and a value for each case.
pub(crate) struct CaseSeries {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<Estimate<f64>>>,
    pub(crate) colour: RGBColor,
    /// Whether a paper says so, instead of a run here.
    pub(crate) is_published: bool,
}

/// What all series of a plot have in common.
pub(crate) struct PlotFrame<'a> {
    pub(crate) title: &'a str,
    pub(crate) caption: &'a str,
    pub(crate) y_axis: &'a str,
    /// The smallest and largest value that must be in view.
    pub(crate) y_range: (f64, f64),
}

/// The cases along the x axis.
pub(crate) struct CaseAxis<'a> {
    pub(crate) name: &'a str,
    /// One for each case.
    pub(crate) labels: Vec<String>,
    /// Whether they are values of one quantity, so that a line joins them.
    pub(crate) is_swept: bool,
}

/// A value without an interval.
pub(crate) fn without_interval(value: f64) -> Estimate<f64> {
    Estimate { value, low: value, high: value, confidence: 0.0 }
}

/// A case without a value leaves a gap.
pub(crate) fn case_plot(axis: &CaseAxis<'_>, frame: &PlotFrame<'_>, series: &[CaseSeries]) -> PlotResult<Plot> {
    let values = || series.iter().flat_map(|series| series.values.iter().flatten());
    let low = values().map(|value| value.low).fold(frame.y_range.0, f64::min).max(0.0);
    let high = values().map(|value| value.high).fold(frame.y_range.1, f64::max);
    let cases = axis.labels.len();
    let label = |x: &f64| {
        let whole = (x - x.round()).abs() < 0.01 && *x > -0.01;
        axis.labels.get(x.round() as usize).filter(|_| whole).cloned().unwrap_or_default()
    };
    let entry = |series: &CaseSeries| LegendEntry {
        name: series.name.clone(),
        colour: series.colour,
        mark: if series.is_published { LegendMark::Ring } else { LegendMark::Point },
    };
    let legend: Vec<_> = series.iter().map(entry).collect();
    let svg = draw_plot(&legend, |area| {
        let axes = [
            Axis { name: axis.name, label_count: cases + 1, format_label: &label },
            Axis { name: frame.y_axis, label_count: Y_LABEL_COUNT, format_label: &format_short },
        ];
        let width = -0.4..cases as f64 - 0.6;
        // Room for whole marks.
        let margin = (high - low) * 0.03;
        let mut chart = draw_labelled_chart(area, width, low - margin..high + margin, axes)?;
        let count = series.len() as f64;
        for (index, CaseSeries { values, colour, is_published, .. }) in series.iter().enumerate() {
            let colour = *colour;
            // Beside each other, so that none hides another.
            let aside = (index as f64 - (count - 1.0) / 2.0) * 0.06;
            let placed = || values.iter().enumerate().filter_map(move |(i, value)| Some((i as f64 + aside, (*value)?)));
            if axis.is_swept && !is_published {
                chart.draw_series(LineSeries::new(placed().map(|(x, v)| (x, v.value)), colour.stroke_width(2)))?;
            }
            let bars = placed().filter_map(|(x, v)| {
                v.margin()?;
                Some(PathElement::new([(x, v.low), (x, v.high)], colour.stroke_width(2)))
            });
            chart.draw_series(bars)?;
            let mark = if *is_published { published_mark } else { measured_mark };
            chart.draw_series(placed().map(|(x, v)| mark((x, v.value), colour)))?;
        }
        Ok(())
    })?;
    Ok(Plot { title: frame.title.to_owned(), caption: frame.caption.to_owned(), svg })
}
