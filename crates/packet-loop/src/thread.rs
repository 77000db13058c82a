use crate::shard::{ReadySources, Shard, WakeReason};
use crate::source_watch::SourceWatch;
use kumade_net::SetupError;
use kumade_net::low_latency::LowLatencyGuard;
use kumade_net::waker::{WakeReceiver, Waker, new_waker};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use thiserror::Error;

/// A thread that runs a [`Shard`], until it is [stopped](Self::stop), dropped, or a turn fails. Any thread may use this.
pub struct PacketThread<S: Shard> {
    /// None once the thread has been asked to end.
    requests: Mutex<Option<Sender<Request<S>>>>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<ThreadResult<S>>>>,
}

/// The packet thread has ended, so it answers no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the packet thread has ended")]
pub struct ThreadEnded;

type ThreadResult<S> = Result<(), <S as Shard>::Error>;
type Request<S> = Box<dyn FnOnce(&mut S) + Send>;

impl<S: Shard> PacketThread<S> {
    /// Starts a thread of this name in the caller's network namespace. `build` makes the shard on it; it may also pin it to
    /// a CPU first. Returns once the shard is built.
    ///
    /// # Errors
    /// Those of `build`; or the system refuses a thread or its descriptors.
    pub fn start(name: &str, build: impl FnOnce() -> Result<S, S::Error> + Send + 'static) -> Result<Self, S::Error> {
        let waker = new_waker().map_err(|error| SetupError::new("create the packet thread's wake-up socket", error));
        let (waker, wake_receiver) = waker?;
        let (requests, inbox) = mpsc::channel();
        let (report, built) = mpsc::sync_channel(1);
        let work = move || {
            let _low_latency = LowLatencyGuard::new();
            match set_up(build, &wake_receiver) {
                Ok((shard, watch)) => {
                    let _ = report.send(Ok(()));
                    run(shard, watch, &inbox, &wake_receiver)
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                    Ok(())
                }
            }
        };
        let failed = |error| SetupError::new(format!("start the packet thread {name}"), error);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work).map_err(failed)?;
        let thread = PacketThread { requests: Mutex::new(Some(requests)), waker, thread: Mutex::new(Some(thread)) };
        // No report comes where `build` has panicked, which then goes on here.
        built.recv().unwrap_or_else(|_| thread.wait()).map(|()| thread)
    }

    /// Has the packet thread do this between two turns, and waits for the result. It should be short: packets wait
    /// meanwhile. Memory is best allocated here and freed by the caller, so that the packet thread only copies.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn run_on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, ThreadEnded> {
        let (answer, answered) = mpsc::sync_channel(1);
        let request: Request<S> = Box::new(move |shard| drop(answer.send(work(shard))));
        lock(&self.requests).as_ref().ok_or(ThreadEnded)?.send(request).map_err(|_| ThreadEnded)?;
        self.waker.wake();
        answered.recv().map_err(|_| ThreadEnded)
    }

    /// Has the packet thread do this between two turns, without waiting for it. It should be short, as in
    /// [`run_on_thread`](Self::run_on_thread).
    ///
    /// # Errors
    /// The thread has ended.
    pub fn post(&self, work: impl FnOnce(&mut S) + Send + 'static) -> Result<(), ThreadEnded> {
        lock(&self.requests).as_ref().ok_or(ThreadEnded)?.send(Box::new(work)).map_err(|_| ThreadEnded)?;
        self.waker.wake();
        Ok(())
    }

    /// Whether the loop still runs.
    pub fn is_running(&self) -> bool {
        lock(&self.thread).as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits until the loop ends and its shard is dropped. Of several calls the first has the outcome, others get `Ok`.
    ///
    /// # Errors
    /// That of the turn which failed, if one has.
    ///
    /// # Panics
    /// If the packet thread did.
    pub fn wait(&self) -> Result<(), S::Error> {
        self.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Ends the loop, and waits for that.
    ///
    /// # Errors
    /// As [`wait`](Self::wait): the loop had failed before.
    ///
    /// # Panics
    /// If the packet thread did.
    pub fn stop(&self) -> Result<(), S::Error> {
        self.request_end();
        self.wait()
    }

    fn request_end(&self) {
        drop(lock(&self.requests).take());
        self.waker.wake();
    }

    fn join(&self) -> thread::Result<ThreadResult<S>> {
        let thread = lock(&self.thread).take();
        thread.map_or(Ok(Ok(())), JoinHandle::join)
    }
}

impl<S: Shard> Drop for PacketThread<S> {
    fn drop(&mut self) {
        self.request_end();
        // A panic has been printed, and another one here might abort the process.
        if let Ok(Err(error)) = self.join() {
            tracing::warn!("{error}");
        }
    }
}

impl<S: Shard> fmt::Debug for PacketThread<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PacketThread").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}

fn set_up<S: Shard>(
    build: impl FnOnce() -> Result<S, S::Error>,
    wake_receiver: &WakeReceiver,
) -> Result<(S, SourceWatch), S::Error> {
    let shard = build()?;
    let watch = SourceWatch::new(descriptors(&shard, wake_receiver))?;
    Ok((shard, watch))
}

fn descriptors<'a, S: Shard>(shard: &'a S, wake_receiver: &'a WakeReceiver) -> impl Iterator<Item = BorrowedFd<'a>> {
    shard.sources().into_iter().chain([wake_receiver.as_fd()])
}

fn run<S: Shard>(
    mut shard: S,
    mut watch: SourceWatch,
    inbox: &Receiver<Request<S>>,
    wake_receiver: &WakeReceiver,
) -> Result<(), S::Error> {
    let mut wake = WakeReason::Due;
    let mut ready = ReadySources::default();
    loop {
        if (wake != WakeReason::Due || S::FOLLOWS_READINESS) && ready.contains(watch.waker_place()) {
            wake_receiver.clear();
        }
        if !answer_requests(&mut shard, inbox) {
            return Ok(());
        }
        if shard.take_sources_change() {
            watch = SourceWatch::new(descriptors(&shard, wake_receiver))?;
            ready = ReadySources::default();
        }
        if S::FOLLOWS_READINESS {
            shard.record_ready(&ready);
        }
        let next = shard.process(wake)?;
        watch.exclude_sources(shard.deferrable_sources(), || descriptors(&shard, wake_receiver));
        wake = watch.wait(next, S::MIN_SPIN..=S::MAX_SPIN, || shard.has_work());
        if S::FOLLOWS_READINESS && wake == WakeReason::Due {
            watch.look();
        }
        watch.copy_ready(&mut ready);
        if wake == WakeReason::Readable && ready.is_only(watch.waker_place()) {
            wake = WakeReason::Requested;
        }
    }
}

/// False once nobody can ask any more.
fn answer_requests<S: Shard>(shard: &mut S, inbox: &Receiver<Request<S>>) -> bool {
    loop {
        match inbox.try_recv() {
            Ok(request) => request(shard),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// The values behind these locks are consistent at any time, even if a thread has panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
