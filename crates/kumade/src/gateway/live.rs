//! What is seen of a gateway's history.

use crate::live::history::{History, Snapshot};
use crate::live::panel::{
    self, column_spacing, draw_line, draw_paragraph, fault_style, good_style, is_narrow, take_lines, warning_style,
};
use kumade_daemon::{format_age, format_percent};
use kumade_gateway::status::{
    GatewayStatus, NatSessionStatus, PathState, RemoteSiteStatus, SessionPhase, Traffic, Tunnel, TunnelPath,
};
use kumade_units::Rate;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

impl Snapshot for GatewayStatus {
    fn age_seconds(&self) -> f64 {
        self.duration_seconds
    }
}

/// A value of paths, shown as a number and below it as it was of late.
struct LiveColumn {
    head: &'static str,
    value: fn(&GatewayStatus, LivePath) -> Option<f64>,
    text: fn(f64) -> String,
    /// The full height, unless a value is higher.
    min_scale: f64,
}

/// A path, alone or of a remote site.
#[derive(Clone, Copy)]
struct LivePath {
    remote: Option<usize>,
    path: usize,
}

const NAME_WIDTH: u16 = 22;
const NARROW_NAME_WIDTH: u16 = 20;
const ROW_HEIGHT: u16 = 2;
const SENT_COLUMN: LiveColumn = LiveColumn {
    head: "sent",
    value: |status, place| sent_traffic(status, place)?.bits_per_second,
    text: |rate| Rate::from_f64(rate).to_string(),
    min_scale: 1.0,
};
const ROUND_TRIP_COLUMN: LiveColumn = LiveColumn {
    head: "RTT",
    value: |status, place| tunnel_path(status, place)?.round_trip_seconds,
    text: |seconds| kumade_units::Span::from_secs_f64(seconds).to_string(),
    min_scale: 0.001,
};
const LOSS_COLUMN: LiveColumn = LiveColumn {
    head: "loss",
    value: |status, place| Some(tunnel_path(status, place)?.loss_ratio),
    text: |ratio| format_percent(Some(ratio)),
    min_scale: 0.01,
};
const SHARE_COLUMN: LiveColumn =
    LiveColumn { head: "share", value: share_ratio, text: |ratio| format_percent(Some(ratio)), min_scale: 1.0 };

/// Draws the latest status, with sparklines of the earlier ones: the newest value is at their right end. What does not fit is
/// left out below.
pub fn draw(frame: &mut Frame<'_>, history: &History<GatewayStatus>) {
    let [mut area, footer] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Line::from("q ends it").dim(), footer);
    let status = history.latest();
    let age = format_age(status.duration_seconds);
    draw_line(frame, &mut area, Line::from(format!("{}, running for {age}", status.name)).bold());
    if let Some(problem) = history.problem() {
        draw_paragraph(frame, &mut area, "The gateway does not answer; below is its last status.", fault_style());
        draw_paragraph(frame, &mut area, problem, fault_style());
    }
    if status.remotes.iter().all(|remote| remote.tunnel.is_none()) {
        draw_line(frame, &mut area, Line::default());
        let places = (0..status.paths.len()).map(|path| LivePath { remote: None, path });
        draw_paths(frame, &mut area, history, &[SENT_COLUMN, SHARE_COLUMN], places);
    }
    for (place, RemoteSiteStatus { name, tunnel, .. }) in status.remotes.iter().enumerate() {
        if let Some(tunnel) = tunnel {
            draw_tunnel(frame, &mut area, history, (place, name), tunnel);
        }
    }
    draw_weights_and_sessions(frame, &mut area, status);
}

fn draw_tunnel(
    frame: &mut Frame<'_>,
    area: &mut Rect,
    history: &History<GatewayStatus>,
    (place, name): (usize, &str),
    tunnel: &Tunnel,
) {
    draw_line(frame, area, Line::default());
    let (state, style) = if tunnel.connected { ("connected", good_style()) } else { ("not connected", fault_style()) };
    let since = format!(" for {}, key changes: {}", format_age(tunnel.state_seconds), tunnel.key_changes);
    let heading = [Span::from(format!("{name}: ")), Span::styled(state, style), Span::from(since)];
    draw_line(frame, area, Line::from_iter(heading));
    let places = (0..tunnel.paths.len()).map(|path| LivePath { remote: Some(place), path });
    draw_paths(frame, area, history, &[SENT_COLUMN, ROUND_TRIP_COLUMN, LOSS_COLUMN, SHARE_COLUMN], places);
    let Tunnel { queued_packets, dropped_packets, resequencing, .. } = tunnel;
    let queue = format!("{queued_packets} packets wait to be sent, the queue has dropped {dropped_packets}");
    draw_paragraph(frame, area, &queue, Style::new());
    resequencing.to_string().lines().for_each(|text| draw_paragraph(frame, area, text, Style::new()));
}

/// The weights of paths, and below them sessions and what was refused.
fn draw_weights_and_sessions(frame: &mut Frame<'_>, area: &mut Rect, status: &GatewayStatus) {
    draw_line(frame, area, Line::default());
    for RemoteSiteStatus { name, paths, sessions, .. } in &status.remotes {
        let weights = paths.iter().filter_map(|path| Some(format!("{} {}", path.name, path.weight?)));
        let weights: Vec<_> = weights.collect();
        if !weights.is_empty() {
            draw_paragraph(frame, area, &format!("{name}: packets are divided {}", weights.join(" : ")), Style::new());
        }
        if let Some(sessions) = sessions {
            let text = format!("{name}: {sessions}");
            text.lines().for_each(|text| draw_paragraph(frame, area, text, Style::new()));
        }
    }
    if let Some(refused) = &status.refused {
        draw_paragraph(frame, area, &format!("refused: {refused}"), Style::new());
    }
    if status.session_count > 0 {
        draw_sessions(frame, area, status);
    }
}

