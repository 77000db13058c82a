use super::*;
use proptest::prelude::*;

const SECOND: Time = Time::from_nanos(1_000_000_000);

fn source(kind: CrossKind, phase: f64, seed: u64) -> CrossTraffic {
    CrossTraffic::new(CrossConfig { kind, start: Time::ZERO, phase, seed }).unwrap()
}

fn bytes_until(source: CrossTraffic, end: Time) -> u64 {
    source.take_while(|arrival| arrival.time < end).map(|arrival| u64::from(arrival.size)).sum()
}

#[test]
fn constant_traffic_is_exact_in_the_long_run_even_where_the_interval_is_not_whole() {
    // 7 Mbit/s of 999-byte packets: 1 141 714.2857… ns each.
    let kind = CrossKind::Constant { rate: Rate::from_mbit(7), size: 999 };
    let end = Time::from_nanos(999 * 8 * 1_000_000_000);
    assert_eq!(source(kind, 0.0, 0).take_while(|arrival| arrival.time < end).count(), 7_000_000);
}

#[test]
fn phase_moves_the_pattern_not_the_rate() {
    let kind = CrossKind::Constant { rate: Rate::from_mbit(12), size: 1500 };
    let times: Vec<i64> = source(kind, 0.25, 0).take(3).map(|arrival| arrival.time.as_nanos()).collect();
    assert_eq!(times, [750_000, 1_750_000, 2_750_000]);
}

#[test]
fn jittered_intervals_fill_the_range_around_the_mean_and_no_more() {
    let rate = Rate::from_mbit(12);
    let times: Vec<i64> = source(CrossKind::Jittered { rate, size: 1500, jitter: 0.05 }, 0.25, 3)
        .take(20_000)
        .map(|arrival| arrival.time.as_nanos())
        .collect();
    let gaps: Vec<i64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    let (shortest, longest) = (*gaps.iter().min().unwrap(), *gaps.iter().max().unwrap());
    assert_eq!(times[0], 750_000);
    assert!(
        (949_999..951_000).contains(&shortest) && (1_049_000..=1_050_001).contains(&longest),
        "{shortest} {longest}"
    );
}

#[test]
fn fixed_periods_keep_silence_and_mean_rate() {
    let (on, off) = (Span::from_millis(10), Span::from_millis(30));
    let kind = |rate| CrossKind::OnOff { rate, size: 1000, on, off, periods: PeriodLengths::Fixed };
    let in_off = |time: Time| time.as_nanos() % 40_000_000 >= 10_000_000;
    assert!(!source(kind(Rate::from_mbit(77)), 0.0, 0).take(100_000).any(|arrival| in_off(arrival.time)));
    assert_eq!(bytes_until(source(kind(Rate::from_mbit(80)), 0.0, 0), SECOND), 80_000_000 / 8 / 4);
    let first = source(kind(Rate::from_mbit(80)), 0.5, 0).next().unwrap();
    assert_eq!(first.time, Time::from_nanos(20_000_000), "half a cycle has passed: 20 ms of silence are left");
}

#[test]
fn random_sources_have_the_mean_rate_they_were_given() {
    let rate = Rate::from_mbit(50);
    let (on, off) = (Span::from_millis(2), Span::from_millis(2));
    let end = Time::from_nanos(100 * SECOND.as_nanos());
    for (kind, mean) in [
        (CrossKind::Jittered { rate, size: 1500, jitter: 0.05 }, 50e6),
        (CrossKind::Jittered { rate, size: 64, jitter: 1.0 }, 50e6),
        (CrossKind::Poisson { rate, sizes: SizeMix::fixed(1500) }, 50e6),
        (CrossKind::Poisson { rate, sizes: SizeMix::imix() }, 50e6),
        (CrossKind::OnOff { rate, size: 1500, on, off, periods: PeriodLengths::Exponential }, 25e6),
    ] {
        let seen = bytes_until(source(kind.clone(), 0.0, 4), end) as f64 * 8.0 / 100.0;
        assert!((seen / mean - 1.0).abs() < 0.02, "{kind:?}: {seen}");
    }
}

