//! What is read of a template.

use super::node::Node;
use super::{LeftOut, PsconfigError};
use jiff::{SpanRelativeTo, Unit};
use kumade_net::interface::Family;
use kumade_units::Span;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A template: its addresses, which of them test each other, and how.
#[derive(Debug)]
pub struct Template {
    /// By name.
    pub(super) addresses: BTreeMap<String, Address>,
    /// By name.
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) tasks: Vec<Task>,
    pub(super) left_out: Vec<LeftOut>,
}

#[derive(Debug)]
pub(super) struct Address {
    pub(super) address: String,
    pub(super) is_disabled: bool,
    /// What it has towards some others, by their names.
    pub(super) towards: BTreeMap<String, String>,
}

/// Who tests with whom: each on one side with each on the other.
#[derive(Debug)]
pub(super) struct Group {
    /// The same twice in a mesh.
    pub(super) sides: [Vec<String>; 2],
    /// Pairs that are not, in this order.
    pub(super) excluded: BTreeSet<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) group: String,
    pub(super) kind: TestKind,
    pub(super) family: Option<Family>,
}

/// What a monitor makes of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestKind {
    /// Light probes, so often, where that is said.
    Delay { interval: Option<Span> },
    /// Full measurements, so often.
    Bandwidth { period: Span },
}

