//! A report for people: a line for each quantity, with both directions side by side, the verdict, and what limits it.

use super::cells::{
    available_cell, bufferbloat_cell, capacity_cell, cost_cell, delay_with_bound, fair_share_cell, goodput_cell,
    loaded_loss_cell, loss_cell, lost_cell, measured_directions, one_way_cell, one_way_figures, round_trip_cell,
    shaping_cell,
};
use super::path_lines;
use super::port_lines;
use super::result_sentence;
use super::{queue_class_cells, trace_lines};
use crate::terminal::Styles;
use crate::text::{TextGrid, wrap_hanging, wrap_text};
use kumade_estimate::Reason;
use kumade_measurement::Report;
use kumade_measurement::report::{DelayFigures, DelayReport, DirectionReport, PathReport};
use kumade_units::Direction;

/// How it is shown.
pub struct SummaryView {
    /// Colours.
    pub styles: Styles,
    /// Maximum columns of a line.
    pub width: usize,
    /// With all details.
    pub verbose: bool,
    /// With what limits one-way delays: who asks for the clock's error wants to know where it was not had.
    pub clock_notes: bool,
}

/// The report's lines.
pub fn summary_lines(report: &Report, view: &SummaryView) -> Vec<String> {
    let (mut lines, verdict) = match measured_directions(report).is_empty() {
        true => (report.delay.iter().flat_map(|delay| delay_lines(delay, view)).collect(), None),
        false => (bandwidth_lines(report, view), Some(result_sentence::result_sentence(report))),
    };
    if let Some(verdict) = verdict {
        lines.push(String::new());
        lines.extend(
            wrap_text(&verdict, view.width).into_iter().map(|line| view.styles.conclusion.apply_to(line).to_string()),
        );
    }
    lines.extend(note_lines(report, view));
    if let Some(path) = report.path.as_ref().filter(|path| view.verbose || path.ecn_readiness.is_some()) {
        lines.push(String::new());
        lines.extend(path_lines(path, view));
    }
    lines.extend(report.path.iter().flat_map(|path| port_and_idle_lines(path, view)));
    if view.verbose {
        lines.push(String::new());
        lines.extend(detail_lines(report, view));
    }
    lines
}

fn bandwidth_lines(report: &Report, view: &SummaryView) -> Vec<String> {
    let directions = measured_directions(report);
    let headings: Vec<String> = directions.iter().map(|(direction, _)| direction.to_string()).collect();
    let mut grid = TextGrid::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    let mut row = |label: &str, cell: &dyn Fn(Direction, &DirectionReport) -> String| {
        grid.push_row(label, directions.iter().map(|(direction, found)| cell(*direction, found)).collect());
    };
    row("available", &|_, found| available_cell(found));
    if directions.iter().any(|(_, found)| found.fair_share_bits_per_second.is_some()) {
        row("one flow's share", &|_, found| fair_share_cell(found));
    }
    if directions.iter().any(|(_, found)| found.capacity.is_some()) {
        row("capacity", &|_, found| capacity_cell(found));
        row("shaping", &shaping_cell);
    }
    if let Some(delay) = &report.delay {
        row("RTT → loaded", &|direction, _| round_trip_cell(delay, direction));
        row("loss", &|direction, found| loss_cell(delay, direction, found.transport));
        if [&delay.up_loaded_packets, &delay.down_loaded_packets].into_iter().any(Option::is_some) {
            row("loss, loaded", &|direction, _| loaded_loss_cell(delay, direction));
        }
        if let [Some(up), Some(down)] = Direction::BOTH.map(|direction| one_way_cell(delay, direction)) {
            row("one-way", &|direction, _| if direction == Direction::Up { up.clone() } else { down.clone() });
        }
    }
    if directions.iter().any(|(_, found)| found.load.is_some()) {
        row("TCP goodput", &|_, found| goodput_cell(found));
        row("bufferbloat", &|_, found| bufferbloat_cell(found));
    }
    grid.push_row("sent", directions.iter().map(|(_, found)| cost_cell(found)).collect());
    paint_grid(&grid, view)
}

