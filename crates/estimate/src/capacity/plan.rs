//! Which packets to send.

use super::shape::{BurstShape, MIN_BITS_PER_SECOND, WAKE_UP_PACKETS};
use super::small_bucket::SmallBucket;
use kumade_probe_train::{Segment, Train};
use kumade_units::Span;

/// The longest train's packets.
pub(super) const MAX_PACKETS: u32 = 136;
/// Trains of bursts that are sent where the value stays uncertain.
pub(super) const MAX_BURST_TRAINS: u32 = 8;
/// Bursts of one train: each takes two segments, of which a train has 64.
const MAX_BURSTS: usize = 32;
/// A long train lasts at most about this long, and has at most this many packets …
const LONG_TRAIN_SECONDS: f64 = 0.15;
const LONG_TRAIN_PACKETS: f64 = 100.0;
/// … or, on a path that is fast enough, [`MAX_PACKETS`] in this time: only a large bucket needs them.
const MAX_PACKETS_TRAIN_SECONDS: f64 = 0.1;
/// The first one has at most this many packets, which suffices for a small bucket, as slow paths may have.
const FIRST_LONG_TRAIN_PACKETS: u32 = 20;
/// A train of bursts lasts about this long.
const BURST_TRAIN_SECONDS: f64 = 0.1;
/// Bursts are at least this far apart: bursts of cross traffic last milliseconds.
const MIN_SPACING_SECONDS: f64 = 2e-3;
/// Dispersions should be longer than this, since stamps are accurate to a few µs, …
const MIN_DISPERSION_SECONDS: f64 = 60e-6;
/// … but need not have more gaps.
const MAX_GAPS: f64 = 6.0;
/// Where stamps are known to scatter, dispersions should be so many times as long: one is off by both ends, and a rate is then known to an eighth.
const MIN_DISPERSION_TO_SCATTER_RATIO: f64 = 16.0;
/// With so many gaps, a train has two rounds of all bursts. Where stamps would need more, longer bursts would not do either, and none are sent.
const MAX_GAPS_FOR_SCATTER: f64 = 9.0;
/// On paths slower than these, packets take so long that few must suffice.
const SLOW_BITS_PER_SECOND: f64 = 3e6;
const VERY_SLOW_BITS_PER_SECOND: f64 = 300e3;
/// Cross traffic that arrives within this part of a packet's transmission time is negligible.
pub(super) const NEGLIGIBLE_TRANSMISSION_PART: f64 = 0.02;
/// Stretched bursts have packets this much farther apart, so that the difference can be measured …
const STRETCH_SECONDS: f64 = 10e-6;
/// … but are left out where the path would queue them only below this.
const MIN_STRETCH_SECONDS: f64 = 3e-6;
/// From this rate on, a few µs matter.
const FAST_BITS_PER_SECOND: f64 = 50e6;

/// A few packets that tell roughly how fast the path is.
pub(super) fn plan_initial_train(max_packet: u32) -> Train {
    back_to_back_train(4, max_packet)
}

/// A train that empties a small bucket on a path of this rate, and one that empties most; none where the path is so slow
/// that it would be filled for too long.
pub(super) fn plan_long_train(rate: f64, second: bool, (max_packet, max_packets): (u32, u32)) -> Option<Train> {
    let within = |seconds: f64, packets: f64| (rate * seconds / (f64::from(max_packet) * 8.0)).min(packets);
    let packets = within(LONG_TRAIN_SECONDS, LONG_TRAIN_PACKETS)
        .max(within(MAX_PACKETS_TRAIN_SECONDS, f64::from(MAX_PACKETS))) as u32;
    let most = if second { MAX_PACKETS } else { FIRST_LONG_TRAIN_PACKETS };
    let worthwhile = if second { FIRST_LONG_TRAIN_PACKETS } else { 7 };
    let packets = packets.min(most).min(max_packets);
    (packets > worthwhile).then(|| back_to_back_train(packets, max_packet))
}