fn draw_sessions(frame: &mut Frame<'_>, area: &mut Rect, status: &GatewayStatus) {
    draw_line(frame, area, Line::from(format!("sessions: {}", status.session_count)));
    let heads = ["flow", "role", "phase", "timer", "idle", "packets"].map(str::to_owned);
    let sessions = status.sessions.iter().take(area.height.into());
    let rows = sessions.map(|session| {
        let NatSessionStatus { flow, role, phase, idle_seconds, traffic, .. } = session;
        let values = [role.to_string(), phase.to_string(), session.show_timer(), format_age(*idle_seconds)];
        let cells = [vec![flow.clone()], values.to_vec(), vec![traffic.packets.to_string()]].concat();
        Row::new(cells).style(phase_style(*phase))
    });
    let width = |text: &str| Constraint::Length(text.len() as u16);
    let flow = status.sessions.iter().map(|session| session.flow.len()).max().unwrap_or_default();
    let widths = [Constraint::Length(flow.max(heads[0].len()) as u16), width("restores"), width("unanswered")];
    let widths = widths.into_iter().chain([width("59 min 59 s"), width("59 min 59 s"), Constraint::Fill(1)]);
    let table = Table::new(rows, widths).header(Row::new(heads).dim()).column_spacing(2);
    frame.render_widget(table, *area);
}

fn phase_style(phase: SessionPhase) -> Style {
    match phase {
        SessionPhase::Active => Style::new(),
        SessionPhase::Waiting | SessionPhase::Asking | SessionPhase::Ending => warning_style(),
        SessionPhase::Refused | SessionPhase::Unanswered => fault_style(),
    }
}

fn draw_paths(
    frame: &mut Frame<'_>,
    area: &mut Rect,
    history: &History<GatewayStatus>,
    columns: &[LiveColumn],
    places: impl Iterator<Item = LivePath> + Clone,
) {
    let heads = column_cells(take_lines(area, 1), columns);
    let names = ["path"].into_iter().chain(columns.iter().map(|column| column.head));
    heads.iter().zip(names).for_each(|(cell, name)| frame.render_widget(Line::from(name).dim(), *cell));
    for place in places.clone() {
        let row = take_lines(area, ROW_HEIGHT);
        let cells = column_cells(row, columns);
        draw_name(frame, cells[0], history.latest(), place);
        for (cell, column) in cells[1..].iter().zip(columns) {
            // One scale for all paths, so that they can be compared.
            let all = places.clone().flat_map(|place| column_values(history, column, place, cell.width)).flatten();
            let scale = all.fold(column.min_scale, f64::max);
            draw_value(frame, *cell, history, column, place, scale);
        }
    }
}

fn draw_name(frame: &mut Frame<'_>, mut cell: Rect, status: &GatewayStatus, place: LivePath) {
    let Some(path) = status.paths.get(place.path) else { return };
    let (state, style, seconds) = match tunnel_path(status, place) {
        Some(TunnelPath { state, state_seconds, .. }) => (state.to_string(), state_style(*state), *state_seconds),
        None if path.up => (PathState::Up.to_string(), good_style(), path.state_seconds),
        None => (PathState::Down.to_string(), fault_style(), path.state_seconds),
    };
    draw_line(frame, &mut cell, Line::from(path.name.as_str()));
    draw_line(
        frame,
        &mut cell,
        Line::from_iter([Span::styled(state, style), Span::from(format!(" {}", format_age(seconds)))]),
    );
}

fn draw_value(
    frame: &mut Frame<'_>,
    cell: Rect,
    history: &History<GatewayStatus>,
    column: &LiveColumn,
    place: LivePath,
    scale: f64,
) {
    let text = (column.value)(history.latest(), place).map(column.text);
    panel::draw_value(frame, cell, text, column_values(history, column, place, cell.width), scale);
}

/// Those for which there is room, the newest first.
fn column_values(
    history: &History<GatewayStatus>,
    column: &LiveColumn,
    place: LivePath,
    width: u16,
) -> impl Iterator<Item = Option<f64>> {
    history.newest_first().take(width.into()).map(move |status| (column.value)(status, place))
}

/// One for the name and one for each column.
fn column_cells(row: Rect, columns: &[LiveColumn]) -> Vec<Rect> {
    // A rate takes the most room.
    let (name, first) = if is_narrow(row) { (NARROW_NAME_WIDTH, 3) } else { (NAME_WIDTH, 2) };
    let fills = (0..columns.len()).map(|column| Constraint::Fill(if column == 0 { first } else { 2 }));
    let widths = [Constraint::Length(name)].into_iter().chain(fills);
    Layout::horizontal(widths).spacing(column_spacing(row)).split(row).to_vec()
}

fn sent_traffic(status: &GatewayStatus, place: LivePath) -> Option<&Traffic> {
    match place.remote {
        Some(_) => tunnel_path(status, place).map(|path| &path.sent),
        None => status.paths.get(place.path).map(|path| &path.sent),
    }
}

fn share_ratio(status: &GatewayStatus, place: LivePath) -> Option<f64> {
    match place.remote {
        Some(_) => tunnel_path(status, place)?.share_ratio,
        None => status.paths.get(place.path)?.share_ratio,
    }
}

fn tunnel_path(status: &GatewayStatus, place: LivePath) -> Option<&TunnelPath> {
    status.remotes.get(place.remote?)?.tunnel.as_ref()?.paths.get(place.path)
}

fn state_style(state: PathState) -> Style {
    match state {
        PathState::Up => good_style(),
        PathState::Probing => warning_style(),
        PathState::Down => fault_style(),
    }
}

#[cfg(test)]
mod tests;
