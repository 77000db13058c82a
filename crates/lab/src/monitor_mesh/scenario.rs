use crate::values::{rate, ratio, span};
use kumade_units::{Rate, Span};
use serde::Deserialize;

/// A mesh to be monitored. It comes from a scenario file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorMeshExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// Mean interval between light probes.
    #[serde(deserialize_with = "span")]
    pub interval: Span,
    /// From one measurement of a pair to the next.
    #[serde(rename = "measure", deserialize_with = "span")]
    pub period: Span,
    /// How long it runs, if nobody ends it before.
    #[serde(deserialize_with = "span")]
    pub duration: Span,
    /// At least two, with different names.
    pub sites: Vec<MeshSite>,
}

/// A site, behind an emulated link of its own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshSite {
    /// Its name.
    pub name: String,
    /// Of its link, in either direction.
    #[serde(deserialize_with = "rate")]
    pub rate: Rate,
    /// One-way delay of its link.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// The part of the packets that its link loses, in either direction.
    #[serde(default, deserialize_with = "ratio")]
    pub loss: f64,
    /// Mean rate of the cross traffic on the way from the site.
    #[serde(default, deserialize_with = "rate")]
    pub cross: Rate,
}

impl MonitorMeshExperiment {
    /// How many directions there are: from each site to each other.
    pub fn direction_count(&self) -> usize {
        self.sites.len() * (self.sites.len() - 1)
    }

    /// About how many measurements of a direction there are in its time.
    pub fn measurement_count(&self) -> usize {
        let rounds = self.duration.as_secs_f64() / self.period.as_secs_f64();
        self.direction_count() * (rounds as usize).max(1)
    }
}
