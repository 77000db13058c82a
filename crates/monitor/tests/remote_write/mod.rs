//! Remote write against real receivers: Prometheus and VictoriaMetrics, each in a private directory and on a port of its own. A test
//! says so where one of them is missing.

mod history;
mod receiver;

use history::{History, MINUTES, SETTLE};
use kumade_monitor::remote_write::{
    Answer, Delivery, Position, RemoteWriteExporter, RemoteWriteProgress, Sample, Wake, encode_write_request,
};
use kumade_net::clock;
use kumade_units::{Span, Time};
use receiver::{Receiver, prometheus, victoria_metrics};
use std::sync::Arc;
use std::thread::sleep;

const MAX_AGE: Span = Span::from_secs(3600);

/// Goes on from what the archive has noted down, as of some time, until nothing is left to send.
fn export(history: &mut History, receiver: &Receiver, position: Position, utc: Time) -> RemoteWriteProgress {
    let mut exporter = RemoteWriteExporter::new(history.reader(), position, SETTLE, MAX_AGE);
    let client = receiver.client();
    loop {
        let now = clock::monotonic();
        match exporter.next_step(now, utc).unwrap() {
            Wake::Send(body) => {
                let (answer, time) = client.send(&body);
                // A clock of its own would be taken for one that is ahead of this history.
                exporter.take_answer(&answer, time.map(|_| utc), clock::monotonic(), utc);
            }
            Wake::Store(position) => history.archive.put_state(Position::STATE_KEY, Some(&position)).unwrap(),
            Wake::Wait(until) if until <= now => {}
            Wake::Wait(until) if exporter.progress().failure.is_some() => sleep((until - now).to_duration()),
            Wake::Wait(_) => return exporter.progress().clone(),
        }
    }
}

/// Each minute of both pairs is there once, at its end; of a future, nothing is.
fn check_minutes(receiver: &Receiver, history: &History, until: Time) {
    for pair in ["near", "far"] {
        let found = receiver.samples(&format!("kumade_monitor_minute_sent{{pair=\"{pair}\",lane=\"up\"}}"));
        let ends = (1..=MINUTES).map(|minute| history.start + Span::from_secs(60 * minute)).filter(|end| *end <= until);
        let expected: Vec<_> = ends.map(|end| (end.as_nanos() / 1_000_000, history::PROBES_IN_MINUTE as f64)).collect();
        assert_eq!(found, expected, "{pair}");
    }
    let run = receiver.samples("kumade_monitor_available_bits_per_second{direction=\"up\"}");
    assert_eq!(run, [(history.run_ended.as_nanos() / 1_000_000, 48e6)]);
    let low = receiver.samples("kumade_monitor_available_low_bits_per_second{source=\"here\",target=\"near\"}");
    assert_eq!(low.len(), 1, "{low:?}");
}

fn goes_on_where_it_was(receiver: &Receiver) {
    let mut history = History::new();
    let (first, second) = (history.now - Span::from_secs(300), history.now);
    let progress = export(&mut history, receiver, Position::default(), first);
    assert!(progress.accepted_samples > 100 && progress.refused_samples == 0, "{progress:?}");
    check_minutes(receiver, &history, first - SETTLE);
    let position = history.stored_position();
    let progress = export(&mut history, receiver, position, second);
    // A few of each pair; the first ones are not sent again.
    assert!((1..=8 * 2 * 2 * 6).contains(&progress.accepted_samples), "{progress:?}");
    assert_eq!(progress.refused_samples, 0, "{progress:?}");
    check_minutes(receiver, &history, second - SETTLE);
    let position = history.stored_position();
    assert_eq!(export(&mut history, receiver, position, second), RemoteWriteProgress::default(), "all is there");
    check_minutes(receiver, &history, second - SETTLE);
}

#[test]
fn prometheus_has_each_figure_once_across_restarts() {
    let Some(receiver) = prometheus("") else { return };
    goes_on_where_it_was(&receiver);
}

#[test]
fn victoria_metrics_has_each_figure_once_across_restarts() {
    let Some(receiver) = victoria_metrics() else { return };
    goes_on_where_it_was(&receiver);
}

/// Killed after the receiver has stored it and before that was noted down.
#[test]
fn what_prometheus_has_already_does_not_hold_up_what_is_new() {
    let Some(receiver) = prometheus("") else { return };
    let mut history = History::new();
    let (first, second) = (history.now - Span::from_secs(300), history.now);
    export(&mut history, &receiver, Position::default(), first);
    let progress = export(&mut history, &receiver, Position::default(), second);
    assert!(progress.refused_samples > 0 && progress.refusal.is_some(), "{progress:?}");
    check_minutes(&receiver, &history, second - SETTLE);
}

