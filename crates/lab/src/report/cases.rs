//! A plot of values by case: one mark for each case and series, side by side.

use super::plot::{Drawn, Plot, chart_labelled, draw, legend};
use plotters::prelude::*;
use train::Estimate;

/// One line or row of marks: a name, and a value for each case.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<Estimate<f64>>>,
    pub(crate) colour: RGBColor,
}

/// What all series of a plot have in common.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    pub(crate) caption: &'a str,
    pub(crate) y_axis: &'a str,
    /// The smallest and largest value that must be in view.
    pub(crate) range: (f64, f64),
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
pub(crate) fn alone(value: f64) -> Estimate<f64> {
    Estimate { value, low: value, high: value, confidence: 0.0 }
}

/// A case without a value leaves a gap.
pub(crate) fn over_cases(axis: &CaseAxis<'_>, frame: &Frame<'_>, series: &[Series]) -> Drawn<Plot> {
    let values = || series.iter().flat_map(|series| series.values.iter().flatten());
    let low = values().map(|value| value.low).fold(frame.range.0, f64::min).max(0.0);
    let high = values().map(|value| value.high).fold(frame.range.1, f64::max);
    let cases = axis.labels.len();
    let label = |x: &f64| {
        let whole = (x - x.round()).abs() < 0.01 && *x > -0.01;
        axis.labels.get(x.round() as usize).filter(|_| whole).cloned().unwrap_or_default()
    };
    let svg = draw(|area| {
        let axes = [axis.name.to_owned(), frame.y_axis.to_owned()];
        let width = -0.4..cases as f64 - 0.6;
        // Room for whole marks.
        let margin = (high - low) * 0.03;
        let mut chart = chart_labelled(area, width, low - margin..high + margin, &axes, cases + 1, &label)?;
        let count = series.len() as f64;
        for (index, Series { name, values, colour }) in series.iter().enumerate() {
            let colour = *colour;
            // Beside each other, so that none hides another.
            let aside = (index as f64 - (count - 1.0) / 2.0) * 0.06;
            let placed = || values.iter().enumerate().filter_map(move |(i, value)| Some((i as f64 + aside, (*value)?)));
            if axis.is_swept {
                chart.draw_series(LineSeries::new(placed().map(|(x, v)| (x, v.value)), colour.stroke_width(2)))?;
            }
            let bars = placed().filter_map(|(x, v)| {
                v.margin()?;
                Some(PathElement::new([(x, v.low), (x, v.high)], colour.stroke_width(2)))
            });
            chart.draw_series(bars)?;
            chart
                .draw_series(placed().map(|(x, v)| Circle::new((x, v.value), 4, colour.filled())))?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        legend(&mut chart)
    })?;
    Ok(Plot { title: frame.title.to_owned(), caption: frame.caption.to_owned(), svg })
}