fn conclusion_lines(text: &str, view: &SummaryView) -> Vec<String> {
    wrap_text(text, view.width).into_iter().map(|line| view.styles.conclusion.apply_to(line).to_string()).collect()
}

/// What the path does to packets.
fn path_lines(path: &PathReport, view: &SummaryView) -> Vec<String> {
    let mut lines = paint_grid(&path_lines::grid(path), view);
    if let Some(readiness) = &path.ecn_readiness {
        lines.extend(conclusion_lines(&format!("ECN: {}.", readiness.sentence), view));
    }
    lines.extend(queue_class_cells::queue_sentences(path).iter().flat_map(|text| conclusion_lines(text, view)));
    for (direction, found) in Direction::BOTH.into_iter().zip([&path.up, &path.down]) {
        let Some(trace) = &found.trace else { continue };
        lines.extend([String::new(), trace_lines::heading(direction, trace)]);
        lines.extend(paint_grid(&trace_lines::grid(direction, trace), view));
        lines.extend(trace_lines::conclusions(direction, trace).iter().flat_map(|text| conclusion_lines(text, view)));
    }
    for text in &path.not_known {
        let wrapped = wrap_hanging("not known: ", text, view.width);
        lines.extend(wrapped.into_iter().map(|line| view.styles.label.apply_to(line).to_string()));
    }
    lines
}

/// Which ports pass, and how long flows may be idle.
fn port_and_idle_lines(path: &PathReport, view: &SummaryView) -> Vec<String> {
    let ports = path.ports.as_ref().map(|found| (port_lines::port_grid(found), port_lines::port_conclusions(found)));
    let idle = path.idle_timeouts.as_ref();
    let idle =
        idle.map(|found| (port_lines::idle_grid(found), port_lines::idle_conclusions(found).into_iter().collect()));
    let mut lines = Vec::new();
    for (grid, conclusions) in [ports, idle].into_iter().flatten() {
        lines.push(String::new());
        lines.extend(paint_grid(&grid, view));
        lines.extend(conclusions.iter().flat_map(|text: &String| conclusion_lines(text, view)));
    }
    lines
}

/// Of a report of delays alone.
fn delay_lines(delay: &DelayReport, view: &SummaryView) -> Vec<String> {
    let mut grid = TextGrid::new(&["round trip", "up", "down"]);
    let one_way = Direction::BOTH.map(|direction| one_way_figures(delay, direction));
    let columns = [delay.round_trip.as_ref(), one_way[0], one_way[1]];
    let dash = || "–".to_owned();
    let mut row = |label: &str, cell: &dyn Fn(&DelayFigures) -> String| {
        grid.push_row(label, columns.iter().map(|figures| figures.map_or_else(dash, cell)).collect());
    };
    row("minimum", &|figures| delay_with_bound(figures.minimum_seconds));
    row("median", &|figures| delay_with_bound(figures.median_seconds));
    row("p99", &|figures| delay_with_bound(figures.percentile_99_seconds));
    let packets = [&delay.round_trip_packets, &delay.up_packets, &delay.down_packets];
    grid.push_row("loss", packets.map(|packets| lost_cell(packets.as_ref())).to_vec());
    let mut lines = paint_grid(&grid, view);
    let extensions = delay.extensions.iter().map(ToString::to_string).filter(|_| !view.verbose).collect::<String>();
    lines.extend(extensions.lines().flat_map(|line| wrap_indented("", line, view.width)));
    lines
}

fn paint_grid(grid: &TextGrid, view: &SummaryView) -> Vec<String> {
    let Styles { label, value, fault: bad, .. } = &view.styles;
    grid.wrapped_lines(view.width, |row, column, text| {
        let style = match (row, column, text.trim()) {
            (0, ..) | (_, 0, _) => label,
            (1, _, "no value") => bad,
            (1, ..) => value,
            _ => return text,
        };
        style.apply_to(text).to_string()
    })
}

