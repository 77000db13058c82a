//! What pages are told of the status: all of it once, then what has changed. Pure.
//!
//! A *revision* is a state of what pages show. A page that has one is told each change after it; each change names the revision
//! before, so that a page notices that it has missed one, and asks again. Figures are told again once they differ by more than a
//! twentieth ([`likeness`]); all else as soon as it is another. What is to be measured when is not among it: it
//! changes with each measurement, and is shown on one page alone.

mod likeness;

use crate::status::{AgentStatus, LinkStatus, MonitorStatus, PairStatus, ScheduleStatus};
use axum::body::Bytes;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes that are kept for pages that were away: some minutes.
const MAX_KEPT_CHANGES: usize = 64;
/// All of these together.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// A change that is larger is no smaller than all of it: pages ask for that. So much may wait for a connection.
const MAX_CHANGE_BYTES: usize = 256 << 10;

/// A change, as a page is told it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    after: Arc<str>,
    pub(super) revision: Arc<str>,
    /// A line of JSON.
    pub(super) json: Bytes,
}

/// What a page with some revision is to be told.
#[derive(Debug)]
pub(super) enum Next<'f> {
    /// Nothing is new.
    Nothing,
    Change(&'f Change),
    /// The page is too far behind, or knows a revision of another process: it needs all.
    All,
}

/// Follows the status, and knows what to tell pages.
///
/// **Contract.** Pure. [`take`](Self::take) each status that is to be shown; then ask what a page needs.
#[derive(Debug)]
pub(super) struct StatusFeed {
    /// Of this process: revisions of another one mean nothing.
    instance: String,
    number: u64,
    revision: Arc<str>,
    /// What pages show.
    told: MonitorStatus,
    /// That as JSON, once somebody has asked for it.
    whole: Option<Bytes>,
    /// The oldest first.
    changes: VecDeque<Change>,
    change_bytes: usize,
}

#[derive(Serialize)]
struct WholeMessage<'s> {
    revision: &'s str,
    status: &'s MonitorStatus,
}

#[derive(Serialize)]
struct ChangeMessage<'s> {
    revision: &'s str,
    after: &'s str,
    time_seconds: f64,
    /// The status without its lists, if anything of it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<&'s MonitorStatus>,
    pairs: Vec<&'s PairStatus>,
    agents: Vec<&'s AgentStatus>,
    links: Vec<&'s LinkStatus>,
}

impl StatusFeed {
    /// `instance` is different for each process.
    pub(super) fn new(instance: String, status: &MonitorStatus) -> Self {
        let mut feed = StatusFeed {
            instance,
            number: 0,
            revision: "".into(),
            told: MonitorStatus::empty(""),
            whole: None,
            changes: VecDeque::new(),
            change_bytes: 0,
        };
        feed.restart(status);
        feed
    }

