//! Other programs that measure at this host.

use super::{COMMIT_INTERVAL, KEPT_BUSY_TIMES, Recorder};
use crate::host_use::HostUseChange;
use crate::pair_recorder::BusyTime;
use kumade_net::HostClaim;
use kumade_units::Time;

impl Recorder {
    /// Looks whether another program measures at this host, unless a measurement of its own runs.
    pub(super) fn follow_host_use(&mut self, now: Time) {
        if self.running.is_some() {
            return;
        }
        let holder = HostClaim::current_holder().ok().flatten().map(|holder| holder.to_string());
        match self.host_use.update(holder, now) {
            Some(HostUseChange::Begun(holder)) => self.schedule.set_claim(Some(&holder), now),
            Some(HostUseChange::Ended) => self.schedule.set_claim(None, now),
            None => {}
        }
        match (self.host_use.is_used(), self.busy.iter_mut().find(|busy| busy.to.is_none())) {
            // It has begun since the last look.
            (true, None) => self.add_busy_time(now - COMMIT_INTERVAL),
            (false, Some(busy)) => busy.to = Some(now),
            _ => {}
        }
    }

    /// From then on, light probes are marked.
    pub(super) fn add_busy_time(&mut self, from: Time) {
        self.busy.push_back(BusyTime { from, to: None });
        self.busy.drain(..self.busy.len().saturating_sub(KEPT_BUSY_TIMES));
    }
}
