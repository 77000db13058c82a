//! Up to where figures have been sent.

use kumade_archive::PairId;
use kumade_units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far each pair's figures have been sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    pairs: BTreeMap<PairId, PairPosition>,
}

/// Nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PairPosition {
    /// Minutes that begin before it.
    pub(crate) minutes: i64,
    /// Measurements that have ended by then.
    pub(crate) runs: i64,
}

impl Position {
    /// The archive keeps it by this key.
    pub const STATE_KEY: &'static str = "remote-write.position";

    /// As it was stored; of what is damaged, nothing was sent.
    pub fn decode(stored: Option<&[u8]>) -> Self {
        stored.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
    }

    /// To be stored.
    pub fn encode(&self) -> Vec<u8> {
        // Numbers always can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// That of a pair; what is before `oldest` counts as sent.
    pub(crate) fn pair(&self, pair: PairId, oldest: Time) -> PairPosition {
        let oldest = oldest.as_nanos();
        let PairPosition { minutes, runs } =
            self.pairs.get(&pair).copied().unwrap_or(PairPosition { minutes: oldest, runs: oldest });
        PairPosition { minutes: minutes.max(oldest), runs: runs.max(oldest) }
    }

    pub(crate) fn set_pair(&mut self, pair: PairId, position: PairPosition) {
        self.pairs.insert(pair, position);
    }
}
