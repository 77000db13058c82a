use super::attack::Attack;
use crate::atlas::SeedChoice;
use crate::fairness::{ConnectionGroup, DisciplineChoice, LinkContext, SharedLink};
use crate::values::{size, span};
use kumade_link::queue::QueueConfig;
use kumade_units::{ConfigError, Rate, Span};
use serde::Deserialize;

/// An experiment on contention. It comes from a scenario file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq)]
pub struct ContentionExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The link for which all compete.
    pub bottleneck: SharedLink,
    /// Who competes for it.
    pub cases: Vec<ContentionCase>,
    /// Sparse packets beside each case.
    pub probes: Option<Probes>,
    /// Short transfers beside each case.
    pub short_flows: Option<ShortFlows>,
    /// Which seeds the runs have.
    pub seeds: SeedChoice,
    /// How long is measured, …
    pub duration: Span,
    /// … after all have run for so long.
    pub warm_up: Span,
    /// Whether it runs in virtual time with the simulator's TCP; else over the kernel's.
    pub virtual_time: bool,
    /// If attackers are searched for in place of the cases' own: how.
    pub search: Option<SearchSettings>,
}

/// Bulk transfers at the bottleneck, and what disturbs them.
#[derive(Debug, Clone, PartialEq)]
pub struct ContentionCase {
    /// Names it in reports.
    pub label: String,
    /// The bulk transfers.
    pub bulk: Vec<ConnectionGroup>,
    /// A sender beside them that follows no rules.
    pub attack: Option<Attack>,
    /// The rate that the bottleneck has from the begin of the measurement on, if it changes.
    pub rate_change: Option<Rate>,
    /// What is compared.
    pub disciplines: Vec<DisciplineChoice>,
    /// How often it is run with each discipline.
    pub runs: u32,
}

/// A sparse UDP flow: packets at random times (a Poisson process).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probes {
    /// IP bytes of each.
    #[serde(deserialize_with = "size")]
    pub packet: u64,
    /// Mean time between two.
    #[serde(deserialize_with = "span")]
    pub interval: Span,
}

/// CUBIC connections that send little and end, one after the other at equal intervals.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortFlows {
    /// Payload of each.
    #[serde(deserialize_with = "size")]
    pub bytes: u64,
    /// Time between the beginnings of two.
    #[serde(deserialize_with = "span")]
    pub interval: Span,
}

/// How attackers are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSettings {
    /// How many patterns are tried for each discipline and goal, one run each, with seeds that judge nothing.
    pub evaluations: u32,
}

/// One run: what one row of the report is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContentionPoint<'a> {
    /// Who competes.
    pub case: &'a ContentionCase,
    /// The discipline before the bottleneck.
    pub discipline: &'a DisciplineChoice,
    /// Counted from 1.
    pub run: u32,
    /// The seed of all its random numbers; the same for all disciplines.
    pub seed: u64,
}

impl ContentionPoint<'_> {
    /// The queue before the bottleneck.
    pub(super) fn queue_config(&self, shared: &SharedLink) -> Result<QueueConfig, ConfigError> {
        let discipline = self.discipline.build(LinkContext { rate: shared.rate, heavy_flows: &[] });
        let queue = QueueConfig { limit: shared.queue.to_limit(shared.rate, shared.delay * 2), discipline };
        queue.check()?;
        Ok(queue)
    }
}

impl ContentionCase {
    /// The number of bulk transfers.
    pub fn connection_count(&self) -> u32 {
        self.bulk.iter().map(|group| group.connections).sum()
    }

    /// What each sender has where the bottleneck is divided into as many equal parts as there are bulk transfers and
    /// attackers.
    pub fn equal_share(&self, bottleneck: Rate) -> Rate {
        let senders = self.connection_count() + u32::from(self.attack.is_some());
        Rate::from_f64(self.measured_rate(bottleneck).as_f64() / f64::from(senders.max(1)))
    }

    /// The bottleneck's rate while it is measured.
    pub fn measured_rate(&self, bottleneck: Rate) -> Rate {
        self.rate_change.unwrap_or(bottleneck)
    }
}
