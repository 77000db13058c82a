//! The facts of all trains, in the form in which models weigh them.

use crate::assumptions::{MAX_LOSS_FRACTION, MIN_HEAD_GROWTH};
use crate::facts::{SegmentFacts, TrainFacts};
use crate::hosts;
use kumade_probe_train::fit::{FittedLine, lower_hull};
use kumade_probe_train::statistics::{mean, median};

/// Which fact an observation is, for telling which one decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// By how much longer packets sent back to back took to arrive than to leave.
    Dispersion,
    /// How the delay grew over trains at one rate.
    Growth,
    /// How fast the quickest quarter of packets sent back to back arrived.
    QuickGaps,
    /// How long packets waited on the idle path.
    IdleWaits,
    /// What trains lost.
    Loss,
}

impl Fact {
    /// In words, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Fact::Dispersion => "the dispersion of packets sent back to back",
            Fact::Growth => "how the delay grew over trains of one rate",
            Fact::QuickGaps => "the shortest gaps between packets sent back to back",
            Fact::IdleWaits => "how long packets waited on the idle path",
            Fact::Loss => "what trains lost",
        }
    }
}

/// One segment of a train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    pub(crate) fact: Fact,
    /// Sent after the first packet, in bits.
    pub(crate) bits: f64,
    /// At the sender, in seconds.
    pub(crate) duration: f64,
    /// By how many seconds the delay grew.
    pub(crate) growth: f64,
    /// For how many seconds at most the queue may have been empty within it.
    pub(crate) idle: f64,
    /// How long its first packets waited, in seconds.
    pub(crate) first_wait: f64,
    /// The variance of `growth` that hosts account for, in s².
    pub(crate) host_variance: f64,
    /// Whether it follows a head, which has filled the queue of the narrow link.
    pub(crate) is_behind_head: bool,
    /// Less than one where trains close to each other saw the same cross traffic.
    pub(crate) weight: f64,
}

/// All that models weigh.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations {
    pub(crate) segments: Vec<Observation>,
    /// About the rate of the narrow link, in bit/s: where grids are centred.
    pub(crate) crude_capacity: f64,
    /// The median of what the quickest quarter of the gaps within heads shows, in bit/s.
    pub(crate) quick_rate: Option<f64>,
    /// How long packets of the idle path waited for more than the least, on average, in seconds.
    pub(crate) idle_wait: Option<f64>,
    /// The mean part of bodies that was lost.
    pub(crate) loss_fraction: f64,
    /// The part of the window that bodies watched.
    pub(crate) watched_fraction: f64,
    /// From the first train's first packet to the last one's last, in seconds.
    pub(crate) window: f64,
    /// The fastest rate at which a segment arrived, in bit/s.
    pub(crate) fastest_arrival: f64,
    /// The number of bodies, and how many independent ones they are worth.
    pub(crate) bodies: usize,
    pub(crate) effective_bodies: f64,
}

impl Observations {
    /// From the facts of trains in the order of sending. None where nothing was seen to queue.
    pub(crate) fn from_trains(trains: &[TrainFacts], idle_wait: Option<f64>) -> Option<Self> {
        let heads: Vec<&SegmentFacts> =
            trains.iter().filter_map(|t| t.head.as_ref()).filter(|h| is_queued(h)).collect();
        let all_bodies: Vec<(&SegmentFacts, bool)> =
            trains.iter().filter_map(|t| t.body.as_ref().map(|body| (body, t.head.is_some()))).collect();
        let whole: Vec<(&SegmentFacts, bool)> =
            all_bodies.iter().copied().filter(|(body, _)| body.loss_fraction <= MAX_LOSS_FRACTION).collect();
        let bodies: Vec<&SegmentFacts> = whole.iter().map(|(body, _)| *body).collect();
        let crude = median(&heads.iter().map(|h| h.arrival_rate()).collect::<Vec<_>>())?;
        let floor = delay_floor(trains, crude);
        let (start, end) = (trains.first()?.end - first_duration(&trains[0]), trains.last()?.end);
        let window = (end - start).max(1e-6);
        let watched = bodies.iter().map(|b| b.duration).sum::<f64>();
        let (weight, effective) = effective_number(&bodies, crude);
        let quick: Vec<f64> = heads.iter().map(|h| h.quick_rate).filter(|rate| rate.is_finite()).collect();
        let arrivals = heads.iter().chain(&bodies).map(|segment| segment.arrival_rate());
        let segments = heads
            .iter()
            .map(|head| head_observation(head))
            .chain(whole.iter().map(|(body, is_behind_head)| Observation {
                is_behind_head: *is_behind_head,
                ..body_observation(body, floor, crude, weight)
            }))
            .collect();
        Some(Observations {
            segments,
            crude_capacity: crude,
            quick_rate: median(&quick),
            idle_wait,
            loss_fraction: mean(&all_bodies.iter().map(|(b, _)| b.loss_fraction).collect::<Vec<_>>()),
            watched_fraction: (watched / window).min(1.0),
            window,
            fastest_arrival: arrivals.fold(0.0, f64::max),
            bodies: bodies.len(),
            effective_bodies: effective,
        })
    }
}

