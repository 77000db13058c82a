//! Budgets of declared links: what measurements carry over each, as agents tell.

use super::Recorder;
use super::link_budgets::LINKS_KEY;
use crate::mesh::day_budget::{DayBudget, NotedUse, carried_bytes};
use crate::mesh::plan::link_agent;
use crate::status::LinkStatus;
use kumade_planner::{AgentId, AgentMessage, Heartbeat};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// The planner takes nothing for granted that was said earlier.
const MESSAGE_INTERVAL: Span = Span::from_secs(2);
/// As that of an agent's process; there is but one.
const INSTANCE: u64 = 1;

impl Recorder {
    /// A measurement of the pair at this place has ended; its document says what it has carried.
    pub(super) fn add_link_bytes(&mut self, place: usize, document: &str) {
        let Some(mesh) = &mut self.mesh else { return };
        let pair = self.config.mesh.as_ref().and_then(|config| config.pairs.get(place));
        let links = pair.map(|pair| pair.links.clone()).unwrap_or_default();
        let document = serde_json::from_str(document).unwrap_or_default();
        let bytes = carried_bytes(&document);
        if links.is_empty() || bytes == 0 {
            return;
        }
        for link in links {
            mesh.links.links[link].1.add_bytes(bytes);
        }
        let noted: BTreeMap<&str, NotedUse> =
            mesh.links.links.iter().map(|(name, budget)| (name.as_str(), budget.noted())).collect();
        // Names and numbers always can be written.
        let noted = serde_json::to_vec(&noted).unwrap_or_default();
        if let Err(error) = self.archive.put_state(LINKS_KEY, Some(&noted)) {
            self.fail(&error);
        }
    }

    /// Nothing begins over a link whose budget is used up.
    pub(super) fn follow_link_budgets(&mut self, now: Time) {
        let Some(links) = self.mesh.as_mut().map(|mesh| &mut mesh.links).filter(|links| links.next_message <= now)
        else {
            return;
        };
        links.next_message = now + MESSAGE_INTERVAL;
        for (link, (_, budget)) in links.links.iter().enumerate() {
            let claim = budget.refusal();
            let heartbeat = Heartbeat { instance: INSTANCE, stamp: now, held: Vec::new(), claim, unavailable: None };
            self.schedule.receive(link_agent(link), AgentMessage::Heartbeat(heartbeat), now);
        }
    }

    /// A link that takes part in the plan as an agent does.
    pub(super) fn link_name(&self, agent: AgentId) -> Option<String> {
        let links = self.mesh.iter().flat_map(|mesh| mesh.links.links.iter().enumerate());
        links.filter(|(place, _)| link_agent(*place) == agent).map(|(_, (name, _))| format!("the link {name}")).next()
    }

    pub(super) fn link_status(&self) -> Vec<LinkStatus> {
        let status = |(name, budget): &(String, DayBudget)| LinkStatus {
            name: name.clone(),
            used_bytes: budget.used_bytes(),
            bytes_per_day: budget.bytes_per_day,
        };
        self.mesh.iter().flat_map(|mesh| mesh.links.links.iter().map(status)).collect()
    }
}
