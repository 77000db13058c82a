mod clock;
mod core;
mod directed_link;
mod frame;

pub(crate) use self::frame::{Frame, LinkHeader, Pool};

use self::core::{Core, Request};
use crate::statistics::DirectionStatistics;
use crate::{EmulatorError, Port, PortSpec};
use link::queue::QueueConfig;
use link::{Link, LinkConfig};
use middlebox::{Middlebox, MiddleboxConfig};
use net::SetupError;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

/// What happens to the packets of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionConfig {
    /// Rate, delay, jitter and loss.
    pub link: LinkConfig,
    /// What waits for the link, and what of it is dropped.
    pub queue: QueueConfig,
    /// What is refused before the link; `None` lets everything pass. What is not IP passes in any case.
    pub rules: Option<MiddleboxConfig>,
}

/// A running bridge. It ends when it is [stopped](Engine::stop) or dropped, or when an interface vanishes.
#[derive(Debug)]
pub struct Engine {
    /// None once the bridge is to end.
    inbox: Mutex<Option<Sender<Request>>>,
    bell: UnixStream,
    /// What the packet thread leaves behind.
    last: Arc<OnceLock<[DirectionStatistics; 2]>>,
    thread: Mutex<Option<JoinHandle<Result<(), EmulatorError>>>>,
}

impl DirectionConfig {
    /// Says whether these settings are possible.
    ///
    /// # Errors
    /// They are not, and why.
    pub fn check(&self) -> Result<(), EmulatorError> {
        self.build::<()>().map(drop)
    }

    fn build<P>(&self) -> Result<(Link<P>, Option<Middlebox>), EmulatorError> {
        if self.rules.as_ref().is_some_and(|rules| rules.nat.is_some()) {
            return Err(EmulatorError::Translation);
        }
        let link = Link::with_queue(self.link.clone(), &self.queue)?;
        Ok((link, self.rules.clone().map(Middlebox::new).transpose()?))
    }
}

impl Engine {
    /// Joins two ports of the calling thread's network namespace: direction 0 leads from the first to the second,
    /// direction 1 back.
    ///
    /// # Errors
    /// A port cannot be opened, or a setting is impossible.
    pub fn start(ports: [PortSpec; 2], directions: [DirectionConfig; 2]) -> Result<Self, EmulatorError> {
        let [first, second] = &ports;
        if first.name() == second.name() {
            return Err(EmulatorError::Same(first.name().into()));
        }
        if std::mem::discriminant(first) != std::mem::discriminant(second) {
            return Err(EmulatorError::Mixed);
        }
        directions.iter().try_for_each(DirectionConfig::check)?;
        Self::join([Port::open(first)?, Port::open(second)?], directions)
    }

    /// Joins two ports of a kind that are open already, perhaps in different namespaces.
    ///
    /// # Errors
    /// A setting is impossible, or the system has no room for a thread.
    pub fn join(ports: [Port; 2], directions: [DirectionConfig; 2]) -> Result<Self, EmulatorError> {
        directions.iter().try_for_each(DirectionConfig::check)?;
        let fail = |error| SetupError::new("start the packet thread", error);
        let (bell, theirs) = UnixStream::pair().map_err(fail)?;
        bell.set_nonblocking(true).and_then(|()| theirs.set_nonblocking(true)).map_err(fail)?;
        let (inbox, requests) = mpsc::channel();
        let last = Arc::new(OnceLock::new());
        let left = Arc::clone(&last);
        let work = move || Core::new(ports, directions, requests, theirs)?.run(&left);
        let thread = thread::Builder::new().name("bridge".into()).spawn(work).map_err(fail)?;
        Ok(Engine { inbox: Mutex::new(Some(inbox)), bell, last, thread: Mutex::new(Some(thread)) })
    }

    /// Changes one direction (0 or 1) while it runs.
    ///
    /// # Errors
    /// The setting is impossible, and nothing is changed; or the bridge has ended.
    pub fn set(&self, direction: usize, config: DirectionConfig) -> Result<(), EmulatorError> {
        config.check()?;
        if self.ask(Request::Set { direction, config: Box::new(config) }) { Ok(()) } else { Err(EmulatorError::Ended) }
    }

    /// What both directions have done so far, also after the end.
    pub fn statistics(&self) -> [DirectionStatistics; 2] {
        let (back, counted) = mpsc::sync_channel(1);
        // The memory is this thread's business, so that the packet thread only copies.
        self.ask(Request::Count { into: Box::default(), back });
        // It does not answer any more once it has ended.
        counted.recv().map_or_else(|_| self.last.get().cloned().unwrap_or_default(), |statistics| *statistics)
    }

    /// Whether packets still pass.
    pub fn is_running(&self) -> bool {
        lock(&self.thread).as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits until the bridge ends, and puts its interfaces back as they were. To be called by one thread; another
    /// that calls it later gets `Ok`.
    ///
    /// # Errors
    /// Why it ended, where nobody stopped it.
    pub fn wait(&self) -> Result<(), EmulatorError> {
        let thread = lock(&self.thread).take();
        thread.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Ends the bridge and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    pub fn stop(&self) -> Result<(), EmulatorError> {
        drop(lock(&self.inbox).take());
        self.ring();
        self.wait()
    }

    /// Has the packet thread do this between two packets; false where it has ended.
    fn ask(&self, request: Request) -> bool {
        let asked = lock(&self.inbox).as_ref().is_some_and(|inbox| inbox.send(request).is_ok());
        self.ring();
        asked
    }

    /// Wakes the packet thread.
    fn ring(&self) {
        // A full bell has been rung.
        let _ = (&self.bell).write(&[1]);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!("{error}");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