/// Members that say nothing about who tests what when.
const SILENT_MEMBERS: [&str; 1] = ["_meta"];
/// Top-level sections that are not read, and why.
const OTHER_SECTIONS: [(&str, &str); 5] = [
    (
        "archives",
        "a monitor keeps what it measures in its own archive; `kumade monitor export` and Prometheus pass it on",
    ),
    ("includes", "only this file is read: import each included one by itself"),
    ("contexts", "pScheduler's contexts (such as network namespaces) are not entered: start the monitor there"),
    ("hosts", "what it says of the machines behind addresses is not used"),
    ("address-classes", "addresses are taken by their names alone"),
];
/// What a monitor can be told: as its configuration file.
const VALID_PERIODS: [Span; 2] = [Span::from_secs(30), Span::from_secs(366 * 86_400)];
const VALID_INTERVALS: [Span; 2] = [Span::from_millis(10), Span::from_secs(3600)];
/// What is left out in a file of millions of items is no list to read.
pub(super) const MAX_LEFT_OUT: usize = 1000;

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It is no JSON, or other than the format has it: where, and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, PsconfigError> {
        let value: Value = serde_json::from_str(text).map_err(|error| PsconfigError::Json {
            line: error.line(),
            column: error.column(),
            reason: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
        })?;
        let root = Node::root(&value);
        let mut template =
            Template { addresses: BTreeMap::new(), groups: BTreeMap::new(), tasks: Vec::new(), left_out: Vec::new() };
        for (name, address) in root.expect("addresses")?.members()? {
            let read = template.read_address(name, &address)?;
            template.addresses.insert(name.to_owned(), read);
        }
        for (name, group) in root.section("groups")? {
            if let Some(group) = template.read_group(&group)? {
                template.groups.insert(name.to_owned(), group);
            }
        }
        for (_, task) in root.section("tasks")? {
            if let Some(task) = template.read_task(&root, &task)? {
                template.tasks.push(task);
            }
        }
        for (name, reason) in OTHER_SECTIONS {
            let Some(section) = root.get(name) else { continue };
            // `includes` is a list.
            let items = section.members().map(|items| items.into_iter().map(|(_, item)| item).collect());
            for item in items.unwrap_or_else(|_| vec![section]) {
                template.leave_out(&item, reason);
            }
        }
        Ok(template)
    }

    pub(super) fn leave_out(&mut self, item: &Node<'_>, reason: impl Into<String>) {
        let item = LeftOut { path: item.path.clone(), reason: reason.into() };
        // A test may be that of many tasks.
        if self.left_out.len() < MAX_LEFT_OUT && !self.left_out.contains(&item) {
            self.left_out.push(item);
        }
    }

    fn read_address(&mut self, name: &str, node: &Node<'_>) -> Result<Address, PsconfigError> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || ":._-".contains(c)) {
            return Err(node.wrong("the name of an address has letters, digits, and : . _ - alone"));
        }
        if let Some(labels) = node.get("labels") {
            self.leave_out(&labels, "addresses by label are not used: the address itself is");
        }
        let mut towards = BTreeMap::new();
        for (other, remote) in node.section("remote-addresses")? {
            match remote.get("address") {
                Some(address) => _ = towards.insert(other.to_owned(), host_text(&address)?),
                None => self.leave_out(&remote, "addresses by label are not used: the address itself is"),
            }
        }
        Ok(Address { address: host_text(&node.expect("address")?)?, is_disabled: node.is_true("disabled"), towards })
    }

    /// None where it is of a kind that has no pairs.
    fn read_group(&mut self, node: &Node<'_>) -> Result<Option<Group>, PsconfigError> {
        let sides = match node.expect("type")?.text()? {
            "mesh" => {
                let all = self.read_selectors(&node.expect("addresses")?)?;
                [all.clone(), all]
            }
            "disjoint" => {
                [self.read_selectors(&node.expect("a-addresses")?)?, self.read_selectors(&node.expect("b-addresses")?)?]
            }
            // Each address by itself: nothing between two hosts.
            "list" => return Ok(None),
            other => return Err(node.wrong(format!("the type `{other:.40}` is unknown: mesh, disjoint and list are"))),
        };
        let mut excluded = BTreeSet::new();
        for exclude in node.get("excludes").map_or_else(|| Ok(Vec::new()), |list| list.elements())? {
            let local = self.read_selector(&exclude.expect("local-address")?)?;
            for other in self.read_selectors(&exclude.expect("target-addresses")?)? {
                excluded.extend(local.clone().map(|local| (local, other)));
            }
        }
        Ok(Some(Group { sides, excluded }))
    }

    fn read_selectors(&mut self, node: &Node<'_>) -> Result<Vec<String>, PsconfigError> {
        let found =
            node.elements()?.iter().map(|selector| self.read_selector(selector)).collect::<Result<Vec<_>, _>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// None where it is not by name.
    fn read_selector(&mut self, node: &Node<'_>) -> Result<Option<String>, PsconfigError> {
        let Some(name) = node.get("name") else {
            self.leave_out(node, "addresses are taken by their names alone");
            return Ok(None);
        };
        let text = name.text()?;
        if !self.addresses.contains_key(text) {
            return Err(name.wrong(format!("there is no address `{text:.60}` in `addresses`")));
        }
        if let Some(label) = node.get("label") {
            self.leave_out(&label, "addresses by label are not used: the address itself is");
        }
        Ok(Some(text.to_owned()))
    }

    /// None where a monitor does nothing of it.
    fn read_task(&mut self, root: &Node<'_>, node: &Node<'_>) -> Result<Option<Task>, PsconfigError> {
        if node.is_true("disabled") {
            self.leave_out(node, "it is disabled");
            return Ok(None);
        }
        let reference = |member: &str, section: &str| {
            let name = node.expect(member)?;
            let text = name.text()?;
            let found = root.get(section).and_then(|section| section.get(text));
            found
                .ok_or_else(|| name.wrong(format!("there is no `{text:.60}` in `{section}`")))
                .map(|found| (text, found))
        };
        let (group, group_node) = reference("group", "groups")?;
        let (_, test) = reference("test", "tests")?;
        let schedule = node.get("schedule").map(|_| reference("schedule", "schedules")).transpose()?;
        let schedule = schedule.map(|(_, schedule)| schedule);
        if !self.groups.contains_key(group) {
            self.leave_out(
                node,
                format!("{} is a list of single addresses, and a monitor measures between two", group_node.path),
            );
            return Ok(None);
        }
        let Some(kind) = self.read_test(node, &test, schedule.as_ref())? else { return Ok(None) };
        let spec = test.get("spec");
        let version = spec.as_ref().and_then(|spec| spec.get("ip-version")).and_then(|version| version.value.as_u64());
        let family = match version {
            Some(4) => Some(Family::V4),
            Some(6) => Some(Family::V6),
            _ => None,
        };
        for member in ["tools", "subtasks", "reference", "priority", "scheduled-by"] {
            if let Some(item) = node.get(member) {
                self.leave_out(&item, "a monitor has one way of measuring, and starts it itself");
            }
        }
        Ok(Some(Task { group: group.to_owned(), kind, family }))
    }

    fn read_test(
        &mut self,
        task: &Node<'_>,
        test: &Node<'_>,
        schedule: Option<&Node<'_>>,
    ) -> Result<Option<TestKind>, PsconfigError> {
        let kind = test.expect("type")?.text()?;
        let used: &[&str] = match kind {
            "latencybg" | "latency" => &["packet-interval"],
            "rtt" | "throughput" => &[],
            other => {
                let reason =
                    format!("`{other:.40}` is no test of a monitor: it measures delay, loss and available bandwidth");
                self.leave_out(task, reason);
                return Ok(None);
            }
        };
        if let Some(spec) = test.get("spec") {
            for (name, item) in spec.members()? {
                let is_known = ["source", "dest", "source-node", "dest-node", "ip-version", "flip"].contains(&name);
                if !is_known && !used.contains(&name) && !SILENT_MEMBERS.contains(&name) {
                    self.leave_out(&item, spec_reason(kind));
                }
            }
        }
        let repeat = self.read_schedule(schedule)?;
        if kind == "throughput" {
            let period = repeat.filter(|period| is_within(*period, VALID_PERIODS));
            if period.is_none() {
                self.leave_out(
                    task,
                    "its schedule has no `repeat` from 30 seconds to 366 days: set `measure` yourself",
                );
            }
            return Ok(period.map(|period| TestKind::Bandwidth { period }));
        }
        let interval = test.get("spec").and_then(|spec| spec.get("packet-interval"));
        let seconds = interval.and_then(|interval| interval.value.as_f64());
        let interval = seconds.map(Span::from_secs_f64).filter(|interval| is_within(*interval, VALID_INTERVALS));
        Ok(Some(TestKind::Delay { interval }))
    }

    /// How often, where that is said.
    fn read_schedule(&mut self, node: Option<&Node<'_>>) -> Result<Option<Span>, PsconfigError> {
        let Some(node) = node else { return Ok(None) };
        for (name, item) in node.members()? {
            // Random times are what a monitor has in any case.
            if !["repeat", "slip", "sliprand"].contains(&name) && !SILENT_MEMBERS.contains(&name) {
                self.leave_out(&item, "a monitor measures from its start to its end, at times that it chooses");
            }
        }
        let Some(repeat) = node.get("repeat") else { return Ok(None) };
        let text = repeat.text()?;
        let span: jiff::Span = text
            .parse()
            .map_err(|_| repeat.wrong(format!("`{text:.40}` is no ISO 8601 duration: write it like PT4H or P1D")))?;
        let seconds = span.total((Unit::Second, SpanRelativeTo::days_are_24_hours()));
        Ok(seconds.ok().map(Span::from_secs_f64))
    }
}

fn spec_reason(kind: &str) -> &'static str {
    match kind {
        "throughput" => "a measurement sends what it needs to find the available bandwidth, and ends then",
        _ => "light probes go on all day, one at a time",
    }
}

fn is_within(span: Span, [least, most]: [Span; 2]) -> bool {
    (least..=most).contains(&span)
}

/// A name or an address that can stand in a configuration file.
fn host_text(node: &Node<'_>) -> Result<String, PsconfigError> {
    let text = node.text()?;
    let is_host =
        (1..=253).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || ".:-_%".contains(c));
    if is_host { Ok(text.to_owned()) } else { Err(node.wrong("it is neither a host name nor an IP address")) }
}
