//! The paths between two gateways that several threads use.

use crate::path::shared::{ShardPath, SharedPath};
use crate::path::state::PathConfig;
use kumade_units::Time;
use std::sync::Arc;

/// The paths to a far end that several bonds share, each on a thread of its own: [`Bond::for_shard`](crate::Bond::for_shard). Each
/// of them numbers its packets and judges which paths answer it; together they have one pace and one rate for each path.
#[derive(Debug, Clone)]
pub struct SharedPaths {
    paths: Vec<Arc<SharedPath>>,
    shard_count: usize,
}

impl SharedPaths {
    /// Paths for so many bonds, at least one.
    pub fn new(paths: &[PathConfig], shards: usize, now: Time) -> Self {
        let path = |path: &PathConfig| Arc::new(SharedPath::new(path.rate, path.max_rate, shards.max(1), now));
        SharedPaths { paths: paths.iter().map(path).collect(), shard_count: shards.max(1) }
    }

    /// The same paths, and these behind them.
    pub fn add_paths(&mut self, paths: &[PathConfig], now: Time) {
        self.paths.extend(SharedPaths::new(paths, self.shard_count, now).paths);
    }

    /// How many bonds there are for.
    pub fn shard_count(&self) -> usize {
        self.shard_count
    }

    /// How many paths.
    pub fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// The parts of a shard in the paths.
    pub(crate) fn shard_paths(&self, shard: usize) -> impl Iterator<Item = ShardPath> {
        self.paths.iter().map(move |path| ShardPath::new(Arc::clone(path), shard))
    }
}
