//! Real cross traffic between two hosts: UDP in a pattern, and greedy TCP; and what counts it on its way.

mod meter;
mod tcp;
mod udp;

pub use meter::Meter;

use crate::network::NetworkError;
use net::SetupError;
use net::namespace::Namespace;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a thread that waits looks whether it should end.
const PATIENCE: Duration = Duration::from_millis(50);

/// Packets from one host to another, until dropped.
#[derive(Debug)]
pub struct Traffic {
    received: Arc<AtomicU64>,
    threads: Threads,
}

impl Traffic {
    /// Bytes that have arrived at the other host so far: of IP packets for UDP, of payload for TCP.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Counts what arrives at `sink`, in the namespace `at`; [`sent_by`](Self::sent_by) does the rest.
    fn arriving(sink: impl Sink + Send + 'static, at: &Namespace) -> Result<Self, SetupError> {
        let (received, mut threads) = (Arc::<AtomicU64>::default(), Threads::default());
        let counter = Arc::clone(&received);
        threads.start(at, "cross-sink", move |stop| count(&sink, &counter, stop))?;
        Ok(Traffic { received, threads })
    }

    /// Runs `source`, which sends, in the namespace `from`.
    fn sent_by(
        mut self,
        from: &Namespace,
        source: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<Self, NetworkError> {
        self.threads.start(from, "cross-source", source)?;
        Ok(self)
    }
}

/// Threads that are asked to end, and waited for, when this is dropped.
#[derive(Debug, Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts `work`, which ends soon after what it is given becomes true.
    fn start(
        &mut self,
        inside: &Namespace,
        name: &str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<(), SetupError> {
        let stop = Arc::clone(&self.stop);
        self.handles.push(inside.spawn(name, move || work(&stop))?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for handle in self.handles.drain(..) {
            // A panic in it has been printed.
            let _ = handle.join();
        }
    }
}

/// Where bytes end.
trait Sink {
    /// Bytes of the next read, to be counted.
    fn take(&self, buffer: &mut [u8]) -> std::io::Result<usize>;
}

fn count(sink: &impl Sink, received: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match sink.take(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => drop(received.fetch_add(bytes as u64, Ordering::Relaxed)),
            Err(error) if is_patience(&error) => {}
            Err(error) => return tracing::warn!("cross traffic no longer arrives: {error}"),
        }
    }
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
