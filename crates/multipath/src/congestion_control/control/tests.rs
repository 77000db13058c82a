use super::*;
use crate::path::sent_log::AcknowledgedPackets;
use std::collections::VecDeque;

/// A path of 20 ms with one queue, and a report each 5 ms.
struct Path {
    control: PathCongestionControl,
    bits_per_second: f64,
    now: Time,
    sent_bytes: u64,
    queue: Span,
    reports: VecDeque<DeliverySample>,
}

const REPORT_INTERVAL: Span = Span::from_millis(5);
const DELAY: Span = Span::from_millis(10);
const PACKET_BYTES: u32 = 1500;

impl Path {
    fn new(mbit: f64, max: Option<Rate>) -> Self {
        let now = Time::ZERO;
        let (control, reports) = (PathCongestionControl::new(None, max, now), VecDeque::new());
        Path { control, bits_per_second: mbit * 1e6, now, sent_bytes: 0, queue: Span::ZERO, reports }
    }

    fn run_until(&mut self, end: Time) {
        while self.now < end {
            self.now += REPORT_INTERVAL;
            if self.now >= self.control.drained_at() {
                self.sent_bytes += self.control.pacing_rate().bytes_in(REPORT_INTERVAL);
            }
            let sent = self.sent_bytes - self.reports.back().map_or(0, |last| last.sent.total_bytes);
            let takes = Span::from_secs_f64(sent as f64 * 8.0 / self.bits_per_second);
            self.queue = (self.queue + takes - REPORT_INTERVAL).max(Span::ZERO);
            self.send();
            let due = |report: &&DeliverySample| report.now <= self.now;
            // The last one is kept for what has been sent.
            while self.reports.len() > 1
                && let Some(report) = self.reports.front().filter(due)
            {
                let in_flight_bytes = self.sent_bytes - report.sent.total_bytes;
                self.control.record_sample(&DeliverySample { in_flight_bytes, ..*report });
                self.reports.pop_front();
            }
        }
    }

    fn send(&mut self) {
        let number = self.sent_bytes / u64::from(PACKET_BYTES);
        let arrival = self.now + DELAY + self.queue;
        self.reports.push_back(DeliverySample {
            now: arrival + DELAY,
            sent: AcknowledgedPackets {
                time: self.now,
                size: PACKET_BYTES,
                number,
                total_bytes: self.sent_bytes,
                logged_bytes: self.sent_bytes,
                idle_time: Span::ZERO,
                found_empty_path: false,
                is_shortened: false,
            },
            counter: number,
            arrival,
            round_trip: DELAY * 2 + self.queue,
            received_bytes: self.sent_bytes,
            is_received_estimated: false,
            lost_packets: 0,
            in_flight_bytes: 0,
        });
    }
}

fn after_millis(millis: i64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

#[test]
fn a_search_goes_on_after_the_path_was_away() {
    let mut path = Path::new(1000.0, None);
    path.run_until(after_millis(200));
    let before = path.control.capacity();
    path.control.path_interrupted(path.now);
    path.run_until(after_millis(250));
    assert!(!path.control.is_capacity_found());
    assert!(
        path.control.pacing_rate().as_f64() > before.as_f64() * 2.0,
        "{} after {before}",
        path.control.pacing_rate()
    );
}

#[test]
fn a_path_at_its_maximum_is_known_though_a_little_less_is_measured() {
    // It passes a thousandth less than is sent.
    for (max, mbit) in [(20.0, 19.98), (7.3, 7.293)] {
        let mut path = Path::new(mbit, Some(Rate::from_f64(max * 1e6)));
        path.run_until(after_millis(1000));
        assert!(path.control.is_capacity_found(), "{} of {max} Mbit/s", path.control.capacity());
    }
}
