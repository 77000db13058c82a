//! `[[alert]]`, `[[notify]]` and `[[silence]]`.

use super::types::MonitoredTarget;
use super::unknown_name::unknown_name_fault;
use super::values::parse_spanned;
use crate::alerts::{AlertSettings, NotifierConfig, NotifierKind};
use jiff::civil;
use jiff::tz::TimeZone;
use kumade_alerts::{Condition, DelayQuantile, Direction, Rule, Silence, SilenceTimes, WEEKDAY_NAMES};
use kumade_daemon::ConfigFault;
use kumade_units::{Span, Time, parse};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// `[[alert]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AlertSection {
    on: Spanned<ConditionName>,
    name: Option<Spanned<String>>,
    #[serde(default = "default_enabled")]
    enabled: bool,
    targets: Option<Vec<Spanned<String>>>,
    above: Option<Spanned<String>>,
    below: Option<Spanned<String>>,
    quantile: Option<Spanned<QuantileName>>,
    direction: Option<Spanned<DirectionName>>,
    times: Option<Spanned<u32>>,
    out_of: Option<Spanned<u32>>,
}

/// `[[notify]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NotifySection {
    name: Option<String>,
    webhook: Option<Spanned<String>>,
    command: Option<Spanned<Vec<String>>>,
    ca: Option<Spanned<PathBuf>>,
    timeout: Option<Spanned<String>>,
}

