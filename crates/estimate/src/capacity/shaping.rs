//! Where in a back-to-back train the rate of arrivals falls permanently: the sign of a token bucket.

use super::long_train::{LongTrain, first_delay};
use super::result::Shaper;
use crate::stats::{mean, median, quantile, standard_deviation, student_t_95};
use kumade_probe_train::{Estimate, PacketRecord};
use kumade_units::Rate;

/// Gaps needed before a change …
const MIN_GAPS_BEFORE: usize = 2;
/// … and behind it.
const MIN_GAPS_AFTER: usize = 5;
/// The rate must fall by at least this factor.
const MIN_RATE_DROP_RATIO: f64 = 1.3;
/// By a smaller factor it may also fall behind a link that is hardly faster than the one before it, which cross traffic
/// fills.
const SLIGHT_RATE_DROP_RATIO: f64 = 1.9;
/// By a larger factor it falls behind a token bucket only.
const DEEP_RATE_DROP_RATIO: f64 = 5.0;
/// A first packet that is late by this part of the time in which the bucket fills looks like a bucket.
const MAX_LATENESS_PART: f64 = 0.5;
/// The gaps before and behind must differ by this many standard errors.
const MIN_STANDARD_ERRORS: f64 = 6.0;
/// Two trains show the same bucket if the bursts differ by less than this part …
const SAME_BURST_PART: f64 = 0.15;
/// … or by this many bits, which cross traffic may have used …
const CROSS_TRAFFIC_BITS: f64 = 24_000.0;
/// … if the rate differs by less than this, and by less than this otherwise.
const NEARLY_SAME_RATE_PART: f64 = 0.01;
/// … and the rate by less than this.
const SAME_RATE_PART: f64 = 0.05;

/// A smaller burst may also be that of a flow which waits for its turn from the second or third packet on, in bits.
const SMALL_BUCKET_BITS: f64 = 42_000.0;
/// Where the rate falls by a smaller factor, two or three flows may be served in turn, whose packets others often miss by chance.
const MIN_SMALL_BUCKET_RATE_DROP_RATIO: f64 = 4.0;

/// A change of the rate within a train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateChange {
    /// Packets before it.
    pub(crate) packets_before: u32,
    /// From there on, in bit/s.
    pub(crate) rate_after: f64,
    /// The rate before, divided by the rate from there on.
    pub(crate) rate_drop_ratio: f64,
    /// Bits that passed in excess of that rate.
    pub(crate) burst_bits: f64,
    /// The delay of the first packet, in seconds, plus the clocks' unknown offset.
    delay: f64,
}

impl RateChange {
    /// Whether cross traffic may be the cause.
    pub(crate) fn is_slight(&self) -> bool {
        self.rate_drop_ratio < SLIGHT_RATE_DROP_RATIO
    }

    /// Whether it looks like a bucket of a few packets, or a queue in which many flows are served in turn.
    pub(super) fn is_small_bucket(&self) -> bool {
        self.burst_bits < SMALL_BUCKET_BITS && self.rate_drop_ratio > MIN_SMALL_BUCKET_RATE_DROP_RATIO
    }

    /// Whether the train's first packet was so much later than the path's least delay of `least` seconds that the packets
    /// which look like a bucket's burst arrived while the receiving host was idle, and were stamped all at once.
    pub(super) fn is_lateness(&self, least: f64) -> bool {
        self.delay - least > MAX_LATENESS_PART * self.burst_bits / self.rate_after
    }
}

/// From one packet to the next; times in seconds per bit of the second.
#[derive(Debug, Clone, Copy)]
struct ArrivalGap {
    bits: f64,
    sent: f64,
    received: f64,
}

/// The change in this train, if there is a clear one.
pub(crate) fn find_rate_change(packets: &[PacketRecord]) -> Option<RateChange> {
    let gaps = arrival_gaps(packets);
    let split = split_gaps(&gaps)?;
    let (before, after) = gaps.split_at(split);
    let pace = |part: &[ArrivalGap]| part.iter().map(|gap| gap.received / gap.bits).collect::<Vec<_>>();
    let (early, late) = (pace(before), pace(after));
    let error = |part: &[f64]| standard_deviation(part).powi(2) / part.len() as f64;
    let clear = mean(&late) - mean(&early) > MIN_STANDARD_ERRORS * (error(&early) + error(&late)).sqrt();
    let fall = median(&late)? / median(&early)?.max(1e-12);
    // The packet at the change waited for a part of its tokens only.
    let total = |of: fn(&ArrivalGap) -> f64| after[1..].iter().map(of).sum::<f64>();
    let received = total(|gap| gap.received);
    // Else it was the sender that became slower.
    let queued = received > 1.1 * total(|gap| gap.sent);
    if !(clear && fall > MIN_RATE_DROP_RATIO && queued && received > 0.0) {
        return None;
    }
    let rate = sustained_rate(&after[1..]);
    let first = f64::from(packets.iter().find(|p| p.received.is_some())?.size) * 8.0;
    let mut passed = (first, 0.0);
    let mut beyond = Vec::with_capacity(gaps.len());
    for gap in &gaps {
        passed = (passed.0 + gap.bits, passed.1 + gap.received);
        beyond.push(passed.0 - rate * passed.1);
    }
    let burst = median(&beyond[split..])?;
    let delay = first_delay(packets)?;
    (burst > first).then_some(RateChange {
        packets_before: split as u32 + 1,
        rate_after: rate,
        rate_drop_ratio: fall,
        burst_bits: burst,
        delay,
    })
}

