use crate::shard::Wake;
use kumade_net::readiness::{self, Readiness};
use kumade_net::{SetupError, clock};
use kumade_units::{Span, Time};
use std::hint;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

/// Descriptors that a thread waits for together with a deadline.
#[derive(Debug)]
pub(crate) struct Watch {
    /// All of them; then those without some sources, for each combination that was once left out: a bit each, by their place.
    /// To change one set before each wait would cost a system call.
    sets: Vec<(u64, Readiness)>,
    /// The set that is waited for.
    chosen: usize,
    /// How long before a deadline the thread is to be woken: nearly as late as most wake-ups have been.
    lead: Span,
}

/// The lead and what a deadline may be missed by follow, together, the quantile of this order of how late the thread is woken,
/// in steps of so many nanoseconds: up after a wake-up that was later, down after another (a stochastic approximation:
/// Robbins and Monro 1951).
const QUANTILE: f64 = 0.99;
const STEP_NANOS: f64 = 1000.0;
/// By so much few deadlines may be missed: to meet these, too, the thread would have to spin for as much longer before each.
const TOLERANCE: Span = Span::from_micros(12);

impl Watch {
    /// A descriptor leaves the set when it is closed.
    pub(crate) fn new<'a>(sources: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("watch the descriptors of a packet thread", error);
        let set = set_without(0, sources).map_err(failed)?;
        // So long that the first deadlines are met.
        Ok(Watch { sets: vec![(0, set)], chosen: 0, lead: Span::MAX })
    }

    /// From now on waits for all descriptors but these, a bit each by their place; `sources` are all of them, in the same
    /// order as before. Where the process has no descriptor left, none is left out.
    pub(crate) fn leave_out<'a, S>(&mut self, left_out: u64, sources: impl FnOnce() -> S)
    where
        S: IntoIterator<Item = BorrowedFd<'a>>,
    {
        if self.sets[self.chosen].0 == left_out {
            return;
        }
        self.chosen = self.sets.iter().position(|(without, _)| *without == left_out).unwrap_or_else(|| {
            let Ok(set) = set_without(left_out, sources()) else { return 0 };
            self.sets.push((left_out, set));
            self.sets.len() - 1
        });
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
            if readiness::readable(&self.sets[self.chosen].1, planned).unwrap_or(false) {
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
        let part = if late > self.lead + TOLERANCE { QUANTILE } else { QUANTILE - 1.0 };
        let lead = self.lead + Span::from_nanos((STEP_NANOS * part) as i64);
        self.lead = within(lead, spin);
    }
}

fn set_without<'a>(left_out: u64, sources: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<Readiness> {
    let set = Readiness::new()?;
    let is_in = |number: u32| left_out.checked_shr(number).is_none_or(|bits| bits & 1 == 0);
    let mut sources = sources.into_iter().zip(0..).filter(|(_, number)| is_in(*number));
    sources.try_for_each(|(source, number)| set.add_reader(&source, number))?;
    Ok(set)
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
    fn what_is_left_out_ends_no_wait_until_it_is_waited_for_again() {
        let [first, second] = [bell().unwrap(), bell().unwrap()];
        let descriptors = || [first.1.as_fd(), second.1.as_fd()];
        let mut watch = Watch::new(descriptors()).unwrap();
        let soon = || clock::monotonic() + Span::from_millis(2);
        let far = clock::monotonic() + Span::from_secs(3600);
        first.0.ring();
        for _ in 0..2 {
            watch.leave_out(0b01, descriptors);
            assert_eq!(watch.wait(soon(), RANGE, || false), Wake::Due);
            watch.leave_out(0, descriptors);
            assert_eq!(watch.wait(far, RANGE, || false), Wake::Readable);
        }
        watch.leave_out(0b01, descriptors);
        second.0.ring();
        assert_eq!(watch.wait(far, RANGE, || false), Wake::Readable);
        assert_eq!(watch.sets.len(), 2);
    }

    #[test]
    fn the_lead_is_nearly_as_long_as_wake_ups_are_late_and_no_longer_than_allowed() {
        let (_bell, receiver) = bell().unwrap();
        let mut watch = Watch::new([receiver.as_fd()]).unwrap();
        watch.lead = SPIN;
        // Woken 20 to 39 µs late.
        (0..20_000).for_each(|number| watch.learn(Span::from_micros(20 + number % 20), &RANGE));
        let learnt = watch.lead + TOLERANCE;
        assert!((Span::from_micros(37)..Span::from_micros(43)).contains(&learnt), "{learnt}");
        (0..1000).for_each(|_| watch.learn(Span::from_millis(3), &RANGE));
        assert_eq!(watch.lead + TOLERANCE, learnt);
        (0..1000).for_each(|_| watch.learn(SPIN, &RANGE));
        assert!((SPIN - TOLERANCE..=SPIN).contains(&watch.lead), "{}", watch.lead);
        (0..10_000).for_each(|_| watch.learn(Span::ZERO, &RANGE));
        assert_eq!(watch.lead, MIN_LEAD);
    }
}
