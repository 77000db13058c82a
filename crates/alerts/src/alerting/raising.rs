//! Evidence becomes alerts: one for each cause.

use super::{Alerting, Member, RuleState, Standing};
use crate::alert::{Cause, Notice, NoticeKind};
use crate::cause::{Finding, Needed, Suspect, assess_risk};
use crate::pair::SharedRisk;
use crate::rule::Condition;
use crate::text::{pair_text, shared_text};
use kumade_units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Pairs that fail together.
struct Group {
    risk: SharedRisk,
    members: Vec<usize>,
    /// Of how many that could.
    count: usize,
    onset: (Time, Time),
}

impl Member {
    pub(super) fn from_pairs(pairs: &[usize]) -> Vec<Member> {
        pairs.iter().map(|pair| Member { pair: *pair, recovered_since: None }).collect()
    }
}

impl Alerting {
    /// Raises the alerts of a rule.
    pub(super) fn raise(&mut self, rule: usize, now: Time, utc: Time, notices: &mut Vec<Notice>) {
        if !self.ripen(rule, now) && !self.is_group_possible(rule) {
            return;
        }
        let mut suspects = self.unexplained_suspects(rule);
        if suspects.is_empty() {
            return;
        }
        self.join_standing(rule, &mut suspects);
        while let Some(group) = self.find_group(rule, &suspects, now) {
            self.raise_group(rule, &group, utc, notices);
            suspects.retain(|pair, _| !group.members.contains(pair));
            self.join_standing(rule, &mut suspects);
        }
        let waiting = self.undecided_pairs(rule, &suspects, now);
        for (pair, suspect) in suspects.iter().filter(|(_, suspect)| !suspect.is_standing) {
            let Some(since) = suspect.ripe_since else { continue };
            if waiting.contains(pair) && now - since < suspect.grace {
                continue;
            }
            self.raise_alone(rule, *pair, suspect.onset(), utc, notices);
        }
    }

    /// Notes since when there is enough evidence for an alert on each pair; returns whether there is on any.
    fn ripen(&mut self, rule: usize, now: Time) -> bool {
        let state = &mut self.rules[rule];
        let mut is_any = false;
        for &pair in &state.suspects {
            let is_ripe = state.rule.is_ripe(&state.evidence[pair], &self.pairs[pair].pair);
            let evidence = &mut state.evidence[pair];
            evidence.ripe_since = is_ripe.then(|| evidence.ripe_since.unwrap_or(now));
            is_any |= is_ripe;
        }
        is_any
    }

    /// Where few of many are suspects there is no need to look at all of them.
    fn is_group_possible(&self, rule: usize) -> bool {
        let state = &self.rules[rule];
        if state.suspects.len() < 2 {
            return false;
        }
        let mut counts = vec![0; self.risks.len()];
        for pair in &state.suspects {
            self.pairs[*pair].risks.iter().for_each(|risk| counts[*risk] += 1);
        }
        let explained = self.explained_pairs();
        let is_possible = |(count, (_, pairs)): (&usize, &(SharedRisk, Vec<usize>))| {
            *count >= 2 && 2 * count + explained >= pairs.len().min(state.covered)
        };
        counts.iter().zip(&self.risks).any(is_possible)
    }

    fn explained_pairs(&self) -> usize {
        self.standing.iter().map(|standing| standing.members.len()).sum()
    }

    /// Pairs with bad observations that no common alert explains, and no alert that says that nothing else can be known.
    fn unexplained_suspects(&self, rule: usize) -> BTreeMap<usize, Suspect> {
        let state = &self.rules[rule];
        let is_unreachable = state.rule.condition.is_unreachable();
        let mut found = BTreeMap::new();
        for &number in &state.suspects {
            let (evidence, pair) = (&state.evidence[number], &self.pairs[number].pair);
            let Some(suspicion) = evidence.suspicion.filter(|_| !self.is_explained(rule, number)) else { continue };
            let cadence = state.rule.cadence(pair);
            let is_own = |standing: &Standing| {
                standing.rule == Some(rule) && standing.members.iter().any(|member| member.pair == number)
            };
            let suspect = Suspect {
                suspicion,
                ripe_since: evidence.ripe_since,
                // A loss by chance just before the others' makes a pair seem to have failed earlier.
                slack: cadence * if is_unreachable { 4 } else { 2 },
                min_duration: state.rule.min_duration(pair),
                grace: cadence * if is_unreachable { 2 } else { 1 },
                is_standing: self.standing.iter().any(is_own),
            };
            found.insert(number, suspect);
        }
        found
    }