/// The rate of these gaps: of those that are about as long as most of them, if there are such, since the rest may contain
/// cross traffic.
fn sustained_rate(gaps: &[ArrivalGap]) -> f64 {
    let pace = |gap: &ArrivalGap| gap.received / gap.bits;
    let usual = median(&gaps.iter().map(pace).collect::<Vec<_>>()).unwrap_or(0.0);
    let alike: Vec<&ArrivalGap> = gaps.iter().filter(|gap| (0.8..1.25).contains(&(pace(gap) / usual))).collect();
    let counted = if alike.len() * 2 > gaps.len() { alike } else { gaps.iter().collect() };
    counted.iter().map(|gap| gap.bits).sum::<f64>() / counted.iter().map(|gap| gap.received).sum::<f64>()
}

/// Where the gaps' paces are best told apart by two means.
fn split_gaps(gaps: &[ArrivalGap]) -> Option<usize> {
    let pace: Vec<f64> = gaps.iter().map(|gap| gap.received / gap.bits).collect();
    let total: f64 = pace.iter().sum();
    let last = pace.len().checked_sub(MIN_GAPS_AFTER)?;
    let mut sum: f64 = pace.iter().take(MIN_GAPS_BEFORE).sum();
    let mut best: Option<(f64, usize)> = None;
    for split in MIN_GAPS_BEFORE..=last {
        let (before, after) = (split as f64, (pace.len() - split) as f64);
        let explained = (sum / before - (total - sum) / after).powi(2) * before * after;
        if best.is_none_or(|(most, _)| explained > most) {
            best = Some((explained, split));
        }
        sum += pace.get(split)?;
    }
    best.map(|(_, split)| split)
}

/// Between packets of which none is missing: of those around a lost one it is not known what passed between them.
fn arrival_gaps(packets: &[PacketRecord]) -> Vec<ArrivalGap> {
    let between = |pair: &[PacketRecord]| {
        let (sent, received) = (pair[1].sent? - pair[0].sent?, pair[1].received? - pair[0].received?);
        let (sent, received) = (sent.as_secs_f64(), received.as_secs_f64());
        let gap = ArrivalGap { bits: f64::from(pair[1].size) * 8.0, sent, received };
        (sent >= 0.0 && received >= 0.0 && pair[1].size > 0).then_some(gap)
    };
    packets.windows(2).filter_map(between).collect()
}

/// The mean of the changes that are the same, if there are two or more, or three where the rate falls by little; a queue
/// filled by cross traffic does not empty at the same byte again.
pub(crate) fn reproduced_change(changes: &[Option<RateChange>]) -> Option<RateChange> {
    let same = similar_changes(changes);
    let mean_of = |of: fn(&RateChange) -> f64| mean(&same.iter().map(of).collect::<Vec<_>>());
    let mean_change = RateChange {
        packets_before: same.iter().map(|change| change.packets_before).min().unwrap_or(0),
        rate_after: mean_of(|change| change.rate_after),
        rate_drop_ratio: mean_of(|change| change.rate_drop_ratio),
        burst_bits: mean_of(|change| change.burst_bits),
        delay: mean_of(|change| change.delay),
    };
    (same.len() >= if mean_change.is_slight() { 3 } else { 2 }).then_some(mean_change)
}

/// The change by which the rate fell so far, if a later train arrived at that rate as a whole: the bucket was still empty. For
/// where nothing better can be had, since the bucket may be larger than it was full.
pub(super) fn confirmed_change(changes: &[Option<RateChange>], long: &[LongTrain]) -> Option<RateChange> {
    let fullest = fullest_change(changes)?;
    let whole = long.iter().any(|train| are_close(train.rate(), fullest.rate_after, SAME_RATE_PART));
    (fullest.rate_drop_ratio > DEEP_RATE_DROP_RATIO && whole).then_some(fullest)
}

/// The change that showed the bucket at its fullest: cross traffic may have used part of it before.
pub(super) fn fullest_change(changes: &[Option<RateChange>]) -> Option<RateChange> {
    changes.iter().flatten().max_by(|a, b| a.burst_bits.total_cmp(&b.burst_bits)).copied()
}

fn are_close(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * a.max(b)
}

fn similar_changes(changes: &[Option<RateChange>]) -> Vec<RateChange> {
    let found = || changes.iter().flatten();
    let like = |one: &RateChange| {
        let same = |other: &&RateChange| {
            let near = (one.burst_bits - other.burst_bits).abs() <= CROSS_TRAFFIC_BITS
                && are_close(one.rate_after, other.rate_after, NEARLY_SAME_RATE_PART);
            are_close(one.rate_after, other.rate_after, SAME_RATE_PART)
                && (near || are_close(one.burst_bits, other.burst_bits, SAME_BURST_PART))
        };
        found().filter(same).copied().collect::<Vec<_>>()
    };
    found().map(like).max_by_key(Vec::len).unwrap_or_default()
}

