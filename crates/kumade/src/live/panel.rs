//! What live views are made of.

use crate::text::fit_lines;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{RenderDirection, Sparkline};

/// A terminal of fewer columns has them closer together.
const NARROW_COLUMNS: u16 = 80;

/// A bar of a sparkline has so many steps.
const SPARKLINE_STEPS: f64 = 8.0;

/// Takes lines from the top of an area, as many as there are.
pub fn take_lines(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    let taken = Rect { height, ..*area };
    (area.y, area.height) = (area.y + height, area.height - height);
    taken
}

/// Puts a line at the top of an area, and takes it from there.
pub fn draw_line(frame: &mut Frame<'_>, area: &mut Rect, text: Line<'_>) {
    frame.render_widget(text, take_lines(area, 1));
}

/// Puts a text at the top of an area, in as many lines as it takes, with no number parted from its unit.
pub fn draw_paragraph(frame: &mut Frame<'_>, area: &mut Rect, text: &str, style: Style) {
    for part in fit_lines(text, area.width.into()).lines() {
        draw_line(frame, area, Line::from(part).style(style));
    }
}

/// Whether what stands side by side must do with little room.
pub fn is_narrow(area: Rect) -> bool {
    area.width < NARROW_COLUMNS
}

/// Columns between what stands side by side.
pub fn column_spacing(area: Rect) -> u16 {
    if is_narrow(area) { 1 } else { 2 }
}

/// A value as text, and below it what it was of late: the newest at the right end, the full height for `scale`.
pub fn draw_value(
    frame: &mut Frame<'_>,
    mut cell: Rect,
    text: Option<String>,
    newest_first: impl Iterator<Item = Option<f64>>,
    scale: f64,
) {
    draw_line(frame, &mut cell, Line::from(text.unwrap_or_else(|| "–".to_owned())));
    // What is above 0 is to be seen.
    let bar = |value: Option<f64>| value.map(|value| (value / scale * SPARKLINE_STEPS).ceil() as u64);
    let bars: Vec<_> = newest_first.take(cell.width.into()).map(bar).collect();
    let sparkline = Sparkline::default().data(bars).max(SPARKLINE_STEPS as u64);
    frame.render_widget(sparkline.direction(RenderDirection::RightToLeft).cyan(), take_lines(&mut cell, 1));
}

/// The style of what is as it should be.
pub fn good_style() -> Style {
    Style::new().fg(Color::Green)
}

/// The style of what needs attention.
pub fn warning_style() -> Style {
    Style::new().fg(Color::Yellow)
}

/// The style of a fault.
pub fn fault_style() -> Style {
    Style::new().fg(Color::Red)
}
