use crate::shard::{ReadySources, WakeReason};
use kumade_net::readiness::{EpollSet, Event};
use kumade_net::{SetupError, clock};
use kumade_units::{Span, Time};
use std::hint;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

/// Descriptors that a thread waits for together with a deadline.
#[derive(Debug)]
pub(crate) struct SourceWatch {
    /// All of them; then those without some sources, for each combination that was once left out: a bit each, by their place.
    /// To change one set before each wait would cost a system call.
    sets: Vec<(u64, EpollSet)>,
    /// The set that is waited for.
    current_set: usize,
    /// How many descriptors there are.
    count: usize,
    /// What was ready when a wait ended.
    events: Vec<Event>,
    /// How long before a deadline the thread is to be woken: nearly as late as most wake-ups have been.
    wake_lead: Span,
}

/// The lead and what a deadline may be missed by follow, together, the quantile of this order of how late the thread is woken,
/// in steps of so many nanoseconds: up after a wake-up that was later, down after another (a stochastic approximation:
/// Robbins and Monro 1951).
const SPIN_QUANTILE: f64 = 0.99;
const SPIN_STEP_NANOS: f64 = 1000.0;
/// By so much few deadlines may be missed: to meet these, too, the thread would have to spin for as much longer before each.
const WAKE_TOLERANCE: Span = Span::from_micros(12);

impl SourceWatch {
    /// A descriptor leaves the set when it is closed.
    pub(crate) fn new<'a>(sources: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("watch the descriptors of a packet thread", error);
        let mut count = 0;
        let set = poll_set_without(0, sources.into_iter().inspect(|_| count += 1)).map_err(failed)?;
        // So long that the first deadlines are met.
        Ok(SourceWatch { sets: vec![(0, set)], current_set: 0, count, events: Vec::new(), wake_lead: Span::MAX })
    }

    /// The place of the last descriptor, the thread's own.
    pub(crate) fn waker_place(&self) -> usize {
        self.count.saturating_sub(1)
    }

    /// Sees what is ready now.
    pub(crate) fn look(&mut self) {
        self.wait_for_events(Time::ZERO);
    }

    /// What was ready when it was last waited for or looked at.
    pub(crate) fn copy_ready(&self, ready: &mut ReadySources) {
        let places = ready.places.get_or_insert_default();
        places.clear();
        places.extend(self.events.iter().map(|event| event.number));
    }

    /// Returns whether anything is ready.
    fn wait_for_events(&mut self, until: Time) -> bool {
        let set = &self.sets[self.current_set].1;
        if set.wait_precisely(&mut self.events, until).is_err() {
            self.events.clear();
        }
        !self.events.is_empty()
    }

    /// From now on waits for all descriptors but these, a bit each by their place; `sources` are all of them, in the same
    /// order as before. Where the process has no descriptor left, none is left out.
    pub(crate) fn exclude_sources<'a, S>(&mut self, left_out: u64, sources: impl FnOnce() -> S)
    where
        S: IntoIterator<Item = BorrowedFd<'a>>,
    {
        if self.sets[self.current_set].0 == left_out {
            return;
        }
        self.current_set = self.sets.iter().position(|(without, _)| *without == left_out).unwrap_or_else(|| {
            let Ok(set) = poll_set_without(left_out, sources()) else { return 0 };
            self.sets.push((left_out, set));
            self.sets.len() - 1
        });
    }

    /// Returns when `deadline` of [`clock::monotonic`] has come, or earlier: once a descriptor is readable, or `is_ready`,
    /// which is asked over and over in the last stretch, of a length in this range, says so. It is as short as this
    /// machine's wake-ups allow: a processor that spins is lost to others.
    pub(crate) fn wait(
        &mut self,
        deadline: Time,
        spin: RangeInclusive<Span>,
        is_ready: impl Fn() -> bool,
    ) -> WakeReason {
        self.wake_lead = clamp_span(self.wake_lead, &spin);
        loop {
            let left = deadline - clock::monotonic();
            if left <= Span::ZERO || is_ready() {
                return WakeReason::Due;
            }
            if left <= self.wake_lead {
                hint::spin_loop();
                continue;
            }
            let planned = deadline - self.wake_lead;
            if self.wait_for_events(planned) {
                return WakeReason::Readable;
            }
            self.adapt_spin(clock::monotonic() - planned, &spin);
        }
    }

    /// A wake-up was so much later than planned. Where that is more than the thread may spin, others had the processor:
    /// to wake up a little earlier would not have helped.
    fn adapt_spin(&mut self, late: Span, spin: &RangeInclusive<Span>) {
        if late > *spin.end() {
            return;
        }
        let part = if late > self.wake_lead + WAKE_TOLERANCE { SPIN_QUANTILE } else { SPIN_QUANTILE - 1.0 };
        let lead = self.wake_lead + Span::from_nanos((SPIN_STEP_NANOS * part) as i64);
        self.wake_lead = clamp_span(lead, spin);
    }
}

