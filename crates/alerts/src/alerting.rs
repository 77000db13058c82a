//! The state machine: evidence becomes alerts, alerts are resolved.

mod agents;
mod raising;
mod resolving;

use crate::alert::{Alert, Cause, Notice, NoticeKind, SavedAlerts};
use crate::evidence::Evidence;
use crate::interval::Verdict;
use crate::pair::{Reach, SharedRisk, WatchedAgent, WatchedPair};
use crate::rule::{Condition, Rule};
use crate::text::pair_text;
use kumade_units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What is alerted on, and which alerts stand.
#[derive(Debug)]
pub struct Alerting {
    rules: Vec<RuleState>,
    pairs: Vec<PairState>,
    agents: Vec<AgentState>,
    /// Each with its pairs.
    risks: Vec<(SharedRisk, Vec<usize>)>,
    standing: Vec<Standing>,
    /// Ids begin with it, so that they differ from those of earlier runs.
    id_prefix: String,
    next_number: u64,
    next_silence_check: Time,
    failure: FailureState,
}

#[derive(Debug)]
struct RuleState {
    rule: Rule,
    /// Which pairs it is about.
    covers: Vec<bool>,
    /// How many.
    covered: usize,
    evidence: Vec<Evidence>,
    /// Pairs with bad observations.
    suspects: BTreeSet<usize>,
}

#[derive(Debug)]
struct PairState {
    pair: WatchedPair,
    /// By their places.
    risks: Vec<usize>,
    /// When its last result came, by the monotonic clock; or when it began to be watched.
    heard: Time,
    /// Since when no probe can be sent, and why.
    unsent: Option<(Time, String)>,
    /// Figures of the last minutes have an outage in them until then.
    masked_until: Option<Time>,
}

/// What is known of an agent.
#[derive(Debug)]
struct AgentState {
    agent: WatchedAgent,
    is_heard: bool,
    /// Since when that is so.
    since: Time,
}

#[derive(Debug)]
struct Standing {
    alert: Alert,
    /// None for one of an earlier run whose rule is gone.
    rule: Option<usize>,
    /// When its pairs began to fail; none for one of an earlier run.
    onset: Option<(Time, Time)>,
    members: Vec<Member>,
    /// Of how many that could have failed.
    count: usize,
}

#[derive(Debug)]
struct Member {
    pair: usize,
    recovered_since: Option<Time>,
}

/// What cannot be archived.
#[derive(Debug, Default)]
struct FailureState {
    reason: Option<String>,
    /// Since when it is as it is.
    since: Option<Time>,
}

/// Lost probes from which the last minutes' figures say nothing but that.
const MIN_MASKING_LOSSES: u32 = 3;
/// For how long an outage is in the figures of the last 15 minutes, which are counted in whole ones.
const MASK: Span = Span::from_secs(16 * 60);
/// An archive that fails for a shorter time, or works again for a shorter time, is not worth an alert.
const FAILURE_HOLD: Span = Span::from_secs(10);
/// Intervals without a probe sent, for a known reason, that count as the longest silence does without one.
const MAX_UNSENT_INTERVALS: i64 = 3;
/// Intervals from which silence is suspicious: no two probes are farther apart than four.
const MIN_SILENT_INTERVALS: i64 = 5;

impl Alerting {
    /// Goes on from what stood before: `now` by the monotonic clock, `utc` the same moment by the clock of the day.
    pub fn new(rules: Vec<Rule>, pairs: Vec<WatchedPair>, saved: SavedAlerts, now: Time, utc: Time) -> Self {
        let mut risks: BTreeMap<SharedRisk, Vec<usize>> = BTreeMap::new();
        for (number, pair) in pairs.iter().enumerate() {
            pair.risks.iter().for_each(|risk| risks.entry(risk.clone()).or_default().push(number));
        }
        let rules: Vec<RuleState> = rules.into_iter().map(|rule| RuleState::new(rule, &pairs)).collect();
        let restored = saved.standing.into_iter().map(|alert| Standing::restored(alert, &rules, &pairs));
        let standing = restored.collect();
        let risks: Vec<(SharedRisk, Vec<usize>)> = risks.into_iter().collect();
        let watch = |(number, pair): (usize, WatchedPair)| {
            let own = risks.iter().enumerate().filter(|(_, (_, pairs))| pairs.contains(&number));
            let risks = own.map(|(risk, _)| risk).collect();
            PairState { pair, risks, heard: now, unsent: None, masked_until: None }
        };
        Alerting {
            pairs: pairs.into_iter().enumerate().map(watch).collect(),
            agents: Vec::new(),
            risks,
            standing,
            rules,
            id_prefix: format!("{:x}", utc.as_nanos()),
            next_number: 1,
            next_silence_check: now,
            failure: FailureState::default(),
        }
    }

