//! What is seen of a link's history.

use crate::live::history::{History, Snapshot};
use crate::live::panel::{
    self, column_spacing, draw_line, draw_paragraph, fault_style, good_style, is_narrow, take_lines, warning_style,
};
use crate::text::wrap_text;
use kumade_daemon::{format_age, format_percent};
use kumade_emulator::report::{DirectionReport, Document, Flow, MAX_LATENESS};
use kumade_units::Rate;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};

/// What a link says of itself.
#[derive(Debug)]
pub struct LinkSnapshot {
    /// The last interval of its statistics.
    pub recent: Document,
    /// All since its start.
    pub total: Document,
}

impl Snapshot for LinkSnapshot {
    fn age_seconds(&self) -> f64 {
        self.total.duration_seconds
    }

    fn is_same(&self, other: &Self) -> bool {
        self.recent.time == other.recent.time
    }
}

/// A value of a direction, shown as a number and below it as it was of late.
struct LiveColumn {
    head: &'static str,
    /// In a narrow terminal.
    short_head: &'static str,
    value: fn(&DirectionReport) -> Option<f64>,
    text: fn(f64) -> String,
    /// The full height, unless a value is higher.
    min_scale: f64,
}

const COLUMNS: [LiveColumn; 5] = [
    LiveColumn {
        head: "delivered",
        short_head: "delivered",
        value: |direction| Some(direction.delivered.bits_per_second),
        text: rate_text,
        min_scale: 1.0,
    },
    LiveColumn {
        head: "dropped packets",
        short_head: "dropped",
        value: |direction| Some(direction.dropped.total_packets() as f64),
        text: |packets| packets.to_string(),
        min_scale: 1.0,
    },
    LiveColumn {
        head: "queueing p50",
        short_head: "queue p50",
        value: |direction| Some(direction.queueing_delay?.p50_seconds),
        text: span_text,
        min_scale: 0.001,
    },
    LiveColumn {
        head: "queueing p99",
        short_head: "queue p99",
        value: |direction| Some(direction.queueing_delay?.p99_seconds),
        text: span_text,
        min_scale: 0.001,
    },
    LiveColumn {
        head: "backlog bytes",
        short_head: "backlog B",
        value: |direction| Some(direction.queued_bytes as f64),
        text: |bytes| bytes.to_string(),
        min_scale: 3000.0,
    },
];

/// A direction takes so many lines besides its flows.
const DIRECTION_HEIGHT: u16 = 6;
const MAX_FLOWS: u16 = 8;
/// The longest of a flow's name that is common: TCP over IPv4.
const NAME_WIDTH: u16 = 48;
const RATE_WIDTH: u16 = 12;
const SHARE_WIDTH: u16 = 7;

type DirectionGetter = fn(&Document) -> &DirectionReport;

/// Draws the last interval, with sparklines of the earlier ones: the newest value is at their right end. `warning` and `hint`
/// are lines for above and below.
pub fn draw(frame: &mut Frame<'_>, history: &History<LinkSnapshot>, warning: Option<&str>, hint: &str) {
    let LinkSnapshot { recent, total } = history.latest();
    let ending = lateness_lines(recent, total, frame.area().width.into());
    let height = Constraint::Length(ending.len() as u16 + 1);
    let [mut area, mut bottom] = Layout::vertical([Constraint::Fill(1), height]).areas(frame.area());
    let (name, interval) = (&recent.name, kumade_units::Span::from_secs_f64(recent.duration_seconds));
    let heading = format!("{name}, running for {}; below are the last {interval}", format_age(total.duration_seconds));
    draw_paragraph(frame, &mut area, &heading, Style::new().bold());
    for problem in [warning, history.problem()].into_iter().flatten() {
        draw_paragraph(frame, &mut area, problem, fault_style());
    }
    let flows = (area.height / 2).saturating_sub(DIRECTION_HEIGHT).min(MAX_FLOWS);
    let directions: [DirectionGetter; 2] = [|document| &document.up, |document| &document.down];
    for get in directions {
        draw_direction(frame, &mut area, history, get, flows);
    }
    ending.into_iter().for_each(|text| draw_line(frame, &mut bottom, text));
    draw_line(frame, &mut bottom, Line::from(hint).dim());
}

