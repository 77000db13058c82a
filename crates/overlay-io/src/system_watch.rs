use kumade_net::SetupError;
use kumade_net::route_watch::RouteWatch;
use kumade_units::{Span, Time};
use std::os::fd::{AsFd, BorrowedFd};

/// Whether interfaces, addresses, routes or rules of this network namespace have changed, as the kernel tells: however often that
/// happens, it is taken note of ten times a second at most.
#[derive(Debug)]
pub(crate) struct SystemWatch {
    watch: RouteWatch,
    /// Until then it is not looked at again.
    paused_until: Option<Time>,
}

/// Between two looks at what has changed.
const LOOK_INTERVAL: Span = Span::from_millis(100);

impl SystemWatch {
    /// From now on.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub(crate) fn open() -> Result<Self, SetupError> {
        Ok(SystemWatch { watch: RouteWatch::open()?, paused_until: None })
    }

    /// Whether something has changed since this was last asked; it `is_ready` if it is readable. To be asked in each turn.
    pub(crate) fn take_change(&mut self, is_ready: bool, now: Time) -> bool {
        if self.paused_until.is_some_and(|until| now < until) {
            return false;
        }
        let has_changed = is_ready && self.watch.take_change();
        self.paused_until = has_changed.then(|| now + LOOK_INTERVAL);
        has_changed
    }

    /// When to look again; it is not to be waited for until then.
    pub(crate) fn paused_until(&self) -> Option<Time> {
        self.paused_until
    }
}

impl AsFd for SystemWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
