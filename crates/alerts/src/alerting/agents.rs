//! Agents of which nothing is heard: one alert for each, or one for the coordinator's own connection where all are silent.

use super::{AgentState, Alerting, Member, PairState, Standing};
use crate::alert::{Alert, Cause, Notice, NoticeKind};
use crate::pair::WatchedAgent;
use crate::rule::Condition;
use crate::text::{all_agents_text, pair_text};
use kumade_units::{Span, Time};
use std::collections::BTreeSet;

/// An agent that is started anew, or whose coordinator is, connects again within half of it.
const SILENCE: Span = Span::from_secs(60);
/// An agent that connects and goes again is not back.
const HOLD: Span = Span::from_secs(10);
/// An agent whose connection hangs is known to be silent after so long.
const DETECTION: Span = Span::from_secs(40);

impl Alerting {
    /// Who probes: pairs name them by their places.
    pub fn with_agents(mut self, agents: Vec<WatchedAgent>, now: Time) -> Self {
        self.agents = agents.into_iter().map(|agent| AgentState { agent, is_heard: false, since: now }).collect();
        self
    }

    /// Whether an agent is connected.
    pub fn set_agent(&mut self, agent: usize, is_heard: bool, now: Time) {
        let Some(state) = self.agents.get_mut(agent).filter(|state| state.is_heard != is_heard) else { return };
        (state.is_heard, state.since) = (is_heard, now);
        if is_heard {
            // What it has not told meanwhile says nothing.
            let own = self.pairs.iter_mut().filter(|pair| pair.prober() == Some(agent));
            own.for_each(|pair| pair.heard = pair.heard.max(now));
        }
        self.next_silence_check = Time::ZERO;
    }

    /// Whether the agent that probes a pair is silent, and there is an alert for that.
    pub(super) fn is_prober_silent(&self, pair: &PairState) -> bool {
        let prober = pair.prober().and_then(|prober| self.agents.get(prober));
        prober.is_some_and(|state| !state.is_heard) && self.agent_rule().is_some()
    }

    pub(super) fn update_agents(&mut self, now: Time, utc: Time, notices: &mut Vec<Notice>) {
        let Some(rule) = self.agent_rule() else { return };
        let is_back = |state: &AgentState| state.is_heard && now - state.since >= HOLD;
        let is_over = |standing: &mut Standing| match &standing.alert.cause {
            Cause::Agent(id) => self.agents.iter().find(|state| state.agent.id == *id).is_none_or(is_back),
            Cause::AllAgents => self.agents.iter().any(|state| state.agent.is_remote && is_back(state)),
            _ => false,
        };
        let over: Vec<Standing> = self.standing.extract_if(.., is_over).collect();
        notices.extend(over.into_iter().map(|standing| Notice {
            kind: NoticeKind::Resolved,
            alert: standing.alert,
            at: utc,
        }));
        let remote: Vec<usize> = (0..self.agents.len()).filter(|agent| self.agents[*agent].agent.is_remote).collect();
        let ripe = |agent: &&usize| self.agents[**agent].is_silent() && now - self.agents[**agent].since >= SILENCE;
        let ripe: Vec<usize> = remote.iter().filter(ripe).copied().collect();
        let is_all_standing = self.standing.iter().any(|standing| standing.alert.cause == Cause::AllAgents);
        if ripe.is_empty() || is_all_standing {
            return;
        }
        if remote.len() > 1 && remote.iter().all(|agent| self.agents[*agent].is_silent()) {
            if !self.is_own_host_down() {
                self.raise_all_agents(rule, remote.len(), utc, notices);
            }
            return;
        }
        for agent in ripe {
            let (cause, name) = (self.agents[agent].agent.cause(), self.agents[agent].agent.name.clone());
            if self.standing.iter().any(|standing| standing.alert.cause == cause) || self.is_agent_down(agent) {
                continue;
            }
            let members = self.probed_by(|prober| prober == agent);
            let text = pair_text(&self.rules[rule].rule.condition, &name, "");
            let alert = self.new_alert(rule, cause, &members, text, utc);
            notices.push(Notice { kind: NoticeKind::Raised, alert: alert.clone(), at: utc });
            self.standing.push(Standing::for_agents(alert, rule, &members));
        }
    }

