use kumade_net::waker::{WakeReceiver, Waker, new_waker};
use std::io;
use std::sync::Arc;

/// Wakes a thread that looks at a flag for whether it is to stop. It looks at it from time to time, unless somebody has this.
#[derive(Debug)]
pub(crate) struct StopWaker {
    waker: Arc<Waker>,
    receiver: WakeReceiver,
    is_used: bool,
}

impl StopWaker {
    pub(crate) fn new() -> io::Result<Self> {
        let (waker, receiver) = new_waker()?;
        Ok(StopWaker { waker: Arc::new(waker), receiver, is_used: false })
    }

    /// From now on, whoever sets the flag wakes the thread.
    pub(crate) fn take(&mut self) -> Arc<Waker> {
        self.is_used = true;
        Arc::clone(&self.waker)
    }

    /// Whether it was taken.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    pub(crate) fn receiver(&self) -> &WakeReceiver {
        &self.receiver
    }
}
