//! The plots of a report on NAT sessions: as the paper's Fig. 3, what happens at either gateway over time.

use super::document::NatSessionReport;
use crate::nat_session::row::{NatSessionRow, SessionRow};
use crate::report::plot::{
    Axis, GREY, LegendEntry, LegendMark, Plot, PlotResult, SERIES_COLOURS, draw_labelled_chart, draw_plot, format_short,
};
use plotters::prelude::*;

/// So many flows of a run are shown.
const MAX_FLOWS: usize = 16;
const X_LABEL_COUNT: usize = 8;

/// One for each case: its first run.
pub(super) fn draw_plots(report: &NatSessionReport) -> PlotResult<Vec<Plot>> {
    report.rows.iter().filter(|row| row.run == 1).map(timeline_plot).collect()
}

/// A kind of line: its name, its place within the flow's, its colour, and when it begins and ends.
type TimelineKind = (&'static str, f64, RGBColor, fn(&SessionRow) -> Option<(f64, Option<f64>)>);

const TIMELINE_KINDS: [TimelineKind; 4] = [
    ("sending gateway: asked, not yet divided", 0.15, GREY, |session| {
        Some((session.asked_seconds, session.opened_seconds.or(session.forgotten_seconds)))
    }),
    ("sending gateway: divided", 0.15, SERIES_COLOURS[0], |session| {
        Some((session.opened_seconds?, session.left_seconds))
    }),
    ("sending gateway: FIN not yet confirmed", 0.15, SERIES_COLOURS[1], |session| {
        Some((session.left_seconds?, session.forgotten_seconds))
    }),
    ("receiving gateway: rule", -0.15, SERIES_COLOURS[2], |session| {
        Some((session.granted_seconds?, session.removed_seconds))
    }),
];

fn timeline_plot(row: &NatSessionRow) -> PlotResult<Plot> {
    let flows = row.flows.len().min(MAX_FLOWS);
    let ends = row.sessions().flat_map(|session| [session.forgotten_seconds, session.removed_seconds]).flatten();
    let end = ends.chain(row.sessions().filter_map(|session| session.last_packet_seconds)).fold(1.0, f64::max) * 1.02;
    let mut legend: Vec<_> = TIMELINE_KINDS
        .map(|(name, _, colour, _)| LegendEntry { name: name.into(), colour, mark: LegendMark::Line })
        .into();
    legend.push(LegendEntry {
        name: "last packet of the session".into(),
        colour: SERIES_COLOURS[3],
        mark: LegendMark::Point,
    });
    let svg = draw_plot(&legend, |area| {
        // Between two flows there is none.
        let whole = |y: &f64| if y.fract().abs() < 0.01 { format_short(y) } else { String::new() };
        let axes = [
            Axis { name: "since the flow's first packet, s", label_count: X_LABEL_COUNT, format_label: &format_short },
            Axis { name: "flow", label_count: flows + 1, format_label: &whole },
        ];
        let mut chart = draw_labelled_chart(area, 0.0..end, 0.5..flows as f64 + 0.5, axes)?;
        for (_, offset, colour, times) in TIMELINE_KINDS {
            let mut lines = Vec::new();
            for (place, flow) in row.flows.iter().take(flows).enumerate() {
                let y = (place + 1) as f64 + offset;
                let spans = flow.sessions.iter().filter_map(times);
                lines.extend(spans.map(|(from, to)| {
                    PathElement::new(vec![(from, y), (to.unwrap_or(end), y)], colour.stroke_width(4))
                }));
            }
            chart.draw_series(lines)?;
        }
        let last = |(place, flow): (usize, &crate::nat_session::row::FlowRow)| {
            let y = (place + 1) as f64 + 0.15;
            let marks = flow.sessions.iter().filter_map(|session| session.last_packet_seconds);
            marks.map(|at| Circle::new((at, y), 3, SERIES_COLOURS[3].filled())).collect::<Vec<_>>()
        };
        let marks: Vec<_> = row.flows.iter().take(flows).enumerate().flat_map(last).collect();
        chart.draw_series(marks)?;
        Ok(())
    })?;
    Ok(Plot {
        title: row.case.clone(),
        caption: format!("Sessions of the first run, at either gateway; {flows} of {} flows.", row.flows.len()),
        svg,
    })
}
