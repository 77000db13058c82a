//! A thread that answers whoever comes to a listener.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Serves the clients of a listener one after the other until this is dropped.
#[derive(Debug)]
pub(crate) struct ListenerThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How soon the thread notices that it is to end.
const NOTICE: u16 = 100;
/// After a failed acceptance (too many open files, say), the next is tried so much later.
const RESPITE: Duration = Duration::from_secs(2);

impl ListenerThread {
    /// Starts a thread of this name. `accept` is not to wait: the listener must be non-blocking.
    pub(crate) fn start<L: AsFd + Send + 'static, S>(
        name: &'static str,
        listener: L,
        accept: impl Fn(&L) -> io::Result<S> + Send + 'static,
        mut serve: impl FnMut(S) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let attend = move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                if matches!(poll(&mut waiting, PollTimeout::from(NOTICE)), Ok(1..)) {
                    attend_one(name, &listener, &accept, &mut serve);
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(attend)?;
        Ok(ListenerThread { stop, thread: Some(thread) })
    }
}

fn attend_one<L, S>(
    name: &str,
    listener: &L,
    accept: &impl Fn(&L) -> io::Result<S>,
    serve: &mut impl FnMut(S) -> io::Result<()>,
) {
    match accept(listener) {
        Ok(client) => {
            if let Err(error) = serve(client) {
                tracing::debug!("{name}: a client failed: {error}");
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => {
            tracing::warn!("{name}: no client can be taken: {error}");
            thread::sleep(RESPITE);
        }
    }
}

impl Drop for ListenerThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}
