//! Whether a path can be used.

use crate::path::sent_log::SentLog;
use crate::path_health::round_trip::RoundTripEstimator;
use kumade_units::{Span, Time};

/// Whether a path can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// Not known yet: at the beginning, and after it was down. Only probes are sent.
    Probing,
    /// It carries packets both ways.
    Up,
    /// Packets are not answered.
    Down {
        /// It is not used before this, even if it answers, as long as another path is up.
        hold_until: Time,
    },
}

/// The state of one path, from what was sent on it and what was answered.
///
/// **Rule.** A path is down when at least four packets have been open for 1.25 round trips + 4 times their variation +
/// 40 ms, and for half a round trip + 60 ms nothing was answered at all. A path with less traffic is probed, so that
/// there are four. A path that is up and idle is probed after 1.5 s; one that is down after 20 ms, and then whenever half the
/// time for which it has been down has passed again, but five times a second at least: short outages are the most frequent.
/// It is probed more closely once it answers, and after three answers it is up again; after one, where its carrier has been
/// seen to deliver, and at once, where no path was up shortly before: a firewall or proxy stalls single connections, an outage all.
///
/// *Idle paths share one timer*: where an end acts anyway, since the time of another path has come or the far end has probed, it probes
/// all paths that have been idle for half the interval, and waits 0.2 s longer from then on for others to be first. Who was first waits
/// up to 0.08 s longer, at random, in which one of two comes to be first. So both ends wake up twice in some 1.5 s in all, once to
/// probe or to answer, and once for what comes of that, in place of three times a second for each path.
///
/// Of idle TCP connections, which all take the network's same path, the first one is probed as often, and the others an eighth as
/// often, or at once when one of them fails: whatever fails alone is found when it is to carry something.
///
/// A path that fails soon again is held down: not at all the first time, then for 1, 2, 4 and at most 8 s from its failure on;
/// every 2 s for which it was up are forgiven one failure. It is not while no other path is up: then any path that answers
/// is used.
///
/// *Why so short.* Multihomed transports use a path at once when it answers (SCTP: RFC 7829), while damping route flaps for
/// long turned out to do more harm than the flaps (RFC 7196). A failure costs what was on its way and a stall of some 0.15 s,
/// whereas each second of holding down costs what the path carries. So what is up for seconds at a time is worth its
/// failures, and what is not costs at most one of them in 8 s (`sim/tests/several_paths/bonded_flaps.rs`).
#[derive(Debug)]
pub(crate) struct PathHealth {
    state: PathState,
    /// When that began.
    since: Time,
    /// While probing: how many more it needs.
    answers_needed: u32,
    round_trips: RoundTripEstimator,
    last_answer: Time,
    last_sent: Time,
    /// The last probe of the idle path left before its time, together with others.
    follows_others: bool,
    /// By which times between probes of the idle path are longer.
    idle_interval_factor: u32,
    failures: u32,
    /// It has answered since it was taken into use: what its carrier delivers, the far end reads.
    has_answered: bool,
}

const MIN_UNACKNOWLEDGED_PACKETS: usize = 4;
/// The longest with which the failure of an idle path is found within 2 s
/// (`all_paths_may_be_gone_and_come_back_and_idle_ones_are_seen_to_go`); at 1 s, both ends would wake up twice a second.
const IDLE_PROBE_INTERVAL: Span = Span::from_millis(1500);
/// With half of the interval or less, whatever the times at which two paths were probed first, one comes to be probed with the other.
const MIN_IDLE_PROBE_INTERVAL: Span = Span::from_millis(700);
/// More than the delay of a path varies in an interval, mostly, beyond the longest that others wait.
const FOLLOWING_MARGIN: Span = Span::from_millis(200);
const MAX_LEADING_MARGIN: Span = Span::from_millis(80);
const MIN_DOWN_PROBE_INTERVAL: Span = Span::from_millis(20);
const MAX_DOWN_PROBE_INTERVAL: Span = Span::from_millis(200);
const RECENT_FAILURE_PROBE_INTERVAL: Span = Span::from_millis(5);
const MIN_HOLD_DOWN: Span = Span::from_secs(1);
const MAX_HOLD_DOWN: Span = Span::from_secs(8);
const FAILURES_FORGIVEN_AFTER: Span = Span::from_secs(2);
/// More than the far end waits with its report.
const ANSWER_ALLOWANCE: Span = Span::from_millis(40);
const MAX_SILENCE: Span = Span::from_millis(60);
/// Until a round trip has been measured.
const INITIAL_ROUND_TRIP: Span = Span::from_millis(500);