    /// Whether an alert stands that says all of this pair: a common one of this rule, or that it cannot be reached.
    fn is_explained(&self, rule: usize, pair: usize) -> bool {
        self.standing.iter().any(|standing| {
            let is_own = standing.rule == Some(rule);
            let is_pair = matches!(standing.alert.cause, Cause::Pair(_));
            let is_unreachable = standing.rule.is_some_and(|rule| self.rules[rule].rule.condition.is_unreachable());
            (if is_own { !is_pair } else { is_unreachable })
                && standing.members.iter().any(|member| member.pair == pair)
        })
    }

    /// Pairs that began to fail with those of a standing common alert belong to it. Those of them that may fail wait.
    fn join_standing(&mut self, rule: usize, suspects: &mut BTreeMap<usize, Suspect>) {
        for place in 0..self.standing.len() {
            let standing = &self.standing[place];
            let (Cause::Shared(risk), Some(onset), true) =
                (&standing.alert.cause, standing.onset, standing.rule == Some(rule))
            else {
                continue;
            };
            let here = self.risks.iter().find(|(known, _)| known == risk).map_or(&[][..], |(_, pairs)| pairs);
            let joining: Vec<(usize, bool)> = suspects
                .iter()
                .filter(|(pair, suspect)| !suspect.is_standing && here.contains(pair) && suspect.began_with(onset))
                .map(|(pair, suspect)| (*pair, suspect.ripe_since.is_some()))
                .collect();
            suspects.retain(|pair, _| !joining.iter().any(|(joined, _)| joined == pair));
            let ripe: Vec<usize> = joining.into_iter().filter(|(_, is_ripe)| *is_ripe).map(|(pair, _)| pair).collect();
            if !ripe.is_empty() {
                let standing = self.standing.iter_mut().find(|standing| standing.onset == Some(onset));
                standing.into_iter().for_each(|standing| standing.members.extend(Member::from_pairs(&ripe)));
                self.rewrite(rule, onset);
            }
        }
    }

    /// The largest group that fails together.
    fn find_group(&self, rule: usize, suspects: &BTreeMap<usize, Suspect>, now: Time) -> Option<Group> {
        let groups = self.findings(rule, suspects, now).filter_map(|(risk, finding)| match finding {
            Finding::Together { members, count, onset } => Some(Group { risk: risk.clone(), members, count, onset }),
            Finding::Undecided(_) => None,
        });
        // Of two that explain as much, the one that has less to do with others.
        groups.max_by_key(|group| (group.members.len(), Reverse(group.count), Reverse(group.risk.clone())))
    }

    fn undecided_pairs(&self, rule: usize, suspects: &BTreeMap<usize, Suspect>, now: Time) -> BTreeSet<usize> {
        let undecided = self.findings(rule, suspects, now).filter_map(|(_, finding)| match finding {
            Finding::Undecided(members) => Some(members),
            Finding::Together { .. } => None,
        });
        undecided.flatten().collect()
    }