fn poll_set_without<'a>(left_out: u64, sources: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<EpollSet> {
    let set = EpollSet::new()?;
    let is_in = |number: u32| left_out.checked_shr(number).is_none_or(|bits| bits & 1 == 0);
    let mut sources = sources.into_iter().zip(0..).filter(|(_, number)| is_in(*number));
    sources.try_for_each(|(source, number)| set.add_reader(&source, number))?;
    Ok(set)
}

fn clamp_span(span: Span, range: &RangeInclusive<Span>) -> Span {
    span.max(*range.start()).min(*range.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::waker::new_waker;
    use std::os::fd::AsFd;

    const SPIN: Span = Span::from_micros(60);
    const RANGE: RangeInclusive<Span> = MIN_LEAD..=SPIN;
    const MIN_LEAD: Span = Span::from_micros(2);

    #[test]
    fn a_wait_ends_with_its_deadline_a_packet_or_a_ring() {
        let (bell, receiver) = new_waker().unwrap();
        let mut watch = SourceWatch::new([receiver.as_fd()]).unwrap();
        let soon = clock::monotonic() + Span::from_millis(2);
        assert_eq!(watch.wait(soon, RANGE, || false), WakeReason::Due);
        assert!(clock::monotonic() >= soon);
        let far = clock::monotonic() + Span::from_secs(3600);
        assert_eq!(watch.wait(far, RANGE, || true), WakeReason::Due);
        bell.wake();
        assert_eq!(watch.wait(far, RANGE, || false), WakeReason::Readable);
        receiver.clear();
        assert_eq!(
            watch.wait(clock::monotonic() + Span::from_millis(2), Span::ZERO..=Span::ZERO, || false),
            WakeReason::Due
        );
        drop(bell);
        assert_eq!(watch.wait(far, RANGE, || false), WakeReason::Readable);
    }

    #[test]
    fn what_is_left_out_ends_no_wait_until_it_is_waited_for_again() {
        let [first, second] = [new_waker().unwrap(), new_waker().unwrap()];
        let descriptors = || [first.1.as_fd(), second.1.as_fd()];
        let mut watch = SourceWatch::new(descriptors()).unwrap();
        let soon = || clock::monotonic() + Span::from_millis(2);
        let far = clock::monotonic() + Span::from_secs(3600);
        first.0.wake();
        for _ in 0..2 {
            watch.exclude_sources(0b01, descriptors);
            assert_eq!(watch.wait(soon(), RANGE, || false), WakeReason::Due);
            watch.exclude_sources(0, descriptors);
            assert_eq!(watch.wait(far, RANGE, || false), WakeReason::Readable);
        }
        watch.exclude_sources(0b01, descriptors);
        second.0.wake();
        assert_eq!(watch.wait(far, RANGE, || false), WakeReason::Readable);
        assert_eq!(watch.sets.len(), 2);
    }

    #[test]
    fn the_lead_is_nearly_as_long_as_wake_ups_are_late_and_no_longer_than_allowed() {
        let (_bell, receiver) = new_waker().unwrap();
        let mut watch = SourceWatch::new([receiver.as_fd()]).unwrap();
        watch.wake_lead = SPIN;
        // Woken 20 to 39 µs late.
        (0..20_000).for_each(|number| watch.adapt_spin(Span::from_micros(20 + number % 20), &RANGE));
        let learnt = watch.wake_lead + WAKE_TOLERANCE;
        assert!((Span::from_micros(37)..Span::from_micros(43)).contains(&learnt), "{learnt}");
        (0..1000).for_each(|_| watch.adapt_spin(Span::from_millis(3), &RANGE));
        assert_eq!(watch.wake_lead + WAKE_TOLERANCE, learnt);
        (0..1000).for_each(|_| watch.adapt_spin(SPIN, &RANGE));
        assert!((SPIN - WAKE_TOLERANCE..=SPIN).contains(&watch.wake_lead), "{}", watch.wake_lead);
        (0..10_000).for_each(|_| watch.adapt_spin(Span::ZERO, &RANGE));
        assert_eq!(watch.wake_lead, MIN_LEAD);
    }
}
