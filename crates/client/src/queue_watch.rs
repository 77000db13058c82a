//! What a client does while a server lets it wait. The client decides for how long and how often, whatever the server says.

use kumade_units::{Span, Time};

/// Interval between pings, which show the server that the client is still there.
const PING_INTERVAL: Span = Span::from_secs(3);
/// Timeout of anything from the server, which answers pings and reports the client's position every second.
const SILENCE_TIMEOUT: Span = Span::from_secs(8);
/// The client reads at most one message in this time,
const MESSAGE_INTERVAL: Span = Span::from_millis(500);
/// but so many at once: positions and answers to pings don't arrive evenly.
const BURST: i64 = 10;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send a ping.
    Ping,
    /// Do nothing until then.
    Pause(Time),
    /// Wait for a message until then.
    Hear(Time),
    /// Give up: the server has said nothing for too long.
    Silent,
    /// Give up: the client has waited as long as it was to.
    Expired,
}

/// The wait for a turn. **Contract.** Do what [`next`](QueueWatch::next) says; report each message by
/// [`heard`](QueueWatch::heard).
#[derive(Debug)]
pub(crate) struct QueueWatch {
    end: Time,
    heard: Time,
    next_ping: Time,
    /// When the next message would be due at the maximum rate (GCRA).
    due: Time,
    ahead: Option<u32>,
}

impl QueueWatch {
    /// A wait of at most `wait`.
    pub(crate) fn new(now: Time, wait: Span) -> Self {
        QueueWatch { end: now + wait, heard: now, next_ping: now + PING_INTERVAL, due: now, ahead: None }
    }

    /// What to do.
    pub(crate) fn next(&mut self, now: Time) -> Next {
        let silent = self.heard + SILENCE_TIMEOUT;
        let read_again = self.due - MESSAGE_INTERVAL * BURST;
        match () {
            () if now >= self.end => Next::Expired,
            () if now >= silent => Next::Silent,
            () if now >= self.next_ping => {
                self.next_ping = now + PING_INTERVAL;
                Next::Ping
            }
            () if now < read_again => Next::Pause(read_again.min(self.end).min(self.next_ping)),
            () => Next::Hear(self.next_ping.min(silent).min(self.end)),
        }
    }

    /// Notes a message; whether the position in it is another than before.
    pub(crate) fn heard(&mut self, ahead: Option<u32>, now: Time) -> bool {
        self.heard = now;
        self.due = self.due.max(now) + MESSAGE_INTERVAL;
        let is_news = ahead.is_some() && ahead != self.ahead;
        self.ahead = ahead.or(self.ahead);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Span = Span::from_secs(120);

    /// What a client does whose server always has the next message ready after `interval`: its messages, pings, and the end.
    fn wait(interval: Span, mut position: impl FnMut(u32) -> Option<u32>) -> (u32, u32, u32, Next, Time) {
        let (mut now, mut watch) = (Time::ZERO, QueueWatch::new(Time::ZERO, WAIT));
        let (mut heard, mut pings, mut news) = (0, 0, 0);
        let mut ready = Time::ZERO + interval;
        loop {
            match watch.next(now) {
                Next::Ping => pings += 1,
                Next::Pause(until) => now = until,
                Next::Hear(until) if ready > until => now = until,
                Next::Hear(_) => {
                    now = now.max(ready);
                    ready = now + interval;
                    heard += 1;
                    news += u32::from(watch.heard(position(heard), now));
                }
                end => return (heard, pings, news, end, now),
            }
        }
    }

    #[test]
    fn a_server_that_sends_endless_positions_is_read_twice_a_second_and_left_after_the_wait() {
        let (heard, pings, news, end, at) = wait(Span::ZERO, Some);
        assert_eq!((end, at), (Next::Expired, Time::ZERO + WAIT));
        assert!((240..=260).contains(&heard) && news == heard, "{heard}");
        assert!((35..=41).contains(&pings), "{pings}");
    }

    #[test]
    fn a_server_that_reports_each_second_is_heard_each_time_and_changes_are_news() {
        let (heard, pings, news, end, _) = wait(Span::from_secs(1), |number| Some(number / 10));
        assert_eq!((heard, news, end), (120, 13, Next::Expired));
        assert!((35..=41).contains(&pings), "{pings}");
    }

    #[test]
    fn a_server_that_falls_silent_is_left() {
        let (_, _, _, end, at) = wait(Span::from_secs(1000), |_| None);
        assert_eq!((end, at), (Next::Silent, Time::ZERO + SILENCE_TIMEOUT));
    }
}