    /// What each risk of the suspects comes to.
    fn findings<'a>(
        &'a self,
        rule: usize,
        suspects: &'a BTreeMap<usize, Suspect>,
        now: Time,
    ) -> impl Iterator<Item = (&'a SharedRisk, Finding)> {
        let state: &RuleState = &self.rules[rule];
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        for pair in suspects.keys() {
            self.pairs[*pair].risks.iter().for_each(|risk| *numbers.entry(*risk).or_default() += 1);
        }
        let needed = Needed { times: state.rule.times, is_pooled: state.rule.condition == Condition::Down };
        numbers.into_iter().filter(|(_, count)| *count >= 2).filter_map(move |(risk, _)| {
            let is_open = |pair: &&usize| state.covers[**pair] && !self.is_explained(rule, **pair);
            let (risk, pairs) = &self.risks[risk];
            let here: Vec<usize> = pairs.iter().filter(is_open).copied().collect();
            let last_good = |pair: usize| state.evidence[pair].last_good;
            assess_risk(suspects, &here, needed, last_good, now).map(|finding| (risk, finding))
        })
    }

    fn raise_group(&mut self, rule: usize, group: &Group, utc: Time, notices: &mut Vec<Notice>) {
        let widened = self.drop_own_alerts(rule, &group.members);
        let state = &self.rules[rule];
        let details = group.members.iter().map(|pair| state.evidence[*pair].detail.as_str());
        let detail = details.max_by_key(|detail| detail.len()).unwrap_or_default();
        let names: Vec<&str> = group.members.iter().map(|pair| self.pairs[*pair].pair.name.as_str()).collect();
        let text = shared_text(&state.rule.condition, &group.risk, &names, group.count, detail);
        let alert = self.new_alert(rule, Cause::Shared(group.risk.clone()), &group.members, text, utc);
        let mut standing = Standing {
            rule: Some(rule),
            onset: Some(group.onset),
            members: Member::from_pairs(&group.members),
            count: group.count,
            alert,
        };
        // The first alert on one of them turns out to be on more: it keeps its id; others of them end.
        let mut widened = widened.into_iter();
        let kind = match widened.next() {
            Some(first) => {
                (standing.alert.id, standing.alert.raised) = (first.alert.id, first.alert.raised);
                NoticeKind::Changed
            }
            None => NoticeKind::Raised,
        };
        notices.push(Notice { kind, alert: standing.alert.clone(), at: utc });
        notices.extend(widened.map(|other| Notice { kind: NoticeKind::Resolved, alert: other.alert, at: utc }));
        self.standing.push(standing);
    }

    fn raise_alone(&mut self, rule: usize, pair: usize, onset: (Time, Time), utc: Time, notices: &mut Vec<Notice>) {
        let (state, watched) = (&self.rules[rule], &self.pairs[pair].pair);
        let text = pair_text(&state.rule.condition, &watched.name, &state.evidence[pair].detail);
        let alert = self.new_alert(rule, Cause::Pair(watched.id.clone()), &[pair], text, utc);
        notices.push(Notice { kind: NoticeKind::Raised, alert: alert.clone(), at: utc });
        let members = Member::from_pairs(&[pair]);
        self.standing.push(Standing { alert, rule: Some(rule), onset: Some(onset), members, count: 1 });
    }

    /// Takes away the alerts of these pairs alone.
    fn drop_own_alerts(&mut self, rule: usize, pairs: &[usize]) -> Vec<Standing> {
        let is_own = |standing: &mut Standing| {
            let is_pair = matches!(standing.alert.cause, Cause::Pair(_));
            is_pair && standing.rule == Some(rule) && standing.members.iter().any(|one| pairs.contains(&one.pair))
        };
        self.standing.extract_if(.., is_own).collect()
    }

    /// A common alert says which pairs it stands for now.
    fn rewrite(&mut self, rule: usize, onset: (Time, Time)) {
        let is_it = |standing: &&mut Standing| standing.rule == Some(rule) && standing.onset == Some(onset);
        let Some(standing) = self.standing.iter_mut().find(is_it) else { return };
        let Cause::Shared(risk) = &standing.alert.cause else { return };
        let pairs = || standing.members.iter().map(|member| &self.pairs[member.pair].pair);
        let names: Vec<&str> = pairs().map(|pair| pair.name.as_str()).collect();
        let condition = &self.rules[rule].rule.condition;
        let text = shared_text(condition, risk, &names, standing.count.max(names.len()), "");
        standing.alert.pairs = pairs().map(|pair| pair.id.clone()).collect();
        standing.alert.text = text;
    }
}
