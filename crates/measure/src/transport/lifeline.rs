use super::ledger::is_usable_gap;
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
    /// Not before then, unless it is cut.
    next_look: Time,
}

impl Lifeline {
    /// Trains end when `control` does. (By default they don't depend on anything.)
    ///
    /// # Errors
    /// Where the process has no descriptor left.
    pub fn of(control: &TcpStream) -> io::Result<Self> {
        Ok(Lifeline { control: Some(Arc::new(control.try_clone()?)), next_look: Time::ZERO })
    }

    /// Whether it is gone. Costs a microsecond now and then, and mostly nothing.
    pub(super) fn is_cut(&mut self) -> bool {
        let Some(control) = &self.control else { return false };
        let now = clock::monotonic();
        if now < self.next_look {
            return false;
        }
        let cut = readiness::is_closed(control).unwrap_or(true);
        if !cut {
            self.next_look = now + LOOK;
        }
        cut
    }

    /// When a wait until `deadline` is to be interrupted for another look.
    pub(super) fn until(&self, deadline: Time) -> Time {
        if self.control.is_some() { deadline.min(clock::monotonic() + LOOK) } else { deadline }
    }

    /// Sleeps until `instant` at the latest, not much longer than until it is cut.
    pub(super) fn sleep_until(&mut self, instant: Time) {
        while clock::monotonic() < instant && !self.is_cut() {
            sleep_until(self.until(instant));
        }
    }

    /// Whether it is cut before a packet of a train is due at `offset`. Returns well before that.
    pub(super) fn is_cut_before(&mut self, pacer: &Pacer, offset: Span) -> bool {
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