#[test]
fn exponential_on_off_begins_in_its_steady_state() {
    let (on, off) = (Span::from_millis(10), Span::from_millis(30));
    let kind = CrossKind::OnOff { rate: Rate::from_mbit(80), size: 1000, on, off, periods: PeriodLengths::Exponential };
    let on_at_start = (0..2000).filter(|seed| source(kind.clone(), 0.0, *seed).next().unwrap().time == Time::ZERO);
    assert!((on_at_start.count() as f64 / 2000.0 - 0.25).abs() < 0.04);
}

#[test]
fn poisson_counts_vary_as_much_as_their_mean() {
    let kind = CrossKind::Poisson { rate: Rate::from_mbit(12), sizes: SizeMix::fixed(1500) };
    let mut counts = vec![0f64; 20_000];
    for arrival in source(kind, 0.0, 9) {
        let Some(count) = counts.get_mut((arrival.time.as_nanos() / 10_000_000) as usize) else { break };
        *count += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
    assert!((mean - 10.0).abs() < 0.1 && (variance - 10.0).abs() < 0.4, "{mean} {variance}");
}

#[test]
fn zero_rate_is_silence_and_the_end_of_time_is_an_end() {
    assert_eq!(source(CrossKind::Constant { rate: Rate::ZERO, size: 1500 }, 0.0, 0).next(), None);
    let slow = CrossKind::Constant { rate: Rate::from_bits_per_second(1), size: u32::MAX };
    assert_eq!(source(slow, 0.0, 0).count(), 1);
}

#[test]
fn nonsense_is_refused() {
    let constant = |size| CrossKind::Constant { rate: Rate::from_mbit(1), size };
    let on_off = |on, off| CrossKind::OnOff {
        rate: Rate::from_mbit(1),
        size: 1500,
        on: Span::from_millis(on),
        off: Span::from_millis(off),
        periods: PeriodLengths::Exponential,
    };
    let jittered = |jitter| CrossKind::Jittered { rate: Rate::from_mbit(1), size: 1500, jitter };
    let mix = |sizes: &[(u32, u32)]| CrossKind::Poisson {
        rate: Rate::from_mbit(1),
        sizes: SizeMix::weighted(sizes.iter().copied()),
    };
    for (kind, phase, part) in [
        (constant(1500), 1.0, "no part of a cycle"),
        (constant(1500), f64::NAN, "phase is NaN"),
        (constant(0), 0.0, "packet size is 0"),
        (on_off(11, 1), 0.0, "too short for one packet"),
        (on_off(0, 1), 0.0, "too short"),
        (on_off(20, -1), 0.0, "negative"),
        (jittered(1.1), 0.0, "jitter of intervals is 1.1"),
        (jittered(f64::NAN), 0.0, "no part of an interval"),
        (mix(&[]), 0.0, "no size to choose"),
        (mix(&[(1500, 0)]), 0.0, "no size to choose"),
        (mix(&[(1500, 1), (0, 1)]), 0.0, "takes no time"),
    ] {
        let error = CrossTraffic::new(CrossConfig { kind, start: Time::ZERO, phase, seed: 0 }).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn every_source_goes_forward_in_time_and_repeats_by_its_seed(
        which in 0..5, mbit in 1u64..2000, size in 40u32..9000, phase in 0.0..1.0f64, seed: u64
    ) {
        let rate = Rate::from_mbit(mbit);
        let (on, off) = (Span::from_millis(80), Span::from_micros(mbit as i64));
        let kind = match which {
            0 => CrossKind::Constant { rate, size },
            1 => CrossKind::Poisson { rate, sizes: SizeMix::weighted([(size, 2), (40, 1)]) },
            2 => CrossKind::OnOff { rate, size, on, off, periods: PeriodLengths::Fixed },
            3 => CrossKind::Jittered { rate, size, jitter: phase },
            _ => CrossKind::OnOff { rate, size, on, off, periods: PeriodLengths::Exponential },
        };
        let once: Vec<_> = source(kind.clone(), phase, seed).take(300).collect();
        let again: Vec<_> = source(kind, phase, seed).take(300).collect();
        prop_assert!(once.is_sorted_by_key(|arrival| arrival.time) && once[0].time >= Time::ZERO);
        prop_assert_eq!(once, again);
    }
}
