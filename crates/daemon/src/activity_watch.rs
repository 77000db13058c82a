use kumade_net::waker::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the threads of a daemon that move data tell the one that reports it that there is something to report, so that it need not ask
/// them from time to time. All clones are the same; the default one tells nobody.
#[derive(Debug, Clone, Default)]
pub struct ActivityWatch(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    waker: Arc<Waker>,
    /// Whether data has moved since that was last asked.
    has_moved: AtomicBool,
    has_ended: AtomicBool,
}

/// Tells that its thread has ended, for whatever reason, when it is dropped.
#[derive(Debug, Default)]
pub struct EndNotice(ActivityWatch);

impl ActivityWatch {
    /// Wakes the reporting thread by this.
    pub fn new(waker: Arc<Waker>) -> Self {
        let shared = Shared { waker, has_moved: AtomicBool::new(false), has_ended: AtomicBool::new(false) };
        ActivityWatch(Some(Arc::new(shared)))
    }

    /// Something is to be told: a peer has come or gone, say. Wakes the reporting thread.
    pub fn notify(&self) {
        self.0.iter().for_each(|shared| shared.waker.wake());
    }

    /// Data has moved. Wakes the reporting thread if that is the first since it [asked](Self::take_movement): while data moves all the
    /// time, this costs a look at the memory that both share.
    pub fn record_movement(&self) {
        let Some(shared) = &self.0 else { return };
        if !shared.has_moved.load(Ordering::Relaxed) && !shared.has_moved.swap(true, Ordering::AcqRel) {
            shared.waker.wake();
        }
    }

    /// Whether data has moved since this was last taken.
    pub fn has_moved(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.has_moved.load(Ordering::Acquire))
    }

    /// Whether data has moved since this was last asked. The next that moves wakes the reporting thread.
    pub fn take_movement(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.has_moved.swap(false, Ordering::AcqRel))
    }

    /// Whether a thread that has a [notice](Self::end_notice) has ended.
    pub fn has_ended(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.has_ended.load(Ordering::Acquire))
    }

    /// To be kept by a thread, or what it owns, as long as it runs.
    pub fn end_notice(&self) -> EndNotice {
        EndNotice(self.clone())
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        if let Some(shared) = &self.0.0 {
            shared.has_ended.store(true, Ordering::Release);
            shared.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::readiness;
    use kumade_net::waker::new_waker;
    use kumade_units::Time;

    #[test]
    fn the_reporting_thread_is_woken_once_for_data_that_moves_until_it_asks() {
        let (waker, receiver) = new_waker().unwrap();
        let watch = ActivityWatch::new(Arc::new(waker));
        let is_woken = || {
            let is_woken = readiness::wait_readable(&receiver, Time::ZERO).unwrap();
            receiver.clear();
            is_woken
        };
        assert!(!is_woken() && !watch.take_movement());
        for _ in 0..2 {
            watch.record_movement();
            assert!(is_woken() && watch.has_moved());
            watch.clone().record_movement();
            assert!(!is_woken() && watch.take_movement() && !watch.take_movement());
        }
        watch.notify();
        assert!(is_woken() && !watch.has_moved() && !watch.has_ended());
        let notice = watch.end_notice();
        assert!(!is_woken());
        drop(notice);
        assert!(is_woken() && watch.has_ended());
    }
}
