//! Bufferbloat: by how much round trips grow while TCP transfers fill the path.
//!
//! Trains end before a queue fills that takes seconds to; what people know as bufferbloat shows only then. So several TCP
//! connections send for some seconds, and small messages on another connection are timed meanwhile, as they are before. Only
//! the second half of the time counts, when congestion control has found the path's rate.

use crate::report::{BufferbloatGrade, IP_BYTES_PER_BYTE, LoadReason, LoadReport};
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Rate, Span};

/// The second half of the time is divided into so many parts, whose medians show how much the delay varies.
const LOAD_INTERVALS: i64 = 4;
/// With fewer round trips than this in a part, its median says nothing.
const MIN_ROUND_TRIPS: usize = 3;
/// The path counts as filled if the transfers carry this much of what is available: congestion control leaves some of it.
const MIN_FILLED_SHARE: f64 = 0.75;

/// Transfers that the driver is to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadRequest {
    /// Direction of the transfers.
    pub direction: Direction,
    /// TCP connections to open.
    pub connections: u16,
    /// Number of the first; see [`OpenRequest::first_number`](crate::OpenRequest::first_number).
    pub first_connection: u16,
    /// How long they send.
    pub duration: Span,
}

/// What came of a [`LoadRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadRecord {
    /// Connections that were open at both ends.
    pub connections: u32,
    /// Round trips of messages before the transfers.
    pub idle_round_trips: Vec<Span>,
    /// Round trips of messages during the transfers, with the times when they were sent, from the beginning. Those that were
    /// not answered in time have the time for which they were waited.
    pub loaded_round_trips: Vec<(Span, Span)>,
    /// Payload bytes that the receiving end took in each interval.
    pub bytes_per_interval: Vec<u64>,
    /// The length of the intervals.
    pub interval: Span,
}

impl LoadRequest {
    /// Default number of connections: one alone is slow to fill long paths.
    pub const CONNECTIONS: u16 = 4;
}

/// The report on transfers that took `duration`, where `carries` of IP packets is known to pass the path, if anything is.
pub(crate) fn report_load(record: &LoadRecord, duration: Span, carries: Option<Rate>) -> LoadReport {
    let half = duration / 2;
    let goodput = goodput(record, half, duration);
    let idle = median(record.idle_round_trips.iter().copied());
    let within = |from: Span, to: Span| {
        let sent = record.loaded_round_trips.iter().filter(move |(after, _)| (from..to).contains(after));
        sent.map(|(_, round_trip)| *round_trip)
    };
    let mut report = LoadReport {
        connections: record.connections,
        duration_seconds: duration.as_secs_f64(),
        bytes: record.bytes_per_interval.iter().sum(),
        goodput_bits_per_second: goodput,
        idle_round_trip_seconds: idle.map(Span::as_secs_f64),
        round_trip_seconds: median(within(half, duration)).map(Span::as_secs_f64),
        added_delay_seconds: None,
        best_grade: None,
        worst_grade: None,
        reason: None,
    };
    let ended = record.interval * record.bytes_per_interval.len() as i64;
    if ended < duration * 3 / 4 {
        report.reason = Some(LoadReason::Ended(ended));
        return report;
    }
    let part = |number: i64| within(half + half * number / LOAD_INTERVALS, half + half * (number + 1) / LOAD_INTERVALS);
    let medians: Option<Vec<Span>> = (0..LOAD_INTERVALS)
        .map(|number| median(part(number)).filter(|_| part(number).count() >= MIN_ROUND_TRIPS))
        .collect();
    let (Some(idle), Some(medians), Some(loaded)) = (idle, medians, median(within(half, duration))) else {
        report.reason = Some(LoadReason::TooFewAnswers);
        return report;
    };
    let added = |round_trip: Span| (round_trip - idle).max(Span::ZERO);
    let least = medians.iter().copied().fold(loaded, Span::min);
    let most = medians.iter().copied().fold(loaded, Span::max);
    let [value, low, high] = [loaded, least, most].map(added);
    report.added_delay_seconds = Some(Estimate { value, low, high, confidence: 0.0 }.map(Span::as_secs_f64));
    report.best_grade = Some(BufferbloatGrade::from_added_delay(low));
    match unfilled_reason(goodput, carries) {
        None => report.worst_grade = Some(BufferbloatGrade::from_added_delay(high)),
        reason => report.reason = reason,
    }
    report
}

