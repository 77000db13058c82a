//! Alerts end.

use super::{Alerting, Standing};
use crate::alert::{Cause, Notice, NoticeKind};
use kumade_units::Time;

impl Alerting {
    /// Ends alerts whose pairs have recovered, and those of an earlier run that are about nothing any more.
    pub(super) fn resolve(&mut self, now: Time, utc: Time, notices: &mut Vec<Notice>) {
        for place in (0..self.standing.len()).rev() {
            self.note_recoveries(place, now);
            let standing = &self.standing[place];
            if !self.is_over(standing, now) {
                continue;
            }
            let standing = self.standing.remove(place);
            // What has failed on beside it has another cause, for which there has to be evidence anew.
            if let Some(rule) = standing.rule {
                for member in standing.members.iter().filter(|member| member.recovered_since.is_none()) {
                    self.rules[rule].evidence[member.pair].discount(now);
                    self.rules[rule].update_suspect(member.pair);
                }
            }
            notices.push(Notice { kind: NoticeKind::Resolved, alert: standing.alert, at: utc });
        }
    }

    fn note_recoveries(&mut self, place: usize, now: Time) {
        let standing = &mut self.standing[place];
        let Some(rule) = standing.rule.map(|rule| &self.rules[rule]) else { return };
        for member in &mut standing.members {
            let evidence = &rule.evidence[member.pair];
            let is_failing = rule.rule.is_ripe(evidence, &self.pairs[member.pair].pair);
            let is_good = if rule.rule.condition.is_unreachable() {
                evidence.last_good.is_some() && evidence.suspicion.is_none()
            } else {
                evidence.goods >= rule.rule.times
            };
            if is_failing {
                member.recovered_since = None;
            } else if is_good {
                member.recovered_since.get_or_insert(now);
            }
        }
    }

    /// Whether it stands for nothing any more: all of its pairs have recovered, or most of those of a common cause.
    fn is_over(&self, standing: &Standing, now: Time) -> bool {
        // These end by what they are about.
        if matches!(standing.alert.cause, Cause::Archive | Cause::Agent(_) | Cause::AllAgents) {
            return standing.rule.is_none();
        }
        let Some(state) = standing.rule.map(|rule| &self.rules[rule]) else { return true };
        // One that may have failed again is waited for.
        let has_recovered = |pair: usize, since: Option<Time>| {
            let is_suspect = state.rule.condition.is_unreachable() && state.evidence[pair].suspicion.is_some();
            !is_suspect && since.is_some_and(|since| now - since >= state.rule.hold(&self.pairs[pair].pair))
        };
        let recovered = standing.members.iter().filter(|one| has_recovered(one.pair, one.recovered_since)).count();
        match standing.alert.cause {
            Cause::Shared(_) => 2 * recovered > standing.members.len() || standing.members.is_empty(),
            _ => recovered == standing.members.len(),
        }
    }
}
