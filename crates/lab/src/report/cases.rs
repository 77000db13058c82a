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
#[derive(Debug, Clone, Copy)]
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

/// Intervals widen an axis by no more than this part of what the values take: that of two runs can be ten times as long.
const MAX_INTERVAL_MARGIN: f64 = 0.2;

/// Marks of one case lie so far from each other, in parts of the distance between two cases, …
const MAX_STEP: f64 = 0.06;
/// … and all of them within so much, so that none seems to belong to another case.
const MAX_GROUP_WIDTH: f64 = 0.7;

/// The ends of the y axis, and whether an interval is longer.
fn value_range(frame: &PlotFrame<'_>, series: &[CaseSeries]) -> (f64, f64, bool) {
    let values = || series.iter().flat_map(|series| series.values.iter().flatten());
    let least = values().map(|value| value.value).fold(frame.y_range.0, f64::min);
    let most = values().map(|value| value.value).fold(frame.y_range.1, f64::max);
    let margin = (most - least) * MAX_INTERVAL_MARGIN;
    let low = values().map(|value| value.low).fold(least, f64::min).max(least - margin).max(0.0);
    let high = values().map(|value| value.high).fold(most, f64::max).min(most + margin);
    (low, high, values().any(|value| value.low < low || value.high > high))
}

/// A case without a value leaves a gap.
pub(crate) fn case_plot(axis: &CaseAxis<'_>, frame: &PlotFrame<'_>, series: &[CaseSeries]) -> PlotResult<Plot> {
    let (low, high, is_cut) = value_range(frame, series);
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
        let step = MAX_STEP.min(MAX_GROUP_WIDTH / count);
        for (index, CaseSeries { values, colour, is_published, .. }) in series.iter().enumerate() {
            let colour = *colour;
            // Beside each other, so that none hides another.
            let aside = (index as f64 - (count - 1.0) / 2.0) * step;
            let placed = || values.iter().enumerate().filter_map(move |(i, value)| Some((i as f64 + aside, (*value)?)));
            if axis.is_swept && !is_published {
                chart.draw_series(LineSeries::new(placed().map(|(x, v)| (x, v.value)), colour.stroke_width(2)))?;
            }
            let bars = placed().filter_map(|(x, v)| {
                v.margin()?;
                Some(PathElement::new([(x, v.low.max(low)), (x, v.high.min(high))], colour.stroke_width(2)))
            });
            chart.draw_series(bars)?;
            let mark = if *is_published { published_mark } else { measured_mark };
            chart.draw_series(placed().map(|(x, v)| mark((x, v.value), colour)))?;
        }
        Ok(())
    })?;
    let has_intervals = series.iter().flat_map(|series| series.values.iter().flatten()).any(|v| v.margin().is_some());
    let mut caption = frame.caption.to_owned();
    for (is_drawn, explanation) in [
        (has_intervals, " Bars are 95 % intervals over the runs."),
        (is_cut, " Intervals that reach the edge are longer."),
        (series.iter().any(|series| series.is_published), " Rings are published values."),
    ] {
        caption += if is_drawn { explanation } else { "" };
    }
    Ok(Plot { title: frame.title.to_owned(), caption, svg })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of shares of about 95 %, one interval of two runs stretched the axis to 260 %.
    #[test]
    fn a_long_interval_does_not_shrink_all_values() {
        let series = |high| CaseSeries {
            name: "bonded".to_owned(),
            values: vec![
                Some(Estimate { value: 95.0, low: 90.0, high, confidence: 0.95 }),
                Some(without_interval(60.0)),
            ],
            colour: RGBColor(0, 0, 0),
            is_published: false,
        };
        let frame = PlotFrame { title: "share", caption: "Shares.", y_axis: "%", y_range: (0.0, 104.0) };
        assert_eq!(value_range(&frame, &[series(100.0)]), (0.0, 104.0, false));
        let (low, high, is_cut) = value_range(&frame, &[series(260.0)]);
        assert!(low == 0.0 && high < 130.0 && is_cut, "{low} to {high}");
        let axis = CaseAxis { name: "case", labels: vec!["1".to_owned(), "2".to_owned()], is_swept: false };
        let plot = case_plot(&axis, &frame, &[series(260.0)]).unwrap();
        assert_eq!(
            plot.caption,
            "Shares. Bars are 95 % intervals over the runs. Intervals that reach the edge are longer."
        );
    }
}
