//! How many packets of a train pass at once, by a token bucket of a few packets.

use super::result::Shaper;
use crate::stats::median;
use kumade_probe_train::{Estimate, PacketRecord};
use kumade_units::Rate;

/// Of so many gaps at the beginning of a train not all are short behind a small bucket, …
const MAX_EARLY_GAPS: usize = 4;
/// … and so many at least come behind them.
const MIN_LATE_GAPS: usize = 2;
/// So many trains show a small bucket at least, and such a part of all: a host that wakes up late delays the first packet of some.
const MIN_INFORMATIVE_TRAINS: usize = 2;
const MIN_INFORMATIVE_PART: f64 = 0.15;
/// On faster paths, hosts delay packets by as much, in seconds.
const MIN_USUAL_GAP_SECONDS: f64 = 50e-6;
/// They come closer together than this part of the usual time between packets, …
const AT_ONCE_GAP_PART: f64 = 0.25;
/// … and hardly any others come closer than this part: radio links and hosts let packets come irregularly.
const PACED_GAP_PART: f64 = 0.4;
const MAX_CLOSE_GAPS_PART: f64 = 0.05;

/// How many packets pass a token bucket of a few packets before one waits for tokens; 1 where there is none. The kernel's HTB is one by
/// default: it passes a packet whenever there are any tokens, and its bucket holds 1600 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SmallBucket(u32);

impl Default for SmallBucket {
    fn default() -> Self {
        SmallBucket::NO_BUCKET
    }
}

impl SmallBucket {
    pub(super) const NO_BUCKET: SmallBucket = SmallBucket(1);

    /// As the packets of a train arrived that were sent back to back, in their order.
    pub(super) fn from_train(packets: &[PacketRecord]) -> Self {
        let gap = |pair: &[PacketRecord]| Some((pair[1].received? - pair[0].received?).as_secs_f64());
        let gaps: Vec<f64> = packets.windows(2).map_while(gap).collect();
        let (early, late) = gaps.split_at(gaps.len().saturating_sub(MIN_LATE_GAPS).min(MAX_EARLY_GAPS));
        let Some(usual) = median(late).filter(|usual| *usual > MIN_USUAL_GAP_SECONDS) else {
            return SmallBucket::NO_BUCKET;
        };
        let close = early.iter().take_while(|gap| **gap < AT_ONCE_GAP_PART * usual).count();
        let irregular = late.iter().filter(|gap| **gap < PACED_GAP_PART * usual).count();
        let is_paced = irregular as f64 <= MAX_CLOSE_GAPS_PART * late.len() as f64;
        if close < MAX_EARLY_GAPS && is_paced { SmallBucket(1 + close as u32) } else { SmallBucket::NO_BUCKET }
    }

    /// What a part of all trains shows at least: cross traffic has used the tokens before others.
    pub(super) fn from_most_trains(trains: &[SmallBucket]) -> Self {
        let mut trains = trains.to_vec();
        trains.sort_by(|a, b| b.cmp(a));
        let place = ((trains.len() as f64 * MIN_INFORMATIVE_PART) as usize).max(MIN_INFORMATIVE_TRAINS - 1);
        trains.get(place).copied().unwrap_or_default()
    }

    pub(super) fn is_present(self) -> bool {
        self != SmallBucket::NO_BUCKET
    }

    /// So many packets of full size.
    pub(super) fn from_packets(packets: u32) -> Self {
        SmallBucket(packets.max(1))
    }

    /// In the words of the result.
    pub(super) fn shaper(self, committed_rate: Estimate<Rate>, full: u32) -> Option<Shaper> {
        let bytes = |packets: u32| u64::from(packets) * u64::from(full);
        let [value, low, high] = [self.0, self.0, self.0 + 1].map(bytes);
        let burst_bytes = Estimate { value, low, high, confidence: committed_rate.confidence };
        self.is_present().then_some(Shaper { peak_rate: None, committed_rate, burst_bytes })
    }

    /// How many more packets a burst needs, to have as many behind those that pass at once as without them.
    pub(super) fn additional_packets(self) -> u32 {
        if self.is_present() { self.0 } else { 0 }
    }

    /// The place of the first packet of `size` bytes that waits for tokens, and behind which packets come at the committed rate: 0 where
    /// all do. The bucket has room for the packets of `full` bytes that pass at once, and less than one more.
    pub(super) fn first_paced(self, size: u32, full: u32) -> usize {
        if self.is_present() { (self.0 * full).div_ceil(size.max(1)) as usize } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::long_train::LongTrain;
    use super::*;
    use kumade_units::{Span, Time};

    /// Packets of 1500 bytes, sent back to back, with these times between arrivals, in µs.
    fn train(gaps: &[f64]) -> Vec<PacketRecord> {
        let at = |micros: f64| Some(Time::ZERO + Span::from_secs_f64(micros * 1e-6));
        let mut came = 0.0;
        let arrivals = std::iter::once(&0.0).chain(gaps).enumerate();
        arrivals
            .map(|(index, gap)| {
                came += gap;
                PacketRecord { size: 1500, sent: at(index as f64), submitted: None, received: at(1000.0 + came) }
            })
            .collect()
    }

    /// 100 Mbit/s; the packet behind those that passed waits for a part of its tokens only.
    fn paced(at_once: usize, packets: usize) -> Vec<f64> {
        (1..packets)
            .map(|n| {
                if n < at_once {
                    2.0
                } else if n == at_once {
                    110.0
                } else {
                    120.0
                }
            })
            .collect()
    }

    #[test]
    fn packets_that_pass_a_small_bucket_at_once_are_counted() {
        for (at_once, packets) in [(1, 20), (2, 20), (3, 20), (4, 20), (2, 6), (3, 8), (2, 4)] {
            assert_eq!(
                SmallBucket::from_train(&train(&paced(at_once, packets))),
                SmallBucket::from_packets(at_once as u32),
                "{packets}"
            );
        }
        // A larger bucket is a shaper's.
        assert_eq!(SmallBucket::from_train(&train(&paced(7, 40))), SmallBucket::NO_BUCKET);
    }

    #[test]
    fn packets_that_come_in_batches_or_late_passed_no_bucket() {
        for gaps in [[0.0, 240.0].repeat(10), [0.0, 0.0, 360.0].repeat(6), [20.0, 400.0, 90.0, 15.0, 230.0].repeat(4)] {
            assert_eq!(SmallBucket::from_train(&train(&gaps)), SmallBucket::NO_BUCKET, "{gaps:?}");
        }
        // One of many, whose first packet came late.
        let trains: Vec<SmallBucket> = (0..12).map(|n| SmallBucket::from_packets(if n == 5 { 2 } else { 1 })).collect();
        assert_eq!(SmallBucket::from_most_trains(&trains), SmallBucket::NO_BUCKET);
    }

    #[test]
    fn a_rate_is_that_of_the_packets_behind_the_bucket() {
        let packets = train(&paced(2, 20));
        let read = |at_once| LongTrain::from_packets(&packets, at_once).unwrap().rate();
        assert!((read(SmallBucket::from_train(&packets)) / 100e6 - 1.0).abs() < 1e-6);
        assert!(read(SmallBucket::NO_BUCKET) > 105e6);
        assert_eq!([1500, 750, 500].map(|size| SmallBucket::from_train(&packets).first_paced(size, 1500)), [2, 4, 6]);
        assert_eq!(SmallBucket::NO_BUCKET.first_paced(1500, 1500), 0);
    }
}