/// `[[silence]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SilenceSection {
    targets: Option<Vec<Spanned<String>>>,
    from: Spanned<String>,
    to: Spanned<String>,
    days: Option<Vec<Spanned<String>>>,
    zone: Option<Spanned<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ConditionName {
    Down,
    NoData,
    Loss,
    Delay,
    Available,
    Change,
    NotArchived,
    AgentSilent,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum QuantileName {
    #[serde(rename = "median")]
    Median,
    #[serde(rename = "95%")]
    Percent95,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DirectionName {
    Up,
    Down,
}

/// More would be no alert.
const MAX_TIMES: u32 = 100;
const DEFAULT_TIMEOUT: Span = Span::from_secs(10);
const MAX_TIMEOUT: Span = Span::from_secs(300);

fn default_enabled() -> bool {
    true
}

/// Reads all three; conditions that no `[[alert]]` is about have the usual ones.
pub(super) fn alert_settings(
    alerts: &[AlertSection],
    notifiers: &[NotifySection],
    silences: &[SilenceSection],
    targets: &[MonitoredTarget],
) -> Result<AlertSettings, ConfigFault> {
    let mut names = BTreeSet::new();
    let mut rules = Vec::new();
    for section in alerts.iter().filter(|section| section.enabled) {
        let rule = section.rule(targets)?;
        if !names.insert(rule.name.clone()) {
            let span = section.name.as_ref().map_or_else(|| section.on.span(), Spanned::span);
            let problem = format!("two alerts are called {:?}: give one of them another `name`", rule.name);
            return Err(ConfigFault::new(span, problem));
        }
        rules.push(rule);
    }
    let is_given = |rule: &Rule| alerts.iter().any(|section| section.on.get_ref().word() == rule.condition.word());
    rules.extend(Rule::defaults().into_iter().filter(|rule| !is_given(rule)));
    let mut receivers: Vec<NotifierConfig> = Vec::new();
    for section in notifiers {
        let mut notifier = section.notifier()?;
        // The same one twice is told twice.
        let same = receivers.iter().filter(|other| other.name == notifier.name).count();
        if same > 0 {
            notifier.name += &format!(" ({})", same + 1);
        }
        receivers.push(notifier);
    }
    let silences = silences.iter().map(|section| section.silence(targets)).collect::<Result<_, _>>()?;
    Ok(AlertSettings::new(rules, receivers, silences))
}

impl AlertSection {
    fn rule(&self, targets: &[MonitoredTarget]) -> Result<Rule, ConfigFault> {
        let condition = self.condition()?;
        self.refuse_foreign_keys()?;
        let mut rule = Rule::new(condition);
        let count = |value: &Option<Spanned<u32>>| match value {
            Some(value) if !(1..=MAX_TIMES).contains(value.get_ref()) => {
                Err(ConfigFault::new(value.span(), format!("{} is out of range: 1 to {MAX_TIMES}", value.get_ref())))
            }
            Some(value) => Ok(Some(*value.get_ref())),
            None => Ok(None),
        };
        let (times, out_of) = (count(&self.times)?, count(&self.out_of)?);
        rule.times = times.unwrap_or_else(|| rule.times.min(out_of.unwrap_or(u32::MAX)));
        rule.out_of = out_of.unwrap_or_else(|| rule.out_of.max(rule.times));
        if rule.times > rule.out_of {
            let span = self.times.as_ref().or(self.out_of.as_ref()).map(Spanned::span).unwrap_or_default();
            return Err(ConfigFault::new(span, "`times` is more than `out-of`: it is so many of the last `out-of`"));
        }
        rule.pairs = target_ids(self.targets.as_deref(), targets)?;
        if let Some(name) = &self.name {
            rule.name.clone_from(name.get_ref());
        }
        Ok(rule)
    }

    fn condition(&self) -> Result<Condition, ConfigFault> {
        let needed = |value: &Option<Spanned<String>>, key: &str, example: &str| {
            let problem =
                || format!("an alert on {} needs `{key}`, such as {key} = \"{example}\"", self.on.get_ref().word());
            value.clone().ok_or_else(|| ConfigFault::new(self.on.span(), problem()))
        };
        let direction = self.direction.as_ref().map(|direction| match direction.get_ref() {
            DirectionName::Up => Direction::Up,
            DirectionName::Down => Direction::Down,
        });
        Ok(match self.on.get_ref() {
            ConditionName::Down => Condition::Down,
            ConditionName::NoData => Condition::NoData,
            ConditionName::Loss => {
                Condition::Loss { above: parse_spanned(&needed(&self.above, "above", "5%")?, parse::ratio)? }
            }
            ConditionName::Delay => Condition::Delay {
                quantile: match self.quantile.as_ref().map(Spanned::get_ref) {
                    Some(QuantileName::Percent95) => DelayQuantile::Percent95,
                    Some(QuantileName::Median) | None => DelayQuantile::Median,
                },
                above: parse_spanned(&needed(&self.above, "above", "50ms")?, parse::span)?,
            },
            ConditionName::Available => {
                let below = parse_spanned(&needed(&self.below, "below", "20mbit")?, parse::rate)?;
                Condition::Available { direction, below: below.as_f64() }
            }
            ConditionName::Change => Condition::Change { direction },
            ConditionName::NotArchived => Condition::NotArchived,
            ConditionName::AgentSilent => Condition::AgentSilent,
        })
    }

    /// A key that means nothing to a condition is a mistake.
    fn refuse_foreign_keys(&self) -> Result<(), ConfigFault> {
        use ConditionName::{AgentSilent, Available, Change, Delay, Down, Loss, NoData, NotArchived};
        let keys = [
            ("above", place_of(&self.above), &[Loss, Delay][..]),
            ("below", place_of(&self.below), &[Available]),
            ("quantile", place_of(&self.quantile), &[Delay]),
            ("direction", place_of(&self.direction), &[Available, Change]),
            ("times", place_of(&self.times), &[Down, NoData, Loss, Delay, Available, Change]),
            ("out-of", place_of(&self.out_of), &[Loss, Delay, Available, Change]),
        ];
        let on = *self.on.get_ref();
        let foreign = keys.into_iter().find_map(|(key, span, conditions)| {
            let span = span.filter(|_| !conditions.contains(&on))?;
            let words: Vec<&str> = conditions.iter().map(|condition| condition.word()).collect();
            let problem =
                format!("`{key}` means nothing to an alert on {}: it goes with {}", on.word(), words.join(", "));
            Some(ConfigFault::new(span, problem))
        });
        let has_targets = [NotArchived, AgentSilent].contains(&on).then_some(self.targets.as_ref()).flatten();
        let problem = format!("`targets` means nothing to an alert on {}: it is about all of them", on.word());
        let has_targets = has_targets.map(|_| ConfigFault::new(self.on.span(), problem));
        foreign.or(has_targets).map_or(Ok(()), Err)
    }
}

impl ConditionName {
    fn word(self) -> &'static str {
        match self {
            ConditionName::Down => "down",
            ConditionName::NoData => "no-data",
            ConditionName::Loss => "loss",
            ConditionName::Delay => "delay",
            ConditionName::Available => "available",
            ConditionName::Change => "change",
            ConditionName::NotArchived => "not-archived",
            ConditionName::AgentSilent => "agent-silent",
        }
    }
}

impl NotifySection {
    fn notifier(&self) -> Result<NotifierConfig, ConfigFault> {
        let (kind, name) = match (&self.webhook, &self.command) {
            (Some(url), None) => self.webhook(url)?,
            (None, Some(command)) => self.command(command)?,
            (url, _) => {
                let span = url.as_ref().map_or(0..0, Spanned::span);
                let problem = "[[notify]] has either webhook = \"https://…\" or command = [\"/path\", \"argument\"]";
                return Err(ConfigFault::new(span, problem));
            }
        };
        let timeout = match &self.timeout {
            Some(text) => {
                let timeout = parse_spanned(text, parse::span)?;
                if timeout <= Span::ZERO || timeout > MAX_TIMEOUT {
                    let problem = format!("{} is out of range: above 0s, up to 5min", text.get_ref());
                    return Err(ConfigFault::new(text.span(), problem));
                }
                timeout
            }
            None => DEFAULT_TIMEOUT,
        };
        Ok(NotifierConfig { name: self.name.clone().unwrap_or(name), kind, timeout })
    }

    /// It is called by its host: its path may be a secret.
    fn webhook(&self, url: &Spanned<String>) -> Result<(NotifierKind, String), ConfigFault> {
        let text = url.get_ref();
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split(['/', '?']).next()).filter(|host| !host.is_empty());
        let has_space = text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
        let Some(host) = host.filter(|_| !has_space) else {
            return Err(ConfigFault::new(
                url.span(),
                "this is no address of a web server: write it as https://host/path",
            ));
        };
        let name = host.rsplit_once('@').map_or(host, |(_, host)| host).to_owned();
        let authorities = self.ca.as_ref().map(|path| path.get_ref().clone());
        Ok((NotifierKind::Webhook { url: text.clone(), authorities }, name))
    }

    fn command(&self, command: &Spanned<Vec<String>>) -> Result<(NotifierKind, String), ConfigFault> {
        if let Some(ca) = &self.ca {
            return Err(ConfigFault::new(ca.span(), "`ca` goes with `webhook`"));
        }
        let arguments = command.get_ref();
        let Some(program) = arguments.first().filter(|program| program.starts_with('/')) else {
            let problem =
                "a command begins with the whole path of its program, as command = [\"/usr/local/bin/page-me\"]";
            return Err(ConfigFault::new(command.span(), problem));
        };
        Ok((NotifierKind::Command { arguments: arguments.clone() }, program.clone()))
    }
}

