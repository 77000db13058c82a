//! Sequence numbers over time, as the paper's Fig. 9.

use crate::multipath::row::MultipathRow;
use crate::multipath::trace::{TcpLayer, TraceSegment};
use crate::report::plot::{LegendEntry, LegendMark, Plot, PlotResult, SERIES_COLOURS, draw_chart, draw_plot};
use plotters::prelude::*;

const LAYER_STYLES: [(TcpLayer, &str, usize); 2] = [(TcpLayer::Upper, "flow", 0), (TcpLayer::Lower, "below", 2)];
const RETRANSMISSION_COLOUR: RGBColor = SERIES_COLOURS[1];

/// A drawing for each run that was traced.
pub(super) fn trace_plots(rows: &[MultipathRow]) -> PlotResult<Vec<Plot>> {
    rows.iter().filter(|row| !row.trace.is_empty()).map(trace_plot).collect()
}

fn trace_plot(row: &MultipathRow) -> PlotResult<Plot> {
    let point = |segment: &TraceSegment| (segment.seconds, segment.sequence_bytes as f64 / 1e6);
    let most = |value: fn(&(f64, f64)) -> f64| row.trace.iter().map(point).map(|p| value(&p)).fold(0.1, f64::max);
    let segments = |layer, repeats| row.trace.iter().filter(move |s| s.layer == layer && s.is_repeat == repeats);
    let kinds = LAYER_STYLES.into_iter().flat_map(|(layer, name, colour)| {
        [
            (layer, false, name.to_owned(), SERIES_COLOURS[colour], 1),
            (layer, true, format!("{name}, repeated"), RETRANSMISSION_COLOUR, 3),
        ]
    });
    let kinds: Vec<_> = kinds.filter(|(layer, repeats, ..)| segments(*layer, *repeats).next().is_some()).collect();
    let entry = |(_, _, name, colour, _): &(_, _, String, RGBColor, _)| LegendEntry {
        name: name.clone(),
        colour: *colour,
        mark: LegendMark::Point,
    };
    let legend: Vec<_> = kinds.iter().map(entry).collect();
    let svg = draw_plot(&legend, |area| {
        let axes = ["time, s".to_owned(), "sequence number, MB".to_owned()];
        let mut chart = draw_chart(area, 0.0..most(|p| p.0), 0.0..most(|p| p.1), &axes)?;
        for (layer, repeats, _, colour, size) in &kinds {
            let marks = segments(*layer, *repeats).map(|segment| Circle::new(point(segment), *size, colour.filled()));
            chart.draw_series(marks)?;
        }
        Ok(())
    })?;
    Ok(Plot {
        title: format!("{}, {}, run {}", row.case, row.contender, row.run),
        caption: "Where the segments that left the sending host and its gateway lie in their connections, over time (the paper's \
                  Fig. 9)."
            .to_owned(),
        svg,
    })
}