/// A train that shows again what became slower after so many packets.
pub(super) fn plan_repeated_train(packets: u32, (max_packet, max_packets): (u32, u32)) -> Train {
    back_to_back_train((packets * 5 / 2).clamp(FIRST_LONG_TRAIN_PACKETS, MAX_PACKETS).min(max_packets), max_packet)
}

/// How long to wait before a long train where no bucket has shown; for the one before, of so many bits, to drain if it
/// arrived so slowly.
pub(super) fn drain_time(slow: Option<f64>, bits: f64) -> Span {
    Span::from_secs_f64(slow.map_or(0.05, |rate| (2.0 * bits / rate).clamp(0.05, 1.0)))
}

/// How long to wait before a long train, so that a bucket is full which takes `fill` seconds if nobody else sends. What
/// cross traffic has queued behind the train before drains first, which took `queue` seconds itself: longer after each train
/// that `failed` to show the bucket again.
pub(super) fn refill_time(fill: f64, queue: f64, failed: usize) -> Span {
    let failed = failed.min(4) as i32;
    Span::from_secs_f64(((2.0 * fill + (0.5 + f64::from(failed)) * queue) * 2f64.powi(failed)).clamp(0.02, 2.0))
}

/// How long to wait before a train of bursts, for cross traffic to vary, and for the bucket to fill if there is one.
pub(super) fn pause_time(fill: Option<f64>, random: f64) -> Span {
    Span::from_secs_f64(0.01 + 0.04 * random + fill.unwrap_or(0.0).min(1.0))
}

/// Bursts that suit a path of this rate, of so many packets at most: two or three of full packets, one of smaller ones, and
/// one of full packets that are sent as far apart as the path still queues them, if to send one takes so many seconds that it
/// matters. Those that pass a small bucket at once come in addition.
pub(super) fn burst_shapes(
    rate: f64,
    sending: f64,
    max_packets: f64,
    scatter: Span,
    (max_packet, at_once): (u32, SmallBucket),
) -> Vec<BurstShape> {
    let size = max_packet.max(2);
    let more = at_once.additional_packets();
    let gaps = |seconds: f64| (seconds * rate / (f64::from(size) * 8.0)).ceil().max(1.0);
    let gaps_for_scatter = Some(gaps(MIN_DISPERSION_TO_SCATTER_RATIO * scatter.as_secs_f64()));
    let gaps_for_scatter = gaps_for_scatter.filter(|gaps| *gaps <= MAX_GAPS_FOR_SCATTER);
    let gaps = gaps(MIN_DISPERSION_SECONDS).min(MAX_GAPS).max(gaps_for_scatter.unwrap_or(1.0)) as u32;
    // Of packets that follow each other so closely, the first does not count.
    let least = if rate > FAST_BITS_PER_SECOND { (gaps + 1).max(WAKE_UP_PACKETS) } else { gaps + 1 };
    let counts = match rate {
        ..VERY_SLOW_BITS_PER_SECOND => vec![2, 3],
        VERY_SLOW_BITS_PER_SECOND..SLOW_BITS_PER_SECOND => vec![2, 3, 4],
        FAST_BITS_PER_SECOND.. if (f64::from(WAKE_UP_PACKETS) + 1.0..f64::from(least) + 2.0).contains(&max_packets) => {
            vec![WAKE_UP_PACKETS, WAKE_UP_PACKETS + 1]
        }
        _ if f64::from(least + 2) > max_packets => vec![2, 3, 4],
        _ => vec![least, least + 2, (2 * least).max(8)],
    };
    let interval = Span::ZERO;
    let full = counts.iter().map(|&packets| BurstShape { packets: packets + more, size, interval });
    let small = counts.get(1).map(|&packets| BurstShape { packets: packets + 2 * more, size: size / 2, interval });
    let pace = f64::from(size) * 8.0 / rate;
    let stretched = (sending + STRETCH_SECONDS).max(0.25 * pace).min(0.8 * pace);
    let matters = sending > NEGLIGIBLE_TRANSMISSION_PART * pace && stretched - sending > MIN_STRETCH_SECONDS;
    let interval = Span::from_secs_f64(stretched);
    let stretched = matters.then_some(BurstShape { packets: counts[1] + more, size, interval });
    full.chain(small).chain(stretched).filter(|shape| f64::from(shape.packets) <= max_packets).collect()
}