impl PathHealth {
    /// A path of which nothing is known; the first answer suffices.
    pub fn new(now: Time) -> Self {
        PathHealth {
            state: PathState::Probing,
            since: now,
            answers_needed: 1,
            round_trips: RoundTripEstimator::new(now),
            last_answer: now,
            last_sent: now - IDLE_PROBE_INTERVAL,
            follows_others: false,
            idle_interval_factor: 1,
            failures: 0,
            has_answered: false,
        }
    }

    pub fn state(&self) -> PathState {
        self.state
    }

    /// When it came into its state.
    pub fn state_since(&self) -> Time {
        self.since
    }

    pub fn is_up(&self) -> bool {
        self.state == PathState::Up
    }

    pub fn round_trips(&self) -> &RoundTripEstimator {
        &self.round_trips
    }

    /// Something was sent.
    pub fn record_sent(&mut self, now: Time) {
        self.follows_others = self.is_up() && now < self.idle_probe_at();
        self.last_sent = now;
    }

    /// A report told of a packet for the first time. Returns whether the path is up because of it.
    pub fn record_answer(&mut self, round_trip: Span, now: Time) -> bool {
        self.round_trips.record_sample(round_trip, now);
        (self.last_answer, self.has_answered) = (now, true);
        match self.state {
            PathState::Up => return false,
            PathState::Down { hold_until } if now < hold_until => return false,
            PathState::Down { .. } => {
                self.enter_state(PathState::Probing, now);
                self.answers_needed = 2;
            }
            PathState::Probing => self.answers_needed = self.answers_needed.saturating_sub(1),
        }
        if self.answers_needed == 0 {
            self.enter_state(PathState::Up, now);
        }
        self.answers_needed == 0
    }

    /// Its carrier has delivered something, whatever that was: the path is worth asking, and up at once if all had failed
    /// together. Returns whether it is not down any longer because of it.
    pub fn record_delivery(&mut self, all_failed: bool, now: Time) -> bool {
        let ends = self.has_answered && matches!(self.state, PathState::Down { hold_until } if hold_until <= now);
        if ends {
            self.enter_state(if all_failed { PathState::Up } else { PathState::Probing }, now);
            (self.last_answer, self.answers_needed) = (now, 1);
        }
        ends
    }

    fn enter_state(&mut self, state: PathState, now: Time) {
        (self.state, self.since) = (state, now);
    }

    /// Whether the path has failed by now.
    pub fn check_timeout(&mut self, log: &SentLog, now: Time) -> bool {
        if self.failure_time(log).is_none_or(|time| time > now) {
            return false;
        }
        let was_up = self.is_up();
        self.mark_failed(was_up, now);
        was_up
    }

    /// Takes the path out of use, since somebody wants it so: another carrier may follow.
    pub fn disable(&mut self, now: Time) {
        self.mark_failed(false, now);
        self.has_answered = false;
    }

