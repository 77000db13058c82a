//! What differs between the configuration of a running monitor and another one that it is to have.

use super::types::{MonitorConfig, MonitoredTarget};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A setting that a running monitor keeps.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key} cannot change while the monitor runs, since {reason}: restart it for that")]
pub struct FixedSetting {
    /// Which setting, as it stands in the file.
    pub key: &'static str,
    /// Why.
    pub reason: &'static str,
}

const ARCHIVE: FixedSetting =
    FixedSetting { key: "`archive` in [monitor]", reason: "what was seen so far is in the archive that it has" };
/// Commands of `[[notify]]`.
pub(crate) const COMMAND: FixedSetting = FixedSetting {
    key: "`command` in [[notify]]",
    reason: "the process that runs it was started before the monitor gave up the right to",
};
const PAGE: FixedSetting = FixedSetting { key: "`page` in [monitor]", reason: "browsers are connected to it" };

const MESH: FixedSetting = FixedSetting {
    key: "the mesh, but for [mesh],",
    reason: "agents know it as it is; they keep what they find meanwhile",
};
const REMOTE_WRITE: FixedSetting =
    FixedSetting { key: "[remote-write]", reason: "figures are on their way to the receiver that it has" };

impl MonitorConfig {
    /// What is to change where a monitor that runs with this configuration is given another one: a line for each change.
    ///
    /// # Errors
    /// A setting differs that a running monitor keeps.
    pub fn changes_to(&self, after: &MonitorConfig) -> Result<Vec<String>, FixedSetting> {
        if self.archive != after.archive || self.database != after.database {
            return Err(ARCHIVE);
        }
        if self.page != after.page {
            return Err(PAGE);
        }
        let is_same_mesh = match (&self.mesh, &after.mesh) {
            (Some(before), Some(after)) => before.is_same(after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if !is_same_mesh {
            return Err(MESH);
        }
        if self.remote_write != after.remote_write {
            return Err(REMOTE_WRITE);
        }
        let settings = [
            (self.name != after.name, "this host is called", &after.name),
            (self.stretch != after.stretch, "stretch =", &after.stretch.to_string()),
            (self.prometheus != after.prometheus, "metrics are served at", &words(after.prometheus.as_ref())),
        ];
        let settings = settings.into_iter().filter(|(differs, ..)| *differs);
        let mut changes: Vec<String> = settings.map(|(_, what, value)| format!("{what} {value}")).collect();
        changes.extend((self.retention != after.retention).then(|| "retention: other times".to_owned()));
        changes.extend(self.access_changes(after));
        changes.extend(
            self.alerts.differs_from(&after.alerts).then(|| "alerts, who is told, or when nobody is".to_owned()),
        );
        changes.extend(self.target_changes(after));
        Ok(changes)
    }

    fn access_changes(&self, after: &MonitorConfig) -> Vec<String> {
        let (before, access) = (&self.access, &after.access);
        let gone = before.tokens.iter().filter(|token| !access.tokens.contains(token));
        let new = access.tokens.iter().filter(|token| !before.tokens.contains(token));
        let mut changes: Vec<String> = gone.map(|token| format!("token {}: no longer valid", token.name)).collect();
        changes.extend(new.map(|token| format!("token {}: may {}", token.name, token.class.name())));
        let words = if access.is_public { "everybody may read" } else { "who has no token may read no longer" };
        changes.extend((before.is_public != access.is_public).then(|| words.to_owned()));
        changes.extend((before.names != access.names).then(|| "names of the page".to_owned()));
        changes.extend((self.tls != after.tls).then(|| "certificate of the page".to_owned()));
        changes
    }

    fn target_changes(&self, after: &MonitorConfig) -> Vec<String> {
        let before: BTreeMap<&str, &MonitoredTarget> =
            self.targets.iter().map(|target| (target.id.as_str(), target)).collect();
        let kept: BTreeSet<&str> = after.targets.iter().map(|target| target.id.as_str()).collect();
        let removed = before.keys().filter(|id| !kept.contains(*id));
        let mut changes: Vec<String> = removed.map(|id| format!("target {id}: no longer monitored")).collect();
        for target in &after.targets {
            match before.get(target.id.as_str()) {
                None => changes.push(format!("target {}: monitored from now on", target.id)),
                Some(before) => changes.extend(before.changes_to(target)),
            }
        }
        changes
    }
}

impl MonitoredTarget {
    /// Another one of the same id.
    fn changes_to(&self, after: &MonitoredTarget) -> Option<String> {
        let differences = [
            (self.name != after.name, "name"),
            (self.host != after.host, "host"),
            (self.family != after.family, "family"),
            (self.light != after.light, "probes"),
            (self.measurement != after.measurement, "measurements"),
        ];
        let words: Vec<_> = differences.iter().filter(|(differs, _)| *differs).map(|(_, word)| *word).collect();
        (!words.is_empty()).then(|| format!("target {}: other {}", after.id, words.join(", ")))
    }
}

/// A value that may be missing.
fn words(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "no address".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> MonitorConfig {
        MonitorConfig::from_toml(text, "m.toml", &|_| Err(String::new())).unwrap()
    }

    #[test]
    fn each_change_is_told_once() {
        let target = |id: &str, more: &str| format!("[[target]]\nhost = \"192.0.2.1\"\nid = \"{id}\"\n{more}");
        let before = config(&[target("a", ""), target("b", ""), target("c", "")].concat());
        assert_eq!(before.changes_to(&before), Ok(Vec::new()));
        let after = "[monitor]\nprometheus = \"9274\"\n[retention]\npackets = \"2d\"\n".to_owned()
            + &target("d", "")
            + &target("c", "")
            + &target("b", "interval = \"2s\"\nmeasure = \"1h\"\n");
        let changes = before.changes_to(&config(&after)).unwrap();
        let expected = [
            "metrics are served at 127.0.0.1:9274",
            "retention: other times",
            "target a: no longer monitored",
            "target d: monitored from now on",
            "target b: other probes, measurements",
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn what_cannot_change_is_refused_with_what_to_do() {
        let with = |line: &str| config(&format!("[monitor]\n{line}\n[[target]]\nhost = \"192.0.2.1\"\n"));
        for (line, key) in [("archive = \"/elsewhere\"", "`archive`"), ("page = \"7281\"", "`page`")] {
            let refused = with("").changes_to(&with(line)).unwrap_err().to_string();
            assert!(refused.starts_with(key) && refused.ends_with("restart it for that"), "{refused}");
        }
    }
}