/// Why the delay may be longer than was seen: the transfers carried less than passes the path, as far as that is known.
fn unfilled_reason(goodput: Option<Rate>, carries: Option<Rate>) -> Option<LoadReason> {
    let carried = goodput.map_or(0.0, Rate::as_f64) * IP_BYTES_PER_BYTE;
    match carries {
        None => Some(LoadReason::UnknownRate),
        Some(carries) if carried < MIN_FILLED_SHARE * carries.as_f64() => {
            Some(LoadReason::NotFilled(Rate::from_bits_per_second(carried as u64), carries))
        }
        Some(_) => None,
    }
}

/// In whole intervals of the second half; the last one may be cut off.
fn goodput(record: &LoadRecord, from: Span, to: Span) -> Option<Rate> {
    let interval = record.interval.as_nanos().max(1);
    let first = usize::try_from(from.as_nanos() / interval).ok()?;
    let last = usize::try_from(to.as_nanos() / interval).ok()?.checked_sub(1)?;
    // Behind the last interval with bytes, there were none.
    let bytes: u64 = (first..last).filter_map(|place| record.bytes_per_interval.get(place)).sum();
    let time = Span::from_nanos(interval * i64::try_from(last.checked_sub(first)?).ok()?);
    (time > Span::ZERO).then(|| Rate::from_bytes_over(bytes, time))
}

fn median(spans: impl Iterator<Item = Span>) -> Option<Span> {
    let mut sorted: Vec<Span> = spans.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Span = Span::from_secs(4);

    /// Messages every 50 ms, on an idle path of 20 ms, to which `added` milliseconds are added; so many bytes a second.
    fn record(bytes_per_second: u64, added: impl Fn(i64) -> i64) -> LoadRecord {
        let loaded = (0..80).map(|i| (Span::from_millis(i * 50), Span::from_millis(20 + added(i * 50))));
        LoadRecord {
            connections: 4,
            idle_round_trips: vec![Span::from_millis(20); 9],
            loaded_round_trips: loaded.collect(),
            bytes_per_interval: vec![bytes_per_second / 10; 40],
            interval: Span::from_millis(100),
        }
    }

    fn grades(report: &LoadReport) -> [Option<BufferbloatGrade>; 2] {
        [report.best_grade, report.worst_grade]
    }

    #[test]
    fn the_beginning_does_not_count() {
        let report =
            report_load(&record(1_250_000, |at| if at < 2000 { 900 } else { 45 }), DURATION, Some(Rate::from_mbit(10)));
        assert_eq!(grades(&report), [Some(BufferbloatGrade::B); 2]);
        assert_eq!(report.goodput_bits_per_second, Some(Rate::from_mbit(10)));
        let added = report.added_delay_seconds.unwrap();
        assert!([added.value, added.low, added.high].iter().all(|seconds| (seconds - 0.045).abs() < 1e-9));
        assert_eq!((report.bytes, report.reason), (5_000_000, None));
    }

    #[test]
    fn a_delay_that_varies_has_a_range_of_grades() {
        let report = report_load(&record(1_250_000, |at| at / 20 - 90), DURATION, Some(Rate::from_mbit(10)));
        assert_eq!(grades(&report), [Some(BufferbloatGrade::A), Some(BufferbloatGrade::C)]);
    }

    #[test]
    fn transfers_that_do_not_fill_the_path_give_no_worst_grade() {
        let report = report_load(&record(500_000, |_| 2), DURATION, Some(Rate::from_mbit(10)));
        assert_eq!(grades(&report), [Some(BufferbloatGrade::APlus), None]);
        let passes = Rate::from_mbit(10);
        assert!(matches!(report.reason, Some(LoadReason::NotFilled(_, rate)) if rate == passes), "{report}");
        let report = report_load(&record(500_000, |_| 2), DURATION, None);
        assert_eq!((report.worst_grade, report.reason), (None, Some(LoadReason::UnknownRate)));
    }

    #[test]
    fn without_answers_there_is_no_grade() {
        let mut record = record(1_250_000, |_| 10);
        record.loaded_round_trips.truncate(70);
        let report = report_load(&record, DURATION, Some(Rate::from_mbit(10)));
        assert_eq!(grades(&report), [None; 2]);
        assert_eq!(report.reason, Some(LoadReason::TooFewAnswers));
        let mut record = self::record(1_250_000, |_| 10);
        record.bytes_per_interval.truncate(29);
        let report = report_load(&record, DURATION, Some(Rate::from_mbit(10)));
        assert_eq!(grades(&report), [None; 2]);
        assert_eq!(report.reason, Some(LoadReason::Ended(Span::from_millis(2900))));
        let nothing = report_load(&LoadRecord::default(), Span::ZERO, None);
        assert_eq!((grades(&nothing), nothing.goodput_bits_per_second), ([None; 2], None));
    }
}
