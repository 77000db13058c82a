//! The paths between two gateways that several threads use.

use crate::path_state::PathConfig;
use crate::shared_path::{PathPart, SharedPath};
use kumade_units::Time;
use std::sync::Arc;

/// The paths to a far end that several bonds share, each on a thread of its own: [`Bond::sharing`](crate::Bond::sharing). Each
/// of them numbers its packets and judges which paths answer it; together they have one pace and one rate for each path.
#[derive(Debug, Clone)]
pub struct SharedPaths {
    paths: Vec<Arc<SharedPath>>,
    shards: usize,
}

impl SharedPaths {
    /// Paths for so many bonds, at least one.
    pub fn new(paths: &[PathConfig], shards: usize, now: Time) -> Self {
        let path = |path: &PathConfig| Arc::new(SharedPath::new(path.rate, path.max_rate, shards.max(1), now));
        SharedPaths { paths: paths.iter().map(path).collect(), shards: shards.max(1) }
    }

    /// How many bonds there are for.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// How many paths.
    pub(crate) fn paths(&self) -> usize {
        self.paths.len()
    }

    /// The parts of a shard in the paths.
    pub(crate) fn parts(&self, shard: usize) -> impl Iterator<Item = PathPart> {
        self.paths.iter().map(move |path| PathPart::new(Arc::clone(path), shard))
    }
}
