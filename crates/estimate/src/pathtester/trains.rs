//! The trains of both tools.

use crate::published::Flight;
use kumade_probe_train::{Segment, Train};
use kumade_units::Span;

/// "The probe packets of the maximum length, 1400 octets" (2.1).
pub(super) const PACKET_BYTES: u32 = 1400;
/// "About 10k octets in all" (2.1).
const TRAIN_BYTES: u32 = 10_000;
/// A train that arrives at this part of its sending rate or more was not slowed down.
pub(super) const MIN_RATE_RATIO: f64 = 0.95;
/// No train of either tool has more packets, however small the transport's are.
pub(super) const MAX_PACKETS: u32 = 20;
const MIN_PAUSE: Span = Span::from_millis(10);

pub(super) fn plan_train(wait: Span, max_packet: u32) -> Train {
    let size = PACKET_BYTES.min(max_packet).max(1);
    let count = (TRAIN_BYTES / size).clamp(2, MAX_PACKETS);
    Train { segments: vec![Segment { count, interval: wait, first_size: size, size_step: 0 }] }
}

/// Sending and receiving rate in bit/s; none where too few packets arrived.
pub(super) fn sending_and_receiving_rates(flight: &Flight) -> Option<(f64, f64)> {
    (flight.loss_fraction() < 0.5).then_some(())?;
    Some((flight.sending_rate()?, flight.receiving_rate()?))
}

/// Until the next train: a little more than this one would take at the lowest rate seen, so that queues drain.
pub(super) fn pause_after(train: &Train, receiving_rates: &[f64]) -> Span {
    let slowest = receiving_rates.iter().copied().fold(f64::INFINITY, f64::min);
    Span::from_secs_f64(train.bytes() as f64 * 10.0 / slowest).max(MIN_PAUSE)
}
