use kumade_net::readiness::EpollSet;
use kumade_units::Time;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that serves the clients of a listener, one after the other, until this is dropped.
#[derive(Debug)]
pub(crate) struct ListenerThread {
    /// Closed to end the thread.
    end_sender: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// After a connection could not be accepted (too many open files, say), the next one is tried this much later.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(2);
const LISTENER_EVENT: u32 = 0;
const STOP_EVENT: u32 = 1;

impl ListenerThread {
    /// Starts a thread of this name. `accept` must not block: the listener is non-blocking.
    pub(crate) fn start<L: AsFd + Send + 'static, S>(
        name: &'static str,
        listener: L,
        accept: impl Fn(&L) -> io::Result<S> + Send + 'static,
        mut serve: impl FnMut(S) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (bell, end) = UnixStream::pair()?;
        let readiness = EpollSet::new()?;
        readiness.add_reader(&listener, LISTENER_EVENT)?;
        readiness.add_reader(&end, STOP_EVENT)?;
        let work = move || {
            let _end = end;
            let mut events = Vec::new();
            while readiness.wait(&mut events, Time::MAX).is_ok()
                && events.iter().all(|event| event.number != STOP_EVENT)
            {
                if !events.is_empty() {
                    serve_next_client(name, &listener, &accept, &mut serve);
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(ListenerThread { end_sender: Some(bell), thread: Some(thread) })
    }
}

fn serve_next_client<L, S>(
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
            tracing::warn!("{name}: cannot accept a client: {error}");
            thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}

impl Drop for ListenerThread {
    fn drop(&mut self) {
        self.end_sender = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}
