//! What a run waits for.

use super::Coordinator;
use super::event::Waiting;
use kumade_units::Time;

impl Coordinator {
    pub(super) fn waiting_reason(&self, number: u32, now: Time) -> Waiting {
        if self.deposed {
            return Waiting::Deposed;
        }
        if !self.list.is_waiting(number) {
            return self.runs[number as usize].unlisted_reason(self.is_requested(number), now);
        }
        if self.quiet_until.is_some() {
            return Waiting::FormerGrants;
        }
        let Some(blocking) = self.list.blocking(number) else { return Waiting::Ready };
        if let Some(agent) = (blocking as usize).checked_sub(self.plan.resources.len()) {
            return Waiting::AgentAbsent(self.plan.agents[agent].id);
        }
        let claims = self.agents.iter().filter(|(_, state)| state.closed.contains(&blocking));
        let claim = claims.filter_map(|(agent, state)| Some((*agent, state.claim.clone()?))).next();
        if let Some((agent, holder)) = claim {
            return Waiting::Claimed { agent, holder };
        }
        let resource = self.plan.resources[blocking as usize].id;
        let run = self.list.holder(blocking).map(|run| self.plan.runs[run as usize].id);
        let granted = || self.grants.values().find(|grant| grant.resources.contains(&resource)).map(|grant| grant.run);
        Waiting::InUse { resource, run: run.or_else(granted) }
    }
}