/// In the words of the result.
pub(crate) fn shaper_estimate(
    mean_change: &RateChange,
    changes: &[Option<RateChange>],
    peak_rate: Option<Estimate<Rate>>,
) -> Shaper {
    let same = similar_changes(changes);
    let same = if same.len() < 2 { vec![*mean_change] } else { same };
    let [rate_margin, burst_margin] = [
        confidence_margin(
            &same.iter().map(|change| change.rate_after).collect::<Vec<_>>(),
            0.002 * mean_change.rate_after,
        ),
        confidence_margin(
            &same.iter().map(|change| change.burst_bits).collect::<Vec<_>>(),
            0.01 * mean_change.burst_bits,
        ),
    ];
    let rate = [0.0, -1.0, 1.0].map(|sign| Rate::from_f64(mean_change.rate_after + sign * rate_margin));
    let burst =
        [0.0, -1.0, 1.0].map(|sign| ((mean_change.burst_bits + sign * burst_margin) / 8.0).round().max(0.0) as u64);
    Shaper {
        peak_rate,
        committed_rate: Estimate { value: rate[0], low: rate[1], high: rate[2], confidence: 0.95 },
        burst_bytes: Estimate { value: burst[0], low: burst[1], high: burst[2], confidence: 0.95 },
    }
}

/// Half of the 95 % interval of the mean, at least this.
fn confidence_margin(values: &[f64], least: f64) -> f64 {
    let widest = quantile(values, 1.0).unwrap_or(0.0) - quantile(values, 0.0).unwrap_or(0.0);
    let scatter = student_t_95(values.len()) * standard_deviation(values) / (values.len() as f64).sqrt();
    scatter.min(widest.max(least)).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::{Span, Time};

    /// Packets of 1500 bytes that come at these instants, in µs, sent 5 µs apart.
    fn train(arrivals: impl IntoIterator<Item = f64>) -> Vec<PacketRecord> {
        let at = |micros: f64| Some(Time::ZERO + Span::from_secs_f64(micros * 1e-6));
        let packets = arrivals.into_iter().enumerate();
        packets
            .map(|(index, came)| PacketRecord {
                size: 1500,
                sent: at(index as f64 * 5.0),
                submitted: None,
                received: at(came),
            })
            .collect()
    }

    /// Seven at 1 Gbit/s, then 10 Mbit/s: a bucket of seven packets that fills meanwhile.
    fn shaped() -> Vec<PacketRecord> {
        train((0..30).map(|n| f64::from(n) * 12.0).map(|t| if t <= 72.0 { t } else { (t - 72.0) * 100.0 }))
    }

    #[test]
    fn the_bucket_is_what_passed_in_excess_of_the_sustained_rate() {
        let change = find_rate_change(&shaped()).unwrap();
        assert_eq!(change.packets_before, 7);
        assert!((change.rate_after - 10e6).abs() < 1e3, "{change:?}");
        // The eighth came 1.2 ms after the first, as if the bucket had been empty at the seventh.
        assert!((change.burst_bits - 7.0 * 12e3).abs() < 100.0, "{change:?}");
    }

    #[test]
    fn lost_packets_do_not_count_as_slowness() {
        let mut packets = shaped();
        packets[15].received = None;
        packets[22].received = None;
        assert!((find_rate_change(&packets).unwrap().rate_after - 10e6).abs() < 1e3);
    }

    #[test]
    fn cross_traffic_and_a_slow_sender_are_no_shaper() {
        // Every third packet has another's before it, first seldom and then more often.
        let mut came = 0.0;
        let busy = (0..60).map(|n| {
            came += if n % 3 == 0 || (n > 30 && n % 2 == 0) { 240.0 } else { 120.0 };
            came
        });
        assert_eq!(find_rate_change(&train(busy)), None);
        let mut slow = shaped();
        slow.iter_mut().for_each(|packet| packet.sent = packet.received);
        assert_eq!(find_rate_change(&slow), None);
    }

    #[test]
    fn a_change_counts_when_it_comes_back_at_the_same_byte() {
        let change = |burst, rate| {
            Some(RateChange {
                packets_before: 7,
                rate_after: rate,
                rate_drop_ratio: 100.0,
                burst_bits: burst,
                delay: 0.0,
            })
        };
        assert_eq!(reproduced_change(&[change(80e3, 10e6)]), None);
        assert_eq!(reproduced_change(&[change(80e3, 10e6), change(30e3, 10e6), change(80e3, 7e6)]), None);
        let found = reproduced_change(&[change(30e3, 10e6), change(80e3, 10e6), None, change(84e3, 10.1e6)]).unwrap();
        assert_eq!((found.burst_bits, found.rate_after), (82e3, 10.05e6));
    }
}
