use crate::packets::is_usable_gap;
use kumade_net::clock;
use kumade_net::platform::pacing::{Pacer, sleep_until};
use kumade_net::platform::{readiness, stamp};
use kumade_units::{Span, Time};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// Interval between checks: short enough to end a train soon, long enough not to disturb it.
const CHECK_INTERVAL: Span = Span::from_millis(100);

/// Ends trains early when their control connection is closed or a deadline passes: a train may take half a minute.
#[derive(Debug, Clone, Default)]
pub struct ControlWatch {
    control: Option<Arc<TcpStream>>,
    /// Time of the next check.
    next_check: Time,
    /// Time from which it counts as closed.
    deadline: Option<Time>,
}

impl ControlWatch {
    /// Ends trains when `control` is closed. (By default there is nothing to watch.)
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn from_stream(control: &TcpStream) -> io::Result<Self> {
        Ok(ControlWatch { control: Some(Arc::new(control.try_clone()?)), next_check: Time::ZERO, deadline: None })
    }

    /// Also ends trains at this time, on [`clock::monotonic`].
    pub fn with_deadline(mut self, deadline: Option<Time>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Whether it is closed. A check takes about a microsecond, once per [`CHECK_INTERVAL`].
    pub(crate) fn is_closed(&mut self) -> bool {
        let Some(control) = &self.control else { return false };
        let now = clock::monotonic();
        if now < self.next_check {
            return false;
        }
        let late = self.deadline.is_some_and(|deadline| now > deadline);
        let is_closed = late || readiness::is_closed(control).unwrap_or(true);
        if !is_closed {
            self.next_check = now + CHECK_INTERVAL;
        }
        is_closed
    }

    /// When a wait until `deadline` has to be interrupted for the next check.
    pub(crate) fn next_wakeup(&self, deadline: Time) -> Time {
        if self.control.is_some() { deadline.min(clock::monotonic() + CHECK_INTERVAL) } else { deadline }
    }

    /// Until when to wait for packets: not at all where they have the time of reading.
    pub(crate) fn next_look(&self, deadline: Time) -> Time {
        if stamp::IS_TIME_OF_READING { Time::ZERO } else { self.next_wakeup(deadline) }
    }

    /// Sleeps until `instant`, or until shortly after it is closed.
    pub(crate) fn sleep_until(&mut self, instant: Time) {
        while clock::monotonic() < instant && !self.is_closed() {
            sleep_until(self.next_wakeup(instant));
        }
    }

    /// Waits for a packet that is due at `offset` and returns well before that: whether the control connection was closed
    /// meanwhile.
    pub(crate) fn is_closed_before(&mut self, pacer: &Pacer, offset: Span) -> bool {
        while is_usable_gap(pacer, offset) {
            if self.is_closed() {
                return true;
            }
            if pacer.remaining(offset) < CHECK_INTERVAL * 2 {
                return false;
            }
            sleep_until(clock::monotonic() + CHECK_INTERVAL);
        }
        false
    }
}
