//! What one host of a template monitors.

use super::template::{Group, MAX_LEFT_OUT, Template, TestKind};
use super::{LeftOut, PsconfigError};
use kumade_net::ScopedAddress;
use kumade_net::interface::Family;
use kumade_units::Span;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// The paths from one host to others, and what of the template is not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitoredPaths {
    /// The name of the host in the template.
    pub from: String,
    /// By name.
    pub targets: Vec<ImportedTarget>,
    /// The first thousand.
    pub left_out: Vec<LeftOut>,
}

/// A host to which the path is monitored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTarget {
    /// Its name in the template.
    pub name: String,
    /// Its address towards this host.
    pub host: String,
    /// Of light probes, where the template says so.
    pub interval: Option<Span>,
    /// Of full measurements, where there are any.
    pub period: Option<Span>,
    /// The IP version, where the tests say so; both where they say so.
    pub families: Vec<Family>,
}

/// Names that are given as examples.
const MAX_SHOWN_NAMES: usize = 8;

impl Template {
    /// What the host of this name, or of this address, monitors.
    ///
    /// # Errors
    /// There is no such host.
    pub fn targets_of(mut self, from: &str) -> Result<MonitoredPaths, PsconfigError> {
        let by_address = || self.addresses.iter().find(|(_, address)| address.address == from).map(|(name, _)| name);
        let own = self.addresses.get_key_value(from).map(|(name, _)| name).or_else(by_address).cloned();
        let own = own.ok_or_else(|| self.no_such_address(from))?;
        let mut targets: BTreeMap<&str, ImportedTarget> = BTreeMap::new();
        for task in &self.tasks {
            let Some(group) = self.groups.get(&task.group) else { continue };
            for name in group.peers_of(&own) {
                let Some(other) = self.addresses.get(name).filter(|other| !other.is_disabled) else { continue };
                let target = targets.entry(name).or_insert_with(|| ImportedTarget {
                    name: name.to_owned(),
                    host: other.towards.get(&own).unwrap_or(&other.address).clone(),
                    interval: None,
                    period: None,
                    families: Vec::new(),
                });
                target.add_test(task.kind, task.family);
            }
        }
        let targets = targets.into_values().collect();
        for (name, address) in self.addresses.iter().filter(|(_, address)| address.is_disabled) {
            if self.left_out.len() < MAX_LEFT_OUT {
                let reason = format!("it is disabled ({})", address.address);
                self.left_out.push(LeftOut { path: format!("addresses.{name}"), reason });
            }
        }
        Ok(MonitoredPaths { from: own, targets, left_out: self.left_out })
    }

    fn no_such_address(&self, from: &str) -> PsconfigError {
        let mut known: Vec<_> = self.addresses.keys().take(MAX_SHOWN_NAMES).map(String::as_str).collect();
        if self.addresses.len() > MAX_SHOWN_NAMES {
            known.push("…");
        }
        PsconfigError::NoSuchAddress { from: from.to_owned(), known: known.join(", ") }
    }
}

impl Group {
    /// With whom one of its addresses tests, in either direction: a measurement serves both.
    fn peers_of(&self, own: &str) -> impl Iterator<Item = &str> {
        let [one, other] = &self.sides;
        let across = [(one, other), (other, one)];
        let peers = across.into_iter().filter(move |(from, _)| from.iter().any(|name| name == own));
        let is_excluded = |from: &str, to: &str| self.excluded.contains(&(from.to_owned(), to.to_owned()));
        let peers = peers.flat_map(|(_, to)| to).map(String::as_str);
        peers.filter(move |name| *name != own && !(is_excluded(own, name) && is_excluded(name, own)))
    }
}

impl ImportedTarget {
    /// The more frequent of two tests of a kind counts.
    fn add_test(&mut self, kind: TestKind, family: Option<Family>) {
        let shorter = |one: Option<Span>, other| one.map_or(other, |one| one.min(other));
        match kind {
            TestKind::Delay { interval: Some(interval) } => self.interval = Some(shorter(self.interval, interval)),
            TestKind::Delay { interval: None } => {}
            TestKind::Bandwidth { period } => self.period = Some(shorter(self.period, period)),
        }
        if let Some(family) = family.filter(|family| !self.families.contains(family)) {
            self.families.push(family);
        }
    }
}

impl Display for MonitoredPaths {
    /// The configuration of a monitor (TOML), with what is left out as comments.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# From a pSConfig template. Each target with `measure` has to run `kumade serve`. Where one runs"
        )?;
        writeln!(
            f,
            "# `kumade serve --stamp`, add probe = \"stamp\": delay and loss are then those of each direction."
        )?;
        writeln!(f, "[monitor]\nname = \"{}\"", self.from)?;
        for target in &self.targets {
            write!(f, "\n{target}")?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "\n# Left out:")?;
        }
        self.left_out.iter().try_for_each(|LeftOut { path, reason }| writeln!(f, "# {path}: {reason}"))
    }
}

impl Display for ImportedTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ImportedTarget { name, host, .. } = self;
        writeln!(f, "[[target]]\nhost = \"{host}\"\nname = \"{name}\"\nid = \"{name}\"")?;
        // An address is of one version.
        let is_address = host.parse::<ScopedAddress>().is_ok();
        match self.families[..] {
            _ if is_address => {}
            [] => {}
            [Family::V4] => writeln!(f, "family = \"ipv4\"")?,
            [Family::V6] => writeln!(f, "family = \"ipv6\"")?,
            _ => writeln!(f, "family = \"both\"")?,
        }
        self.interval.map_or(Ok(()), |interval| writeln!(f, "interval = \"{}\"", interval_text(interval)))?;
        self.period.map_or(Ok(()), |found| writeln!(f, "measure = \"{}\"", duration_text(found)))
    }
}

pub(super) fn interval_text(span: Span) -> String {
    format!("{}ms", span.as_nanos() / 1_000_000)
}

pub(super) fn duration_text(span: Span) -> String {
    format!("{}s", span.as_nanos() / 1_000_000_000)
}