    /// What is known of a pair's probes has changed.
    pub fn set_reach(&mut self, pair: usize, reach: &Reach) {
        let Some(state) = self.pairs.get_mut(pair) else { return };
        if reach.lost_in_a_row >= MIN_MASKING_LOSSES {
            state.masked_until = reach.lost.map(|(_, last)| last + MASK).max(state.masked_until);
        }
        for rule in self.rules.iter_mut().filter(|rule| matches!(rule.rule.condition, Condition::Down)) {
            if rule.covers[pair] {
                rule.evidence[pair].set_reach(reach);
                rule.update_suspect(pair);
            }
        }
    }

    /// A result of a probe of the pair came, whatever it is.
    pub fn set_heard(&mut self, pair: usize, now: Time) {
        if let Some(state) = self.pairs.get_mut(pair) {
            state.heard = state.heard.max(now);
        }
    }

    /// No probe of the pair can be sent since then, for this reason; or one can. What is heard since then counts as it is.
    pub fn set_unsent(&mut self, pair: usize, unsent: Option<(Time, String)>) {
        let reason = |unsent: &Option<(Time, String)>| unsent.as_ref().map(|(_, reason)| reason.clone());
        if let Some(state) = self.pairs.get_mut(pair).filter(|state| reason(&state.unsent) != reason(&unsent)) {
            for rule in self.rules.iter_mut().filter(|rule| rule.rule.condition == Condition::Down) {
                rule.evidence[pair].detail = reason(&unsent).unwrap_or_default();
            }
            state.unsent = unsent;
            self.next_silence_check = Time::ZERO;
        }
    }

    /// Nothing can be archived, for this reason; or all can.
    pub fn set_archive_failure(&mut self, reason: Option<&str>, now: Time) {
        if self.failure.since.is_none() || self.failure.reason.is_some() != reason.is_some() {
            self.failure.since = Some(now);
        }
        self.failure.reason = reason.map(str::to_owned);
    }

    /// Observes each rule's figure of a pair: `figure` says for a condition what it comes to, with what to tell where it is bad. None
    /// for conditions that this observation says nothing of. While probes are lost, and until that is no longer in the last minutes'
    /// figures, those say nothing.
    pub fn observe(&mut self, pair: usize, now: Time, figure: impl Fn(&Condition) -> Option<(Verdict, String)>) {
        let Some(state) = self.pairs.get(pair) else { return };
        let is_masked = state.masked_until.is_some_and(|until| now < until);
        for rule in self.rules.iter_mut().filter(|rule| rule.covers[pair]) {
            let is_recent = matches!(rule.rule.condition, Condition::Loss { .. } | Condition::Delay { .. });
            let Some((verdict, detail)) = figure(&rule.rule.condition).filter(|_| !(is_masked && is_recent)) else {
                continue;
            };
            let evidence = &mut rule.evidence[pair];
            evidence.observe(now, verdict, rule.rule.out_of);
            if verdict == Verdict::Bad {
                evidence.detail = detail;
            }
            rule.update_suspect(pair);
        }
    }

    /// The program has not run for a while: that nothing was heard meanwhile says nothing.
    pub fn resume(&mut self, now: Time) {
        self.pairs.iter_mut().for_each(|pair| pair.heard = now);
    }

