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

/// As many as an experiment compares. Each stands out from a white and from a dark page (WCAG 2.1, 1.4.11).
pub(crate) const SERIES_COLOURS: [RGBColor; 12] = [
    RGBColor(0x2f, 0x80, 0xd0),
    RGBColor(0xd9, 0x6b, 0x1f),
    RGBColor(0x3a, 0x9d, 0x5d),
    RGBColor(0xb0, 0x5a, 0xb8),
    RGBColor(0xad, 0x8a, 0x12),
    RGBColor(0xc8, 0x48, 0x5a),
    RGBColor(0x1a, 0x9c, 0xa6),
    RGBColor(0x8f, 0x73, 0x63),
    RGBColor(0xe0, 0x50, 0x8c),
    RGBColor(0x7a, 0x8f, 0x1c),
    RGBColor(0x6d, 0x66, 0xd8),
    RGBColor(0x6b, 0x7f, 0x95),
];
pub(crate) const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
/// Pixels of a plot with its axes. Narrow, so that its labels can still be read on a telephone, where the page makes it fit.
const PLOT_SIZE_PIXELS: (u32, u32) = (400, 360);
/// Pixels between the axes' end and what follows.
const MARGIN_PIXELS: u32 = 12;
/// Pixels of a legend's marks, with what is left free around them, …
const MARK_WIDTH_PIXELS: u32 = 28;
/// … of a letter, in the widest font that browsers take for `sans-serif`, DejaVu Sans, …
const LETTER_WIDTH_PIXELS: u32 = 8;
/// … what short names of wide letters have more, such as `compound` with 74 pixels, …
const NAME_MARGIN_PIXELS: u32 = 12;
/// … and of a line.
const LINE_HEIGHT_PIXELS: u32 = 18;
/// Longer names of a legend are broken between words.
const MAX_LEGEND_LETTERS: usize = 42;

/// Of labels, and of names of axes and series; plotters divides them by 1.24: letters of 12 and 13 pixels.
const LABEL_FONT_SIZE: u32 = 15;
const NAME_FONT_SIZE: u32 = 16;

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

/// The colour of the series of that number.
pub(crate) fn series_colour(index: usize) -> RGBColor {
    SERIES_COLOURS[index % SERIES_COLOURS.len()]
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
        .margin_bottom(area.dim_in_pixel().1 - PLOT_SIZE_PIXELS.1)
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
        .label_style(("sans-serif", LABEL_FONT_SIZE))
        .axis_desc_style(("sans-serif", NAME_FONT_SIZE))
        .draw()?;
    Ok(chart)
}

