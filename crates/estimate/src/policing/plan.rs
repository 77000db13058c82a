//! Which packets to send.

use super::config::PolicingConfig;
use crate::stats::random;
use kumade_probe_train::{Segment, Train};
use kumade_units::Span;

/// A look lasts so long, in which a bucket is used up that holds what passes in a second at a tenth of the rate, as one of nftables' byte
/// limits does whatever burst is set. …
const FIRST_TRAIN_SECONDS: f64 = 0.15;
/// … It has so many bytes at least and at most, …
const MIN_FIRST_TRAIN_BYTES: f64 = 1.5e6;
const MAX_FIRST_TRAIN_BYTES: f64 = 4e6;
/// … or this many where other trains hint at a bucket: those of access lines hold up to 10 MB, of which the other trains have used a part.
const HINTED_FIRST_TRAIN_BYTES: f64 = 12e6;
/// … But it does not last longer than this, …
const MAX_FIRST_TRAIN_SECONDS: f64 = 2.5;
/// … or this where more is to be tried.
const MAX_REQUESTED_SECONDS: f64 = 10.0;
/// Fewer packets tell nothing.
pub(super) const MIN_FIRST_TRAIN_PACKETS: u32 = 60;
/// Packets at each rate of the second train: the more the faster it is.
const MIN_SECTION_PACKETS: u32 = 50;
const MAX_SECTION_PACKETS: u32 = 100;
/// So many at most in a train of one rate, unless they are on connections, which show nothing more behind a loss.
const MAX_SINGLE_SECTION_PACKETS: u32 = 250;
/// As many as arrive in this time at the rate that the first train had last.
const SECTION_SECONDS: f64 = 0.15;
/// The rates, as parts of the one that arrived in the first train: so many, by equal factors from the fastest to the slowest at which the
/// bucket is empty for most of the time, and one at which it is not.
const LIMITED_SECTION_COUNT: i32 = 4;
const MAX_SECTION_RATE_RATIO: f64 = 3.5;
const MIN_SECTION_RATE_RATIO: f64 = 1.45;
const UNLIMITED_SECTION_RATE_RATIO: f64 = 0.9;
/// The fastest is no faster than this part of the first train's rate.
const FASTEST_SECTION_TO_FIRST_RATE_RATIO: f64 = 0.95;
/// As many packets as that are to arrive of the first section behind the burst.
const MIN_ARRIVED_PACKETS: f64 = 20.0;
/// The burst is used up when this much more has been sent than in the first train, …
const EXCESS_RATIO: f64 = 1.25;
/// … and so many packets.
const EXCESS_PACKETS: f64 = 20.0;
/// Over connections, when so many have.
const EXCESS_PACKETS_BY_TCP: u32 = 16;

/// Packets of one size at a rate in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TrainSection {
    pub(super) packets: u32,
    pub(super) rate: f64,
    pub(super) spacing: PacketSpacing,
}

/// The times between packets. A policer or a full queue drops less of evenly spaced packets than of irregular cross traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketSpacing {
    /// All alike.
    Even,
    /// Uniform, by up to half of the mean more or less: they fall into no step with evenly spaced cross traffic.
    Jittered,
    /// Exponential: the same part is dropped of these as of cross traffic that comes at random (Wolff: Poisson arrivals see time averages,
    /// 1982).
    Random,
}

impl PacketSpacing {
    /// One of them, of mean 1.
    fn draw_interval(self, state: &mut u64) -> f64 {
        match self {
            PacketSpacing::Even => 1.0,
            PacketSpacing::Jittered => 0.5 + random(state),
            PacketSpacing::Random => exponential_variate(state),
        }
    }
}

impl TrainSection {
    pub(super) fn duration(&self, size: u32) -> Span {
        Span::from_secs_f64(f64::from(self.packets) * f64::from(size) * 8.0 / self.rate)
    }
}

/// The look at a rate, in how many trains and of what: as much as the limits allow, none if that is too little.
pub(super) fn plan_first_train(config: &PolicingConfig) -> Option<(u32, TrainSection)> {
    let (rate, bits) = (config.rate.as_f64(), f64::from(config.max_packet) * 8.0);
    let wanted = (rate * FIRST_TRAIN_SECONDS / 8.0).clamp(MIN_FIRST_TRAIN_BYTES, MAX_FIRST_TRAIN_BYTES);
    let wanted = if config.is_bucket_hinted { HINTED_FIRST_TRAIN_BYTES } else { wanted };
    let requested = config.min_trial_bytes as f64;
    let seconds = if requested > wanted { MAX_REQUESTED_SECONDS } else { MAX_FIRST_TRAIN_SECONDS };
    let seconds = seconds.min(config.budget_time.as_secs_f64());
    let wanted = (wanted.max(requested).min(config.budget_bytes as f64) * 8.0).min(rate * seconds);
    let most = config.max_packets.min(Train::MAX_PACKETS);
    // A bucket that other trains have used up is empty soon.
    let most = if config.is_bucket_hinted { most.min((MIN_FIRST_TRAIN_BYTES * 8.0 / bits) as u32) } else { most };
    let packets = (wanted / bits) as u32;
    let trains = packets.div_ceil(most.max(1)).max(1);
    let packets = packets / trains;
    (packets >= MIN_FIRST_TRAIN_PACKETS)
        .then_some((trains, TrainSection { packets, rate, spacing: PacketSpacing::Even }))
}

