//! What all plots share: a chart of two axes, its legend, its colours, and SVG as output. Colours are readable on a light and on a dark
//! background; text and axes take the page's colour.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
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

pub(crate) type PlotResult<T> = Result<T, Box<dyn Error>>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// As many as there are disciplines or methods in an experiment.
pub(crate) const SERIES_COLOURS: [RGBColor; 8] = [
    RGBColor(0x2f, 0x80, 0xd0),
    RGBColor(0xd9, 0x6b, 0x1f),
    RGBColor(0x3a, 0x9d, 0x5d),
    RGBColor(0xb0, 0x5a, 0xb8),
    RGBColor(0xb8, 0x93, 0x1a),
    RGBColor(0xc8, 0x48, 0x5a),
    RGBColor(0x1a, 0x9c, 0xa6),
    RGBColor(0x8f, 0x73, 0x63),
];
pub(crate) const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
/// Pixels of a plot with its axes.
const PLOT_SIZE_PIXELS: (u32, u32) = (502, 420);
/// Pixels between the axes' end and what follows.
const MARGIN_PIXELS: u32 = 12;
/// Pixels of a legend's marks, with what is left free around them, …
const MARK_WIDTH_PIXELS: u32 = 28;
/// … of a letter, somewhat more than most have, …
const LETTER_WIDTH_PIXELS: u32 = 7;
/// … and of a line.
const LINE_HEIGHT_PIXELS: i32 = 16;
/// Longer names of a legend are broken between words.
const MAX_LEGEND_LETTERS: usize = 30;

/// Labels of a y axis, unless it says otherwise.
pub(crate) const Y_LABEL_COUNT: usize = 10;

/// What stands for a series in the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LegendMark {
    /// Measured.
    Point,
    /// Published.
    Ring,
    /// A line without points.
    Line,
}

/// A line of the legend.
pub(crate) struct LegendEntry {
    pub(crate) name: String,
    pub(crate) colour: RGBColor,
    pub(crate) mark: LegendMark,
}

/// An axis: what it shows, and how it is labelled.
pub(crate) struct Axis<'a> {
    pub(crate) name: &'a str,
    /// At most so many labels.
    pub(crate) label_count: usize,
    pub(crate) format_label: &'a dyn Fn(&f64) -> String,
}

pub(crate) fn draw_chart<'a, 'b>(
    area: &Area<'b>,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    axes: &[String; 2],
) -> PlotResult<Chart<'a, 'b>> {
    // So that an axis of counts is labelled with whole numbers.
    let x_labels = (x.end.ceil() as usize + 1).clamp(3, 11);
    let [x_axis, y_axis] = [(axes[0].as_str(), x_labels), (axes[1].as_str(), Y_LABEL_COUNT)];
    let axis = |(name, labels)| Axis { name, label_count: labels, format_label: &format_short };
    draw_labelled_chart(area, x, y, [axis(x_axis), axis(y_axis)])
}

/// As [`draw_chart`], with axes that are labelled as they say.
pub(crate) fn draw_labelled_chart<'a, 'b>(
    area: &Area<'b>,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    [x_axis, y_axis]: [Axis<'_>; 2],
) -> PlotResult<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN_PIXELS)
        .margin_right(area.dim_in_pixel().0 - PLOT_SIZE_PIXELS.0 + MARGIN_PIXELS)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.25))
        .x_labels(x_axis.label_count)
        .y_labels(y_axis.label_count)
        .x_label_formatter(x_axis.format_label)
        .y_label_formatter(y_axis.format_label)
        .x_desc(x_axis.name)
        .y_desc(y_axis.name)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    Ok(chart)
}