    fn mark_failed(&mut self, counts: bool, now: Time) {
        if counts {
            let forgiven = (now - self.since).as_nanos() / FAILURES_FORGIVEN_AFTER.as_nanos();
            self.failures = self.failures.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX)) + 1;
        }
        let hold = match self.failures {
            0 | 1 => Span::ZERO,
            failures => (MIN_HOLD_DOWN * (1 << (failures - 2).min(6))).min(MAX_HOLD_DOWN),
        };
        self.enter_state(PathState::Down { hold_until: now + hold }, now);
    }

    /// It is not held down any longer: no other path is up. If it has answered lately, another answer suffices.
    pub fn end_hold_down(&mut self, now: Time) {
        let PathState::Down { hold_until } = &mut self.state else { return };
        let was_held = *hold_until > now;
        *hold_until = now.min(*hold_until);
        if was_held && now - self.last_answer < MAX_DOWN_PROBE_INTERVAL * 2 && self.last_answer > self.since {
            self.enter_state(PathState::Probing, now);
            self.answers_needed = 1;
        }
    }

    /// Forgets earlier failures.
    pub fn forgive_failures(&mut self) {
        self.failures = 0;
    }

    /// When it will have failed unless something is answered.
    fn failure_time(&self, log: &SentLog) -> Option<Time> {
        if matches!(self.state, PathState::Down { .. }) {
            return None;
        }
        let open = log.nth_unacknowledged(MIN_UNACKNOWLEDGED_PACKETS - 1)? + self.answer_timeout();
        let half = self.round_trips.smoothed().unwrap_or(INITIAL_ROUND_TRIP) / 2;
        Some(open.max(self.last_answer + MAX_SILENCE + half))
    }

    /// While it is idle, it is probed so many times more seldom.
    pub fn set_idle_interval_factor(&mut self, factor: u32) {
        self.idle_interval_factor = factor;
    }

    /// Whether a probe is to be sent now, where this end acts anyway.
    pub fn is_probe_due(&self, log: &SentLog, now: Time) -> bool {
        let is_idle = self.is_up() && log.nth_unacknowledged(0).is_none();
        let due = if is_idle {
            Some(self.last_sent + MIN_IDLE_PROBE_INTERVAL * i64::from(self.idle_interval_factor))
        } else {
            self.probe_at(log)
        };
        due.is_some_and(|due| due <= now)
    }

    /// When a probe is to be sent at the latest.
    pub fn probe_at(&self, log: &SentLog) -> Option<Time> {
        let after = |span| self.last_sent + span;
        match (self.state, log.nth_unacknowledged(0)) {
            (PathState::Down { .. }, _) => {
                let down = self.last_sent - self.since;
                Some(after((down / 2).clamp(MIN_DOWN_PROBE_INTERVAL, MAX_DOWN_PROBE_INTERVAL)))
            }
            (_, Some(oldest)) if log.nth_unacknowledged(MIN_UNACKNOWLEDGED_PACKETS - 1).is_none() => {
                Some(after(RECENT_FAILURE_PROBE_INTERVAL).max(oldest + self.answer_timeout()).min(self.idle_probe_at()))
            }
            (_, Some(_)) => None,
            (PathState::Probing, None) => Some(after(RECENT_FAILURE_PROBE_INTERVAL)),
            (PathState::Up, None) => Some(self.idle_probe_at()),
        }
    }

    fn idle_probe_at(&self) -> Time {
        let margin = if self.follows_others {
            FOLLOWING_MARGIN
        } else {
            // Ends have clocks of their own, so that the hash of a time (Knuth's multiplicative one) is as good as random.
            let hash = (self.last_answer.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            Span::from_nanos((hash as i64 * MAX_LEADING_MARGIN.as_nanos()) >> 32)
        };
        self.last_sent + IDLE_PROBE_INTERVAL * i64::from(self.idle_interval_factor) + margin
    }

    /// When to look again.
    pub fn deadline(&self, log: &SentLog) -> Option<Time> {
        self.failure_time(log).into_iter().chain(self.probe_at(log)).min()
    }

    /// How long an answer may take.
    fn answer_timeout(&self) -> Span {
        let smoothed = self.round_trips.smoothed().unwrap_or(INITIAL_ROUND_TRIP);
        smoothed * 5 / 4 + (self.round_trips.variation() * 4).min(smoothed) + ANSWER_ALLOWANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_at_millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_carrier_that_delivers_ends_an_outage_of_all_paths_and_is_asked_after_one_of_its_own() {
        for (all_failed, state) in [(true, PathState::Up), (false, PathState::Probing)] {
            let mut health = PathHealth::new(time_at_millis(0));
            health.record_answer(Span::from_millis(20), time_at_millis(20));
            assert!(health.is_up() && !health.record_delivery(all_failed, time_at_millis(30)));
            health.mark_failed(true, time_at_millis(200));
            assert!(health.record_delivery(all_failed, time_at_millis(250)));
            assert_eq!(health.state(), state);
            assert_eq!(health.record_answer(Span::from_millis(20), time_at_millis(270)), !all_failed);
            assert!(health.is_up());
        }
    }

    #[test]
    fn a_path_that_is_held_down_stays_so_whatever_its_carrier_delivers() {
        let mut health = PathHealth::new(time_at_millis(0));
        health.record_answer(Span::from_millis(20), time_at_millis(20));
        health.mark_failed(true, time_at_millis(200));
        health.mark_failed(true, time_at_millis(300));
        assert!(!health.record_delivery(true, time_at_millis(400)));
    }

    #[test]
    fn a_carrier_that_follows_another_is_asked_first() {
        let mut health = PathHealth::new(time_at_millis(0));
        health.record_answer(Span::from_millis(20), time_at_millis(20));
        health.disable(time_at_millis(200));
        assert!(!health.record_delivery(true, time_at_millis(250)));
    }

    #[test]
    fn idle_paths_of_both_ends_are_probed_together_whenever_they_began() {
        // Two paths of either end. What is sent arrives after 20 ms.
        for starts in [[0, 1, 2, 3], [0, 300, 600, 900], [900, 100, 500, 0], [0, 0, 1, 1]] {
            let log = SentLog::new();
            let mut paths = starts.map(|start| PathHealth::new(time_at_millis(start)));
            paths.iter_mut().zip(starts).for_each(|(path, start)| {
                path.record_answer(Span::from_millis(40), time_at_millis(start));
                path.record_sent(time_at_millis(start));
            });
            let mut acts = [Vec::new(), Vec::new()];
            let mut arrivals = Vec::new();
            for now in (1250..60_000).map(time_at_millis) {
                let is_arriving = |end: usize, arrivals: &[(Time, usize)]| arrivals.contains(&(now, end));
                for end in [0, 1] {
                    let own = end * 2..end * 2 + 2;
                    let is_due = paths[own.clone()].iter().any(|path| path.deadline(&log).unwrap() <= now);
                    if !is_due && !is_arriving(end, &arrivals) {
                        continue;
                    }
                    acts[end].push(now);
                    for path in paths[own].iter_mut().filter(|path| path.is_probe_due(&log, now)) {
                        path.record_sent(now);
                        // The answer is on its way at once. Clocks differ by nanoseconds.
                        path.record_answer(Span::from_millis(40), now + Span::from_nanos(end as i64));
                        arrivals.extend([(now + Span::from_millis(20), 1 - end), (now + Span::from_millis(40), end)]);
                    }
                }
            }
            for (end, acts) in acts.iter().enumerate() {
                let last: Vec<_> = acts.iter().filter(|at| **at >= time_at_millis(30_000)).collect();
                assert!(last.len() <= 2 * 30_000 / 1500 + 2, "{starts:?}: end {end} acts {} times in 30 s", last.len());
            }
        }
    }

    #[test]
    fn a_path_that_has_just_failed_is_probed_closely_and_later_five_times_a_second() {
        let (mut health, log) = (PathHealth::new(time_at_millis(0)), SentLog::new());
        health.mark_failed(true, time_at_millis(1000));
        let mut probes = Vec::new();
        while let Some(probe) = health.probe_at(&log).filter(|probe| *probe < time_at_millis(2500)) {
            health.record_sent(probe);
            probes.push((probe - time_at_millis(1000)).as_nanos() / 1_000_000);
        }
        let at_first: Vec<_> = probes.iter().copied().filter(|probe| (0..200).contains(probe)).collect();
        assert_eq!(at_first.len(), 6, "{probes:?}");
        assert!(probes.windows(2).all(|pair| pair[1] - pair[0] <= 200), "{probes:?}");
    }
}
