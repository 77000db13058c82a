//! What a client does while a server lets it wait. The client decides for how long and how often, whatever the server says.

use kumade_units::{Span, Time};

/// Interval between pings, which show the server that the client is still there.
const PING_INTERVAL: Span = Span::from_secs(3);
/// Timeout of anything from the server, which answers pings and reports the client's position every second.
const SILENCE_TIMEOUT: Span = Span::from_secs(8);
/// The client reads at most one message in this time,
const MESSAGE_INTERVAL: Span = Span::from_millis(500);
/// but so many at once: positions and answers to pings don't arrive evenly.
const MAX_BURST_MESSAGES: i64 = 10;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueAction {
    /// Send a ping.
    Ping,
    /// Do nothing until then.
    Pause(Time),
    /// Wait for a message until then.
    Receive(Time),
    /// Give up: the server has said nothing for too long.
    ServerSilent,
    /// Give up: the client has waited as long as it was to.
    WaitExpired,
}

/// The wait for a turn. **Contract.** Do what [`next`](QueueWatch::next) says; report each message by
/// [`record_message`](QueueWatch::record_message).
#[derive(Debug)]
pub(crate) struct QueueWatch {
    deadline: Time,
    last_received: Time,
    next_ping: Time,
    /// When the next message would be due at the maximum rate (GCRA).
    next_conforming_time: Time,
    clients_ahead: Option<u32>,
}

impl QueueWatch {
    /// A wait of at most `wait`.
    pub(crate) fn new(now: Time, wait: Span) -> Self {
        QueueWatch {
            deadline: now + wait,
            last_received: now,
            next_ping: now + PING_INTERVAL,
            next_conforming_time: now,
            clients_ahead: None,
        }
    }

    /// What to do.
    pub(crate) fn next(&mut self, now: Time) -> QueueAction {
        let silent = self.last_received + SILENCE_TIMEOUT;
        let read_again = self.next_conforming_time - MESSAGE_INTERVAL * MAX_BURST_MESSAGES;
        match () {
            () if now >= self.deadline => QueueAction::WaitExpired,
            () if now >= silent => QueueAction::ServerSilent,
            () if now >= self.next_ping => {
                self.next_ping = now + PING_INTERVAL;
                QueueAction::Ping
            }
            () if now < read_again => QueueAction::Pause(read_again.min(self.deadline).min(self.next_ping)),
            () => QueueAction::Receive(self.next_ping.min(silent).min(self.deadline)),
        }
    }

    /// Notes a message; whether the position in it is another than before.
    pub(crate) fn record_message(&mut self, ahead: Option<u32>, now: Time) -> bool {
        self.last_received = now;
        self.next_conforming_time = self.next_conforming_time.max(now) + MESSAGE_INTERVAL;
        let is_news = ahead.is_some() && ahead != self.clients_ahead;
        self.clients_ahead = ahead.or(self.clients_ahead);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Span = Span::from_secs(120);

    /// What a client does whose server always has the next message ready after `interval`: its messages, pings, and the end.
    fn wait(interval: Span, mut position: impl FnMut(u32) -> Option<u32>) -> (u32, u32, u32, QueueAction, Time) {
        let (mut now, mut watch) = (Time::ZERO, QueueWatch::new(Time::ZERO, WAIT));
        let (mut heard, mut pings, mut news) = (0, 0, 0);
        let mut ready = Time::ZERO + interval;
        loop {
            match watch.next(now) {
                QueueAction::Ping => pings += 1,
                QueueAction::Pause(until) => now = until,
                QueueAction::Receive(until) if ready > until => now = until,
                QueueAction::Receive(_) => {
                    now = now.max(ready);
                    ready = now + interval;
                    heard += 1;
                    news += u32::from(watch.record_message(position(heard), now));
                }
                end => return (heard, pings, news, end, now),
            }
        }
    }

    #[test]
    fn a_server_that_sends_endless_positions_is_read_twice_a_second_and_left_after_the_wait() {
        let (heard, pings, news, end, at) = wait(Span::ZERO, Some);
        assert_eq!((end, at), (QueueAction::WaitExpired, Time::ZERO + WAIT));
        assert!((240..=260).contains(&heard) && news == heard, "{heard}");
        assert!((35..=41).contains(&pings), "{pings}");
    }

    #[test]
    fn a_server_that_reports_each_second_is_heard_each_time_and_changes_are_news() {
        let (heard, pings, news, end, _) = wait(Span::from_secs(1), |number| Some(number / 10));
        assert_eq!((heard, news, end), (120, 13, QueueAction::WaitExpired));
        assert!((35..=41).contains(&pings), "{pings}");
    }

    #[test]
    fn a_server_that_falls_silent_is_left() {
        let (_, _, _, end, at) = wait(Span::from_secs(1000), |_| None);
        assert_eq!((end, at), (QueueAction::ServerSilent, Time::ZERO + SILENCE_TIMEOUT));
    }
}
