//! The gaps between packets that were sent back to back, and what they show of a link.

use crate::stats::{mean, median};

/// Gaps at the sender are no longer than this part of those at the receiver where the path, not the sender, sets the pace.
const MAX_GAP_RATIO: f64 = 0.8;
/// A receiver that reports packets in batches leaves no longer gap within one, in seconds.
const MAX_GAP_IN_BATCH_SECONDS: f64 = 1e-6;

/// From each packet that arrived to the next one of the train, in seconds: when they were sent, and when they arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct PacketGaps {
    sent: Vec<f64>,
    received: Vec<f64>,
}

/// A gap as it was sent and as it arrived, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) sent: f64,
    pub(crate) received: f64,
}

impl Gap {
    /// The ratio of the input gap to the output gap: the larger, the more cross traffic can get between the packets.
    pub(crate) fn ratio(self) -> f64 {
        self.sent / self.received
    }

    /// Whether the path, not the sender, set the pace.
    pub(crate) fn is_set_by_path(self) -> bool {
        self.ratio() < MAX_GAP_RATIO
    }
}

impl PacketGaps {
    pub(crate) fn push(&mut self, gap: Gap) {
        self.sent.push(gap.sent);
        self.received.push(gap.received);
    }

    /// The median gaps: those of the narrow link, if cross traffic is in few. Where packets arrive in batches, only the means tell. None where
    /// stamps show none.
    pub(crate) fn usual(&self) -> Option<Gap> {
        let usual = |gaps: &[f64]| if self.is_batched() { Some(mean(gaps)) } else { median(gaps) };
        let gap = Gap { sent: usual(&self.sent)?, received: usual(&self.received)? };
        (gap.received > MAX_GAP_IN_BATCH_SECONDS).then_some(gap)
    }

    /// Whether a device reports packets in batches.
    pub(crate) fn is_batched(&self) -> bool {
        self.received.iter().filter(|gap| **gap < MAX_GAP_IN_BATCH_SECONDS).count() * 4 > self.received.len()
    }

    /// The second shortest gap at the receiver, in seconds: cross traffic only lengthens gaps, and one packet that was held up by a host shortens
    /// one of them. None of fewer than two.
    pub(crate) fn second_shortest(&self) -> Option<f64> {
        let mut received = self.received.clone();
        received.sort_by(f64::total_cmp);
        received.get(1).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.received.len()
    }
}
