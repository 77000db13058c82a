use kumade_net::SetupError;
use kumade_net::namespace::Namespace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that are asked to end, and waited for, when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Threads {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts `work`, which ends soon after what it is given becomes true.
    pub(super) fn start(
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

impl Threads {
    /// Whether one of them has not yet ended by itself.
    pub(super) fn is_running(&self) -> bool {
        self.handles.iter().any(|handle| !handle.is_finished())
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