/// Without the decimals that say nothing.
pub(crate) fn format_short(value: &f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A plot with a legend below its frame, where it hides nothing.
pub(crate) fn draw_plot(
    legend: &[LegendEntry],
    content: impl FnOnce(&Area<'_>) -> PlotResult<()>,
) -> PlotResult<String> {
    let names: Vec<_> = legend.iter().map(|entry| break_name(&entry.name)).collect();
    let (places, legend_height) = place_names(&names);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (PLOT_SIZE_PIXELS.0, PLOT_SIZE_PIXELS.1 + legend_height))
            .into_drawing_area();
        content(&area)?;
        for ((entry, lines), (x, y)) in legend.iter().zip(&names).zip(places) {
            draw_mark(&area, entry, (x, y))?;
            for (row, line) in lines.iter().enumerate() {
                let style =
                    ("sans-serif", NAME_FONT_SIZE).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
                let at = ((x + MARK_WIDTH_PIXELS) as i32, (y + row as u32 * LINE_HEIGHT_PIXELS) as i32);
                area.draw(&Text::new(line.as_str(), at, style))?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}

/// Where the first line of each name of a legend is: its left end, and the height of its middle; and the pixels that they all take. As
/// many names as have room stand beside each other.
fn place_names(names: &[Vec<String>]) -> (Vec<(u32, u32)>, u32) {
    let (mut x, mut y, mut row_lines) = (MARGIN_PIXELS, 0, 0);
    let mut places = Vec::with_capacity(names.len());
    for lines in names {
        let letters = lines.iter().map(|line| line.chars().count() as u32).max().unwrap_or(0);
        let width = MARK_WIDTH_PIXELS + letters * LETTER_WIDTH_PIXELS + NAME_MARGIN_PIXELS;
        if x + width > PLOT_SIZE_PIXELS.0 && row_lines > 0 {
            (x, y, row_lines) = (MARGIN_PIXELS, y + row_lines * LINE_HEIGHT_PIXELS, 0);
        }
        places.push((x, PLOT_SIZE_PIXELS.1 + y + LINE_HEIGHT_PIXELS / 2));
        (x, row_lines) = (x + width, row_lines.max(lines.len() as u32));
    }
    (places, y + row_lines * LINE_HEIGHT_PIXELS)
}

fn draw_mark(area: &Area<'_>, entry: &LegendEntry, (x, y): (u32, u32)) -> PlotResult<()> {
    let (left, right, y) = (x as i32, (x + MARK_WIDTH_PIXELS) as i32 - 8, y as i32);
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

    /// Marks of the legend lay one upon the other, and names were cut off: first long ones, then `compound`, whose letters are wide.
    #[test]
    fn a_legend_has_room_for_its_marks_and_names() {
        let long = "sending gateway: asked for a session, which is not yet divided";
        let entry = |name: &str, mark| LegendEntry { name: name.to_owned(), colour: GREY, mark };
        let legend =
            [entry(long, LegendMark::Point), entry("cubic", LegendMark::Ring), entry("compound", LegendMark::Point)];
        let svg = draw_plot(&legend, |_| Ok(())).unwrap();
        let size = ["width", "height"].map(|side| attribute(&svg, "<svg", side)[0]);
        let lines = texts(&svg);
        assert_eq!(lines[..2].join(" "), long);
        assert_eq!(lines[2..], ["cubic", "compound"]);
        let (lefts, heights) = (attribute(&svg, "<text", "x"), attribute(&svg, "<text", "y"));
        for (left, line) in lefts.iter().zip(lines) {
            assert!(left + (line.len() as u32 * LETTER_WIDTH_PIXELS) as i32 <= size[0], "{line} at {left} of {size:?}");
        }
        assert!(heights.iter().all(|y| (PLOT_SIZE_PIXELS.1 as i32..size[1]).contains(y)), "{heights:?} of {size:?}");
        // The short names stand beside each other, each with its mark.
        assert!(heights[0] < heights[1] && heights[1] < heights[2] && heights[2] == heights[3], "{heights:?}");
        let marks = attribute(&svg, "<circle", "cx");
        assert!(marks[1] < lefts[2] && lefts[2] < marks[2] && marks[2] < lefts[3], "{marks:?} {lefts:?}");
    }

    /// Relative luminance as WCAG 2.1 defines it.
    fn luminance(colour: RGBColor) -> f64 {
        let linear = |value: u8| match f64::from(value) / 255.0 {
            low if low <= 0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
    }

    /// One of them had 2.9 : 1 on white, and they repeated after eight.
    #[test]
    fn colours_differ_and_stand_out_on_light_and_dark_pages() {
        let grounds = [RGBColor(0xff, 0xff, 0xff), RGBColor(0x15, 0x18, 0x1c)];
        for (place, colour) in SERIES_COLOURS.into_iter().chain([GREY]).enumerate() {
            for ground in grounds.map(luminance) {
                let (one, other) = (luminance(colour) + 0.05, ground + 0.05);
                assert!(one.max(other) / one.min(other) >= 3.0, "{colour:?}");
            }
            assert!(!SERIES_COLOURS[..place].contains(&colour), "{colour:?} is there twice");
        }
    }
}
