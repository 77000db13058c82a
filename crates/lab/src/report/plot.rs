//! What all plots share: a chart of two axes, its legend, its colours, and SVG as output. Colours are readable on a light and on a dark
//! background; text and axes take the page's colour.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::error::Error;

/// A plot and what it shows.
pub(crate) struct Plot {
    /// A transport or a discipline, for example.
    pub(crate) title: String,
    /// What it shows, with units.
    pub(crate) caption: String,
    /// The drawing, ready for an HTML page.
    pub(crate) svg: String,
}

pub(crate) type Drawn<T> = Result<T, Box<dyn Error>>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

pub(crate) const SERIES: [RGBColor; 6] = [
    RGBColor(0x2f, 0x80, 0xd0),
    RGBColor(0xd9, 0x6b, 0x1f),
    RGBColor(0x3a, 0x9d, 0x5d),
    RGBColor(0xb0, 0x5a, 0xb8),
    RGBColor(0xb8, 0x93, 0x1a),
    RGBColor(0xc8, 0x48, 0x5a),
];
pub(crate) const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
/// Pixels of a plot with its legend.
const SIZE: (u32, u32) = (660, 420);
/// Pixels to the right of the frame, where the legend stands.
const LEGEND_WIDTH: u32 = 170;

pub(crate) fn chart<'a, 'b>(
    area: &Area<'b>,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    axes: &[String; 2],
) -> Drawn<Chart<'a, 'b>> {
    // So that an axis of counts is labelled with whole numbers.
    let x_labels = (x.end.ceil() as usize + 1).clamp(3, 11);
    chart_labelled(area, x, y, axes, x_labels, &short)
}

/// As [`chart`], with at most `x_labels` labels along the x axis as `x_label` writes them.
pub(crate) fn chart_labelled<'a, 'b>(
    area: &Area<'b>,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    [x_axis, y_axis]: &[String; 2],
    x_labels: usize,
    x_label: &dyn Fn(&f64) -> String,
) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(LEGEND_WIDTH)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.25))
        .x_labels(x_labels)
        .x_label_formatter(x_label)
        .y_label_formatter(&short)
        .x_desc(x_axis)
        .y_desc(y_axis)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    Ok(chart)
}

/// Without the decimals that say nothing.
pub(crate) fn short(value: &f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Beside the frame, where it hides nothing.
pub(crate) fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>) -> Drawn<()> {
    let (width, _) = chart.plotting_area().dim_in_pixel();
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::Coordinate(width as i32 + 4, 0))
        .margin(4)
        .legend_area_size(24)
        .label_font(("sans-serif", 14))
        .draw()?;
    Ok(())
}

pub(crate) fn draw(content: impl FnOnce(&Area<'_>) -> Drawn<()>) -> Drawn<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        content(&area)?;
        area.present()?;
    }
    Ok(svg)
}
