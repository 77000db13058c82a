use super::*;
use crate::tcp::congestion::fluid::{Path, SEGMENT_BYTES};

/// 100 Mbit/s and 20 ms hold 167 segments; as many may wait.
fn path() -> Path {
    Path::new(100, Span::from_millis(20), 167.0)
}

#[test]
fn finds_the_rate_drains_the_queue_it_made_and_keeps_it_short() {
    let (mut path, mut bbr) = (path(), Bbr::new(SEGMENT_BYTES));
    path.run(&mut bbr, Span::from_millis(100), |_, _| {});
    assert!(matches!(bbr.mode, BbrMode::Startup), "{:?}", bbr.mode);
    path.run(&mut bbr, Span::from_millis(500), |_, _| {});
    assert!(matches!(bbr.mode, BbrMode::ProbeBandwidth(_)), "{:?}", bbr.mode);
    let (before, mut queued, mut seen) = (path.delivered(), 0.0, 0.0);
    path.run(&mut bbr, Span::from_secs(5), |path, _| {
        queued += path.queued();
        seen += 1.0;
    });
    let used = (path.delivered() - before) as f64 / (5.0 * path.rate);
    assert!(used > 0.97, "{used}");
    assert!(queued / seen < 0.15 * path.product(), "{}", queued / seen);
    assert!((bbr.bandwidth.get() / path.rate - 1.0).abs() < 0.02, "{}", bbr.bandwidth.get());
    let least = &bbr.round_trip.as_ref().map(|least| least.span.as_secs_f64());
    assert!(least.is_some_and(|least| least < 0.021), "{least:?}");
}

#[test]
fn its_rate_follows_the_cycle_and_its_window_is_twice_what_the_path_holds() {
    let (mut path, mut bbr) = (path(), Bbr::new(SEGMENT_BYTES));
    path.run(&mut bbr, Span::from_secs(1), |_, _| {});
    let mut gains = Vec::new();
    path.run(&mut bbr, Span::from_secs(2), |path, bbr| {
        let gain = bbr.pacing_segments_per_second / PACING_MARGIN / bbr.bandwidth.get();
        if gains.last().is_none_or(|last: &f64| (last - gain).abs() > 0.01) {
            gains.push(gain);
        }
        let window = bbr.window() / path.product();
        assert!((1.9..2.4).contains(&window), "{window}");
    });
    assert!(gains.len() > 12, "{gains:?}");
    let up = gains.iter().position(|gain| *gain > 1.1).unwrap_or(0);
    for (gain, expected) in gains[up..].iter().zip([1.25, 0.75, 1.0].into_iter().cycle()) {
        assert!((gain - expected).abs() < 0.02, "{gains:?}");
    }
}

#[test]
fn empties_the_path_when_ten_seconds_showed_no_shorter_round_trip() {
    let (mut path, mut bbr) = (path(), Bbr::new(SEGMENT_BYTES));
    path.run(&mut bbr, Span::from_secs(5), |_, _| {});
    // The path has become longer.
    path.propagation = Span::from_millis(30);
    let (mut emptied, mut begun) = (Span::ZERO, None);
    path.run(&mut bbr, Span::from_secs(12), |path, bbr| {
        if bbr.window() <= 4.0 {
            let begun = *begun.get_or_insert(path.now);
            emptied = path.now - begun;
        }
    });
    assert!((0.2..0.3).contains(&emptied.as_secs_f64()), "{emptied}");
    assert!(bbr.window() > 1.9 * path.product(), "{}", bbr.window());
}

#[test]
fn a_round_of_recovery_sends_only_what_is_delivered_and_afterwards_the_window_is_back() {
    let (mut path, mut bbr) = (path(), Bbr::new(SEGMENT_BYTES));
    path.run(&mut bbr, Span::from_secs(1), |_, _| {});
    let window = bbr.window;
    bbr.on_congestion(path.now, 180);
    let lossy = Ack {
        lost: 3,
        reduction: Some(Reduction::Loss),
        in_flight: 176,
        total_delivered: path.delivered() + 1,
        delivered_when_sent: path.delivered() - 170,
        ..crate::tcp::congestion::fluid::ack(path.now, Span::from_millis(21), 180)
    };
    bbr.on_ack(&lossy);
    assert_eq!(bbr.window, 177, "in flight, and the one delivered");
    bbr.on_recovery_end(path.now);
    bbr.on_ack(&Ack { lost: 0, reduction: None, ..lossy });
    assert_eq!(bbr.window, window);
}

#[test]
fn a_mark_changes_nothing() {
    let (mut path, mut bbr) = (path(), Bbr::new(SEGMENT_BYTES));
    path.run(&mut bbr, Span::from_secs(1), |_, _| {});
    let window = bbr.window;
    bbr.on_congestion(path.now, 100);
    bbr.on_ack(&Ack {
        reduction: Some(Reduction::Mark),
        total_delivered: path.delivered() + 1,
        delivered_when_sent: path.delivered() - 100,
        ..crate::tcp::congestion::fluid::ack(path.now, Span::from_millis(21), 100)
    });
    assert_eq!(bbr.window, window);
}