/// Why values are missing, and what limits those that are not.
fn note_lines(report: &Report, view: &SummaryView) -> Vec<String> {
    let directions = measured_directions(report);
    let mut notes: Vec<(&'static str, String)> = Vec::new();
    for (direction, found) in directions.iter().filter(|(_, found)| !found.has_result()) {
        let reason = found.reason.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let more = budget_hint(found.reason.as_ref());
        notes.push(("no value ", format!("{direction}: {reason}{more}")));
    }
    for (direction, found) in &directions {
        let others = directions.iter().filter(|(other, _)| other != direction);
        for warning in &found.warnings {
            let shared = others.clone().any(|(_, other)| other.warnings.contains(warning));
            match shared {
                true if *direction == Direction::Up => notes.push(("warning: ", warning.to_string())),
                true => {}
                false => notes.push(("warning: ", format!("{direction}: {warning}"))),
            }
        }
    }
    for (direction, found) in &directions {
        let reason = found.load.as_ref().and_then(|load| load.reason.as_ref());
        notes.extend(reason.map(|reason| ("warning: ", format!("{direction}: bufferbloat: {reason}"))));
    }
    if view.clock_notes {
        let warnings = report.delay.iter().flat_map(|delay| &delay.warnings);
        notes.extend(warnings.map(|warning| ("warning: ", warning.to_string())));
    }
    if let Some(reason) = report.delay.as_ref().and_then(|delay| delay.reason.as_ref()) {
        notes.push(("no delay: ", reason.to_string()));
    }
    let style = |first: &str| if first == "warning: " { &view.styles.warning } else { &view.styles.fault };
    let painted = notes.iter().flat_map(|(first, text)| {
        wrap_hanging(first, text, view.width).into_iter().map(|line| style(first).apply_to(line).to_string())
    });
    painted.collect()
}

/// What to try where a budget was spent, be it the method's own.
fn budget_hint(reason: Option<&Reason>) -> &'static str {
    match reason {
        Some(
            Reason::TooFewTrains(_)
            | Reason::NoCompleteChirp
            | Reason::NoFittingTrain
            | Reason::NoCompleteFleet
            | Reason::PathNotFilled(_),
        ) => "; --budget-bytes and --budget-time allow more",
        _ => "",
    }
}

/// Everything else that is known.
fn detail_lines(report: &Report, view: &SummaryView) -> Vec<String> {
    let mut texts = Vec::new();
    for (direction, found) in measured_directions(report) {
        texts.push(format!("{direction}: {found}"));
        texts.extend(found.capacity.iter().map(|capacity| format!("{direction}: {capacity}")));
        texts.extend(found.load.iter().map(|load| format!("{direction}: {load}")));
    }
    texts.extend(report.delay.iter().flat_map(|delay| {
        let text = delay.to_string();
        text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    }));
    texts.extend(report.path.iter().flat_map(path_lines::mark_texts));
    texts.push(format!("peer {}, started {}", report.peer, report.started));
    let wrapped = texts.iter().flat_map(|text| {
        let (first, rest) = text.split_once(": ").unwrap_or(("", text));
        let first = if first.is_empty() { String::new() } else { format!("{first}: ") };
        wrap_indented(&first, rest, view.width)
    });
    wrapped.map(|line| view.styles.label.apply_to(line).to_string()).collect()
}

