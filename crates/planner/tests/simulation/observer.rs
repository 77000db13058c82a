//! Sees all trains on all resources, by the true time.

use kumade_planner::{ResourceId, Token};
use kumade_units::Time;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Observer {
    on: BTreeMap<ResourceId, Seen>,
    /// Runs that carried trains.
    pub carried: u64,
    pub trains: u64,
    /// Pairs of runs that used the same resource at once, or one between the trains of the other.
    pub overlaps: BTreeSet<(Token, Token)>,
    /// Trains beside someone who had claimed the host: late ones of an end that was not told that the run has ended.
    pub trains_during_claims: u64,
    last: BTreeMap<ResourceId, Token>,
}

#[derive(Default)]
struct Seen {
    /// The newest run that carried trains, and when its last one ends.
    newest: Option<(Token, Time)>,
    claimed: bool,
}

impl Observer {
    pub fn see_train(&mut self, token: Token, resources: &[ResourceId], start: Time, end: Time) {
        self.trains += 1;
        if self.last.insert(resources[0], token) != Some(token) {
            self.carried += 1;
        }
        for resource in resources {
            let seen = self.on.entry(*resource).or_default();
            self.trains_during_claims += u64::from(seen.claimed);
            match seen.newest {
                Some((newest, until)) if newest == token => seen.newest = Some((token, until.max(end))),
                // An older run after a newer one is as bad as at the same time.
                Some((newest, until)) if newest > token || until > start => {
                    self.overlaps.insert((newest.min(token), newest.max(token)));
                    seen.newest = Some((newest.max(token), until.max(end)));
                }
                _ => seen.newest = Some((token, end)),
            }
        }
    }

    pub fn see_claim(&mut self, host: ResourceId, claimed: bool) {
        self.on.entry(host).or_default().claimed = claimed;
    }
}
