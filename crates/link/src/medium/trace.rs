use kumade_units::{Rate, Span, Time};
use std::sync::Arc;
use thiserror::Error;

/// Bytes of one opportunity.
const OPPORTUNITY_BYTES: u32 = 1504;
/// What mahimahi counts of each packet besides it: the header of its TUN device. A packet of 1500 bytes fills one
/// opportunity.
const HEADER_BYTES: u32 = 4;
const MILLISECOND_NANOS: i64 = 1_000_000;

/// When packets can be transmitted, as recorded on a cellular network and written down for mahimahi's `mm-link` (Netravali and
/// others 2015): a text with one time in milliseconds a line, each an opportunity to deliver 1504 bytes at that
/// moment. After the last, the trace begins anew at that time.
///
/// As there, several small packets share an opportunity, a packet too large for what is left of one goes on in the
/// next and is delivered with its last byte, each packet counts 4 bytes more than its own, and an opportunity without
/// queued packets is lost. Packets wait for an opportunity even on an idle link, so the queue needs room. A packet that arrives
/// at the moment of an opportunity is too late for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    opportunity_millis: Arc<[i64]>,
    period_millis: i64,
    origin: Time,
}

/// Why a text cannot be read as a trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot read the trace: line {line} {problem}; each line is a time in whole milliseconds, none before another")]
pub struct TraceError {
    line: usize,
    problem: String,
}

/// The position of a link in a trace.
#[derive(Debug)]
pub(crate) struct TraceCursor {
    trace: Trace,
    /// The opportunity that the next packet takes, …
    opportunity: i64,
    /// … and what is left of it.
    opportunity_bytes_left: u32,
}

impl Trace {
    /// Reads mahimahi's format. It begins at [`Time::ZERO`] unless set by [`Trace::starting_at`].
    ///
    /// # Errors
    /// A line is no number or less than the one before, there is none, or the last is 0: such a trace takes no time.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut millis: Vec<i64> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let error = |problem: String| TraceError { line: index + 1, problem };
            let shown: String = line.chars().take(40).collect();
            let time: i64 = line.trim().parse().map_err(|_| error(format!("is '{shown}', no number")))?;
            let last = millis.last().copied().unwrap_or(0);
            if time < last {
                return Err(error(format!("is {time}, before the {last} of the line above")));
            }
            if time > i64::MAX / MILLISECOND_NANOS {
                return Err(error(format!("is {time}, later than any time here")));
            }
            millis.push(time);
        }
        let lines = millis.len();
        match millis.last() {
            Some(last) if *last > 0 => {
                Ok(Trace { period_millis: *last, opportunity_millis: millis.into(), origin: Time::ZERO })
            }
            Some(_) => Err(TraceError { line: lines, problem: "is the last and 0, so that no time passes".into() }),
            None => Err(TraceError { line: 1, problem: "is missing".into() }),
        }
    }

    /// The same opportunities, counted from `origin`; before it there are none.
    pub fn starting_at(self, origin: Time) -> Self {
        Trace { origin, ..self }
    }

    /// The mean rate available to packets that fill an opportunity each.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_bytes_over(
            self.opportunity_millis.len() as u64 * u64::from(OPPORTUNITY_BYTES - HEADER_BYTES),
            Span::from_millis(self.period_millis),
        )
    }

    fn opportunity_time(&self, number: i64) -> Time {
        let (cycle, index) =
            (number / self.opportunity_millis.len() as i64, number % self.opportunity_millis.len() as i64);
        let millis = cycle.saturating_mul(self.period_millis).saturating_add(self.opportunity_millis[index as usize]);
        self.origin + Span::from_nanos(millis.saturating_mul(MILLISECOND_NANOS))
    }

    /// The first opportunity after `time`.
    fn first_opportunity_after(&self, time: Time) -> i64 {
        let elapsed = (time - self.origin).as_nanos();
        if elapsed < 0 {
            return 0;
        }
        let (cycle, into) =
            (elapsed / MILLISECOND_NANOS / self.period_millis, elapsed / MILLISECOND_NANOS % self.period_millis);
        let within = self.opportunity_millis.partition_point(|millis| *millis <= into) as i64;
        cycle.saturating_mul(self.opportunity_millis.len() as i64).saturating_add(within)
    }
}

impl TraceCursor {
    pub(crate) fn new(trace: Trace) -> Self {
        TraceCursor { trace, opportunity: 0, opportunity_bytes_left: OPPORTUNITY_BYTES }
    }

    /// Passes over what is past, and returns when the next service may begin.
    pub(crate) fn seek_after(&mut self, now: Time) -> Time {
        if self.trace.opportunity_time(self.opportunity) <= now {
            (self.opportunity, self.opportunity_bytes_left) =
                (self.trace.first_opportunity_after(now), OPPORTUNITY_BYTES);
        }
        self.trace.opportunity_time(self.opportunity)
    }

    /// Serves a packet from the present opportunity on. Returns when it departs and when the next may begin.
    pub(crate) fn serve(&mut self, size: u32) -> (Time, Time) {
        let mut need = u64::from(size) + u64::from(HEADER_BYTES);
        if need > u64::from(self.opportunity_bytes_left) {
            need -= u64::from(self.opportunity_bytes_left);
            let filled = (need - 1) / u64::from(OPPORTUNITY_BYTES);
            self.opportunity = self.opportunity.saturating_add(1 + filled as i64);
            self.opportunity_bytes_left = OPPORTUNITY_BYTES;
            need -= filled * u64::from(OPPORTUNITY_BYTES);
        }
        self.opportunity_bytes_left -= need as u32;
        let departure = self.trace.opportunity_time(self.opportunity);
        if self.opportunity_bytes_left == 0 {
            (self.opportunity, self.opportunity_bytes_left) = (self.opportunity.saturating_add(1), OPPORTUNITY_BYTES);
        }
        (departure, self.trace.opportunity_time(self.opportunity))
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: i64) -> Time {
        Time::from_nanos(millis * MILLISECOND_NANOS)
    }

    #[test]
    fn a_trace_repeats_after_its_last_line() {
        let trace = Trace::parse("0\n2\n2\n5\n").unwrap();
        let times: Vec<_> =
            (0..9).map(|number| trace.opportunity_time(number).as_nanos() / MILLISECOND_NANOS).collect();
        assert_eq!(times, [0, 2, 2, 5, 5, 7, 7, 10, 10]);
        for now in 0..40 {
            let first = trace.first_opportunity_after(millis(now));
            assert!(
                trace.opportunity_time(first) > millis(now)
                    && (first == 0 || trace.opportunity_time(first - 1) <= millis(now)),
                "{now}"
            );
        }
        assert_eq!(trace.first_opportunity_after(millis(-3)), 0);
        assert_eq!(trace.mean_rate(), Rate::from_bits_per_second(4 * 1500 * 8 * 200));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [
            ("1\nx\n", "line 2 is 'x', no number"),
            ("1\n\n2", "line 2 is '', no number"),
            ("5\n4", "line 2 is 4, before the 5 of the line above"),
            ("-1", "line 1 is -1, before the 0"),
            ("0\n0\n", "line 2 is the last and 0"),
            ("", "line 1 is missing"),
            ("9223372036854775807", "later than any time"),
        ] {
            let error = Trace::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
