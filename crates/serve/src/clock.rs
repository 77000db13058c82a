use kumade_net::clock;
use kumade_units::{Span, Time};

/// The clock of a host's time stamps.
#[derive(Debug, Clone, Copy)]
pub enum HostClock {
    /// The system clock.
    System,
    /// A clock with a known error, for experiments on one host.
    Simulated {
        /// By how much it is ahead of the system clock at `since`.
        offset: Span,
        /// By which fraction it runs faster: 1e-6 is 1 ppm.
        skew: f64,
        /// The time of `offset`, by the system clock.
        since: Time,
        /// The maximum error that it states; none for an unsynchronised clock.
        maximum_error: Option<Span>,
    },
}

impl HostClock {
    /// Its time when the system clock shows `at`.
    pub(crate) fn time_at(&self, at: Time) -> Time {
        match *self {
            HostClock::System => at,
            HostClock::Simulated { offset, skew, since, .. } => {
                at + offset + Span::from_secs_f64((at - since).as_secs_f64() * skew)
            }
        }
    }

    /// The maximum error that it states; none if it is unsynchronised.
    pub(crate) fn maximum_error(&self) -> Option<Span> {
        match *self {
            HostClock::System => clock::maximum_error(),
            HostClock::Simulated { maximum_error, .. } => maximum_error,
        }
    }
}
