//! How much of what an agent says is taken. Pure.

use super::frame::{Batch, MAX_DOCUMENT_BYTES, RunResult};
use kumade_planner::AgentMessage;
use kumade_units::{RateLimiter, Time};
use std::collections::BTreeSet;

/// An agent may deliver more than what was asked of it: clocks differ, and what is on its way when the configuration changes counts, too.
const RESERVE: f64 = 1.5;
/// What an agent may deliver at once: what it has kept while the coordinator was away for a day.
const MAX_ABSENCE_SECONDS: f64 = 86_400.0;
/// Runs that it may deliver at once.
const MAX_RUNS_AT_ONCE: f64 = 256.0;
/// Batches, besides what is in them: one a second, ten a minute from its disk, and one for each run.
const BATCHES_PER_SECOND: f64 = 10.0;
/// Processes of an agent whose batches are taken: so many at once, and one in so many seconds. The archive keeps a row for each.
const MAX_INSTANCES_AT_ONCE: f64 = 64.0;
const INSTANCE_INTERVAL_SECONDS: f64 = 60.0;
/// Those whose numbers are remembered.
const MAX_KNOWN_INSTANCES: usize = 256;
/// Events about one agent: so many at once, and one in so many seconds.
const MAX_EVENTS_AT_ONCE: f64 = 20.0;
const EVENT_INTERVAL_SECONDS: f64 = 60.0;
/// Other frames: a heartbeat in five seconds, three for each run, an address for each peer.
const MESSAGES_PER_SECOND: f64 = 20.0;
const MAX_MESSAGES_AT_ONCE: f64 = 400.0;
/// Grants that an agent holds at a time: a run uses the whole host.
const MAX_HELD_GRANTS: usize = 16;

/// What one agent is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AskedRates {
    /// Whom it probes.
    pub(crate) peers: usize,
    /// Light probes to all of them.
    pub(crate) probes_per_second: f64,
    /// Runs that it begins.
    pub(crate) runs_per_second: f64,
}

/// What is to be done with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchVerdict {
    /// It is taken.
    Taken,
    /// It may come again.
    Later,
    /// No agent that works says so.
    Refused,
}

/// What one agent may say.
#[derive(Debug, Clone)]
pub(crate) struct AgentBudget {
    results: RateLimiter,
    runs: RateLimiter,
    batches: RateLimiter,
    instances: RateLimiter,
    known_instances: BTreeSet<u64>,
    events: RateLimiter,
    messages: RateLimiter,
}

impl AgentBudget {
    pub(crate) fn new(asked: AskedRates) -> Self {
        let results = asked.probes_per_second * RESERVE;
        AgentBudget {
            results: RateLimiter::new(results, results * MAX_ABSENCE_SECONDS),
            runs: RateLimiter::new(asked.runs_per_second * RESERVE, MAX_RUNS_AT_ONCE),
            batches: RateLimiter::new(BATCHES_PER_SECOND, BATCHES_PER_SECOND * 60.0),
            instances: RateLimiter::new(1.0 / INSTANCE_INTERVAL_SECONDS, MAX_INSTANCES_AT_ONCE),
            known_instances: BTreeSet::new(),
            events: RateLimiter::new(1.0 / EVENT_INTERVAL_SECONDS, MAX_EVENTS_AT_ONCE),
            messages: RateLimiter::new(MESSAGES_PER_SECOND, MAX_MESSAGES_AT_ONCE + 4.0 * asked.peers as f64),
        }
    }

    /// Whether a batch that has not come before is taken.
    pub(crate) fn take_batch(&mut self, batch: &Batch, now: Time) -> BatchVerdict {
        let is_within = self.batches.take(1.0, now)
            && self.results.take(batch.result_count() as f64, now)
            && self.runs.take(batch.runs.len() as f64, now)
            && batch.runs.iter().all(is_document);
        if !is_within {
            return BatchVerdict::Refused;
        }
        if !self.known_instances.contains(&batch.instance) {
            if !self.instances.take(1.0, now) {
                return BatchVerdict::Later;
            }
            if self.known_instances.len() >= MAX_KNOWN_INSTANCES {
                self.known_instances.pop_first();
            }
            self.known_instances.insert(batch.instance);
        }
        BatchVerdict::Taken
    }

    /// Whether a frame is heard that is no batch.
    pub(crate) fn take_message(&mut self, now: Time) -> bool {
        self.messages.take(1.0, now)
    }

    /// Whether one more event about the agent is kept.
    pub(crate) fn take_event(&mut self, now: Time) -> bool {
        self.events.take(1.0, now)
    }
}

/// Whether the planner is handed this: it looks at each grant that an agent says it holds.
pub(crate) fn is_short(message: &AgentMessage) -> bool {
    match message {
        AgentMessage::Heartbeat(heartbeat) => heartbeat.held.len() <= MAX_HELD_GRANTS,
        AgentMessage::Began { .. } | AgentMessage::Ended { .. } => true,
    }
}

/// What the archive would refuse is not handed to it.
fn is_document(run: &RunResult) -> bool {
    let document = || serde_json::from_str::<serde_json::Value>(&run.document);
    run.document.len() <= MAX_DOCUMENT_BYTES && document().is_ok_and(|document| document["schema"].is_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn processes_without_end_are_taken_up_to_a_rate() {
        let mut budget = AgentBudget::new(AskedRates::default());
        let batch = |instance| Batch { instance, ..Batch::default() };
        let taken = |budget: &mut AgentBudget, range: std::ops::Range<u64>, now| {
            range.filter(|instance| budget.take_batch(&batch(*instance), now) == BatchVerdict::Taken).count()
        };
        assert_eq!(taken(&mut budget, 0..200, after(0)), 64);
        assert_eq!(taken(&mut budget, 0..64, after(10)), 64, "those are known");
        assert_eq!(taken(&mut budget, 1000..1200, after(600)), 10);
    }
}
