//! What the recorder knows becomes observations; what is decided becomes messages.

use super::message::{AlertMessage, notice_text};
use super::notifier::{Notifier, SendReport};
use super::notifier_error::NotifierError;
use super::reach::ReachTracker;
use super::state::AlertState;
use crate::config::{MonitorConfig, MonitoredTarget};
use crate::light::ProbeResult;
use crate::pair_recorder::PairRecorder;
use crate::status::{AlertStatus, AlertsStatus, LaneDelay, PairStatus, ReceiverStatus, RunFigure, RunStatus};
use kumade_alerts::{
    Alert, Alerting, Condition, DelayQuantile, Direction, Interval, Notice, NoticeKind, Outbox, RiskKind, SharedRisk,
    Silence, UsualInterval, Verdict, WatchedAgent, WatchedPair,
};
use kumade_units::{Rate, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Alerts on the pairs of a recorder, by their places.
#[derive(Debug)]
pub(crate) struct Alerter {
    monitor: String,
    alerting: Alerting,
    outbox: Outbox,
    notifiers: Vec<Notifier>,
    silences: Vec<Silence>,
    unannounced: BTreeSet<String>,
    /// Why the last attempt to tell a receiver failed.
    failures: BTreeMap<String, String>,
    pairs: Vec<PairMemory>,
    /// The minute in which figures were looked at last.
    minute: i64,
    last_update: Option<Time>,
    has_changed: bool,
}

/// What is remembered of a pair.
#[derive(Debug, Default)]
struct PairMemory {
    reach: ReachTracker,
    usual: BTreeMap<Direction, UsualInterval>,
    /// The id of the last measurement that was looked at.
    run: Option<i64>,
}

/// Longer without an update, the process has not run.
const MAX_PAUSE: Span = Span::from_secs(5);

impl Alerter {
    /// Goes on from what was stored. `report` is called on other threads with what came of messages.
    pub(crate) fn start(
        config: &MonitorConfig,
        stored: Option<&[u8]>,
        report: impl Fn(SendReport) + Clone + Send + 'static,
        now: Time,
        utc: Time,
    ) -> Result<Self, NotifierError> {
        let state = AlertState::read(stored);
        let settings = &config.alerts;
        let notifiers = settings.notifiers.iter().map(|notifier| Notifier::start(notifier, settings, report.clone()));
        let watched = config.targets.iter().enumerate();
        let watched = watched.map(|(place, target)| watched_pair(config, place, target)).collect();
        let rules = settings.rules.clone();
        Ok(Alerter {
            monitor: config.name.clone(),
            alerting: Alerting::new(rules, watched, state.alerts, now, utc).with_agents(watched_agents(config), now),
            outbox: Outbox::new(settings.notifiers.iter().map(|notifier| notifier.name.clone()), state.waiting),
            notifiers: notifiers.collect::<Result<_, _>>()?,
            silences: settings.silences.clone(),
            unannounced: state.unannounced,
            failures: BTreeMap::new(),
            pairs: config.targets.iter().map(|_| PairMemory::default()).collect(),
            minute: i64::MIN,
            last_update: None,
            has_changed: false,
        })
    }

    /// Whether an agent, by its place, is connected.
    pub(crate) fn set_agent(&mut self, agent: usize, is_connected: bool, now: Time) {
        self.alerting.set_agent(agent, is_connected, now);
    }

    /// Results of probes of a pair came.
    pub(crate) fn add_results(&mut self, pair: usize, results: &[ProbeResult], now: Time) {
        let probes = results.iter().map(|result| (result.sent, result.reply.is_ok()));
        self.add_probes(pair, probes, now);
    }

    /// Whether probes were answered, when they had been sent.
    pub(crate) fn add_probes(&mut self, pair: usize, probes: impl Iterator<Item = (Time, bool)>, now: Time) {
        let Some(memory) = self.pairs.get_mut(pair) else { return };
        probes.for_each(|(sent, is_answered)| memory.reach.add(sent, is_answered));
        self.alerting.set_heard(pair, now);
        self.alerting.set_reach(pair, &memory.reach.reach());
    }

    /// Earlier measurements of a pair, in any order.
    pub(crate) fn restore_usual(&mut self, pair: usize, runs: &[RunStatus]) {
        let Some(memory) = self.pairs.get_mut(pair) else { return };
        memory.run = runs.iter().map(|run| run.id).max().max(memory.run);
        let mut runs: Vec<_> = runs.iter().collect();
        runs.sort_by(|one, other| one.start_seconds.total_cmp(&other.start_seconds));
        runs.into_iter().for_each(|run| memory.record_usual(run));
    }

    /// Decides: `now` by the monotonic clock, `utc` the same moment by the clock of the day. Returns what has happened.
    pub(crate) fn update(
        &mut self,
        pairs: &[PairRecorder],
        archive_failure: Option<&str>,
        now: Time,
        utc: Time,
    ) -> Vec<(NoticeKind, Alert, String)> {
        if self.last_update.replace(now).is_some_and(|last| now - last > MAX_PAUSE) {
            self.alerting.resume(now);
        }
        for (place, pair) in pairs.iter().enumerate() {
            let unsent = pair.outage.as_ref().map(|outage| (now - (utc - outage.from), outage.cause.clone()));
            self.alerting.set_unsent(place, unsent);
            self.observe_run(place, pair.last_run.as_ref(), now);
        }
        let minute = now.as_nanos() / kumade_sketch::MINUTE_NANOS;
        if minute != self.minute {
            self.minute = minute;
            pairs.iter().enumerate().for_each(|(place, pair)| self.observe_minutes(place, &pair.status(), now));
        }
        self.alerting.set_archive_failure(archive_failure, now);
        let notices = self.alerting.update(now, utc);
        notices.iter().for_each(|notice| self.announce(notice));
        self.announce_late(utc);
        notices.into_iter().map(|notice| (notice.kind, notice.alert.clone(), notice_text(&notice))).collect()
    }

    /// What is to be stored before anything is sent; none where nothing has changed.
    pub(crate) fn unsaved(&self) -> Option<Vec<u8>> {
        self.has_changed.then(|| self.state())
    }

    /// What another one goes on from.
    pub(crate) fn state(&self) -> Vec<u8> {
        let state = AlertState {
            alerts: self.alerting.saved(),
            unannounced: self.unannounced.clone(),
            waiting: self.outbox.waiting().cloned().collect(),
        };
        state.to_bytes()
    }

    /// It is stored.
    pub(crate) fn set_saved(&mut self) {
        self.has_changed = false;
    }

    /// Has sent what is due.
    pub(crate) fn send_due(&mut self, now: Time, utc: Time) {
        for delivery in self.outbox.take_due(now, utc) {
            let receiver = delivery.receiver.clone();
            let notifier = self.notifiers.iter().find(|notifier| notifier.name == receiver);
            let sent = notifier.map_or(Ok(()), |notifier| notifier.send(delivery));
            if let Err(failure) = sent {
                self.take_report(SendReport { receiver, outcome: Err(failure) }, now);
            }
        }
    }

    /// What came of a message.
    pub(crate) fn take_report(&mut self, report: SendReport, now: Time) {
        let SendReport { receiver, outcome } = report;
        match &outcome {
            Ok(()) => drop(self.failures.remove(&receiver)),
            Err(failure) => {
                let reason = failure.reason.clone();
                if self.failures.insert(receiver.clone(), reason).is_none() {
                    tracing::warn!("cannot send an alert to {receiver}: it {}; it is tried again", failure.reason);
                }
            }
        }
        self.has_changed |= self.outbox.finish(&receiver, outcome, now);
    }

    /// Whether a message is under way.
    pub(crate) fn is_sending(&self) -> bool {
        self.outbox.is_sending()
    }

    pub(crate) fn status(&self, utc: Time) -> AlertsStatus {
        let standing = self.alerting.standing().map(|alert| AlertStatus {
            id: alert.id.clone(),
            rule: alert.rule.clone(),
            condition: alert.condition.clone(),
            pairs: alert.pairs.clone(),
            text: alert.text.clone(),
            raised_seconds: alert.raised.as_secs_f64(),
            is_silent: self.is_silent(alert, utc),
        });
        let receivers = self.notifiers.iter().map(|notifier| ReceiverStatus {
            name: notifier.name.clone(),
            waiting: self.outbox.waiting().filter(|delivery| delivery.receiver == notifier.name).count() as u64,
            failure: self.failures.get(&notifier.name).cloned(),
        });
        AlertsStatus { standing: standing.collect(), receivers: receivers.collect() }
    }

    /// Nobody is told of a silent alert before its silence ends, nor of the end of one that nobody was told of.
    fn announce(&mut self, notice: &Notice) {
        self.has_changed = true;
        let id = &notice.alert.id;
        match notice.kind {
            NoticeKind::Resolved if self.unannounced.remove(id) => return,
            NoticeKind::Raised if self.is_silent(&notice.alert, notice.at) => {
                self.unannounced.insert(id.clone());
                return;
            }
            NoticeKind::Changed if self.unannounced.contains(id) => return,
            NoticeKind::Raised | NoticeKind::Changed | NoticeKind::Resolved => {}
        }
        self.put_message(notice);
    }

    /// Tells of alerts whose silence has ended.
    fn announce_late(&mut self, utc: Time) {
        let is_late = |alert: &&Alert| self.unannounced.contains(&alert.id) && !self.is_silent(alert, utc);
        let late: Vec<Alert> = self.alerting.standing().filter(is_late).cloned().collect();
        for alert in late {
            self.unannounced.remove(&alert.id);
            self.has_changed = true;
            self.put_message(&Notice { kind: NoticeKind::Raised, alert, at: utc });
        }
    }

    fn put_message(&mut self, notice: &Notice) {
        let message = AlertMessage::from_notice(notice, &self.monitor);
        // Its parts always can be written.
        let body = serde_json::to_string(&message).unwrap_or_default();
        self.outbox.put_for_all(&message.id, &body, notice.at);
    }

    fn is_silent(&self, alert: &Alert, utc: Time) -> bool {
        self.silences.iter().any(|silence| silence.covers(&alert.pairs, utc))
    }

    fn observe_run(&mut self, place: usize, run: Option<&RunStatus>, now: Time) {
        let Some(memory) = self.pairs.get_mut(place) else { return };
        let Some(run) = run.filter(|run| memory.run.is_none_or(|last| run.id > last)) else { return };
        memory.run = Some(run.id);
        self.alerting.observe(place, now, |condition| memory.run_verdict(condition, run));
        memory.record_usual(run);
    }

    fn observe_minutes(&mut self, place: usize, status: &PairStatus, now: Time) {
        self.alerting.observe(place, now, |condition| match condition {
            Condition::Loss { above } => {
                let loss = status.loss?;
                let interval = Interval { value: loss.ratio, low: loss.low, high: loss.high };
                let [low, high, limit] = [loss.low, loss.high, *above].map(|ratio| ratio * 100.0);
                let text = format!("{low:.1} to {high:.1} % in the last 15 minutes, above {limit} %");
                Some((interval.above(*above), text))
            }
            Condition::Delay { quantile, above } => {
                let delays = status.delays.iter().map(|delay| delay_quantile(delay, *quantile));
                let verdicts = delays.map(|seconds| {
                    let text = format!("{} in the last 15 minutes, above {above}", Span::from_secs_f64(seconds));
                    (Interval::exact(seconds).above(above.as_secs_f64()), text)
                });
                worst(verdicts)
            }
            _ => None,
        });
    }
}

impl PairMemory {
    fn record_usual(&mut self, run: &RunStatus) {
        for (direction, interval) in known_figures(run) {
            self.usual.entry(direction).or_default().record(interval);
        }
    }

    /// What a measurement says of a condition; none where it says nothing.
    fn run_verdict(&self, condition: &Condition, run: &RunStatus) -> Option<(Verdict, String)> {
        let (wanted, below) = match condition {
            Condition::Available { direction, below } => (*direction, Some(*below)),
            Condition::Change { direction } => (*direction, None),
            _ => return None,
        };
        let figures = known_figures(run).filter(|(direction, _)| wanted.is_none_or(|wanted| wanted == *direction));
        worst(figures.filter_map(|(direction, interval)| {
            let word = if direction == Direction::Up { "to it" } else { "from it" };
            let (verdict, limit) = match below {
                Some(below) => (interval.below(below), format!("below {}", Rate::from_f64(below))),
                None => {
                    let usual = self.usual.get(&direction)?.interval()?;
                    (interval.disjoint_from(&usual), format!("usually {}", interval_text(&usual)))
                }
            };
            Some((verdict, format!("{} {word}, {limit}", interval_text(&interval))))
        }))
    }
}

/// What a pair has in common with others: the uplinks of its ends, and the declared links between them.
fn shared_risks(config: &MonitorConfig, place: usize) -> Vec<SharedRisk> {
    let risk = |kind, name: &str| SharedRisk { kind, name: name.to_owned() };
    let mut risks = match config.mesh.as_ref().and_then(|mesh| Some((mesh, mesh.pairs.get(place)?))) {
        Some((mesh, pair)) => {
            let ends = [pair.source, pair.target].into_iter().filter_map(|end| mesh.agents.get(end));
            let links = pair.links.iter().filter_map(|link| mesh.links.get(*link));
            let links = links.map(|link| risk(RiskKind::Link, &link.name));
            // A host may have lost one version of IP.
            let families = pair.family.filter(|_| pair.is_of_two);
            let families = families.map(|family| ends.clone().map(move |end| format!("{} ({family})", end.name)));
            let families = families.into_iter().flatten().map(|name| risk(RiskKind::Host, &name));
            let ends = ends.map(|end| risk(RiskKind::Host, &end.name));
            ends.chain(families.collect::<Vec<_>>()).chain(links).collect()
        }
        None => vec![risk(RiskKind::Host, &config.name), risk(RiskKind::Host, &config.targets[place].host)],
    };
    risks.dedup();
    risks
}

fn watched_agents(config: &MonitorConfig) -> Vec<WatchedAgent> {
    let Some(mesh) = &config.mesh else { return Vec::new() };
    let own = mesh.own_agent.map(|own| own.place);
    let agents = mesh.agents.iter().enumerate();
    let watched = agents.map(|(place, agent)| WatchedAgent {
        id: agent.id.clone(),
        name: agent.name.clone(),
        is_remote: own != Some(place),
    });
    watched.collect()
}

fn watched_pair(config: &MonitorConfig, place: usize, target: &MonitoredTarget) -> WatchedPair {
    let pair = config.mesh.as_ref().and_then(|mesh| mesh.pairs.get(place));
    WatchedPair {
        id: target.id.clone(),
        name: target.name.clone(),
        interval: target.light.interval,
        lost_after: target.light.limits.lost_after,
        period: target.measurement.as_ref().map(|measurement| measurement.period),
        risks: shared_risks(config, place),
        agents: pair.map(|pair| [pair.source, pair.target]),
    }
}

fn known_figures(run: &RunStatus) -> impl Iterator<Item = (Direction, Interval)> {
    let figures = [(Direction::Up, &run.up), (Direction::Down, &run.down)];
    figures.into_iter().filter_map(|(direction, figure)| match figure {
        Some(RunFigure::Known { value, low, high }) => {
            Some((direction, Interval { value: *value, low: *low, high: *high }))
        }
        _ => None,
    })
}

fn interval_text(interval: &Interval) -> String {
    let [low, high] = [interval.low, interval.high].map(Rate::from_f64);
    format!("{low} to {high}")
}

fn delay_quantile(delay: &LaneDelay, quantile: DelayQuantile) -> f64 {
    match quantile {
        DelayQuantile::Median => delay.median_seconds,
        DelayQuantile::Percent95 => delay.quantile_95_seconds,
    }
}

/// Bad if one is, good if all are; none if there is none.
fn worst(verdicts: impl Iterator<Item = (Verdict, String)>) -> Option<(Verdict, String)> {
    let rank = |verdict| match verdict {
        Verdict::Bad => 2,
        Verdict::Unsure => 1,
        Verdict::Good => 0,
    };
    verdicts.max_by_key(|(verdict, _)| rank(*verdict))
}
