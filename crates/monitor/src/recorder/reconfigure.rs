//! Another configuration, while probes and measurements go on.

use super::opening::{earlier_runs, open_pairs};
use super::{OWN_HOST_ID, Recorder, RunningRun, fitting_plan};
use crate::alerts::Alerter;
use crate::config::MonitorConfig;
use crate::monitor_error::MonitorError;
use crate::pair_recorder::PairRecorder;
use kumade_archive::{ArchiveError, AuditEntry, HostId, PairId};
use kumade_net::clock;
use kumade_units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::PoisonError;

/// The numbers of a pair's source and target.
type Ends = (HostId, HostId);

/// Who is said to have changed the configuration.
const FILE_AUTHOR: &str = "configuration file";

impl Recorder {
    /// Goes on with another configuration, in which these changes are. Targets that stay, by their ids, keep what is known of them, and
    /// a measurement that runs; probes are reported by the places in the new one from then on.
    ///
    /// # Errors
    /// The archive cannot be written, or the plan is none; then probes and measurements go on as they were.
    pub(super) fn reconfigure(&mut self, config: MonitorConfig, changes: Vec<String>) -> Result<(), MonitorError> {
        let (now, utc) = (clock::monotonic(), clock::realtime());
        // What waits of targets that go is written first.
        self.commit(utc);
        self.archive.put_host(OWN_HOST_ID, &config.name, "", "")?;
        let (hosts, planned) = open_pairs(&mut self.archive, &config, self.own_host, utc)?;
        let known: BTreeSet<&str> = self.pairs.iter().map(|pair| pair.target.id.as_str()).collect();
        let is_new = |pair: &&PairRecorder| !known.contains(pair.target.id.as_str());
        let new: BTreeSet<String> = planned.iter().filter(is_new).map(|pair| pair.target.id.clone()).collect();
        let new_ends = planned.iter().filter(|pair| new.contains(&pair.target.id)).map(PairRecorder::ends).collect();
        let last_sent = self.last_sent_between(&new_ends)?;
        // What stands goes on; what is under way may be sent twice.
        let (state, report) = (self.alerter.state(), Self::alert_reporter(&self.messages));
        let alerter = Alerter::start(&config, Some(&state), report, now, utc)?;
        self.schedule.configure(fitting_plan(&config, &hosts), now)?;
        for pair in planned.iter().filter(|pair| new.contains(&pair.target.id)) {
            let Some(run) = pair.run else { continue };
            // What cannot be read is measured as if it were new.
            let runs = earlier_runs(&mut self.archive, pair).unwrap_or_default();
            self.schedule.restore(run, &runs, utc, now);
        }
        // Of those that this process has monitored before, it is known better when that ended.
        for (pair, sent) in last_sent {
            self.last_sent.entry(pair).or_insert(sent);
        }
        self.replace_pairs(planned, utc);
        self.alerter = alerter;
        let numbered = self.pairs.iter().enumerate().filter_map(|(place, pair)| Some((place, pair.id?)));
        numbered.collect::<Vec<_>>().into_iter().for_each(|(place, id)| self.restore_usual(place, id));
        self.archive.set_retention(config.retention);
        self.config = config;
        self.tell_agents();
        for change in changes {
            self.note(None, "configuration", format!("changed: {change}"));
            self.audit(AuditEntry { at: utc, who: FILE_AUTHOR.to_owned(), what: change });
        }
        Ok(())
    }

    /// When the last probe was sent between hosts that were monitored at some time, and are not at present.
    fn last_sent_between(&mut self, ends: &BTreeSet<Ends>) -> Result<Vec<(PairId, Time)>, ArchiveError> {
        let known = self.archive.pairs().filter(|pair| ends.contains(&(pair.source, pair.target)));
        let known: BTreeSet<PairId> = known.map(|pair| pair.id).collect();
        let latest = self.archive.read().latest()?.into_iter().filter(|state| known.contains(&state.pair));
        Ok(latest.map(|state| (state.pair, state.last_sent)).collect())
    }

    /// Each pair that is known goes on at its new place. What is measured to one that goes is ended, and not kept.
    fn replace_pairs(&mut self, planned: Vec<PairRecorder>, utc: Time) {
        let kept: BTreeSet<&str> = planned.iter().map(|pair| pair.target.id.as_str()).collect();
        for place in 0..self.pairs.len() {
            if !kept.contains(self.pairs[place].target.id.as_str()) {
                self.set_outage(place, None, utc);
            }
        }
        let mut before: BTreeMap<String, PairRecorder> =
            mem::take(&mut self.pairs).into_iter().map(|pair| (pair.target.id.clone(), pair)).collect();
        for pair in planned {
            let known = before.remove(&pair.target.id);
            self.pairs.push(match known {
                Some(mut known) => {
                    known.set_target(pair.target);
                    known
                }
                None => pair,
            });
        }
        let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        for gone in before.values() {
            numbers.remove(&gone.target.id);
            self.last_sent.extend(gone.id.map(|id| (id, utc)));
        }
        let is_gone = |run: &&RunningRun| before.values().any(|pair| pair.host == run.target);
        if let Some(run) = self.running.as_ref().filter(is_gone) {
            run.measurement.cancel();
        }
    }
}
