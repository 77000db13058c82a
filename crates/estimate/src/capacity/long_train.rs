//! How a long train came as a whole.

use train::PacketRecord;

/// So many gaps between packets must be known.
const MIN_GAPS: usize = 5;

/// Packets that came one after the other; of those around a lost one it is not known what passed between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LongTrain {
    /// Without the first packet.
    bits: f64,
    /// In which they came.
    seconds: f64,
    /// How long the first packet took, in seconds, up to what the clocks differ by.
    delay: f64,
}

/// The rate of a long train, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LongRate {
    pub(crate) seen: f64,
    /// If its first packet had come as early as it could, and neither cross traffic nor the receiver had held it up: `seen`
    /// or less.
    pub(crate) undelayed: f64,
}

impl LongTrain {
    pub(super) fn read(packets: &[PacketRecord]) -> Option<Self> {
        let came = |pair: &[PacketRecord]| {
            let received = (pair[1].received? - pair[0].received?).as_secs_f64();
            (received >= 0.0 && pair[1].size > 0).then_some((f64::from(pair[1].size) * 8.0, received))
        };
        let gaps: Vec<(f64, f64)> = packets.windows(2).filter_map(came).collect();
        let (bits, seconds) = gaps.iter().fold((0.0, 0.0), |sum, gap| (sum.0 + gap.0, sum.1 + gap.1));
        let delay = first_delay(packets)?;
        (gaps.len() >= MIN_GAPS && seconds > 0.0).then_some(LongTrain { bits, seconds, delay })
    }

    /// In bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.bits / self.seconds
    }

    /// On a path that takes `least` seconds.
    pub(super) fn rates(&self, least: f64) -> LongRate {
        let late = (self.delay - least).max(0.0);
        LongRate { seen: self.rate(), undelayed: self.bits / (self.seconds + late) }
    }
}

/// How long the first packet took of which that is known, in seconds, up to what the clocks differ by.
pub(super) fn first_delay(packets: &[PacketRecord]) -> Option<f64> {
    packets.iter().find_map(|p| Some((p.received? - p.sent?).as_secs_f64()))
}
