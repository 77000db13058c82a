//! What `tc netem` has words for: jitter around the mean, in order or not, by a table, correlated; corruption; framing. In virtual
//! time, with the statistics that they should have.

use kumade_link::{
    Cells, Delivery, Framing, Jitter, JitterDistribution, Link, LinkConfig, Medium, TokenBucket, invert_bit,
};
use kumade_units::{Rate, Span, Time};

const PACKETS: usize = 100_000;
const SEED: u64 = 5;
const DELAY: Span = Span::from_millis(20);
const AMOUNT: Span = Span::from_millis(5);

fn at(nanos: i64) -> Time {
    Time::from_nanos(nanos)
}

/// Packets of 1000 bytes, so far apart, numbered.
fn run(config: LinkConfig, gap: Span) -> Vec<Delivery<usize>> {
    let mut link = Link::new(LinkConfig { delay: DELAY, seed: SEED, ..config }.validate().unwrap());
    for packet in 0..PACKETS {
        let _ = link.offer(packet, 1000, at(packet as i64 * gap.as_nanos()));
    }
    std::iter::from_fn(|| link.pop_due(Time::MAX)).collect()
}

fn jittered(distribution: JitterDistribution, correlation: f64, reorders: bool) -> LinkConfig {
    LinkConfig { jitter: Jitter { amount: AMOUNT, distribution, correlation, reorders }, ..LinkConfig::default() }
}

fn delays_ms(came: &[Delivery<usize>]) -> Vec<f64> {
    came.iter().map(|delivery| (delivery.due - delivery.arrival).as_secs_f64() * 1e3).collect()
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
}

/// RFC 4737: what arrives behind a later one.
fn reordered_ratio(came: &[Delivery<usize>]) -> f64 {
    let mut next = 0;
    let is_reordered = |delivery: &&Delivery<usize>| {
        let late = delivery.packet < next;
        next = next.max(delivery.packet + 1);
        late
    };
    came.iter().filter(is_reordered).count() as f64 / came.len() as f64
}

/// What that is for independent uniform delays: a packet is not overtaken if each that follows comes later.
fn expected_reordered_ratio(width_ms: f64, gap_ms: f64) -> f64 {
    const STEPS: u32 = 10_000;
    let stays = |own: f64| {
        let later = (1..).map(|step| own - f64::from(step) * gap_ms).take_while(|rest| *rest > 0.0);
        later.map(|rest| 1.0 - rest / width_ms).product::<f64>()
    };
    let mean: f64 = (0..STEPS).map(|step| stays((f64::from(step) + 0.5) / f64::from(STEPS) * width_ms)).sum();
    1.0 - mean / f64::from(STEPS)
}

#[test]
fn netems_jitter_is_around_the_delay_and_reorders() {
    for gap_ms in [1.0, 4.0, 20.0] {
        let came = run(jittered(JitterDistribution::Uniform, 0.0, true), Span::from_secs_f64(gap_ms * 1e-3));
        assert!(came.is_sorted_by_key(|delivery| delivery.due));
        let delays = delays_ms(&came);
        assert!(delays.iter().all(|delay| (15.0..=25.0).contains(delay)));
        let (mean, deviation) = mean_and_deviation(&delays);
        assert!((mean - 20.0).abs() < 0.05 && (deviation - 5.0 / 3f64.sqrt()).abs() < 0.03, "{mean} {deviation}");
        let (ratio, expected) = (reordered_ratio(&came), expected_reordered_ratio(10.0, gap_ms));
        println!("seed {SEED}, ±5 ms, a packet every {gap_ms} ms: {ratio:.3} are reordered");
        assert!((ratio - expected).abs() < 0.01, "seed {SEED}, every {gap_ms} ms: {ratio}, not {expected}");
    }
}

#[test]
fn in_order_a_packet_waits_for_those_ahead_so_that_the_mean_is_higher() {
    let config = jittered(JitterDistribution::Uniform, 0.0, false);
    let (sparse, dense) = (run(config.clone(), Span::from_millis(20)), run(config, Span::from_millis(1)));
    assert_eq!((reordered_ratio(&sparse), reordered_ratio(&dense)), (0.0, 0.0));
    assert!((mean_and_deviation(&delays_ms(&sparse)).0 - 20.0).abs() < 0.05);
    let (mean, _) = mean_and_deviation(&delays_ms(&dense));
    assert!((21.5..22.5).contains(&mean), "seed {SEED}: {mean}");
    // The jitter of before is one-sided.
    let one_sided =
        delays_ms(&run(LinkConfig { jitter: AMOUNT.into(), ..LinkConfig::default() }, Span::from_millis(1)));
    assert!(one_sided.iter().all(|delay| (20.0..=25.0).contains(delay)));
}

