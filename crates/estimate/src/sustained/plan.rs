//! Which packets to send.

use crate::stats::random;
use train::{Segment, Train};
use units::Span;

/// The first train has at most so many bytes, …
pub(super) const LOOK_BYTES: f64 = 1.5e6;
/// … and lasts at most this long.
pub(super) const LOOK_SECONDS: f64 = 1.0;
/// Fewer packets tell nothing.
pub(super) const MIN_LOOK_PACKETS: u32 = 60;
/// Packets at each rate of the second train: the more the faster it is.
const MIN_SECTION_PACKETS: u32 = 50;
const MAX_SECTION_PACKETS: u32 = 100;
/// As many as arrive in this time at the rate that the first train had last.
const SECTION_SECONDS: f64 = 0.15;
/// These rates, as parts of the one that arrived in the first train.
const SECTION_RATES: [f64; 5] = [3.5, 2.3, 1.7, 1.3, 0.9];
/// As many packets as that are to arrive of the first section behind the burst.
const MIN_ARRIVALS: f64 = 20.0;
/// The burst is used up when this much more has been sent than in the first train, …
const EXCESS: f64 = 1.25;
/// … and so many packets.
const EXCESS_PACKETS: f64 = 20.0;

/// Packets of one size at a rate in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Section {
    pub(super) packets: u32,
    pub(super) rate: f64,
    /// Whether the times between them are exponential. A policer drops less of evenly spaced packets than of irregular cross
    /// traffic, but the same part of either if both come at random (Wolff: Poisson arrivals see time averages, 1982).
    pub(super) random: bool,
}

/// The first train: as much at this rate as the limits allow; none if that is too little.
pub(super) fn look(rate: f64, size: u32, max_packets: u32, bytes: f64) -> Option<Section> {
    let bits = (LOOK_BYTES.min(bytes) * 8.0).min(rate * LOOK_SECONDS);
    let packets = (bits / (f64::from(size) * 8.0)) as u32;
    let packets = packets.min(max_packets).min(Train::MAX_PACKETS);
    (packets >= MIN_LOOK_PACKETS).then_some(Section { packets, rate, random: false })
}

/// How many packets of the second train's first section are behind the burst, where of so many sent one arrives.
pub(super) fn behind_burst(ratio: f64) -> u32 {
    (MIN_ARRIVALS * ratio).clamp(f64::from(MIN_SECTION_PACKETS), 400.0) as u32
}

/// A later one: what `used_up` the burst, then several rates about the one that arrived behind it.
pub(super) fn ladder(
    look: Section,
    used_up: u32,
    arrived: f64,
    (max_packets, size, random): (u32, u32, bool),
) -> Vec<Section> {
    let packets = (arrived * SECTION_SECONDS / (f64::from(size) * 8.0)) as u32;
    let packets = packets.clamp(MIN_SECTION_PACKETS, MAX_SECTION_PACKETS);
    let burst = (f64::from(used_up) * EXCESS + EXCESS_PACKETS) as u32;
    let rates = SECTION_RATES.map(|part| part * arrived);
    let slower = rates.into_iter().filter(|&rate| rate < 0.9 * look.rate);
    let steps: Vec<Section> = slower.map(|rate| Section { packets, rate, random }).collect();
    let room = max_packets.saturating_sub(packets * steps.len() as u32);
    let first = Section { packets: (burst + behind_burst(look.rate / arrived)).min(room), ..look };
    [first].into_iter().chain(steps).collect()
}

/// The train of these sections.
pub(super) fn train(sections: &[Section], size: u32, state: &mut u64) -> Train {
    let segment = |section: &Section, count, part: f64| {
        let interval = f64::from(size) * 8.0 / section.rate * part;
        let interval = Span::from_secs_f64(interval).clamp(Span::ZERO, Span::from_secs(1));
        Segment { count, interval, first_size: size, size_step: 0 }
    };
    let mut segments = Vec::new();
    for section in sections {
        if section.random {
            segments.extend((0..section.packets).map(|_| segment(section, 1, exponential(state))));
        } else {
            segments.push(segment(section, section.packets, 1.0));
        }
    }
    Train { segments }
}

/// Of mean 1; never longer than five times that, so that no section lasts too long.
fn exponential(state: &mut u64) -> f64 {
    (-(1.0 - random(state)).ln()).min(5.0)
}