impl SilenceSection {
    fn silence(&self, targets: &[MonitoredTarget]) -> Result<Silence, ConfigFault> {
        let zone = match &self.zone {
            Some(name) => parse_spanned(name, |text| {
                let hint = "name it as Europe/Berlin; this host needs the package tzdata to know it";
                TimeZone::get(text).map_err(|error| format!("{error}: {hint}"))
            })?,
            None => TimeZone::UTC,
        };
        let times = match &self.days {
            Some(days) => self.weekly(days, zone)?,
            None => {
                let (from, to) = (self.moment(&self.from, &zone)?, self.moment(&self.to, &zone)?);
                if from >= to {
                    return Err(ConfigFault::new(self.to.span(), "it ends before it begins"));
                }
                SilenceTimes::Once { from, to }
            }
        };
        Ok(Silence { pairs: target_ids(self.targets.as_deref(), targets)?, times })
    }

    fn weekly(&self, days: &[Spanned<String>], zone: TimeZone) -> Result<SilenceTimes, ConfigFault> {
        let mut chosen = [false; 7];
        for day in days {
            let place = WEEKDAY_NAMES.iter().position(|name| name == day.get_ref());
            let fault = || unknown_name_fault(day, "a day", WEEKDAY_NAMES.iter().copied());
            chosen[place.ok_or_else(fault)?] = true;
        }
        let clock = |text: &Spanned<String>| {
            parse_spanned(text, |text| {
                let time = civil::Time::strptime("%H:%M", text);
                time.map_err(|_| {
                    format!("`{text}` is no time of a day: write it as 22:00; without `days`, as 2026-12-24T22:00")
                })
            })
        };
        Ok(SilenceTimes::Weekly { days: chosen, from: clock(&self.from)?, to: clock(&self.to)?, zone })
    }

    /// By the clocks of the zone.
    fn moment(&self, text: &Spanned<String>, zone: &TimeZone) -> Result<Time, ConfigFault> {
        parse_spanned(text, |text| {
            let hint = || format!("`{text}` is no time: write it as 2026-12-24T22:00; with `days`, as 22:00");
            let local: civil::DateTime = text.parse().map_err(|_| hint())?;
            let time = local.to_zoned(zone.clone()).map_err(|_| hint())?.timestamp();
            i64::try_from(time.as_nanosecond()).map(Time::from_nanos).map_err(|_| hint())
        })
    }
}

fn place_of<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
    value.as_ref().map(Spanned::span)
}

/// Targets by their ids; both IP versions of one that has both.
fn target_ids(
    names: Option<&[Spanned<String>]>,
    targets: &[MonitoredTarget],
) -> Result<Option<Vec<String>>, ConfigFault> {
    let Some(names) = names else { return Ok(None) };
    let mut ids = Vec::new();
    for name in names {
        let is_it = |target: &&MonitoredTarget| {
            let suffix = target.id.strip_prefix(name.get_ref().as_str());
            suffix.is_some_and(|suffix| suffix.is_empty() || [" (IPv4)", " (IPv6)"].contains(&suffix))
        };
        let found: Vec<String> = targets.iter().filter(is_it).map(|target| target.id.clone()).collect();
        if found.is_empty() {
            return Err(unknown_name_fault(name, "a target's id", targets.iter().map(|target| target.id.as_str())));
        }
        ids.extend(found);
    }
    Ok(Some(ids))
}