    /// What stands for single agents turns out to be more.
    fn raise_all_agents(&mut self, rule: usize, count: usize, utc: Time, notices: &mut Vec<Notice>) {
        let singles = self.standing.extract_if(.., |standing| is_agent_cause(&standing.alert.cause));
        let mut singles = singles.collect::<Vec<_>>().into_iter();
        let members = self.probed_by(|prober| self.agents[prober].agent.is_remote);
        let mut alert = self.new_alert(rule, Cause::AllAgents, &members, all_agents_text(count), utc);
        let mut kind = NoticeKind::Raised;
        if let Some(first) = singles.next() {
            (alert.id, alert.raised, kind) = (first.alert.id, first.alert.raised, NoticeKind::Changed);
        }
        notices.push(Notice { kind, alert: alert.clone(), at: utc });
        self.standing.push(Standing::for_agents(alert, rule, &members));
        notices.extend(singles.map(|other| Notice { kind: NoticeKind::Resolved, alert: other.alert, at: utc }));
    }

    fn agent_rule(&self) -> Option<usize> {
        self.rules.iter().position(|rule| rule.rule.condition == Condition::AgentSilent)
    }

    /// Pairs that are probed by such agents.
    fn probed_by(&self, is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
        let pairs = self.pairs.iter().enumerate();
        pairs.filter(|(_, pair)| pair.prober().is_some_and(&is_meant)).map(|(number, _)| number).collect()
    }

    /// Whether all others who probe an agent find it down: then that alert says it.
    fn is_agent_down(&self, agent: usize) -> bool {
        let is_heard = |pair: &PairState| pair.prober().is_some_and(|prober| self.agents[prober].is_heard);
        let pairs = self.pairs.iter().enumerate().filter(|(_, pair)| pair.answering() == Some(agent) && is_heard(pair));
        self.are_down(pairs.map(|(number, _)| number))
    }

    /// Whether all that the coordinator's own host probes is down: then that alert says it.
    fn is_own_host_down(&self) -> bool {
        self.are_down(self.probed_by(|prober| !self.agents[prober].agent.is_remote).into_iter())
    }

    /// Whether there are any pairs, and alerts say that all of them are down.
    fn are_down(&self, pairs: impl Iterator<Item = usize>) -> bool {
        let is_rule = |rule: usize| self.rules[rule].rule.condition == Condition::Down;
        let down = self.standing.iter().filter(|standing| standing.rule.is_some_and(is_rule));
        let down: BTreeSet<usize> = down.flat_map(|standing| &standing.members).map(|member| member.pair).collect();
        let mut pairs = pairs.peekable();
        pairs.peek().is_some() && pairs.all(|pair| down.contains(&pair))
    }
}

fn is_agent_cause(cause: &Cause) -> bool {
    matches!(cause, Cause::Agent(_) | Cause::AllAgents)
}

impl WatchedAgent {
    fn cause(&self) -> Cause {
        Cause::Agent(self.id.clone())
    }
}

impl Standing {
    fn for_agents(alert: Alert, rule: usize, members: &[usize]) -> Self {
        Standing { alert, rule: Some(rule), onset: None, members: Member::from_pairs(members), count: members.len() }
    }
}

impl AgentState {
    fn is_silent(&self) -> bool {
        !self.is_heard
    }
}

impl PairState {
    /// The place of the agent that probes it.
    pub(super) fn prober(&self) -> Option<usize> {
        self.pair.agents.map(|[prober, _]| prober)
    }

    fn answering(&self) -> Option<usize> {
        self.pair.agents.map(|[_, answering]| answering)
    }

    /// Longer than without an agent, which may be what is silent.
    pub(super) fn detection_time(&self) -> Span {
        if self.pair.agents.is_some() { DETECTION } else { Span::ZERO }
    }
}
