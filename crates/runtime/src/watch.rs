use crate::shard::Wake;
use net::readiness::{self, Readiness};
use net::{SetupError, clock};
use std::hint;
use std::os::fd::BorrowedFd;
use units::{Span, Time};

/// Descriptors that a thread waits for together with a deadline.
#[derive(Debug)]
pub(crate) struct Watch(Readiness);

impl Watch {
    /// A descriptor leaves the set when it is closed.
    pub(crate) fn new<'a>(sources: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("watch the descriptors of a packet thread", error);
        let set = Readiness::new().map_err(failed)?;
        sources
            .into_iter()
            .zip(0..)
            .try_for_each(|(source, number)| set.add_reader(&source, number))
            .map_err(failed)?;
        Ok(Watch(set))
    }

    /// Returns when `deadline` of [`clock::monotonic`] has come, or earlier: once a descriptor is readable, or `is_ready`,
    /// which is asked over and over in the last stretch, of length `spin`, says so.
    pub(crate) fn wait(&self, deadline: Time, spin: Span, is_ready: impl Fn() -> bool) -> Wake {
        loop {
            let left = deadline - clock::monotonic();
            if left <= Span::ZERO || is_ready() {
                return Wake::Due;
            }
            if left <= spin {
                hint::spin_loop();
            } else if readiness::readable(&self.0, deadline - spin).unwrap_or(false) {
                return Wake::Readable;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::bell;
    use std::os::fd::AsFd;

    const SPIN: Span = Span::from_micros(60);

    #[test]
    fn a_wait_ends_with_its_deadline_a_packet_or_a_ring() {
        let (bell, receiver) = bell().unwrap();
        let watch = Watch::new([receiver.as_fd()]).unwrap();
        let soon = clock::monotonic() + Span::from_millis(2);
        assert_eq!(watch.wait(soon, SPIN, || false), Wake::Due);
        assert!(clock::monotonic() >= soon);
        let far = clock::monotonic() + Span::from_secs(3600);
        assert_eq!(watch.wait(far, SPIN, || true), Wake::Due);
        bell.ring();
        assert_eq!(watch.wait(far, SPIN, || false), Wake::Readable);
        receiver.silence();
        assert_eq!(watch.wait(clock::monotonic() + Span::from_millis(2), Span::ZERO, || false), Wake::Due);
        drop(bell);
        assert_eq!(watch.wait(far, SPIN, || false), Wake::Readable);
    }
}
