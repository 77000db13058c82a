//! The rate of a long train as a whole.

use super::small_bucket::SmallBucket;
use kumade_probe_train::PacketRecord;

/// So many gaps between packets must be known.
const MIN_GAP_COUNT: usize = 5;
/// Consecutive packets that arrived; what passed between those around a lost one is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LongTrain {
    /// Without the first packet.
    bits: f64,
    /// The time in which they arrived.
    seconds: f64,
    /// The delay of the first packet, in seconds, plus the clocks' unknown offset.
    delay: f64,
}

/// The rate of a long train, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LongTrainRate {
    pub(crate) observed: f64,
    /// With the first packet's excess delay, caused by cross traffic or the receiving host, added: `observed` or less.
    pub(crate) delay_corrected: f64,
}

impl LongTrain {
    /// Packets in the order in which they arrived: behind flow queueing those of many connections overtake each other. Of those that
    /// passed `at_once` it tells nothing but the delay.
    pub(super) fn from_packets(packets: &[PacketRecord], at_once: SmallBucket) -> Option<Self> {
        let came = |pair: &[PacketRecord]| {
            let received = (pair[1].received? - pair[0].received?).as_secs_f64();
            (received >= 0.0 && pair[1].size > 0).then_some((f64::from(pair[1].size) * 8.0, received))
        };
        let size = packets.first()?.size;
        let counted = packets.get(at_once.first_paced(size, size)..)?;
        let gaps: Vec<(f64, f64)> = counted.windows(2).filter_map(came).collect();
        let (bits, seconds) = gaps.iter().fold((0.0, 0.0), |sum, gap| (sum.0 + gap.0, sum.1 + gap.1));
        let delay = first_delay(packets)?;
        (gaps.len() >= MIN_GAP_COUNT && seconds > 0.0).then_some(LongTrain { bits, seconds, delay })
    }

    /// Of the first packet, in seconds, plus the clocks' unknown offset.
    pub(super) fn delay(&self) -> f64 {
        self.delay
    }

    /// That arrived behind the first packet.
    pub(super) fn bits(&self) -> f64 {
        self.bits
    }

    /// In bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.bits / self.seconds
    }

    /// On a path that takes `least` seconds.
    pub(super) fn rate_range(&self, least: f64) -> LongTrainRate {
        let late = (self.delay - least).max(0.0);
        LongTrainRate { observed: self.rate(), delay_corrected: self.bits / (self.seconds + late) }
    }
}

/// The delay of the first packet that has both stamps, in seconds, plus the clocks' unknown offset.
pub(super) fn first_delay(packets: &[PacketRecord]) -> Option<f64> {
    packets.iter().find_map(|p| Some((p.received? - p.sent?).as_secs_f64()))
}
