//! A template as a mesh: the file of its coordinator.

use super::LeftOut;
use super::targets::{duration_text, interval_text};
use super::template::{Group, MAX_LEFT_OUT, Template, TestKind};
use kumade_net::interface::Family;
use kumade_units::Span;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// The hosts that test with each other, as agents that measure between each two, and what of the template is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedMesh {
    /// By name.
    pub agents: Vec<ImportedAgent>,
    /// Of light probes, where the template says so.
    pub interval: Option<Span>,
    /// Of full measurements, where there are any.
    pub period: Option<Span>,
    /// The IP versions that its tests name.
    pub families: Vec<Family>,
    /// The first thousand.
    pub left_out: Vec<LeftOut>,
}

/// A host that becomes an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedAgent {
    /// Its name in the template.
    pub name: String,
    /// Where others reach it.
    pub address: String,
}

impl Template {
    /// What its coordinator is to do.
    pub fn into_mesh(self) -> ImportedMesh {
        let mut mesh = ImportedMesh {
            agents: Vec::new(),
            interval: None,
            period: None,
            families: Vec::new(),
            left_out: self.left_out,
        };
        let mut names = BTreeSet::new();
        let mut used = BTreeSet::new();
        for task in &self.tasks {
            let Some(group) = self.groups.get(&task.group) else { continue };
            names.extend(group.sides.iter().flatten());
            if used.insert(&task.group) {
                mesh.leave_out_pairs(&task.group, group);
            }
            let is_new = |family: &Family| !mesh.families.contains(family);
            mesh.families.extend(task.family.filter(is_new));
            let shorter = |one: Option<Span>, other: Option<Span>| one.into_iter().chain(other).min();
            match task.kind {
                TestKind::Delay { interval } => mesh.interval = shorter(mesh.interval, interval),
                TestKind::Bandwidth { period } => {
                    if mesh.period.is_some_and(|other| other != period) {
                        let reason = "a mesh has one period for all pairs: the shortest";
                        mesh.leave_out(format!("groups.{}", task.group), reason);
                    }
                    mesh.period = shorter(mesh.period, Some(period));
                }
            }
        }
        for (name, address) in self.addresses.iter().filter(|(name, _)| names.contains(name)) {
            let path = format!("addresses.{name}");
            if address.is_disabled {
                mesh.leave_out(path, &format!("it is disabled ({})", address.address));
                continue;
            }
            if !address.towards.is_empty() {
                mesh.leave_out(path + ".remote-addresses", "in a mesh, all others reach an agent at one address");
            }
            mesh.agents.push(ImportedAgent { name: name.clone(), address: address.address.clone() });
        }
        mesh
    }
}

impl ImportedMesh {
    fn leave_out(&mut self, path: String, reason: &str) {
        let item = LeftOut { path, reason: reason.to_owned() };
        if self.left_out.len() < MAX_LEFT_OUT && !self.left_out.contains(&item) {
            self.left_out.push(item);
        }
    }

    fn leave_out_pairs(&mut self, name: &str, group: &Group) {
        if !group.excluded.is_empty() {
            self.leave_out(format!("groups.{name}.excludes"), "a mesh measures between each two agents");
        }
        if group.sides[0] != group.sides[1] {
            let reason = "a mesh measures between each two agents, also of one side";
            self.leave_out(format!("groups.{name}.type"), reason);
        }
    }
}

impl Display for ImportedMesh {
    /// The configuration of a coordinator (TOML), with what is left out as comments.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# From a pSConfig template. Write the public key of each agent, which `kumade key public` prints there; where one is"
        )?;
        writeln!(f, "# behind a firewall or address translation, leave `address` out.")?;
        writeln!(f, "[monitor]\nrole = \"coordinator\"\nkey = \"/etc/kumade/monitor.key\"\n\n[mesh]")?;
        self.interval.map_or(Ok(()), |interval| writeln!(f, "interval = \"{}\"", interval_text(interval)))?;
        self.period.map_or(Ok(()), |period| writeln!(f, "measure = \"{}\"", duration_text(period)))?;
        match self.families[..] {
            [] => {}
            [Family::V4] => writeln!(f, "family = \"ipv4\"")?,
            [Family::V6] => writeln!(f, "family = \"ipv6\"")?,
            _ => writeln!(f, "family = \"both\"")?,
        }
        for ImportedAgent { name, address } in &self.agents {
            // Ids have no colons.
            let id = name.replace(':', "-");
            writeln!(f, "\n[[agent]]\nid = \"{id}\"\nname = \"{name}\"\naddress = \"{address}\"\npublic-key = \"\"")?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "\n# Left out:")?;
        }
        self.left_out.iter().try_for_each(|LeftOut { path, reason }| writeln!(f, "# {path}: {reason}"))
    }
}