fn draw_direction(
    frame: &mut Frame<'_>,
    area: &mut Rect,
    history: &History<LinkSnapshot>,
    get: DirectionGetter,
    flows: u16,
) {
    let direction = get(&history.latest().recent);
    draw_line(frame, area, Line::default());
    let name = Span::from(format!("{} > {}: ", direction.from, direction.to)).bold();
    draw_line(frame, area, Line::from_iter([name, Span::from(direction.settings.as_str())]));
    let (mut heads, values) = (take_lines(area, 1), take_lines(area, 2));
    let width = [Constraint::Fill(1); COLUMNS.len()];
    let split = |row: Rect| Layout::horizontal(width).spacing(column_spacing(row)).split(row);
    for ((head, cell), column) in split(take_lines(&mut heads, 1)).iter().zip(split(values).iter()).zip(&COLUMNS) {
        let text = if is_narrow(frame.area()) { column.short_head } else { column.head };
        frame.render_widget(Line::from(text).dim(), *head);
        let newest_first = || history.newest_first().map(|seen| (column.value)(get(&seen.recent)));
        let scale = newest_first().take(cell.width.into()).flatten().fold(column.min_scale, f64::max);
        let text = (column.value)(direction).map(column.text);
        panel::draw_value(frame, *cell, text, newest_first(), scale);
    }
    let fairness = match direction.fairness_index_ratio {
        Some(index) => format!("fairness index {index:.3}, active flows: {}", direction.active_flows),
        None => "no active flow".to_owned(),
    };
    draw_line(frame, area, Line::from(fairness));
    let mut list = take_lines(area, flows);
    for flow in direction.flows.iter().take(flows.into()) {
        draw_flow(frame, take_lines(&mut list, 1), flow, direction);
    }
}

/// Its name, its rate, its share of what was delivered, and the same as a bar.
fn draw_flow(frame: &mut Frame<'_>, row: Rect, flow: &Flow, direction: &DirectionReport) {
    let widths = [
        Constraint::Max(NAME_WIDTH),
        Constraint::Length(RATE_WIDTH),
        Constraint::Length(SHARE_WIDTH),
        Constraint::Fill(1),
    ];
    let [name, rate, share, bar] = Layout::horizontal(widths).spacing(column_spacing(row)).areas(row);
    let delivered = &flow.traffic.delivered;
    let ratio = delivered.bytes as f64 / direction.delivered.bytes.max(1) as f64;
    frame.render_widget(Line::from(flow.name.as_deref().unwrap_or("without addresses")), name);
    frame.render_widget(Line::from(rate_text(delivered.bits_per_second)), rate);
    frame.render_widget(Line::from(format_percent(Some(ratio))), share);
    let length = (ratio.min(1.0) * f64::from(bar.width)).round() as usize;
    frame.render_widget(Line::from("█".repeat(length)).cyan(), bar);
}

/// How late this machine itself was, and what was dropped since the start, in lines of so many columns.
fn lateness_lines(recent: &Document, total: &Document, width: usize) -> Vec<Line<'static>> {
    let late = |direction: &DirectionReport| {
        direction.lateness.map_or_else(|| "–".to_owned(), |times| span_text(times.p99_seconds))
    };
    let names = [&recent.up, &recent.down].map(|direction| format!("to {}: {}", direction.to, late(direction)));
    let lateness = format!("own lateness p99 (bound {MAX_LATENESS}): {}", names.join(", "));
    let style = if recent.verdict.on_time { good_style() } else { warning_style() };
    let texts = [(lateness, Style::new()), (recent.verdict.message.clone(), style), (drops_text(total), Style::new())];
    let lines =
        |(text, style): (String, Style)| wrap_text(&text, width).into_iter().map(move |part| Line::styled(part, style));
    texts.into_iter().flat_map(lines).collect()
}

/// Those since the start.
fn drops_text(total: &Document) -> String {
    let names =
        [&total.up, &total.down].map(|direction| format!("to {}: {}", direction.to, direction.dropped.total_packets()));
    format!("dropped packets since the start: {}", names.join(", "))
}

fn rate_text(bits_per_second: f64) -> String {
    Rate::from_f64(bits_per_second).to_string()
}

fn span_text(seconds: f64) -> String {
    kumade_units::Span::from_secs_f64(seconds).to_string()
}

#[cfg(test)]
mod tests;
