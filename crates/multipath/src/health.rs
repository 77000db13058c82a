//! Whether a path can be used.

use crate::health_round_trip::RoundTrips;
use crate::path_sent::SentLog;
use units::{Span, Time};

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
/// there are four. A path that is up and idle is probed each second, one that is down five times a second. It is
/// probed more closely once it answers, and after three answers it is up again.
///
/// A path that fails soon again is held down: not at all the first time, then for 1, 2, 4 and at most 8 s from its failure on;
/// every 2 s for which it was up are forgiven one failure. It is not while no other path is up: then any path that answers
/// is used.
///
/// *Why so short.* Multihomed transports use a path at once when it answers (SCTP: RFC 7829), while damping route flaps for
/// long turned out to do more harm than the flaps (RFC 7196). A failure costs what was on its way and a stall of some 0.15 s,
/// whereas each second of holding down costs what the path carries. So what is up for seconds at a time is worth its
/// failures, and what is not costs at most one of them in 8 s (`sim/tests/bonded_flaps.rs`).
#[derive(Debug)]
pub(crate) struct Health {
    state: PathState,
    /// When that began.
    since: Time,
    /// While probing: how many more it needs.
    wanted: u32,
    round_trips: RoundTrips,
    answered: Time,
    last_sent: Time,
    failures: u32,
}

const MIN_OPEN: usize = 4;
const IDLE_PROBE: Span = Span::from_secs(1);
const DOWN_PROBE: Span = Span::from_millis(200);
const CLOSE_PROBE: Span = Span::from_millis(5);
const MIN_HOLD: Span = Span::from_secs(1);
const MAX_HOLD: Span = Span::from_secs(8);
const FORGIVEN: Span = Span::from_secs(2);
/// More than the far end waits with its report.
const ANSWER_SLACK: Span = Span::from_millis(40);
const SILENCE: Span = Span::from_millis(60);
/// Until a round trip has been measured.
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(500);

impl Health {
    /// A path of which nothing is known; the first answer suffices.
    pub fn new(now: Time) -> Self {
        Health {
            state: PathState::Probing,
            since: now,
            wanted: 1,
            round_trips: RoundTrips::new(now),
            answered: now,
            last_sent: now - IDLE_PROBE,
            failures: 0,
        }
    }

    pub fn state(&self) -> PathState {
        self.state
    }

    /// When it came into its state.
    pub fn since(&self) -> Time {
        self.since
    }

    pub fn is_up(&self) -> bool {
        self.state == PathState::Up
    }

    pub fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// Something was sent.
    pub fn sent(&mut self, now: Time) {
        self.last_sent = now;
    }

    /// A report told of a packet for the first time. Returns whether the path is up because of it.
    pub fn answer(&mut self, round_trip: Span, now: Time) -> bool {
        self.round_trips.sample(round_trip, now);
        self.answered = now;
        match self.state {
            PathState::Up => return false,
            PathState::Down { hold_until } if now < hold_until => return false,
            PathState::Down { .. } => {
                self.enter(PathState::Probing, now);
                self.wanted = 2;
            }
            PathState::Probing => self.wanted = self.wanted.saturating_sub(1),
        }
        if self.wanted == 0 {
            self.enter(PathState::Up, now);
        }
        self.wanted == 0
    }

    fn enter(&mut self, state: PathState, now: Time) {
        (self.state, self.since) = (state, now);
    }

    /// Whether the path has failed by now.
    pub fn check(&mut self, log: &SentLog, now: Time) -> bool {
        if self.fails_at(log).is_none_or(|time| time > now) {
            return false;
        }
        let was_up = self.is_up();
        self.fail(was_up, now);
        was_up
    }

    /// Takes the path out of use.
    pub fn fail(&mut self, counts: bool, now: Time) {
        if counts {
            let forgiven = (now - self.since).as_nanos() / FORGIVEN.as_nanos();
            self.failures = self.failures.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX)) + 1;
        }
        let hold = match self.failures {
            0 | 1 => Span::ZERO,
            failures => (MIN_HOLD * (1 << (failures - 2).min(6))).min(MAX_HOLD),
        };
        self.enter(PathState::Down { hold_until: now + hold }, now);
    }

    /// It is not held down any longer: no other path is up. If it has answered lately, another answer suffices.
    pub fn lift_hold(&mut self, now: Time) {
        let PathState::Down { hold_until } = &mut self.state else { return };
        let was_held = *hold_until > now;
        *hold_until = now.min(*hold_until);
        if was_held && now - self.answered < DOWN_PROBE * 2 && self.answered > self.since {
            self.enter(PathState::Probing, now);
            self.wanted = 1;
        }
    }

    /// Forgets earlier failures.
    pub fn forgive(&mut self) {
        self.failures = 0;
    }

    /// When it will have failed unless something is answered.
    fn fails_at(&self, log: &SentLog) -> Option<Time> {
        if matches!(self.state, PathState::Down { .. }) {
            return None;
        }
        let open = log.open(MIN_OPEN - 1)? + self.patience();
        let half = self.round_trips.smoothed().unwrap_or(UNKNOWN_ROUND_TRIP) / 2;
        Some(open.max(self.answered + SILENCE + half))
    }

    /// When a probe is to be sent.
    pub fn probe_at(&self, log: &SentLog) -> Option<Time> {
        let after = |span| self.last_sent + span;
        match (self.state, log.open(0)) {
            (PathState::Down { .. }, _) => Some(after(DOWN_PROBE)),
            (_, Some(oldest)) if log.open(MIN_OPEN - 1).is_none() => {
                Some(after(CLOSE_PROBE).max(oldest + self.patience()).min(self.idle_probe_at()))
            }
            (_, Some(_)) => None,
            (PathState::Probing, None) => Some(after(CLOSE_PROBE)),
            (PathState::Up, None) => Some(self.idle_probe_at()),
        }
    }

    fn idle_probe_at(&self) -> Time {
        self.last_sent + IDLE_PROBE
    }

    /// When to look again.
    pub fn deadline(&self, log: &SentLog) -> Option<Time> {
        self.fails_at(log).into_iter().chain(self.probe_at(log)).min()
    }

    /// How long an answer may take.
    fn patience(&self) -> Span {
        let smoothed = self.round_trips.smoothed().unwrap_or(UNKNOWN_ROUND_TRIP);
        smoothed * 5 / 4 + (self.round_trips.variation() * 4).min(smoothed) + ANSWER_SLACK
    }
}
