//! Hops as links and their cross traffic, in real and in virtual time.

use super::scenario::AccessHop;
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Medium, PeriodLengths, RateSchedule, Wireless};
use kumade_units::{ConfigError, Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The packets of cross traffic, and the mean duration of a burst.
const BACKGROUND_BYTES: u32 = 1500;
const BURST_LENGTH: Span = Span::from_millis(20);

/// Rates of a cellular line, between which it changes at random, a step at a time: it varies by several times within seconds, as traces of
/// such lines do (Winstein et al., NSDI 2013), and begins anew after its period.
const CELLULAR_RATES_MBIT: [u64; 5] = [50, 70, 100, 140, 200];
const CELLULAR_STEP: Span = Span::from_millis(100);
const CELLULAR_STEPS: i64 = 600;
const CELLULAR_SEED: u64 = 4;

/// A hop as a link.
///
/// # Errors
/// None is known: the schedule is in order.
pub(super) fn hop_link(hop: &AccessHop) -> Result<LinkConfig, ConfigError> {
    let medium = match (hop.wireless, hop.cellular) {
        (true, _) => Some(Medium::Wireless(Wireless::default())),
        (_, true) => Some(Medium::Schedule(cellular_schedule()?)),
        _ => None,
    };
    Ok(LinkConfig { rate: hop.rate, medium, queue_bytes: hop.queue, delay: hop.delay, ..LinkConfig::default() })
}

fn cellular_schedule() -> Result<RateSchedule, ConfigError> {
    let mut random = Pcg64Mcg::seed_from_u64(CELLULAR_SEED);
    let mut place = CELLULAR_RATES_MBIT.len() / 2;
    let mut step = |number: i64| {
        place = match random.random_range(0..3) {
            0 => place.saturating_sub(1),
            1 => place,
            _ => (place + 1).min(CELLULAR_RATES_MBIT.len() - 1),
        };
        (CELLULAR_STEP * number, Rate::from_mbit(CELLULAR_RATES_MBIT[place]))
    };
    let steps: Vec<_> = (0..CELLULAR_STEPS).map(&mut step).collect();
    RateSchedule::repeating(&steps, CELLULAR_STEP * CELLULAR_STEPS)
}

/// Cross traffic on a hop: bursts at a rate halfway between its mean and the hop's.
pub(super) fn background_traffic(hop: &AccessHop) -> Option<CrossConfig> {
    let (mean, rate) = (hop.background?.as_f64(), hop.rate?.as_f64());
    let burst = (mean + rate) / 2.0;
    let off = Span::from_secs_f64(BURST_LENGTH.as_secs_f64() * (burst / mean - 1.0));
    let (rate, size) = (Rate::from_f64(burst), BACKGROUND_BYTES);
    let kind = CrossKind::OnOff { rate, size, on: BURST_LENGTH, off, periods: PeriodLengths::Exponential };
    Some(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: rate.bits_per_second() })
}
