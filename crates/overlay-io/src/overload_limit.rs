use kumade_daemon::TimeBudget;
use kumade_units::{Span, Time};
use std::io;

/// Bounds the time that a thread spends on a socket while most of what comes there is lost since its buffer is full. Ends that send by a
/// congestion control slow down before; who does not is to have a small part of the time, not an equal one.
#[derive(Debug)]
pub(crate) struct OverloadLimit {
    time_divisor: u32,
    /// What the kernel has dropped since the socket was opened, at the last look.
    dropped: u32,
    /// Messages since the last look.
    received: u32,
    overloaded_looks: u32,
    budget: Option<TimeBudget>,
}

/// At so many looks in a row more was dropped than received: half a second is some round trips, within which a congestion control slows
/// down.
const MIN_OVERLOADED_LOOKS: u32 = 5;
/// Of the thread's time at once: some hundred datagrams.
const BURST: Span = Span::from_micros(200);

impl OverloadLimit {
    /// Between two [looks](Self::update).
    pub(crate) const LOOK_INTERVAL: Span = Span::from_millis(100);

    /// While it holds, the socket has one in `time_divisor` seconds.
    pub(crate) fn new(time_divisor: u32) -> Self {
        OverloadLimit { time_divisor, dropped: 0, received: 0, overloaded_looks: 0, budget: None }
    }

    /// So many messages were received, which has taken the thread so long with all that came of them.
    pub(crate) fn record(&mut self, messages: usize, time: Span, now: Time) {
        self.received = self.received.saturating_add(messages as u32);
        self.budget.iter_mut().for_each(|budget| budget.charge(time, now));
    }

    /// Looks at what the kernel has dropped since the socket was opened; what it does not tell is none. Returns whether it holds now and did
    /// not before, or the other way round.
    pub(crate) fn update(&mut self, dropped: io::Result<u32>) -> bool {
        let dropped = dropped.unwrap_or(self.dropped);
        let is_overloaded = dropped.wrapping_sub(self.dropped) > self.received;
        (self.dropped, self.received) = (dropped, 0);
        self.overloaded_looks = if is_overloaded { self.overloaded_looks.saturating_add(1) } else { 0 };
        let before = self.holds();
        let holds = self.overloaded_looks >= MIN_OVERLOADED_LOOKS;
        if before != holds {
            self.budget = holds.then(|| TimeBudget::new(self.time_divisor, BURST));
        }
        before != holds
    }

    pub(crate) fn holds(&self) -> bool {
        self.budget.is_some()
    }

    /// From when on the socket may be read, while it holds.
    pub(crate) fn available_at(&self) -> Option<Time> {
        self.budget.map(|budget| budget.available_at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_loses_most_of_what_comes_has_its_part_of_the_time_until_it_loses_less() {
        let (start, read) = (Time::ZERO + Span::from_secs(9), Span::from_micros(100));
        let mut limit = OverloadLimit::new(10);
        let mut dropped = 0;
        for look in 0..20 {
            limit.record(100, read, start);
            dropped += if look < 10 { 100 } else { 101 };
            let begins = limit.update(Ok(dropped));
            assert_eq!(begins, look == 14, "as much is lost as is received, and more for half a second: {look}");
            assert_eq!(limit.holds(), look >= 14);
        }

        let (mut now, mut used) = (start, Span::ZERO);
        while now < start + Span::from_secs(1) {
            if limit.available_at().is_some_and(|at| at <= now) {
                limit.record(1, read, now);
                used += read;
            }
            now += read;
        }
        assert!(used >= Span::from_millis(99) && used <= Span::from_millis(101), "{used}");
        assert!(limit.update(Ok(dropped)) && !limit.holds() && limit.available_at().is_none());
    }
}