#[test]
fn correlation_makes_neighbours_alike_and_reorders_less() {
    let gap = Span::from_millis(4);
    let run = |correlation| {
        let mut came = run(jittered(JitterDistribution::Uniform, correlation, true), gap);
        let ratio = reordered_ratio(&came);
        came.sort_by_key(|delivery| delivery.packet);
        let delays = delays_ms(&came);
        let (mean, deviation) = mean_and_deviation(&delays);
        let following = delays.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        (ratio, deviation, following / delays.len() as f64 / deviation.powi(2))
    };
    let (independent, correlated) = (run(0.0), run(0.75));
    assert!(independent.2.abs() < 0.02 && (correlated.2 - 0.75).abs() < 0.02, "{independent:?} {correlated:?}");
    assert!((correlated.1 - independent.1).abs() < 0.06, "{independent:?} {correlated:?}");
    assert!(correlated.0 < 0.5 * independent.0, "{independent:?} {correlated:?}");
}

#[test]
fn a_delay_below_zero_is_none() {
    let config = LinkConfig { delay: Span::from_millis(1), ..jittered(JitterDistribution::Uniform, 0.0, true) };
    let mut link = Link::new(config.validate().unwrap());
    for packet in 0..1000 {
        link.offer(packet, 1000, at(packet * 1000)).unwrap();
    }
    let came: Vec<_> = std::iter::from_fn(|| link.pop_due(Time::MAX)).collect();
    assert!(came.iter().all(|delivery| delivery.due >= delivery.arrival));
    assert!(came.iter().any(|delivery| delivery.due == delivery.arrival));
}

#[test]
fn the_part_of_packets_asked_for_has_a_bit_inverted_anywhere_in_it() {
    for correlation in [0.0, 0.5] {
        let config = LinkConfig { corruption: 0.05, corruption_correlation: correlation, ..LinkConfig::default() };
        let came = run(config, Span::from_millis(1));
        assert_eq!(came.len(), PACKETS);
        let bits: Vec<u32> = came.iter().filter_map(|delivery| delivery.inverted_bit).collect();
        let ratio = bits.len() as f64 / PACKETS as f64;
        assert!((ratio - 0.05).abs() < 0.005, "seed {SEED}: {ratio}");
        let mean = bits.iter().map(|bit| u64::from(*bit)).sum::<u64>() as f64 / bits.len() as f64;
        assert!((mean - 4000.0).abs() < 200.0 && bits.iter().all(|bit| *bit < 8000), "seed {SEED}: {mean}");
        let follow = came.windows(2).filter(|pair| pair.iter().all(|delivery| delivery.inverted_bit.is_some()));
        let following = follow.count() as f64 / bits.len() as f64;
        assert!((following - (0.05 + 0.95 * correlation)).abs() < 0.03, "seed {SEED}: {following}");
    }
}

#[test]
fn a_bit_is_inverted_and_inverted_back() {
    let mut packet = [0u8; 3];
    for (bit, expected) in [(0, [0x80, 0, 0]), (0, [0; 3]), (23, [0, 0, 1]), (24, [0, 0, 1])] {
        invert_bit(&mut packet, bit);
        assert_eq!(packet, expected);
    }
}

#[test]
fn a_duplicate_of_a_corrupted_packet_is_as_it_was_sent() {
    let config = LinkConfig { corruption: 1.0, duplication: 1.0, ..LinkConfig::default() };
    let jitter = jittered(JitterDistribution::Uniform, 0.0, true).jitter;
    for config in [config.clone(), LinkConfig { jitter, ..config }] {
        let came = run(config, Span::from_millis(1));
        assert_eq!(came.len(), 2 * PACKETS);
        assert!(came.iter().all(|delivery| delivery.inverted_bit.is_none() == delivery.is_duplicate));
    }
}

#[test]
fn a_frame_takes_its_cells_on_the_line() {
    let rate = Rate::from_mbit(2);
    let framing = Framing { overhead_bytes: 32, cells: Cells::ATM, ..Framing::default() };
    let bucket = Medium::TokenBucket(TokenBucket { rate, burst_bytes: 1 });
    for medium in [None, Some(bucket)] {
        let config = LinkConfig { rate: Some(rate), medium, framing, ..LinkConfig::default() };
        // The line is as fast as the bucket.
        let mut link = Link::new(LinkConfig { delay: Span::ZERO, ..config }.validate().unwrap());
        for packet in 0..100 {
            link.offer(packet, 1000, at(0)).unwrap();
        }
        link.advance(Time::MAX);
        let last = std::iter::from_fn(|| link.pop_due(Time::MAX)).last().unwrap();
        // 1032 bytes fill 21.5 cells.
        assert_eq!(last.due - at(0), rate.time_for(100 * 22 * 53));
        assert_eq!(link.ledger().packet_counters().forwarded.bytes, 100_000);
    }
}