    /// Decides; returns what people are to be told. To be called every second or so while anything is observed.
    pub fn update(&mut self, now: Time, utc: Time) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.check_silence(now);
        self.update_failure(now, utc, &mut notices);
        self.resolve(now, utc, &mut notices);
        (0..self.rules.len()).for_each(|rule| self.raise(rule, now, utc, &mut notices));
        // What others find is told of first.
        self.update_agents(now, utc, &mut notices);
        notices
    }

    /// The alerts that stand, the oldest first.
    pub fn standing(&self) -> impl Iterator<Item = &Alert> {
        self.standing.iter().map(|standing| &standing.alert)
    }

    /// What is to be kept over a restart.
    pub fn saved(&self) -> SavedAlerts {
        SavedAlerts { standing: self.standing().cloned().collect() }
    }

    fn check_silence(&mut self, now: Time) {
        if now < self.next_silence_check {
            return;
        }
        let mut next = Time::MAX;
        for state in &self.pairs {
            next = next.min(state.suspicious_silence());
        }
        self.next_silence_check = next.max(now + FAILURE_HOLD / 10);
        let silent: Vec<bool> = self.pairs.iter().map(|pair| self.is_prober_silent(pair)).collect();
        for rule in self.rules.iter_mut().filter(|rule| matches!(rule.rule.condition, Condition::NoData)) {
            for (number, state) in self.pairs.iter().enumerate() {
                if !rule.covers[number] {
                    continue;
                }
                let evidence = &mut rule.evidence[number];
                if silent[number] {
                    evidence.set_reach(&Reach { answered: Some(state.heard), ..Reach::default() });
                    rule.update_suspect(number);
                    continue;
                }
                if evidence.suspicion.is_none() && now < state.suspicious_silence() {
                    evidence.last_good = Some(state.heard);
                    continue;
                }
                evidence.set_reach(&state.silence(rule.rule.times, now));
                evidence.detail = state.unsent.as_ref().map(|(_, reason)| reason.clone()).unwrap_or_default();
                rule.update_suspect(number);
            }
        }
    }

    fn update_failure(&mut self, now: Time, utc: Time, notices: &mut Vec<Notice>) {
        let is_rule = |rule: &RuleState| matches!(rule.rule.condition, Condition::NotArchived);
        let Some(place) = self.rules.iter().position(is_rule) else { return };
        if self.failure.since.is_none_or(|since| now - since < FAILURE_HOLD) {
            return;
        }
        let known = self.standing.iter().position(|standing| standing.alert.cause == Cause::Archive);
        match (&self.failure.reason, known) {
            (Some(reason), None) => {
                let rule = &self.rules[place].rule;
                let text = pair_text(&rule.condition, "the archive", reason);
                let standing = Standing {
                    alert: self.new_alert(place, Cause::Archive, &[], text, utc),
                    rule: Some(place),
                    onset: None,
                    members: Vec::new(),
                    count: 0,
                };
                notices.push(Notice { kind: NoticeKind::Raised, alert: standing.alert.clone(), at: utc });
                self.standing.push(standing);
            }
            (None, Some(known)) => {
                let alert = self.standing.remove(known).alert;
                notices.push(Notice { kind: NoticeKind::Resolved, alert, at: utc });
            }
            _ => {}
        }
    }

    fn new_alert(&mut self, rule: usize, cause: Cause, members: &[usize], text: String, utc: Time) -> Alert {
        let number = self.next_number;
        self.next_number += 1;
        let rule = &self.rules[rule].rule;
        Alert {
            id: format!("{}-{number}", self.id_prefix),
            rule: rule.name.clone(),
            condition: rule.condition.word().to_owned(),
            cause,
            pairs: members.iter().map(|pair| self.pairs[*pair].pair.id.clone()).collect(),
            raised: utc,
            text,
        }
    }
}

impl RuleState {
    fn new(rule: Rule, pairs: &[WatchedPair]) -> Self {
        let is_covered = |pair: &WatchedPair| rule.pairs.as_ref().is_none_or(|ids| ids.contains(&pair.id));
        let covers: Vec<bool> = pairs.iter().map(is_covered).collect();
        RuleState {
            covered: covers.iter().filter(|is_covered| **is_covered).count(),
            covers,
            evidence: vec![Evidence::default(); pairs.len()],
            suspects: BTreeSet::new(),
            rule,
        }
    }

    fn update_suspect(&mut self, pair: usize) {
        match self.evidence[pair].suspicion {
            Some(_) => self.suspects.insert(pair),
            None => self.suspects.remove(&pair),
        };
    }
}

impl PairState {
    /// Since when no probe can be sent, if nothing was heard since.
    fn unsent_since(&self) -> Option<Time> {
        self.unsent.as_ref().map(|(since, _)| *since).filter(|since| self.heard <= *since)
    }

    /// When silence begins to be suspicious.
    fn suspicious_silence(&self) -> Time {
        match self.unsent_since() {
            Some(since) => since,
            None => {
                self.heard + self.pair.interval * MIN_SILENT_INTERVALS + self.pair.lost_after + self.detection_time()
            }
        }
    }

    /// Silence, as intervals without a result.
    fn silence(&self, times: u32, now: Time) -> Reach {
        let intervals = |span: Span| span.as_nanos() / self.pair.interval.as_nanos().max(1);
        let (since, count) = match self.unsent_since() {
            Some(since) => (since, intervals(now - since) * i64::from(times) / MAX_UNSENT_INTERVALS),
            None => (self.heard, intervals(now - self.heard - self.pair.lost_after)),
        };
        let is_suspicious = now >= self.suspicious_silence() && count > 0;
        Reach {
            lost_in_a_row: if is_suspicious { count.min(i64::from(times)) as u32 } else { 0 },
            lost: is_suspicious.then_some((since, now)),
            answered: Some(since),
        }
    }
}

impl Standing {
    fn restored(alert: Alert, rules: &[RuleState], pairs: &[WatchedPair]) -> Self {
        let rule = rules.iter().position(|rule| rule.rule.name == alert.rule);
        let known = |id: &String| pairs.iter().position(|pair| pair.id == *id);
        let covered = |pair: &usize| rule.is_some_and(|rule| rules[rule].covers[*pair]);
        let members: Vec<Member> = alert
            .pairs
            .iter()
            .filter_map(known)
            .filter(covered)
            .map(|pair| Member { pair, recovered_since: None })
            .collect();
        Standing { count: members.len(), alert, rule, onset: None, members }
    }
}
