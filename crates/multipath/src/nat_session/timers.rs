use kumade_units::Time;
use std::collections::BTreeSet;

/// When sessions have something to do, by their numbers. Each has one timer.
#[derive(Debug, Default)]
pub(super) struct SessionTimers(BTreeSet<(Time, u32)>);

impl SessionTimers {
    /// Moves a session's timer, which `set` shows, to another time; none stops it.
    pub(super) fn set_timer(&mut self, id: u32, set: &mut Option<Time>, at: Option<Time>) {
        if let Some(before) = set.take() {
            self.0.remove(&(before, id));
        }
        *set = at;
        self.0.extend(at.map(|at| (at, id)));
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// A session whose time has come. Its timer has to be set again, or stopped, before the next call.
    pub(super) fn next_due(&self, now: Time) -> Option<u32> {
        self.0.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }
}
