use kumade_net::clock;
use kumade_units::{Span, Time};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much has arrived, and how long nothing did.
#[derive(Debug)]
pub(super) struct Progress {
    bytes: AtomicU64,
    gaps: Mutex<ArrivalGaps>,
}

#[derive(Debug)]
struct ArrivalGaps {
    last_arrival: Time,
    longest: Span,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            bytes: AtomicU64::new(0),
            gaps: Mutex::new(ArrivalGaps { last_arrival: clock::monotonic(), longest: Span::ZERO }),
        }
    }
}

impl Progress {
    /// Bytes have arrived now.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let now = clock::monotonic();
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        gaps.longest = gaps.longest.max(now - gaps.last_arrival);
        gaps.last_arrival = now;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn take_longest_gap(&self) -> Span {
        let now = clock::monotonic();
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = gaps.longest.max(now - gaps.last_arrival);
        *gaps = ArrivalGaps { last_arrival: now, longest: Span::ZERO };
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn the_longest_gap_is_told_once_and_the_present_one_counts() {
        let (progress, pause) = (Progress::default(), Span::from_millis(20));
        progress.add_bytes(1);
        sleep(pause.to_duration());
        progress.add_bytes(2);
        assert!(progress.take_longest_gap() >= pause);
        assert_eq!(progress.bytes(), 3);
        sleep(pause.to_duration());
        assert!(progress.take_longest_gap() >= pause);
    }
}
