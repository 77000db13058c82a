//! What holds for any samples, any order of merging, any bytes.

use crate::checks::kept_probes;
use kumade_sketch::{
    Block, BucketedDelay, ChunkReader, ChunkWriter, HOUR_NANOS, Lane, Layer, LostIn, Outcome, PacketReader, PairFloors,
    QUANTUM_NANOS, Sample, Sketch, Summary, TICK_NANOS, encode_packets,
};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use proptest::sample::Index;

/// 2027-01-15, an hour's begin.
const HOUR: i64 = 500_000;

fn delay() -> impl Strategy<Value = Span> {
    prop_oneof![
        8 => (0u32..28).prop_flat_map(|bits| 0..1i64 << bits).prop_map(|nanos| Span::from_nanos(75_000_000 + nanos)),
        2 => (-50_000_000i64..200_000_000).prop_map(Span::from_nanos),
        1 => any::<i64>().prop_map(Span::from_nanos),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let lost = prop::sample::select(vec![LostIn::Up, LostIn::Down, LostIn::EitherWay, LostIn::RoundTrip]);
    prop_oneof![
        6 => (delay(), delay()).prop_map(|(up, down)| Outcome::Answered { up, down }),
        2 => delay().prop_map(Outcome::RoundTrip),
        1 => lost.prop_map(Outcome::Lost),
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop_oneof![9 => Just(0u8), 1 => any::<u8>()]);
    (0..HOUR_NANOS, outcome(), flags).prop_map(|(within, outcome, (late, disturbed, duplicates))| {
        let sent = Time::from_nanos(HOUR * HOUR_NANOS + within);
        Sample { sent, outcome, late, duplicates, disturbed }
    })
}

fn quantised(samples: &[Sample]) -> Vec<Sample<BucketedDelay>> {
    let mut floors = PairFloors::default();
    samples.iter().map(|sample| floors.quantise(sample)).collect()
}

fn summarised(samples: &[Sample<BucketedDelay>]) -> Summary {
    let mut summary = Summary::default();
    samples.iter().for_each(|sample| summary.add_sample(sample));
    summary
}

fn block_from_samples(samples: &[Sample<BucketedDelay>]) -> Block {
    let mut block = Block::new(Layer::Minutes, HOUR);
    samples.iter().for_each(|sample| block.part_mut(sample.sent).unwrap().add_sample(sample));
    block
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn samples_are_read_as_they_were_kept(samples in prop::collection::vec(sample(), 0..200)) {
        let kept = quantised(&samples);
        let mut chunk = ChunkWriter::default();
        kept.iter().for_each(|sample| chunk.push(sample));
        let read: Result<Vec<_>, _> = ChunkReader::new(chunk.bytes()).collect();
        prop_assert_eq!(read.as_ref(), Ok(&kept));
        let packed = encode_packets(&kept);
        let read: Result<Vec<_>, _> = PacketReader::new(&packed).unwrap().collect();
        prop_assert_eq!(read.as_ref(), Ok(&kept));
    }

    #[test]
    fn a_kept_delay_is_within_its_bucket_and_two_percent_of_the_delay_above_the_floor(
        samples in prop::collection::vec(sample(), 0..100),
    ) {
        let check = |measured: Span, kept: BucketedDelay| {
            let clamped = measured.as_nanos().clamp(-(QUANTUM_NANOS << 41), QUANTUM_NANOS << 41);
            let (low, high) = kept.bounds();
            let half = QUANTUM_NANOS / 2;
            prop_assert!(low.as_nanos() - half <= clamped && clamped <= high.as_nanos() + half, "{measured:?} {kept:?}");
            let above = clamped - BucketedDelay { bucket: 0, ..kept }.bounds().0.as_nanos();
            let error = (kept.middle().as_nanos() - clamped).abs();
            prop_assert!(error as f64 <= above as f64 * 0.02 + 150.0, "{measured:?} {kept:?}: {error}");
            Ok(())
        };
        for (measured, kept) in samples.iter().zip(quantised(&samples)) {
            match (measured.outcome, kept.outcome) {
                (Outcome::Answered { up, down }, Outcome::Answered { up: kept_up, down: kept_down }) => {
                    check(up, kept_up)?;
                    check(down, kept_down)?;
                }
                (Outcome::RoundTrip(delay), Outcome::RoundTrip(kept)) => check(delay, kept)?,
                (Outcome::Lost(measured), Outcome::Lost(kept)) => prop_assert_eq!(measured, kept),
                other => prop_assert!(false, "{other:?}"),
            }
            prop_assert_eq!(kept.sent.as_nanos(), measured.sent.as_nanos() / TICK_NANOS * TICK_NANOS);
        }
    }

    #[test]
    fn any_order_of_merging_gives_the_same_bits(
        samples in prop::collection::vec(sample(), 1..200), first in any::<Index>(), second in any::<Index>(),
    ) {
        let kept = quantised(&samples);
        let (first, second) = (first.index(kept.len()), second.index(kept.len()));
        let (first, second) = (first.min(second), first.max(second));
        let [a, b, c] = [&kept[..first], &kept[first..second], &kept[second..]].map(block_from_samples);
        let merged = |x: &Block, y: &Block| {
            let mut sum = x.clone();
            sum.merge(y);
            sum
        };
        let all = block_from_samples(&kept);
        for sum in [merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)), merged(&merged(&c, &a), &b)] {
            prop_assert_eq!(&sum, &all);
            prop_assert_eq!(sum.encode(), all.encode());
            prop_assert_eq!(sum.total(), summarised(&kept));
        }
    }

    #[test]
    fn blocks_are_read_as_they_were_written(samples in prop::collection::vec(sample(), 0..200)) {
        let minutes = block_from_samples(&quantised(&samples));
        prop_assert_eq!(Block::decode(Layer::Minutes, HOUR, &minutes.encode()), Ok(minutes.clone()));
        let mut hours = Block::new(Layer::Hours, Layer::Hours.block_number(minutes.start()));
        *hours.part_mut(minutes.start()).unwrap() = minutes.total();
        let read = Block::decode(Layer::Hours, hours.number(), &hours.encode());
        prop_assert_eq!(read.as_ref(), Ok(&hours));
        prop_assert_eq!(hours.total(), minutes.total());
    }

    #[test]
    fn quantiles_have_bounds_that_hold_the_truth(
        delays in prop::collection::vec(delay(), 1..300), fraction in 0.0..=1.0f64,
    ) {
        let samples: Vec<_> = delays
            .iter()
            .enumerate()
            .map(|(i, delay)| Sample::new(Time::from_nanos(HOUR * HOUR_NANOS + i as i64), Outcome::RoundTrip(*delay)))
            .collect();
        let summary = summarised(&quantised(&samples));
        let sketch = &summary[Lane::RoundTrip].idle.delays;
        prop_assert_eq!(sketch.count(), delays.len() as u64);
        let limit = QUANTUM_NANOS << 41;
        let mut truth: Vec<_> = delays.iter().map(|delay| delay.as_nanos().clamp(-limit, limit)).collect();
        truth.sort_unstable();
        let rank = ((fraction * truth.len() as f64).ceil() as usize).clamp(1, truth.len());
        for (found, truth) in [
            (sketch.quantile(fraction), truth[rank - 1]),
            (sketch.minimum(), truth[0]),
            (sketch.maximum(), truth[truth.len() - 1]),
            (sketch.mean(), (truth.iter().map(|t| i128::from(*t)).sum::<i128>() / truth.len() as i128) as i64),
        ] {
            let found = found.unwrap();
            prop_assert!(found.low <= found.value && found.value <= found.high);
            // Delays are rounded to a quantum first.
            let slack = Span::from_nanos(QUANTUM_NANOS / 2 + 1);
            let truth = Span::from_nanos(truth);
            prop_assert!(found.low <= truth + slack && truth <= found.high + slack, "{found:?} {truth:?}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), version in prop::bool::ANY) {
        let mut bytes = bytes;
        if version && !bytes.is_empty() {
            bytes[0] = 1;
        }
        kept_probes(&bytes);
    }

    #[test]
    fn damage_is_refused_or_read_without_harm(
        samples in prop::collection::vec(sample(), 0..60), place in any::<Index>(), xor in 1u8..,
    ) {
        let kept = quantised(&samples);
        let mut chunk = ChunkWriter::default();
        kept.iter().for_each(|sample| chunk.push(sample));
        for mut bytes in [chunk.bytes().to_vec(), encode_packets(&kept), block_from_samples(&kept).encode()] {
            let place = place.index(bytes.len());
            bytes[place] ^= xor;
            kept_probes(&bytes);
            bytes.truncate(place);
            kept_probes(&bytes);
        }
    }

    #[test]
    fn a_peer_that_makes_delays_up_costs_few_floors(delays in prop::collection::vec(any::<i64>(), 2000)) {
        let mut floors = PairFloors::default();
        let mut sketch = Sketch::default();
        let mut made = std::collections::BTreeSet::new();
        for (i, delay) in delays.into_iter().enumerate() {
            let sent = Time::from_nanos(HOUR * HOUR_NANOS + i as i64 * 1_000_000_000);
            let sample = floors.quantise(&Sample::new(sent, Outcome::RoundTrip(Span::from_nanos(delay))));
            if let Outcome::RoundTrip(delay) = sample.outcome {
                sketch.add(delay, 1);
                made.insert(delay.floor);
            }
        }
        prop_assert!(made.len() <= 40, "{} floors", made.len());
    }
}

#[test]
fn an_unknown_version_is_refused_by_its_number() {
    use kumade_sketch::DecodeError::UnknownVersion;
    assert_eq!(ChunkReader::new(&[9]).next(), Some(Err(UnknownVersion(9))));
    assert_eq!(PacketReader::new(&[9]).err(), Some(UnknownVersion(9)));
    assert_eq!(Block::decode(Layer::Hours, 0, &[9]).err(), Some(UnknownVersion(9)));
}
