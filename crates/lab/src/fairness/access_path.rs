//! Hops as links and their cross traffic, in real and in virtual time.

use super::scenario::AccessHop;
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Medium, PeriodLengths, Wireless};
use kumade_units::{Rate, Span, Time};

/// The packets of cross traffic, and the mean duration of a burst.
const BACKGROUND_BYTES: u32 = 1500;
const BURST_LENGTH: Span = Span::from_millis(20);

/// A hop as a link.
pub(super) fn hop_link(hop: &AccessHop) -> LinkConfig {
    let medium = hop.wireless.then(|| Medium::Wireless(Wireless::default()));
    LinkConfig { rate: hop.rate, medium, queue_bytes: hop.queue, delay: hop.delay, ..LinkConfig::default() }
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
