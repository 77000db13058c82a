use super::*;
use kumade_emulator::report::{ReportContext, ReportSpan};
use kumade_emulator::statistics::{Delays, DirectionStatistics, DropCause, Recorder};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const MS: kumade_units::Span = kumade_units::Span::from_millis(1);

/// A second of two flows: one sends three times as much as the other, and each tenth packet is dropped.
fn second(packets: u64) -> DirectionStatistics {
    let mut recorder = Recorder::new();
    for packet in 0..packets {
        let flow = u64::from(packet % 4 == 0);
        recorder.record_offered(flow, 1250);
        let queueing = MS * (packet % 20) as i64;
        match packet % 10 {
            0 => recorder.record_dropped(flow, 1250, DropCause::Aqm),
            _ => recorder.record_delivered(flow, 1250, Delays { queueing, sojourn: queueing + MS, lateness: MS / 100 }),
        }
    }
    recorder.set_queued_bytes(packets);
    recorder.snapshot()
}

fn document(covers: ReportSpan, number: u64) -> Document {
    let settings = &["rate 20mbit queue fair-share", "no impairments"].map(str::to_owned);
    let duration = kumade_units::Span::from_secs(if covers == ReportSpan::Total { number as i64 } else { 1 });
    let occasion =
        ReportContext { name: "link", ports: ["eth1", "eth2"], settings, covers, duration, fairness: [None, None] };
    let mut document = Document::new(&occasion, &[second(number * 200), DirectionStatistics::default()]);
    for (flow, host) in document.up.flows.iter_mut().zip(1..) {
        flow.name = Some(format!("tcp 10.0.0.{host}:5000 > 10.0.0.99:80"));
    }
    document.time = format!("2026-01-01T00:00:{number:02}.000Z");
    document
}

fn ten_seconds() -> History<LinkSnapshot> {
    let seen = |number| LinkSnapshot {
        recent: document(ReportSpan::Interval, number),
        total: document(ReportSpan::Total, number),
    };
    let mut history = History::new(seen(1));
    (2..=10).for_each(|number| history.push(seen(number)));
    history
}

fn drawn(history: &History<LinkSnapshot>, warning: Option<&str>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, history, warning, "q ends it")).unwrap();
    terminal.backend().to_string()
}

#[test]
fn directions_have_rates_drops_delays_and_flows() {
    insta::assert_snapshot!("link", drawn(&ten_seconds(), None, 110, 28));
    insta::assert_snapshot!("narrow", drawn(&ten_seconds(), None, 60, 30));
    insta::assert_snapshot!("wide", drawn(&ten_seconds(), None, 200, 24));
}

#[test]
fn what_goes_wrong_stands_above() {
    let mut history = ten_seconds();
    history.set_problem("no link called `link` runs here".into());
    let text = drawn(&history, Some("skipped a change of the schedule"), 80, 24);
    assert!(
        text.contains("skipped a change") && text.contains("no link called") && text.contains("10.0.0.1:5000"),
        "{text}"
    );
}

#[test]
fn an_interval_that_was_seen_is_not_seen_again() {
    let mut history = ten_seconds();
    let seen = history.newest_first().count();
    history.push(LinkSnapshot { recent: document(ReportSpan::Interval, 10), total: document(ReportSpan::Total, 11) });
    assert_eq!(history.newest_first().count(), seen);
}

#[test]
fn a_terminal_of_any_size_shows_what_fits() {
    for (width, height) in [(1, 1), (10, 3), (30, 8), (60, 24), (300, 80)] {
        drawn(&ten_seconds(), None, width, height);
    }
}