    /// The status has become this.
    pub(super) fn take(&mut self, status: &MonitorStatus) {
        let has_same_items = is_same(&self.told.pairs, &status.pairs, |pair| &pair.id)
            && is_same(&self.told.agents, &status.agents, |agent| &agent.id)
            && is_same(&self.told.links, &status.links, |link| &link.name);
        if !has_same_items {
            return self.restart(status);
        }
        let after = self.next_revision();
        let pairs = replace_others(&mut self.told.pairs, &status.pairs, likeness::is_like_pair);
        let agents = replace_others(&mut self.told.agents, &status.agents, likeness::is_like_agent);
        let links = replace_others(&mut self.told.links, &status.links, likeness::is_like_link);
        let rest = without_lists(status);
        let is_rest_other = !likeness::is_like_rest(&without_lists(&self.told), &rest);
        if is_rest_other {
            self.told = MonitorStatus {
                pairs: std::mem::take(&mut self.told.pairs),
                agents: std::mem::take(&mut self.told.agents),
                links: std::mem::take(&mut self.told.links),
                ..rest.clone()
            };
        }
        self.told.time_seconds = status.time_seconds;
        let message = ChangeMessage {
            revision: &self.revision,
            after: &after,
            time_seconds: status.time_seconds,
            rest: is_rest_other.then_some(&rest),
            pairs: pairs.into_iter().map(|place| &status.pairs[place]).collect(),
            agents: agents.into_iter().map(|place| &status.agents[place]).collect(),
            links: links.into_iter().map(|place| &status.links[place]).collect(),
        };
        let json = to_json(&message);
        self.whole = None;
        self.keep(Change { after, revision: self.revision.clone(), json });
    }

    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    /// What comes after the revision that a page has; none for one that has nothing.
    pub(super) fn next_after(&self, known: Option<&str>) -> Next<'_> {
        if known == Some(&*self.revision) {
            return Next::Nothing;
        }
        let change = self.changes.iter().find(|change| Some(&*change.after) == known);
        change.map_or(Next::All, Next::Change)
    }

    /// A JSON list of all messages that a page needs which has this revision.
    pub(super) fn messages_after(&mut self, known: Option<&str>) -> Bytes {
        match self.next_after(known) {
            Next::Nothing => Bytes::from_static(b"[]"),
            Next::Change(first) => {
                let revision = first.revision.clone();
                let later = self.changes.iter().skip_while(|change| change.revision != revision);
                let texts: Vec<_> = later.map(|change| &*change.json).collect();
                [b"[".as_slice(), &texts.join(&b","[..]), b"]"].concat().into()
            }
            Next::All => {
                let message = || to_json(&[WholeMessage { revision: &self.revision, status: &self.told }]);
                self.whole.get_or_insert_with(message).clone()
            }
        }
    }

    /// Pages that know something else need all of it.
    fn restart(&mut self, status: &MonitorStatus) {
        self.next_revision();
        self.told = MonitorStatus { schedule: ScheduleStatus::default(), ..status.clone() };
        self.forget_changes();
    }

    /// Returns the one before.
    fn next_revision(&mut self) -> Arc<str> {
        self.number += 1;
        std::mem::replace(&mut self.revision, format!("{}.{}", self.instance, self.number).into())
    }

    fn keep(&mut self, change: Change) {
        if change.json.len() > MAX_CHANGE_BYTES {
            return self.forget_changes();
        }
        self.change_bytes += change.json.len();
        self.changes.push_back(change);
        while self.changes.len() > MAX_KEPT_CHANGES || self.change_bytes > MAX_KEPT_BYTES {
            self.change_bytes -= self.changes.pop_front().map_or(0, |change| change.json.len());
        }
    }

    fn forget_changes(&mut self) {
        (self.whole, self.change_bytes) = (None, 0);
        self.changes.clear();
    }
}

fn to_json(message: &impl Serialize) -> Bytes {
    // Numbers and texts always can be written.
    serde_json::to_vec(message).unwrap_or_default().into()
}

fn is_same<T>(told: &[T], now: &[T], id: impl Fn(&T) -> &String) -> bool {
    told.len() == now.len() && told.iter().zip(now).all(|(told, now)| id(told) == id(now))
}

/// Puts those into `told` that are not like they were; returns their places.
fn replace_others<T: Clone>(told: &mut [T], now: &[T], is_like: impl Fn(&T, &T) -> bool) -> Vec<usize> {
    let mut places = Vec::new();
    for (place, (told, now)) in told.iter_mut().zip(now).enumerate() {
        if !is_like(told, now) {
            told.clone_from(now);
            places.push(place);
        }
    }
    places
}

fn without_lists(status: &MonitorStatus) -> MonitorStatus {
    MonitorStatus {
        schema: status.schema.clone(),
        name: status.name.clone(),
        time_seconds: status.time_seconds,
        started_seconds: status.started_seconds,
        archive_failure: status.archive_failure.clone(),
        leader: status.leader.clone(),
        remote_write: status.remote_write.clone(),
        pairs: Vec::new(),
        unmeasured: status.unmeasured.clone(),
        schedule: ScheduleStatus::default(),
        agents: Vec::new(),
        links: Vec::new(),
        alerts: status.alerts.clone(),
    }
}

#[cfg(test)]
mod tests;
