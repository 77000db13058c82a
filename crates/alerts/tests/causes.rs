//! Which alerts come of what fails: a mesh of sites with links, figures of minutes and measurements, restarts.

use kumade_alerts::{
    Alert, Alerting, Cause, Condition, Direction, Interval, Notice, NoticeKind, Reach, RiskKind, Rule, SavedAlerts,
    SharedRisk, UsualInterval, WatchedAgent, WatchedPair,
};
use kumade_units::{Span, Time};

fn after(seconds: i64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn risk(kind: RiskKind, name: &str) -> SharedRisk {
    SharedRisk { kind, name: name.to_owned() }
}

fn pair(id: &str, risks: Vec<SharedRisk>) -> WatchedPair {
    WatchedPair {
        id: id.to_owned(),
        name: id.to_owned(),
        interval: Span::from_secs(1),
        lost_after: Span::from_secs(4),
        period: Some(Span::from_secs(600)),
        risks,
        agents: None,
    }
}

/// All ordered pairs of these sites; those between an upper-case and a lower-case one pass one link.
fn mesh(sites: &str) -> Vec<WatchedPair> {
    let mut pairs = Vec::new();
    for one in sites.chars() {
        for other in sites.chars().filter(|other| *other != one) {
            let mut risks = [one, other].map(|site| risk(RiskKind::Host, &site.to_string())).to_vec();
            if one.is_uppercase() != other.is_uppercase() {
                risks.push(risk(RiskKind::Link, "sea"));
            }
            pairs.push(pair(&format!("{one}{other}"), risks));
        }
    }
    pairs
}

/// Probes each second, whose answers are seen at once and whose losses are seen a second later.
struct Driver {
    alerting: Alerting,
    pairs: Vec<WatchedPair>,
    reaches: Vec<Reach>,
    second: i64,
    notices: Vec<Notice>,
    /// Nothing is heard of this one.
    mute: Option<usize>,
}

impl Driver {
    fn new(pairs: Vec<WatchedPair>, saved: SavedAlerts, second: i64) -> Self {
        let alerting = Alerting::new(Rule::defaults(), pairs.clone(), saved, after(second), after(second));
        Driver {
            alerting,
            reaches: vec![Reach::default(); pairs.len()],
            pairs,
            second,
            notices: Vec::new(),
            mute: None,
        }
    }

    /// So many seconds, in which these pairs answer.
    fn run(&mut self, seconds: i64, answers: impl Fn(&str) -> bool) -> &mut Self {
        for _ in 0..seconds {
            self.second += 1;
            for (place, pair) in self.pairs.iter().enumerate().filter(|(place, _)| self.mute != Some(*place)) {
                let reach = &mut self.reaches[place];
                if answers(&pair.id) {
                    *reach = Reach { answered: Some(after(self.second)), ..Reach::default() };
                } else {
                    let sent = after(self.second - 1);
                    reach.lost_in_a_row += 1;
                    reach.lost = Some((reach.lost.map_or(sent, |(first, _)| first), sent));
                }
                self.alerting.set_heard(place, after(self.second));
                self.alerting.set_reach(place, reach);
            }
            self.notices.extend(self.alerting.update(after(self.second), after(self.second)));
        }
        self
    }

    fn take(&mut self) -> Vec<(NoticeKind, Cause, usize)> {
        let notices = self.notices.drain(..);
        notices.map(|notice| (notice.kind, notice.alert.cause, notice.alert.pairs.len())).collect()
    }

    fn standing(&self) -> Vec<Alert> {
        self.alerting.standing().cloned().collect()
    }
}

fn host(name: &str) -> Cause {
    Cause::Shared(risk(RiskKind::Host, name))
}

#[test]
fn a_site_a_link_and_a_pair_are_told_apart() {
    let mut mesh = Driver::new(mesh("ABCxyz"), SavedAlerts::default(), 0);
    mesh.run(60, |_| true);
    assert_eq!(mesh.take(), []);
    // A site: ten pairs, to and from it.
    mesh.run(30, |id| !id.contains('B'));
    assert_eq!(mesh.take(), [(NoticeKind::Raised, host("B"), 10)]);
    mesh.run(30, |_| true);
    assert_eq!(mesh.take(), [(NoticeKind::Resolved, host("B"), 10)]);
    // A link, which parts half of the sites from the others.
    let is_over_sea = |id: &str| id.chars().any(char::is_uppercase) && id.chars().any(char::is_lowercase);
    mesh.run(30, |id| !is_over_sea(id));
    let link = Cause::Shared(risk(RiskKind::Link, "sea"));
    assert_eq!(mesh.take(), [(NoticeKind::Raised, link.clone(), 18)]);
    // Then also a site at one end of it: its other pairs are a second cause.
    mesh.run(30, |id| !is_over_sea(id) && !id.contains('A'));
    assert_eq!(mesh.take(), [(NoticeKind::Raised, host("A"), 4)]);
    mesh.run(30, |_| true);
    let mut ended = mesh.take();
    ended.sort_by_key(|(_, _, pairs)| *pairs);
    assert_eq!(ended, [(NoticeKind::Resolved, host("A"), 4), (NoticeKind::Resolved, link, 18)]);
    // One pair.
    mesh.run(30, |id| id != "Ax").run(30, |_| true);
    let own = Cause::Pair("Ax".to_owned());
    assert_eq!(mesh.take(), [(NoticeKind::Raised, own.clone(), 1), (NoticeKind::Resolved, own, 1)]);
}

fn star(targets: usize) -> Vec<WatchedPair> {
    (0..targets).map(|number| pair(&format!("target {number}"), vec![risk(RiskKind::Host, "here")])).collect()
}

#[test]
fn an_uplink_is_one_cause_also_where_a_target_on_this_side_answers() {
    let mut here = Driver::new(star(20), SavedAlerts::default(), 0);
    here.run(60, |_| true).run(40, |id| id == "target 7");
    assert_eq!(here.take(), [(NoticeKind::Raised, host("here"), 19)]);
    here.run(40, |_| true);
    assert_eq!(here.take(), [(NoticeKind::Resolved, host("here"), 19)]);
}

#[test]
fn two_paths_that_fail_at_different_times_are_two_causes() {
    let mut here = Driver::new(star(2), SavedAlerts::default(), 0);
    here.run(60, |_| true).run(60, |id| id != "target 0");
    assert_eq!(here.take(), [(NoticeKind::Raised, Cause::Pair("target 0".to_owned()), 1)]);
    // None answers now, and still it is the other one that has failed.
    here.run(60, |_| false);
    assert_eq!(here.take(), [(NoticeKind::Raised, Cause::Pair("target 1".to_owned()), 1)]);
    here.run(60, |_| true);
    assert_eq!(here.take().len(), 2);
}

#[test]
fn what_stays_down_after_its_uplink_has_come_back_has_an_alert_of_its_own() {
    let mut here = Driver::new(star(5), SavedAlerts::default(), 0);
    here.run(60, |_| true).run(60, |_| false);
    assert_eq!(here.take(), [(NoticeKind::Raised, host("here"), 5)]);
    here.run(60, |id| id != "target 3");
    let own = Cause::Pair("target 3".to_owned());
    assert_eq!(here.take(), [(NoticeKind::Resolved, host("here"), 5), (NoticeKind::Raised, own, 1)]);
}

#[test]
fn a_path_that_flaps_is_one_alert() {
    let mut here = Driver::new(star(5), SavedAlerts::default(), 0);
    here.run(60, |_| true);
    for _ in 0..20 {
        here.run(12, |id| id != "target 3").run(6, |_| true);
    }
    here.run(60, |_| true);
    assert_eq!(here.take().len(), 2, "raised and resolved");
}

#[test]
fn what_stands_is_not_raised_again_by_the_next_run_and_ends_in_it() {
    let mut here = Driver::new(star(5), SavedAlerts::default(), 0);
    here.run(60, |_| true).run(30, |id| id != "target 3");
    let standing = here.standing();
    // As it is stored.
    let saved = serde_json::to_string(&here.alerting.saved()).unwrap();
    let restored = || serde_json::from_str(&saved).unwrap();
    let mut again = Driver::new(star(5), restored(), 200);
    again.run(120, |id| id != "target 3");
    assert_eq!((again.take(), again.standing()), (vec![], standing));
    again.run(30, |_| true);
    assert_eq!(again.take(), [(NoticeKind::Resolved, Cause::Pair("target 3".to_owned()), 1)]);
    // It is no longer watched.
    let mut fewer = Driver::new(star(3), restored(), 200);
    fewer.run(2, |_| true);
    assert_eq!(fewer.take().len(), 1);
    // Another alert has another id.
    again.run(30, |id| id != "target 2");
    assert_ne!(again.standing()[0].id, here.standing()[0].id);
}

#[test]
fn silence_is_no_data_unless_the_program_did_not_run() {
    let mut here = Driver::new(star(5), SavedAlerts::default(), 0);
    here.run(60, |_| true);
    here.alerting.resume(after(5000));
    assert_eq!(here.alerting.update(after(5000), after(5000)), []);
    let raised: Vec<_> = (5001..5030).flat_map(|second| here.alerting.update(after(second), after(second))).collect();
    assert_eq!(raised.len(), 1, "{raised:?}");
    assert_eq!((raised[0].alert.condition.as_str(), &raised[0].alert.cause), ("no-data", &host("here")));
    here.second = 5030;
    here.run(30, |_| true);
    assert_eq!(here.take(), [(NoticeKind::Resolved, host("here"), 5)]);
    // With a reason, sooner.
    here.mute = Some(1);
    here.alerting.set_unsent(1, Some((after(5060), "no route".to_owned())));
    here.run(20, |_| true);
    let (kind, alert) = (here.notices[0].kind, &here.notices[0].alert);
    assert_eq!((kind, alert.pairs.len()), (NoticeKind::Raised, 1));
    assert!(alert.text.contains("no route"), "{}", alert.text);
}

/// Looks at figures once a minute.
fn minutes(driver: &mut Driver, count: i64, loss: impl Fn(usize) -> Interval) {
    for _ in 0..count {
        driver.run(60, |_| true);
        let now = after(driver.second);
        for place in 0..driver.pairs.len() {
            driver.alerting.observe(place, now, |condition| match condition {
                Condition::Loss { above } => Some((loss(place).above(*above), "much".to_owned())),
                _ => None,
            });
        }
    }
    driver.run(1, |_| true);
}

#[test]
fn loss_counts_where_its_whole_interval_is_above_and_ends_where_the_value_is_below() {
    let sure = Interval { value: 0.1, low: 0.07, high: 0.14 };
    let unsure = Interval { value: 0.08, low: 0.04, high: 0.13 };
    let good = Interval { value: 0.01, low: 0.0, high: 0.06 };
    let mut here = Driver::new(star(5), SavedAlerts::default(), 0);
    minutes(&mut here, 10, |place| if place == 2 { unsure } else { good });
    assert_eq!(here.take(), []);
    minutes(&mut here, 10, |place| if place == 2 { sure } else { good });
    let own = Cause::Pair("target 2".to_owned());
    assert_eq!(here.take(), [(NoticeKind::Raised, own.clone(), 1)]);
    minutes(&mut here, 10, |place| if place == 2 { unsure } else { good });
    assert_eq!(here.take(), [], "hysteresis");
    minutes(&mut here, 10, |_| good);
    assert_eq!(here.take(), [(NoticeKind::Resolved, own, 1)]);
    // All at once.
    minutes(&mut here, 10, |_| sure);
    assert_eq!(here.take(), [(NoticeKind::Raised, host("here"), 5)]);
}

#[test]
fn an_outage_is_no_alert_on_loss_besides() {
    let mut here = Driver::new(star(5), SavedAlerts::default(), 0);
    let good = Interval::exact(0.0);
    minutes(&mut here, 5, |_| good);
    here.run(120, |id| id != "target 2");
    assert_eq!(here.take().len(), 1);
    // For a quarter of an hour it is in the last 15 minutes' figures.
    minutes(&mut here, 15, |place| if place == 2 { Interval { value: 0.13, low: 0.11, high: 0.15 } } else { good });
    assert_eq!(here.take(), [(NoticeKind::Resolved, Cause::Pair("target 2".to_owned()), 1)]);
    minutes(&mut here, 5, |_| good);
    assert_eq!(here.take(), []);
}

#[test]
fn bandwidth_counts_by_two_of_three_measurements() {
    let rule = Rule::new(Condition::Available { direction: Some(Direction::Up), below: 20e6 });
    let pairs = vec![pair("one", vec![])];
    let mut alerting = Alerting::new(vec![rule], pairs, SavedAlerts::default(), after(0), after(0));
    let mut now = 0;
    let mut measure = |low: f64, high: f64| {
        now += 600;
        alerting.observe(0, after(now), |condition| match condition {
            Condition::Available { below, .. } => {
                Some((Interval { value: (low + high) / 2.0, low, high }.below(*below), format!("{low}")))
            }
            _ => None,
        });
        alerting.update(after(now), after(now)).into_iter().map(|notice| notice.kind).collect::<Vec<_>>()
    };
    assert_eq!(measure(45e6, 50e6), []);
    assert_eq!(measure(15e6, 22e6), [], "it may be above");
    assert_eq!(measure(15e6, 19e6), [], "once may be chance");
    assert_eq!(measure(45e6, 50e6), []);
    assert_eq!(measure(15e6, 19e6), [NoticeKind::Raised], "two of three");
    assert_eq!(measure(45e6, 50e6), []);
    assert_eq!(measure(45e6, 50e6), [NoticeKind::Resolved]);
}

#[test]
fn an_archive_that_fails_for_longer_is_an_alert() {
    let mut here = Driver::new(star(1), SavedAlerts::default(), 0);
    here.run(20, |_| true);
    here.alerting.set_archive_failure(Some("the disk is full"), after(20));
    here.run(5, |_| true);
    here.alerting.set_archive_failure(None, after(25));
    here.run(30, |_| true);
    assert_eq!(here.take(), [], "a moment");
    here.alerting.set_archive_failure(Some("the disk is full"), after(55));
    here.run(30, |_| true);
    here.alerting.set_archive_failure(None, after(85));
    here.run(30, |_| true);
    assert_eq!(here.take(), [(NoticeKind::Raised, Cause::Archive, 0), (NoticeKind::Resolved, Cause::Archive, 0)]);
}

#[test]
fn a_usual_interval_takes_some_estimates() {
    let mut usual = UsualInterval::default();
    (0..8).for_each(|_| usual.record(Interval::exact(1.0)));
    assert_eq!(usual.interval(), Some(Interval::exact(1.0)));
}

/// Each site probes those after it.
fn agents(sites: &str) -> (Vec<WatchedAgent>, Vec<WatchedPair>) {
    let agent = |site: char| WatchedAgent { id: site.to_string(), name: site.to_string(), is_remote: site != 'h' };
    let mut pairs = Vec::new();
    for (prober, one) in sites.chars().enumerate() {
        for (answering, other) in sites.chars().enumerate().skip(prober + 1) {
            let risks = [one, other].map(|site| risk(RiskKind::Host, &site.to_string())).to_vec();
            pairs.push(WatchedPair { agents: Some([prober, answering]), ..pair(&format!("{one}{other}"), risks) });
        }
    }
    (sites.chars().map(agent).collect(), pairs)
}

/// So many seconds, in which these agents are connected and tell what they find, and these pairs answer.
fn run_agents(driver: &mut Driver, sites: &str, seconds: i64, connected: &str, answers: impl Fn(&str) -> bool) {
    for _ in 0..seconds {
        for (place, site) in sites.chars().enumerate() {
            driver.alerting.set_agent(place, connected.contains(site), after(driver.second));
        }
        let told: Vec<WatchedPair> = driver.pairs.clone();
        for (place, _) in told.iter().enumerate().filter(|(_, pair)| connected.contains(&pair.id[..1])) {
            driver.alerting.set_heard(place, after(driver.second + 1));
            let reach = &mut driver.reaches[place];
            if answers(&told[place].id) {
                *reach = Reach { answered: Some(after(driver.second + 1)), ..Reach::default() };
            } else {
                let sent = after(driver.second);
                reach.lost_in_a_row += 1;
                reach.lost = Some((reach.lost.map_or(sent, |(first, _)| first), sent));
            }
            driver.alerting.set_reach(place, reach);
        }
        driver.second += 1;
        driver.notices.extend(driver.alerting.update(after(driver.second), after(driver.second)));
    }
}

fn agent_driver(sites: &str, saved: SavedAlerts) -> Driver {
    let (agents, pairs) = agents(sites);
    let mut driver = Driver::new(pairs, saved, 0);
    let pairs = driver.pairs.clone();
    let alerting = Alerting::new(Rule::defaults(), pairs, driver.alerting.saved(), after(0), after(0));
    driver.alerting = alerting.with_agents(agents, after(0));
    driver
}

#[test]
fn a_silent_agent_is_one_alert_and_its_paths_have_none() {
    let mut here = agent_driver("abcd", SavedAlerts::default());
    run_agents(&mut here, "abcd", 60, "abcd", |_| true);
    // Nobody probes it, so that nobody else tells of it.
    run_agents(&mut here, "abcd", 50, "bcd", |_| true);
    assert_eq!(here.take(), [], "it may be started anew");
    run_agents(&mut here, "abcd", 200, "bcd", |_| true);
    let own = Cause::Agent("a".to_owned());
    assert_eq!(here.take(), [(NoticeKind::Raised, own.clone(), 3)]);
    run_agents(&mut here, "abcd", 60, "abcd", |_| true);
    assert_eq!(here.take(), [(NoticeKind::Resolved, own, 3)]);
}

#[test]
fn an_agent_whose_site_is_found_down_by_others_has_no_second_alert() {
    let mut here = agent_driver("abcd", SavedAlerts::default());
    run_agents(&mut here, "abcd", 60, "abcd", |_| true);
    run_agents(&mut here, "abcd", 200, "abc", |id| !id.contains('d'));
    assert_eq!(here.take(), [(NoticeKind::Raised, host("d"), 3)]);
    // It answers again, and its agent is silent still.
    run_agents(&mut here, "abcd", 60, "abc", |_| true);
    let agent = Cause::Agent("d".to_owned());
    assert_eq!(here.take(), [(NoticeKind::Resolved, host("d"), 3), (NoticeKind::Raised, agent, 0)]);
}

#[test]
fn where_all_agents_are_silent_the_coordinators_own_connection_is_the_cause() {
    let mut here = agent_driver("habc", SavedAlerts::default());
    run_agents(&mut here, "habc", 60, "habc", |_| true);
    // Its own host is no agent that could be silent for this cause.
    run_agents(&mut here, "habc", 70, "hbc", |_| true);
    let first = here.standing()[0].clone();
    assert_eq!(here.take(), [(NoticeKind::Raised, Cause::Agent("a".to_owned()), 2)]);
    run_agents(&mut here, "habc", 200, "h", |_| true);
    assert_eq!(here.take(), [(NoticeKind::Changed, Cause::AllAgents, 3)]);
    assert_eq!((here.standing().len(), &here.standing()[0].id), (1, &first.id));
    assert!(here.standing()[0].text.contains("uplink of this coordinator"), "{}", here.standing()[0].text);
    // After a restart of the coordinator it stands, until one of them is back.
    let mut again = agent_driver("habc", here.alerting.saved());
    run_agents(&mut again, "habc", 5, "habc", |_| true);
    assert_eq!(again.take(), []);
    run_agents(&mut again, "habc", 30, "habc", |_| true);
    assert_eq!(again.take(), [(NoticeKind::Resolved, Cause::AllAgents, 3)]);
    // Where its own probes say that already, there is one alert.
    run_agents(&mut again, "habc", 200, "h", |_| false);
    assert_eq!(again.take(), [(NoticeKind::Raised, host("h"), 3)]);
}
