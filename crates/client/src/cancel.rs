use crate::error::Error;
use kumade_net::clock;
use kumade_units::{Span, Time};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Cancels measurements from another thread. Clones share their state; cancellation is permanent.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<CancelShared>);

#[derive(Debug, Default)]
struct CancelShared {
    state: Mutex<CancelState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CancelState {
    is_cancelled: bool,
    /// The control connections of running measurements: shutting them down wakes up blocked readers.
    connections: Vec<TcpStream>,
}

impl CancelToken {
    /// Ends the measurements that hold this token within about 100 ms: they fail with [`Error::Cancelled`].
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.is_cancelled = true;
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.0.changed.notify_all();
    }

    /// Whether it has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    fn lock(&self) -> MutexGuard<'_, CancelState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a measurement early: cancellation and deadline.
#[derive(Debug, Clone)]
pub(crate) struct StopCondition {
    cancel: CancelToken,
    deadline: Option<(Time, Span)>,
}

impl StopCondition {
    /// Maximum time that a measurement waits without a check.
    pub(crate) const CHECK_INTERVAL: Span = Span::from_millis(100);

    /// A limit whose deadline counts from now.
    pub(crate) fn new(cancel: &CancelToken, deadline: Option<Span>) -> Self {
        StopCondition { cancel: cancel.clone(), deadline: deadline.map(|span| (clock::monotonic() + span, span)) }
    }

    /// Fails if the measurement has been cancelled or has exceeded its deadline.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        match self.deadline {
            Some((deadline, span)) if clock::monotonic() >= deadline => Err(Error::DeadlineExceeded { deadline: span }),
            _ => Ok(()),
        }
    }

    /// The deadline, if there is one.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline.map(|(deadline, _)| deadline)
    }

    /// The earlier of `time` and the deadline.
    pub(crate) fn cap_at_deadline(&self, time: Time) -> Time {
        self.deadline().map_or(time, |deadline| time.min(deadline))
    }

    /// Sleeps until then; fails at once when the measurement is to end.
    pub(crate) fn sleep_until(&self, time: Time) -> Result<(), Error> {
        let end = self.cap_at_deadline(time);
        let mut state = self.cancel.lock();
        while !state.is_cancelled && clock::monotonic() < end {
            let left = (end - clock::monotonic()).to_duration();
            let woken = self.cancel.0.changed.wait_timeout(state, left);
            state = woken.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        drop(state);
        self.check()
    }

    /// Shuts this connection down when the measurement is cancelled, until the guard is dropped.
    pub(crate) fn watch(&self, connection: &TcpStream) -> io::Result<WatchedConnection> {
        let copy = connection.try_clone()?;
        let address = copy.local_addr()?;
        let mut state = self.cancel.lock();
        if state.is_cancelled {
            let _ = copy.shutdown(Shutdown::Both);
        } else {
            state.connections.push(copy);
        }
        Ok(WatchedConnection { cancel: self.cancel.clone(), address })
    }
}

/// A connection that is shut down when its token is cancelled.
#[derive(Debug)]
pub(crate) struct WatchedConnection {
    cancel: CancelToken,
    address: std::net::SocketAddr,
}

impl Drop for WatchedConnection {
    fn drop(&mut self) {
        let own = |connection: &TcpStream| connection.local_addr().is_ok_and(|address| address == self.address);
        self.cancel.lock().connections.retain(|connection| !own(connection));
    }
}
