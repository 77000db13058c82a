//! Values over two quantities, as colours.

use super::cases::PlotFrame;
use super::plot::{Axis, LegendEntry, LegendMark, Plot, PlotResult, draw_labelled_chart, draw_plot, format_short};
use plotters::prelude::*;

/// A quantity along an axis: its name, and a label for each of its values.
pub(crate) struct HeatAxis<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<String>,
}

/// From the least to the greatest value: equally far from each other to the eye, also to one that is blind to colours (viridis).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x44, 0x01, 0x54),
    RGBColor(0x3b, 0x52, 0x8b),
    RGBColor(0x21, 0x91, 0x8c),
    RGBColor(0x5e, 0xc9, 0x62),
    RGBColor(0xfd, 0xe7, 0x25),
];

/// A cell for each pair of values, row by row from below; one without a value is left out.
pub(crate) fn heat_map(
    frame: &PlotFrame<'_>,
    [x_axis, y_axis]: [HeatAxis<'_>; 2],
    rows: &[Vec<Option<f64>>],
) -> PlotResult<Plot> {
    let values = || rows.iter().flatten().flatten().copied();
    let least = values().fold(f64::INFINITY, f64::min).min(frame.y_range.0);
    let most = values().fold(least, f64::max).max(frame.y_range.1);
    let share = |value: f64| if most > least { (value - least) / (most - least) } else { 0.0 };
    let step = |place: usize| place as f64 / (COLOURS.len() - 1) as f64;
    let legend: Vec<_> = (0..COLOURS.len())
        .map(|place| LegendEntry {
            name: format_short(&(least + (most - least) * step(place))),
            colour: mix_colours(step(place)),
            mark: LegendMark::Line,
        })
        .collect();
    let svg = draw_plot(&legend, |area| {
        let label = |labels: &[String], place: &f64| {
            let is_whole = (place - place.round()).abs() < 0.01 && *place > -0.01;
            labels.get(place.round() as usize).filter(|_| is_whole).cloned().unwrap_or_default()
        };
        let (x_label, y_label) = (|x: &f64| label(&x_axis.labels, x), |y: &f64| label(&y_axis.labels, y));
        let axis = |name, count: usize, format_label| Axis { name, label_count: count + 1, format_label };
        let axes = [
            axis(x_axis.name, x_axis.labels.len(), &x_label as &dyn Fn(&f64) -> String),
            axis(y_axis.name, y_axis.labels.len(), &y_label),
        ];
        let extent = |labels: &[String]| -0.5..labels.len() as f64 - 0.5;
        let mut chart = draw_labelled_chart(area, extent(&x_axis.labels), extent(&y_axis.labels), axes)?;
        let cells = rows.iter().enumerate().flat_map(|(y, row)| {
            row.iter().enumerate().filter_map(move |(x, value)| Some((x as f64, y as f64, (*value)?)))
        });
        chart.draw_series(cells.map(|(x, y, value)| {
            Rectangle::new([(x - 0.5, y - 0.5), (x + 0.5, y + 0.5)], mix_colours(share(value)).filled())
        }))?;
        Ok(())
    })?;
    Ok(Plot { title: frame.title.to_owned(), caption: frame.caption.to_owned(), svg })
}

/// The colour of a value that is this part of the way from the least to the greatest.
fn mix_colours(share: f64) -> RGBColor {
    let place = share.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let (low, high) = (COLOURS[place.floor() as usize], COLOURS[place.ceil() as usize]);
    let mix = |one: u8, other: u8| (f64::from(one) + (f64::from(other) - f64::from(one)) * place.fract()).round() as u8;
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heat_map_has_a_cell_for_each_value_in_the_colour_of_its_size() {
        let axis = |name| HeatAxis { name, labels: vec!["one".into(), "two".into()] };
        let frame = PlotFrame { title: "map", caption: "Values.", y_axis: "", y_range: (0.0, 10.0) };
        let rows = [vec![Some(0.0), Some(10.0)], vec![None, Some(5.0)]];
        let svg = heat_map(&frame, [axis("across"), axis("up")], &rows).unwrap().svg;
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        for colour in ["#440154", "#FDE725", "#21918C"] {
            assert!(svg.contains(&format!("fill=\"{colour}\"")), "{colour}: {svg}");
        }
        assert!(["across", "up", "one", "two"].iter().all(|text| svg.contains(text)), "{svg}");
        // Nothing to show is no division by zero.
        assert!(heat_map(&frame, [axis("a"), axis("b")], &[vec![], vec![]]).is_ok());
    }
}
