use crate::shard::Wake;
use net::readiness::{self, Readiness};
use net::{SetupError, clock};
use std::hint;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use units::{Span, Time};

/// Descriptors that a thread waits for together with a deadline.
#[derive(Debug)]
pub(crate) struct Watch {
    descriptors: Readiness,
    /// How long before a deadline the thread is to be woken: as late as most wake-ups have been.
    lead: Span,
}

/// The lead follows the quantile of this order of how late the thread is woken, in steps of so many nanoseconds: up after a
/// wake-up that was later than the lead, down after another (a stochastic approximation: Robbins and Monro 1951).
const QUANTILE: f64 = 0.98;
const STEP_NANOS: f64 = 1000.0;

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
        // So long that the first deadlines are met.
        Ok(Watch { descriptors: set, lead: Span::MAX })
    }

    /// Returns when `deadline` of [`clock::monotonic`] has come, or earlier: once a descriptor is readable, or `is_ready`,
    /// which is asked over and over in the last stretch, of a length in this range, says so. It is as short as this
    /// machine's wake-ups allow: a processor that spins is lost to others.
    pub(crate) fn wait(&mut self, deadline: Time, spin: RangeInclusive<Span>, is_ready: impl Fn() -> bool) -> Wake {
        self.lead = within(self.lead, &spin);
        loop {
            let left = deadline - clock::monotonic();
            if left <= Span::ZERO || is_ready() {
                return Wake::Due;
            }
            if left <= self.lead {
                hint::spin_loop();
                continue;
            }
            let planned = deadline - self.lead;
            if readiness::readable(&self.descriptors, planned).unwrap_or(false) {
                return Wake::Readable;
            }
            self.learn(clock::monotonic() - planned, &spin);
        }
    }

    /// A wake-up was so much later than planned. Where that is more than the thread may spin, others had the processor:
    /// to wake up a little earlier would not have helped.
    fn learn(&mut self, late: Span, spin: &RangeInclusive<Span>) {
        if late > *spin.end() {
            return;
        }
        let part = if late > self.lead { QUANTILE } else { QUANTILE - 1.0 };
        let lead = self.lead + Span::from_nanos((STEP_NANOS * part) as i64);
        self.lead = within(lead, spin);
    }
}

fn within(span: Span, range: &RangeInclusive<Span>) -> Span {
    span.max(*range.start()).min(*range.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::bell;
    use std::os::fd::AsFd;

    const SPIN: Span = Span::from_micros(60);
    const RANGE: RangeInclusive<Span> = MIN_LEAD..=SPIN;
    const MIN_LEAD: Span = Span::from_micros(2);

    #[test]
    fn a_wait_ends_with_its_deadline_a_packet_or_a_ring() {
        let (bell, receiver) = bell().unwrap();
        let mut watch = Watch::new([receiver.as_fd()]).unwrap();
        let soon = clock::monotonic() + Span::from_millis(2);
        assert_eq!(watch.wait(soon, RANGE, || false), Wake::Due);
        assert!(clock::monotonic() >= soon);
        let far = clock::monotonic() + Span::from_secs(3600);
        assert_eq!(watch.wait(far, RANGE, || true), Wake::Due);
        bell.ring();
        assert_eq!(watch.wait(far, RANGE, || false), Wake::Readable);
        receiver.silence();
        assert_eq!(watch.wait(clock::monotonic() + Span::from_millis(2), Span::ZERO..=Span::ZERO, || false), Wake::Due);
        drop(bell);
        assert_eq!(watch.wait(far, RANGE, || false), Wake::Readable);
    }

    #[test]
    fn the_lead_is_as_long_as_wake_ups_are_late_and_no_longer_than_allowed() {
        let (_bell, receiver) = bell().unwrap();
        let mut watch = Watch::new([receiver.as_fd()]).unwrap();
        watch.lead = SPIN;
        // Woken 10 to 29 µs late.
        (0..20_000).for_each(|number| watch.learn(Span::from_micros(10 + number % 20), &RANGE));
        let learnt = watch.lead;
        assert!((Span::from_micros(27)..Span::from_micros(33)).contains(&learnt), "{learnt}");
        (0..1000).for_each(|_| watch.learn(Span::from_millis(3), &RANGE));
        assert_eq!(watch.lead, learnt);
        (0..1000).for_each(|_| watch.learn(SPIN, &RANGE));
        assert_eq!(watch.lead, SPIN);
        (0..10_000).for_each(|_| watch.learn(Span::ZERO, &RANGE));
        assert_eq!(watch.lead, MIN_LEAD);
    }
}
