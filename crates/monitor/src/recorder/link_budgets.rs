//! What was carried over declared links, and may be.

use crate::config::{MeshConfig, MeshLink};
use crate::mesh::day_budget::{DayBudget, NotedUse};
use kumade_archive::{AnyStore, Archive, ArchiveError};
use kumade_units::Time;
use std::collections::BTreeMap;

/// What is known of the links of a mesh.
pub(super) struct LinkBudgets {
    pub(super) links: Vec<(String, DayBudget)>,
    pub(super) next_message: Time,
}

/// Under which the archive has what was carried.
pub(super) const LINKS_KEY: &str = "mesh.links";

impl LinkBudgets {
    /// Goes on from what the archive has.
    pub(super) fn open(
        mesh: &MeshConfig,
        archive: &mut Archive<AnyStore>,
        now: Time,
    ) -> Result<LinkBudgets, ArchiveError> {
        let stored = archive.read().state(LINKS_KEY)?;
        let mut noted: BTreeMap<String, NotedUse> =
            stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let mut open = |link: &MeshLink| {
            let budget = DayBudget::new(link.bytes_per_day, noted.remove(&link.name));
            (link.name.clone(), budget)
        };
        Ok(LinkBudgets { links: mesh.links.iter().map(&mut open).collect(), next_message: now })
    }
}