/// Without the decimals that say nothing.
pub(crate) fn format_short(value: &f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A plot with a legend beside its frame, where it hides nothing.
pub(crate) fn draw_plot(
    legend: &[LegendEntry],
    content: impl FnOnce(&Area<'_>) -> PlotResult<()>,
) -> PlotResult<String> {
    let names: Vec<_> = legend.iter().map(|entry| break_name(&entry.name)).collect();
    let letters = names.iter().flatten().map(|line| line.chars().count() as u32).max();
    let legend_width = letters.map_or(0, |letters| MARK_WIDTH_PIXELS + letters * LETTER_WIDTH_PIXELS);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (PLOT_SIZE_PIXELS.0 + legend_width, PLOT_SIZE_PIXELS.1))
            .into_drawing_area();
        content(&area)?;
        let mut y = MARGIN_PIXELS as i32 + LINE_HEIGHT_PIXELS / 2;
        for (entry, lines) in legend.iter().zip(&names) {
            draw_mark(&area, entry, y)?;
            for line in lines {
                let style = ("sans-serif", 14).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
                area.draw(&Text::new(line.as_str(), ((PLOT_SIZE_PIXELS.0 + MARK_WIDTH_PIXELS) as i32, y), style))?;
                y += LINE_HEIGHT_PIXELS;
            }
            y += LINE_HEIGHT_PIXELS / 8;
        }
        area.present()?;
    }
    Ok(svg)
}

fn draw_mark(area: &Area<'_>, entry: &LegendEntry, y: i32) -> PlotResult<()> {
    let (left, right) = (PLOT_SIZE_PIXELS.0 as i32 + 4, (PLOT_SIZE_PIXELS.0 + MARK_WIDTH_PIXELS) as i32 - 4);
    let middle = ((left + right) / 2, y);
    let LegendEntry { colour, mark, .. } = entry;
    match mark {
        LegendMark::Point => area.draw(&measured_mark(middle, *colour))?,
        LegendMark::Ring => area.draw(&published_mark(middle, *colour))?,
        LegendMark::Line => area.draw(&PathElement::new([(left, y), (right, y)], colour.stroke_width(4)))?,
    }
    Ok(())
}

/// The mark of a measured value.
pub(crate) fn measured_mark<At>(at: At, colour: RGBColor) -> Circle<At, i32> {
    Circle::new(at, 4, colour.filled())
}

/// The mark of a published value.
pub(crate) fn published_mark<At>(at: At, colour: RGBColor) -> Circle<At, i32> {
    Circle::new(at, 5, colour.stroke_width(2))
}

/// In lines of at most [`MAX_LEGEND_LETTERS`], unless a word has more.
fn break_name(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= MAX_LEGEND_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(svg: &str) -> Vec<&str> {
        svg.split("<text ").skip(1).map(|text| text.split(['>', '<']).nth(1).unwrap().trim()).collect()
    }

    fn attribute(svg: &str, element: &str, name: &str) -> Vec<i32> {
        let values = svg.split(element).skip(1).map(|rest| rest.split(&format!(" {name}=\"")).nth(1).unwrap());
        values.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
    }

    /// Marks of the legend lay one upon the other at its left end, where the plotting area ends, and long names were cut off.
    #[test]
    fn a_legend_has_room_for_its_marks_and_names() {
        let name = "sending gateway: asked for a session, which is not yet divided";
        let entry = |mark| LegendEntry { name: name.to_owned(), colour: GREY, mark };
        let svg = draw_plot(&[entry(LegendMark::Point), entry(LegendMark::Ring), entry(LegendMark::Line)], |_| Ok(()))
            .unwrap();
        let width = attribute(&svg, "<svg", "width")[0];
        let lines = texts(&svg);
        assert_eq!(lines.len(), 3 * 3);
        assert_eq!(lines[..3].join(" "), name);
        for (left, line) in attribute(&svg, "<text", "x").into_iter().zip(lines) {
            assert!(left + (line.len() as u32 * LETTER_WIDTH_PIXELS) as i32 <= width, "{line} at {left} of {width}");
            assert!(
                attribute(&svg, "<circle", "cx").iter().all(|mark| (PLOT_SIZE_PIXELS.0 as i32..left).contains(mark))
            );
        }
        let heights = attribute(&svg, "<text", "y");
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= LINE_HEIGHT_PIXELS), "{heights:?}");
    }
}