/// The lines after the first indented by two columns.
fn wrap_indented(first: &str, text: &str, width: usize) -> Vec<String> {
    let lines = wrap_text(&format!("{first}{text}"), width.saturating_sub(2));
    lines.into_iter().enumerate().map(|(i, line)| if i == 0 { line } else { format!("  {line}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{csv, prometheus};
    use crate::terminal::ColorWhen;
    use kumade_estimate::Outcome;
    use kumade_measurement::Cost;
    use kumade_measurement::report::PacketReport;
    use kumade_probe_train::{Estimate, Transport};
    use kumade_units::Rate;

    /// 5.5 % stood in the table of a path that loses 3 %: trains overflow queues.
    #[test]
    fn what_trains_lose_stands_apart_from_what_the_path_loses() {
        let packets = |sent, lost| {
            let counts = kumade_estimate::delay::Deliveries { sent, arrived: sent - lost, lost, ..Default::default() };
            Some(PacketReport::from_trains(counts))
        };
        let (up_packets, up_loaded_packets) = (packets(100, 3), packets(2000, 130));
        let delay = DelayReport { up_packets, up_loaded_packets, ..DelayReport::new("trains") };
        assert_eq!(loss_cell(&delay, Direction::Up, Transport::Udp), "3.00 % (3 of 100 packets)");
        assert_eq!(loaded_loss_cell(&delay, Direction::Up), "6.50 % (130 of 2000 packets)");
        assert_eq!(loaded_loss_cell(&delay, Direction::Down), "–");
        // CSV and Prometheus had both together as the loss.
        let report = report(Some(empty_direction()), Some(delay));
        let [names, values] = csv_lines(&report);
        let column = |name: &str| names.iter().position(|it| it == name).map(|place| values[place].clone());
        assert_eq!(
            ["loss_ratio", "loaded_loss_ratio"].map(column),
            ["0.03", "0.065"].map(|text| Some(text.to_owned()))
        );
        let metrics = prometheus::encode_metrics("far", &report);
        for line in [
            "kumade_measure_loss_ratio{target=\"far\",direction=\"up\"} 0.03\n",
            "kumade_measure_loaded_loss_ratio{target=\"far\",direction=\"up\"} 0.065\n",
        ] {
            assert!(metrics.contains(line), "{metrics}");
        }
    }

    /// A run that moved 18.7 MB said 2.3 MB.
    #[test]
    fn the_cost_is_that_of_all_parts() {
        let load = serde_json::json!({
            "connections": 4, "duration_seconds": 6.0, "bytes": 14_480_000, "goodput_bits_per_second": null,
            "idle_round_trip_seconds": null, "round_trip_seconds": null, "added_delay_seconds": null,
            "best_grade": null, "worst_grade": null, "reason": null,
        });
        let load = Some(serde_json::from_value(load).unwrap());
        let up = DirectionReport { load, bytes_sent: 2_000_000, duration_seconds: 1.5, ..empty_direction() };
        assert_eq!(cost_cell(&up), "17.0 MB in 7.5 s");
        let [names, values] = csv_lines(&report(Some(up), None));
        let column = |name: &str| names.iter().position(|it| it == name).map(|place| values[place].clone());
        assert_eq!(column("bytes_sent").as_deref(), Some("17000000"));
        assert_eq!(column("duration_seconds").as_deref(), Some("7.5"));
    }

    fn empty_direction() -> DirectionReport {
        let outcome = Outcome::without_value(Reason::FairShareOfFlow);
        DirectionReport::new(Transport::Udp, 0, "primed", outcome, None, &Cost::default())
    }

    fn report(up: Option<DirectionReport>, delay: Option<DelayReport>) -> Report {
        Report {
            schema: kumade_measurement::report::SCHEMA.to_owned(),
            peer: String::new(),
            started: String::new(),
            up,
            down: None,
            error: None,
            delay,
            path: None,
        }
    }

    /// Names and values.
    fn csv_lines(report: &Report) -> [Vec<String>; 2] {
        let mut table = Vec::new();
        csv::write_csv(&mut table, "host", report, true).unwrap();
        let mut lines = ::csv::ReaderBuilder::new().has_headers(false).from_reader(&table[..]);
        let lines: Vec<Vec<String>> =
            lines.records().map(|line| line.unwrap().iter().map(str::to_owned).collect()).collect();
        lines.try_into().unwrap()
    }

    #[test]
    fn what_one_flow_can_have_stands_beside_what_nobody_uses() {
        let [value, low, high] = [25, 24, 26].map(Rate::from_mbit);
        let share = Some(Estimate { value, low, high, confidence: 0.95 });
        let up = DirectionReport { fair_share_bits_per_second: share, ..empty_direction() };
        let report = report(Some(up), None);
        let view = SummaryView { styles: Styles::new(ColorWhen::Never), width: 80, verbose: false, clock_notes: false };
        let text = summary_lines(&report, &view).join("\n");
        assert!(text.contains("one flow's share") && text.contains("25 Mbit/s ±4.0 %"), "{text}");
        let mut table = Vec::new();
        csv::write_csv(&mut table, "host", &report, true).unwrap();
        let table = String::from_utf8(table).unwrap();
        assert!(table.contains("fair_share_bits_per_second") && table.contains("25000000"), "{table}");
    }
}
