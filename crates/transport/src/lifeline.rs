use crate::ledger::is_usable_gap;
use net::pace::{Pacer, sleep_until};
use net::{clock, readiness};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use units::{Span, Time};

/// How often it is looked at: often enough to end a train soon, so seldom that the train does not feel it.
const LOOK: Span = Span::from_millis(100);

/// The control connection to which trains belong. Once it is gone nobody asks for the rest of a train any more, which
/// may be half a minute long.
#[derive(Debug, Clone, Default)]
pub struct Lifeline {
    control: Option<Arc<TcpStream>>,
    /// It is looked at again then.
    next_look: Time,
    /// It counts as cut from then on.
    deadline: Option<Time>,
}

impl Lifeline {
    /// Trains end when `control` does. (By default they don't depend on anything.)
    ///
    /// # Errors
    /// Where the process has no descriptor left.
    pub fn of(control: &TcpStream) -> io::Result<Self> {
        Ok(Lifeline { control: Some(Arc::new(control.try_clone()?)), next_look: Time::ZERO, deadline: None })
    }

    /// Trains also end at this time, on [`clock::monotonic`].
    pub fn until_deadline(mut self, deadline: Option<Time>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Whether it is gone. Costs a microsecond now and then, and mostly nothing.
    pub(crate) fn is_cut(&mut self) -> bool {
        let Some(control) = &self.control else { return false };
        let now = clock::monotonic();
        if now < self.next_look {
            return false;
        }
        let late = self.deadline.is_some_and(|deadline| now > deadline);
        let cut = late || readiness::is_closed(control).unwrap_or(true);
        if !cut {
            self.next_look = now + LOOK;
        }
        cut
    }

    /// When a wait until `deadline` is to be interrupted for another look.
    pub(crate) fn until(&self, deadline: Time) -> Time {
        if self.control.is_some() { deadline.min(clock::monotonic() + LOOK) } else { deadline }
    }

    /// Sleeps until `instant` at the latest, not much longer than until it is cut.
    pub(crate) fn sleep_until(&mut self, instant: Time) {
        while clock::monotonic() < instant && !self.is_cut() {
            sleep_until(self.until(instant));
        }
    }

    /// Whether it is cut before a packet of a train is due at `offset`. Returns well before that.
    pub(crate) fn is_cut_before(&mut self, pacer: &Pacer, offset: Span) -> bool {
        while is_usable_gap(pacer, offset) {
            if self.is_cut() {
                return true;
            }
            if pacer.remaining(offset) < LOOK * 2 {
                return false;
            }
            sleep_until(clock::monotonic() + LOOK);
        }
        false
    }
}