/// How many packets of the second train's first section are behind the burst, where of so many sent one arrives.
pub(super) fn packets_behind_burst(ratio: f64) -> u32 {
    (MIN_ARRIVED_PACKETS * ratio).clamp(f64::from(MIN_SECTION_PACKETS), 400.0) as u32
}

/// A later one: what `used_up` the burst, then several rates about the one that arrived behind it.
pub(super) fn sections_in_one_train(
    look: TrainSection,
    used_up: u32,
    arrived: f64,
    config: &PolicingConfig,
) -> Vec<TrainSection> {
    let PolicingConfig { max_packets, max_packet, .. } = *config;
    let slower =
        section_rates(look.rate / arrived).into_iter().map(|part| part * arrived).filter(|rate| *rate < look.rate);
    let slower: Vec<f64> = slower.collect();
    let burst = (f64::from(used_up) * EXCESS_RATIO + EXCESS_PACKETS) as u32 + packets_behind_burst(look.rate / arrived);
    let wanted = (arrived * SECTION_SECONDS / (f64::from(max_packet) * 8.0)) as u32;
    let room = max_packets.saturating_sub(burst) / slower.len().max(1) as u32;
    let packets = wanted.min(room).clamp(MIN_SECTION_PACKETS, MAX_SECTION_PACKETS);
    let room = max_packets.saturating_sub(packets * slower.len() as u32);
    let first = TrainSection { packets: burst.min(room), ..look };
    let steps = slower.into_iter().map(|rate| TrainSection { packets, rate, spacing: PacketSpacing::Random });
    [first].into_iter().chain(steps).collect()
}

/// As parts of the rate that arrived, where the one that was sent is so many times that.
fn section_rates(ratio: f64) -> Vec<f64> {
    let fastest = (FASTEST_SECTION_TO_FIRST_RATE_RATIO * ratio).clamp(MIN_SECTION_RATE_RATIO, MAX_SECTION_RATE_RATIO);
    let factor = (MIN_SECTION_RATE_RATIO / fastest).powf(1.0 / f64::from(LIMITED_SECTION_COUNT - 1));
    (0..LIMITED_SECTION_COUNT).map(|step| fastest * factor.powi(step)).chain([UNLIMITED_SECTION_RATE_RATIO]).collect()
}

/// The rates of limited sections are so many times as far apart at least: a line goes through them.
const MIN_RATE_RANGE_RATIO: f64 = 1.2;

/// Whether what arrived is so much less than what was sent that several rates between them tell it.
pub(super) fn has_rate_range(look: TrainSection, arrived: f64) -> bool {
    FASTEST_SECTION_TO_FIRST_RATE_RATIO * look.rate / arrived >= MIN_RATE_RANGE_RATIO * MIN_SECTION_RATE_RATIO
}

/// A section at this rate behind a [`burst_section`], of which it is to be told whether all passes.
pub(super) fn single_section(rate: f64, config: &PolicingConfig) -> TrainSection {
    with_single_section_packets(TrainSection { packets: 0, rate, spacing: PacketSpacing::Jittered }, config)
}

/// The sections of several later trains, of which each is behind a [`burst_section`] in a train of its own.
pub(super) fn sections_in_own_trains(
    look: TrainSection,
    used_up: u32,
    arrived: f64,
    config: &PolicingConfig,
) -> Vec<TrainSection> {
    sections_in_one_train(look, used_up, arrived, config)
        .into_iter()
        .skip(1)
        .map(|section| with_single_section_packets(section, config))
        .collect()
}

/// A section with as many packets as a train of its own may have.
fn with_single_section_packets(section: TrainSection, config: &PolicingConfig) -> TrainSection {
    let bits = f64::from(config.max_packet) * 8.0;
    let most = if config.connections.is_some() { MAX_SECTION_PACKETS } else { MAX_SINGLE_SECTION_PACKETS };
    let packets = ((section.rate * SECTION_SECONDS / bits) as u32).clamp(MIN_SECTION_PACKETS, most);
    TrainSection { packets, ..section }
}

/// What uses up the burst again. Over connections, by few packets more, since each of them may be lost, and then its connection shows nothing
/// more.
pub(super) fn burst_section(look: TrainSection, used_up: u32, connections: Option<u32>) -> TrainSection {
    let packets = match connections {
        Some(_) => used_up + EXCESS_PACKETS_BY_TCP,
        None => (f64::from(used_up) * EXCESS_RATIO + EXCESS_PACKETS) as u32,
    };
    TrainSection { packets, ..look }
}

/// The train of these sections.
pub(super) fn to_train(sections: &[TrainSection], size: u32, state: &mut u64) -> Train {
    let segment = |section: &TrainSection, count, part: f64| {
        let interval = f64::from(size) * 8.0 / section.rate * part;
        let interval = Span::from_secs_f64(interval).clamp(Span::ZERO, Span::from_secs(1));
        Segment { count, interval, first_size: size, size_step: 0 }
    };
    let mut segments = Vec::new();
    for section in sections {
        match section.spacing {
            PacketSpacing::Even => segments.push(segment(section, section.packets, 1.0)),
            spacing => segments.extend((0..section.packets).map(|_| segment(section, 1, spacing.draw_interval(state)))),
        }
    }
    Train { segments }
}

/// Of mean 1; never longer than five times that, so that no section lasts too long.
fn exponential_variate(state: &mut u64) -> f64 {
    (-(1.0 - random(state)).ln()).min(5.0)
}