fn first_duration(train: &TrainFacts) -> f64 {
    let segments = [train.head.as_ref(), train.body.as_ref()];
    segments.into_iter().flatten().map(|s| train.end - s.start).fold(0.0, f64::max)
}

fn is_queued(head: &SegmentFacts) -> bool {
    head.growth > MIN_HEAD_GROWTH * head.duration && head.loss_fraction == 0.0
}

fn head_observation(head: &SegmentFacts) -> Observation {
    Observation {
        fact: Fact::Dispersion,
        bits: head.bits,
        duration: head.duration,
        growth: head.growth,
        idle: 0.0,
        first_wait: 0.0,
        host_variance: hosts::growth_variance(2.0, head.duration),
        is_behind_head: false,
        weight: 1.0,
    }
}

fn body_observation(body: &SegmentFacts, floor: FittedLine, capacity: f64, weight: f64) -> Observation {
    let service = body.packet_bits / capacity;
    let gap = body.packet_bits / body.sending_rate();
    let waited = |delay: f64| (delay - floor.value_at(body.start) - service).max(0.0);
    // A packet that waits for less than is missing until the next one comes may be followed by silence.
    let idle = |delay: &f64| (gap - service - waited(*delay) + hosts::STAMP_SCATTER_SECONDS).max(0.0).min(gap) / gap;
    let part = mean(&body.delay_quantiles.iter().map(idle).collect::<Vec<_>>());
    // Packets in the order of sending are a line, about: it began half of the growth below the mean.
    let first = mean(&body.delay_quantiles) - body.growth / 2.0;
    Observation {
        fact: Fact::Growth,
        bits: body.bits,
        duration: body.duration,
        growth: body.growth,
        idle: part * body.duration,
        first_wait: waited(first),
        host_variance: hosts::growth_variance(f64::from(body.packets), body.duration),
        is_behind_head: false,
        weight,
    }
}

/// The delay of a packet of no size through empty queues, over time: from the lower hull of the trains' low delays. A slope that no pair of
/// clocks has is that of queues that never were empty.
fn delay_floor(trains: &[TrainFacts], capacity: f64) -> FittedLine {
    let segments = trains.iter().flat_map(|train| [train.head.as_ref(), train.body.as_ref()]).flatten();
    let low = |segment: &SegmentFacts| (segment.start, segment.low_delay() - segment.packet_bits / capacity);
    let mut points: Vec<(f64, f64)> = segments.map(low).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let hull = lower_hull(points.iter().copied());
    let middle = points.iter().map(|p| p.0).sum::<f64>() / points.len().max(1) as f64;
    let edge = hull.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&middle));
    if let Some([a, b]) = edge {
        let slope = (b.1 - a.1) / (b.0 - a.0);
        if slope.abs() <= hosts::MAX_SKEW {
            return FittedLine { intercept: a.1 - slope * a.0, slope };
        }
    }
    FittedLine { intercept: hull.iter().map(|p| p.1).fold(f64::INFINITY, f64::min), slope: 0.0 }
}

/// The weight of a body, and how many independent ones all of them are worth: n · (1 − ρ)/(1 + ρ), where ρ is the correlation of what
/// successive ones had available (Bayley and Hammersley: The "Effective" Number of Independent Observations, 1946). A ρ within its own
/// standard error, 1/√n, is none.
fn effective_number(bodies: &[&SegmentFacts], capacity: f64) -> (f64, f64) {
    let n = bodies.len() as f64;
    let reading = |body: &&SegmentFacts| body.sending_rate() - capacity * body.growth / body.duration;
    let readings: Vec<f64> = bodies.iter().map(reading).collect();
    let mean = mean(&readings);
    let variance: f64 = readings.iter().map(|r| (r - mean).powi(2)).sum();
    let covariance: f64 = readings.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if variance <= 0.0 {
        return (1.0, n);
    }
    let correlation = (covariance / variance - 1.0 / n.sqrt()).clamp(0.0, 0.9);
    let weight = (1.0 - correlation) / (1.0 + correlation);
    (weight, n * weight)
}
