//! Sequence numbers over time, as the paper's Fig. 9.

use crate::multipath::row::MultipathRow;
use crate::multipath::trace::{Layer, TraceSegment};
use crate::report::plot::{Drawn, Plot, SERIES, chart, draw, legend};
use plotters::prelude::*;

const LAYERS: [(Layer, &str, usize); 2] = [(Layer::Upper, "flow", 0), (Layer::Lower, "below", 2)];
const REPEATED: RGBColor = SERIES[1];

/// A drawing for each run that was traced.
pub(super) fn plots(rows: &[MultipathRow]) -> Drawn<Vec<Plot>> {
    rows.iter().filter(|row| !row.trace.is_empty()).map(plot).collect()
}

fn plot(row: &MultipathRow) -> Drawn<Plot> {
    let point = |segment: &TraceSegment| (segment.seconds, segment.sequence_bytes as f64 / 1e6);
    let most = |value: fn(&(f64, f64)) -> f64| row.trace.iter().map(point).map(|p| value(&p)).fold(0.1, f64::max);
    let svg = draw(|area| {
        let axes = ["time, s".to_owned(), "sequence number, MB".to_owned()];
        let mut chart = chart(area, 0.0..most(|p| p.0), 0.0..most(|p| p.1), &axes)?;
        for (layer, name, colour) in LAYERS {
            for (repeats, name, colour, size) in
                [(false, name.to_owned(), SERIES[colour], 1), (true, format!("{name}, repeated"), REPEATED, 3)]
            {
                let own = row.trace.iter().filter(|s| s.layer == layer && s.is_repeat == repeats).map(point);
                let own: Vec<_> = own.collect();
                if own.is_empty() {
                    continue;
                }
                let mark = |p| Circle::new(p, size, colour.filled());
                chart
                    .draw_series(own.into_iter().map(mark))?
                    .label(name)
                    .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
            }
        }
        legend(&mut chart)
    })?;
    Ok(Plot {
        title: format!("{}, {}, run {}", row.case, row.contender, row.run),
        caption: "Where the segments that left the sending host and its gateway lie in their connections, over time (the paper's \
                  Fig. 9)."
            .to_owned(),
        svg,
    })
}

/// The segments as CSV; none where nothing was traced.
pub(super) fn csv(rows: &[MultipathRow]) -> Result<Option<String>, Box<dyn std::error::Error>> {
    if rows.iter().all(|row| row.trace.is_empty()) {
        return Ok(None);
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "case",
        "contender",
        "run",
        "layer",
        "connection",
        "seconds",
        "sequence_bytes",
        "payload_bytes",
        "is_repeat",
    ])?;
    for row in rows {
        for segment in &row.trace {
            writer.serialize((
                (&row.case, &row.contender, row.run, segment.layer, segment.connection),
                (segment.seconds, segment.sequence_bytes, segment.payload_bytes, segment.is_repeat),
            ))?;
        }
    }
    Ok(Some(String::from_utf8(writer.into_inner()?)?))
}
