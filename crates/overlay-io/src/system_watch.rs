use kumade_net::SetupError;
use kumade_net::route_watch::RouteWatch;
use kumade_packet_loop::CheckSchedule;
use kumade_units::{Span, Time};
use std::os::fd::{AsFd, BorrowedFd};

/// Whether interfaces, addresses, routes or rules of this network namespace have changed, as the kernel tells: however often that
/// happens, it is taken note of ten times a second at most.
#[derive(Debug)]
pub(crate) struct SystemWatch {
    watch: RouteWatch,
    looks: CheckSchedule,
}

/// Between two looks at what has changed.
const LOOK_INTERVAL: Span = Span::from_millis(100);

impl SystemWatch {
    /// From now on.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub(crate) fn open() -> Result<Self, SetupError> {
        Ok(SystemWatch { watch: RouteWatch::open()?, looks: CheckSchedule::default() })
    }

    /// Whether something has changed since this was last asked; it `is_ready` if it is readable. To be asked in each turn.
    pub(crate) fn take_change(&mut self, is_ready: bool, now: Time) -> bool {
        // Where it was left out of the wait, nobody knows whether it is.
        let may_have = is_ready || self.looks.is_due(now);
        let has_changed = self.looks.poll(|| may_have && self.watch.take_change(), now);
        if has_changed {
            self.looks.finish_check(LOOK_INTERVAL, None, now);
        }
        has_changed
    }

    /// When to ask again about what has changed since; it is not to be waited for until then.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.looks.deadline()
    }
}

impl AsFd for SystemWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
