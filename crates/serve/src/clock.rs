use net::clock;
use units::{Span, Time};

/// The clock of a host's stamps.
#[derive(Debug, Clone, Copy)]
pub enum HostClock {
    /// The system's.
    System,
    /// One that is wrong in a known way: what experiments on one host need.
    Simulated {
        /// By how much it is ahead of the system's at `since`.
        offset: Span,
        /// How much faster it runs, as a part.
        skew: f64,
        /// When it showed `offset`, by the system's.
        since: Time,
        /// By how much it says that it may be wrong; none for a clock that nobody keeps.
        maximum_error: Option<Span>,
    },
}

impl HostClock {
    /// What it shows when the system's shows `at`.
    pub(crate) fn show(&self, at: Time) -> Time {
        match *self {
            HostClock::System => at,
            HostClock::Simulated { offset, skew, since, .. } => {
                at + offset + Span::from_secs_f64((at - since).as_secs_f64() * skew)
            }
        }
    }

    /// By how much it may be wrong, by its own word.
    pub(crate) fn maximum_error(&self) -> Option<Span> {
        match *self {
            HostClock::System => clock::maximum_error(),
            HostClock::Simulated { maximum_error, .. } => maximum_error,
        }
    }
}
