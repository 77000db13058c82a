use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn bonded() -> GatewayStatus {
    serde_json::from_str(include_str!("../../../../gateway/tests/statuses/bonded.json")).unwrap()
}

fn direct() -> GatewayStatus {
    serde_json::from_str(include_str!("../../../../gateway/tests/statuses/direct.json")).unwrap()
}

/// Ten seconds, in which the first path gets more and more and the other one less.
fn ten_seconds(first: GatewayStatus) -> History<GatewayStatus> {
    let mut history = History::new(first.clone());
    for second in 1..10u32 {
        let mut status = first.clone();
        status.duration_seconds += f64::from(second);
        let part = f64::from(second) / 10.0;
        for (path, share) in status.paths.iter_mut().zip([part, 1.0 - part]) {
            path.share_ratio = Some(share);
            path.sent.bits_per_second = Some(share * 68e6);
        }
        for path in status.remotes.iter_mut().filter_map(|remote| remote.tunnel.as_mut()).flat_map(|of| &mut of.paths) {
            path.round_trip_seconds = path.round_trip_seconds.map(|seconds| seconds * (1.0 + part));
            path.loss_ratio *= part;
            path.sent.bits_per_second = path.sent.bits_per_second.map(|rate| rate * part);
        }
        history.push(status);
    }
    history
}

fn drawn(history: &History<GatewayStatus>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, history)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn paths_are_rows_with_their_values_of_late() {
    insta::assert_snapshot!("bonded", drawn(&ten_seconds(bonded()), 100, 20));
    insta::assert_snapshot!("narrow", drawn(&ten_seconds(bonded()), 60, 24));
    insta::assert_snapshot!("direct", drawn(&ten_seconds(direct()), 100, 18));
}

#[test]
fn a_gateway_that_is_gone_is_told_above_its_last_status() {
    let mut history = ten_seconds(direct());
    history.set_problem("no gateway called `site-a` runs here".into());
    let text = drawn(&history, 80, 15);
    assert!(text.contains("does not answer; below is its last status"), "{text}");
    assert!(text.contains("provider-2"), "{text}");
    history.push(direct());
    assert!(!drawn(&history, 80, 15).contains("no gateway"));
}

#[test]
fn a_terminal_of_any_size_shows_what_fits() {
    for (width, height) in [(1, 1), (10, 3), (30, 8), (200, 60)] {
        drawn(&ten_seconds(bonded()), width, height);
    }
}