/// A series that has a later sample; 63 beside it.
fn one_bad_series_costs_no_other(receiver: &Receiver, bad: Span, expected: &str) {
    let now = clock::realtime();
    let sample = |number: usize, time: Time| Sample {
        labels: Arc::new(vec![("__name__", "kumade_test".to_owned()), ("number", number.to_string())]),
        time_millis: time.as_nanos() / 1_000_000,
        value: number as f64,
    };
    let client = receiver.client();
    let recent = now - Span::from_secs(60);
    assert_eq!(client.send(&encode_write_request(&[sample(37, recent)])).0, Answer::Accepted);
    let time = |number| if number == 37 { now - bad } else { recent };
    let mut delivery = Delivery::new((0..64).map(|number| sample(number, time(number))).collect());
    let (mut requests, mut refusals) = (0, Vec::new());
    while let Some(request) = delivery.next_request(now) {
        let (answer, _) = client.send(&encode_write_request(request));
        requests += 1;
        if let Answer::Refused(reason) = &answer {
            refusals.push(reason.clone());
        }
        delivery.take_answer(&answer, now - MAX_AGE, now);
    }
    assert!(delivery.is_done() && requests == 13, "{requests}: {refusals:?}");
    assert!(refusals.iter().all(|reason| reason.contains(expected)), "{refusals:?}");
    let numbers = (0..64).filter(|number| !receiver.samples(&format!("kumade_test{{number=\"{number}\"}}")).is_empty());
    assert_eq!(numbers.count(), 64);
}

#[test]
fn prometheus_refuses_a_request_whole_and_all_but_the_cause_is_stored() {
    let Some(receiver) = prometheus("") else { return };
    one_bad_series_costs_no_other(&receiver, Span::from_secs(600), "400: out of order sample");
}

/// Its status says to try again, which would be for ever.
#[test]
fn prometheus_with_an_out_of_order_window_refuses_what_is_too_old_by_500() {
    let Some(receiver) = prometheus("storage:\n  tsdb:\n    out_of_order_time_window: 5m\n") else { return };
    one_bad_series_costs_no_other(&receiver, Span::from_secs(1200), "500: too old sample");
}

/// Why the rules that are shipped use it, and why nothing is repeated for the others.
fn a_value_of_ten_minutes_ago_is_found_by_last_over_time_alone(receiver: &Receiver) {
    let mut history = History::new();
    let now = history.now;
    export(&mut history, receiver, Position::default(), now);
    let metric = "kumade_monitor_available_bits_per_second{direction=\"up\"}";
    assert_eq!(receiver.instant(metric, now), None);
    assert_eq!(receiver.instant(&format!("last_over_time({metric}[30m])"), now), Some(48e6));
}

#[test]
fn prometheus_finds_a_value_of_ten_minutes_ago_by_last_over_time_alone() {
    let Some(receiver) = prometheus("") else { return };
    a_value_of_ten_minutes_ago_is_found_by_last_over_time_alone(&receiver);
}

#[test]
fn victoria_metrics_finds_a_value_of_ten_minutes_ago_by_last_over_time_alone() {
    let Some(receiver) = victoria_metrics() else { return };
    a_value_of_ten_minutes_ago_is_found_by_last_over_time_alone(&receiver);
}

/// A sample of the future, once accepted, has later correct ones refused.
#[test]
fn nothing_is_sent_that_the_receivers_clock_has_not_come_to() {
    let mut history = History::new();
    let utc = history.now;
    let mut exporter = RemoteWriteExporter::new(history.reader(), Position::default(), SETTLE, MAX_AGE);
    let ask = exporter.next_step(Time::ZERO, utc).unwrap();
    assert_eq!(ask, Wake::Send(encode_write_request(&[])), "what time it is there");
    let behind = Span::from_secs(3600);
    exporter.take_answer(&Answer::Accepted, Some(utc - behind), Time::ZERO, utc);
    let next = Time::ZERO + Span::from_secs(10);
    assert_eq!(exporter.next_step(Time::ZERO, utc).unwrap(), Wake::Wait(next));
    assert!(!sends(&mut exporter, next, utc), "all of the history is in its future");
    assert!(sends(&mut exporter, next + Span::from_secs(10), utc + behind));
}

fn sends<S: kumade_archive::ReadStore>(exporter: &mut RemoteWriteExporter<S>, now: Time, utc: Time) -> bool {
    loop {
        match exporter.next_step(now, utc).unwrap() {
            Wake::Send(_) => return true,
            Wake::Wait(until) if until > now => return false,
            _ => {}
        }
    }
}