/// A train of such bursts in turn, far enough from each other for the path to drain if it is this fast; and the order of
/// the bursts. `random` from 0 to 1 keeps them out of phase with periodic cross traffic.
pub(super) fn plan_burst_train(
    shapes: &[BurstShape],
    rate: f64,
    sending: f64,
    random: f64,
    max_packets: u32,
) -> (Vec<BurstShape>, Train) {
    let packets: u32 = shapes.iter().map(|shape| shape.packets).sum();
    let spacing = |shape: &BurstShape| (shape.bits() / rate.max(MIN_BITS_PER_SECOND) * 2.2).max(MIN_SPACING_SECONDS);
    let round: f64 = shapes.iter().map(spacing).sum();
    let rounds = (MAX_BURSTS / shapes.len().max(1)).min((MAX_PACKETS / packets.max(1)) as usize);
    let rounds =
        rounds.min((BURST_TRAIN_SECONDS / round) as usize).max(if rate < SLOW_BITS_PER_SECOND { 1 } else { 2 });
    let rounds = rounds.min((max_packets / packets.max(1)) as usize).max(1);
    let order: Vec<BurstShape> = std::iter::repeat_n(shapes, rounds).flatten().copied().collect();
    let mut train = Train::default();
    for (index, shape) in order.iter().enumerate() {
        let wobble = 1.0 + 0.3 * (random + index as f64 * 0.618).fract();
        let pause = Span::from_secs_f64(spacing(shape) * wobble);
        let segment = |count, interval| Segment { count, interval, first_size: shape.size, size_step: 0 };
        // Cross traffic may be as periodic as these.
        let irregular = 0.5 + 0.5 * (random + index as f64 * 0.382).fract();
        let interval = shape.interval.as_secs_f64();
        let apart = Span::from_secs_f64((sending + (interval - sending) * irregular).min(interval));
        train.segments.push(segment(shape.packets - 1, apart));
        train.segments.push(segment(1, pause));
    }
    (order, train)
}

fn back_to_back_train(packets: u32, size: u32) -> Train {
    Train { segments: vec![Segment { count: packets, interval: Span::ZERO, first_size: size.max(1), size_step: 0 }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With scatter, bursts of two or three packets told no rate, though a few more do.
    #[test]
    fn bursts_take_as_long_as_stamps_need_where_a_train_has_two_rounds_of_them() {
        let packets = |micros, mbit: f64| {
            let scatter = Span::from_micros(micros);
            let shapes = burst_shapes(mbit * 1e6, 0.0, f64::INFINITY, scatter, (1500, SmallBucket::default()));
            let (_, train) = plan_burst_train(&shapes, mbit * 1e6, 0.0, 0.5, u32::MAX);
            assert!(train.packet_count() <= MAX_PACKETS, "{micros} µs, {mbit} Mbit/s: {}", train.packet_count());
            shapes.iter().map(|shape| shape.packets).min().unwrap()
        };
        assert_eq!([0, 40, 290, 337].map(|micros| packets(micros, 20.0)), [2, 3, 9, 10]);
        assert_eq!([338, 20_000].map(|micros| packets(micros, 20.0)), [2, 2]);
        for (micros, mbit) in (0..2000).step_by(50).zip([3.0, 10.0, 50.0, 100.0, 1000.0].into_iter().cycle()) {
            packets(micros, mbit);
        }
    }
}
