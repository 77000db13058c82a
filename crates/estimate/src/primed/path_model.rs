//! What all trains together tell of the path.

use super::bottleneck::Bottleneck;
use super::floor::delay_floor;
use super::packets::{Dispersion, PrimedTrain};
use super::sample::TrainSample;
use crate::capacity::{Shaper, Shaping};
use crate::cross_traffic::CrossTrafficUnit;
use crate::stats::{mean, median, standard_deviation};

/// No value is given from fewer trains.
pub(super) const MIN_VALUE_TRAINS: usize = 3;

/// All trains read with what is now known of the path. Made anew whenever a train is added, since capacity and floor
/// are known better then: a train that was misread by a wrong capacity is put right.
#[derive(Debug, Default)]
pub(super) struct PathModel {
    /// Of the link that limits the path, in bit/s; where no train was faster than the path, the fastest train's rate.
    pub(super) capacity: Option<f64>,
    /// How far the capacities that single primes showed lie apart: their standard deviation.
    pub(super) capacity_scatter: f64,
    /// The largest ratio of an input gap to an output gap of primes that show the capacity.
    pub(super) prime_gap_ratio: f64,
    /// The rate at which most primes passed, where that is far more than the path can keep up: a token bucket.
    pub(super) burst_rate: Option<f64>,
    /// Trains were faster than the path: primes arrived at a lower rate than they were sent, or bodies built a queue.
    pub(super) is_saturated: bool,
    /// Of all trains that tell something.
    pub(super) samples: Vec<TrainSample>,
    /// Trains that the receiving host held back.
    pub(super) receiver_stalls: u32,
    /// The newest train is one of them.
    pub(super) is_newest_stalled: bool,
    /// Trains that were held up too often, by the sending host or on the path.
    pub(super) disturbed_trains: u32,
    /// Trains of which the prime was too short to empty the token bucket.
    pub(super) short_primes: u32,
    /// The newest train is one of them.
    pub(super) is_newest_prime_short: bool,
    /// The part of the bodies that was lost where no queue was seen to overflow.
    pub(super) unexplained_loss: f64,
    /// There is a token bucket of which nothing was known before, and trains arrived at this rate in the end.
    pub(super) hidden_bucket: Option<f64>,
}

impl PathModel {
    /// From all trains so far, at least one; the scout arrived at the rate `scouted`. `shaping` is what was known before.
    pub(super) fn from_trains(trains: &[PrimedTrain], scouted: f64, shaping: &Shaping) -> Self {
        let shaper = shaping.shaper();
        let primes: Vec<Dispersion> = trains.iter().filter_map(PrimedTrain::dispersion).collect();
        let shown: Vec<Dispersion> = primes.iter().copied().filter(|prime| prime.gap.is_set_by_path()).collect();
        let rates: Vec<f64> = shown.iter().map(|d| d.rate).collect();
        let found = match shaper {
            Some(shaper) => ModelFit::fit_behind_shaper(shaper, trains),
            None => {
                let fastest = trains.iter().map(PrimedTrain::body_rate).fold(scouted, f64::max);
                ModelFit::fit_at(median(&rates).unwrap_or(fastest), standard_deviation(&rates), trains)
            }
        };
        let ModelFit { capacity, capacity_scatter, samples: mut readings } = found;
        let unexplained = |reading: &TrainSample| if reading.has_overflowed() { 0.0 } else { reading.loss_fraction };
        let unexplained_loss = mean(&readings.iter().map(unexplained).collect::<Vec<_>>());
        let filled = readings.iter().filter(|r| !r.has_emptied).count();
        let saturated = shaper.is_some() || shown.len() * 4 > trains.len() || filled * 2 > readings.len();
        let disturbed = readings.iter().filter(|r| r.is_disturbed).count() as u32;
        readings.retain(|r| !r.is_disturbed);
        let short_primes = readings.iter().filter(|r| r.has_credit_left).count() as u32;
        let newest_short = readings.last().is_some_and(|r| r.has_credit_left);
        // A path that nothing has filled may well be faster than any packets seen.
        let stalled = |reading: &TrainSample| saturated && reading.is_compressed && !reading.has_credit_left;
        let receiver_stalls = readings.iter().filter(|r| stalled(r)).count() as u32;
        let newest_stalled = readings.last().is_some_and(stalled);
        // A train far faster than the link shows the link's capacity only.
        readings.retain(|r| !stalled(r) && !r.has_credit_left && r.rate < 3.0 * capacity);
        let burst_rate = burst_rate(&primes, capacity);
        let hides = match shaping {
            Shaping::Unknown => hides_bucket(trains),
            Shaping::Unshaped => hides_bucket_often(trains),
            Shaping::Shaped(_) => false,
        };
        let is_hidden = hides || shaper.is_none() && burst_rate.is_some() && trains.len() >= MIN_VALUE_TRAINS;
        PathModel {
            capacity: Some(capacity),
            capacity_scatter,
            prime_gap_ratio: if shaper.is_some() {
                0.0
            } else {
                shown.iter().map(|d| d.gap.ratio()).fold(0.0, f64::max)
            },
            burst_rate,
            is_saturated: saturated,
            samples: readings,
            receiver_stalls,
            is_newest_stalled: newest_stalled,
            disturbed_trains: disturbed,
            short_primes,
            is_newest_prime_short: newest_short,
            unexplained_loss,
            hidden_bucket: is_hidden.then(|| slowest_rate(trains).unwrap_or(capacity)),
        }
    }
}

/// Rates of primes are those of different links if they differ by this factor, as in the look at the link's utilization. Cross traffic, which
/// gets into few gaps of a prime, makes less of a difference (`cargo test -p kumade-sim --test tests steady_links -- --nocapture` counts where
/// it made more). All those before a change agree as closely; else cross traffic makes the difference, or the rate varies all the time, as that of a
/// radio link does.
const MIN_CHANGE_RATIO: f64 = 1.25;
/// So many of the newest primes show a change, since one alone may have met a burst of cross traffic, …
const CHANGED_PRIMES: usize = 2;
/// … after so many at least.
const MIN_PRIMES_BEFORE_CHANGE: usize = 2;

/// How many trains passed before the link's rate changed; zero where it has not. Trains that do not show the rate do not count.
pub(super) fn trains_before_change(trains: &[PrimedTrain]) -> usize {
    let shown = |train: &PrimedTrain| {
        train.dispersion().filter(|prime| prime.gap.is_set_by_path() && !train.is_in_bursts).map(|prime| prime.rate)
    };
    let (places, rates): (Vec<usize>, Vec<f64>) =
        trains.iter().enumerate().filter_map(|(place, train)| Some((place, shown(train)?))).unzip();
    let before = rates.len().saturating_sub(CHANGED_PRIMES);
    if before < MIN_PRIMES_BEFORE_CHANGE {
        return 0;
    }
    let range =
        |rates: &[f64]| rates.iter().fold((f64::INFINITY, 0.0f64), |(low, high), rate| (rate.min(low), rate.max(high)));
    let ((low, high), (newest_low, newest_high)) = (range(&rates[..before]), range(&rates[before..]));
    let is_above = |one: f64, other: f64| one > MIN_CHANGE_RATIO * other;
    let varies = is_above(high, low) || is_above(newest_high, newest_low);
    let has_changed = !varies && (is_above(newest_low, high) || is_above(low, newest_high));
    if has_changed { places[before] } else { 0 }
}

/// What limits the path, and the trains in its light.
struct ModelFit {
    capacity: f64,
    capacity_scatter: f64,
    samples: Vec<TrainSample>,
}

impl ModelFit {
    /// Where most primes arrived at this rate, unless queues grew as they do before a slower link.
    fn fit_at(prime_rate: f64, scatter: f64, trains: &[PrimedTrain]) -> Self {
        let prime_rate =
            prime_rate.max(carried_rate(trains).filter(|rate| *rate > MIN_CARRIED_RATIO * prime_rate).unwrap_or(0.0));
        let readings = read_trains(trains, Bottleneck::from_capacity(prime_rate));
        let bound = available_bound(&readings);
        let slower = bound < 0.5 * prime_rate;
        let (capacity, readings) = if slower {
            (bound, read_trains(trains, Bottleneck::from_capacity(bound)))
        } else {
            (prime_rate, readings)
        };
        ModelFit { capacity, capacity_scatter: scatter.min(bound), samples: readings }
    }

    /// Behind a token bucket primes arrive at the peak rate, which does not show the sustained one.
    fn fit_behind_shaper(shaper: &Shaper, trains: &[PrimedTrain]) -> Self {
        let bottleneck = Bottleneck::behind_shaper(shaper);
        let half = (shaper.committed_rate.high.as_f64() - shaper.committed_rate.low.as_f64()) / 2.0;
        let readings = read_trains(trains, bottleneck);
        ModelFit { capacity: bottleneck.capacity, capacity_scatter: half / 2.0, samples: readings }
    }
}

/// Bodies that arrive at so many times the rate of the primes, and faster, show that those do not show the capacity.
const MIN_CARRIED_RATIO: f64 = 1.25;

/// The rate at which the third fastest of the bodies that arrived whole did: a host that held some up, or delays that vary, may let single ones
/// arrive faster than the link carries them.
fn carried_rate(trains: &[PrimedTrain]) -> Option<f64> {
    let mut rates: Vec<f64> =
        trains.iter().filter(|train| !train.is_in_bursts).filter_map(PrimedTrain::carried_rate).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    rates.get(2).copied()
}

/// Cross traffic does not slow a train down by this factor from its start to its end, and a host scheduling delay seldom …
const MIN_SLOWDOWN_RATIO: f64 = 3.0;
/// … and never by so many.
const MAX_STALL_SLOWDOWN_RATIO: f64 = 20.0;

/// Whether trains became so much slower on their way: once by very much, or twice.
fn hides_bucket(trains: &[PrimedTrain]) -> bool {
    let slowdowns = slowdowns(trains);
    slowdowns.iter().any(|slowdown| *slowdown > MAX_STALL_SLOWDOWN_RATIO) || slowdowns.len() >= 2
}

/// The same where a bucket was looked for, and none seen: then only many trains tell that it was overlooked.
fn hides_bucket_often(trains: &[PrimedTrain]) -> bool {
    trains.len() >= MIN_VALUE_TRAINS && slowdowns(trains).len() * 4 > trains.len()
}

/// By what factors trains slowed down, of those that did.
fn slowdowns(trains: &[PrimedTrain]) -> Vec<f64> {
    slowed_down_rates(trains).into_iter().map(|[start, end]| start / end).collect()
}

/// The rate at which the last packets of trains that slowed down arrived.
fn slowest_rate(trains: &[PrimedTrain]) -> Option<f64> {
    median(&slowed_down_rates(trains).into_iter().map(|[_, end]| end).collect::<Vec<_>>())
}

/// The rates at which the first packets and the last ones of trains that slowed down arrived.
fn slowed_down_rates(trains: &[PrimedTrain]) -> Vec<[f64; 2]> {
    let least_delay = trains.iter().filter_map(PrimedTrain::first_delay).fold(f64::INFINITY, f64::min);
    trains
        .iter()
        .filter_map(|train| train.end_rates(least_delay))
        .filter(|[start, end]| *start > MIN_SLOWDOWN_RATIO * end)
        .collect()
}

/// Nothing available is the least there can be, which bounds what the queue's growth lets the capacity be. Over a short
/// time cross traffic may exceed what the link carries, which shows the more the slower a train is: a train counts only
/// together with all that were faster.
fn available_bound(readings: &[TrainSample]) -> f64 {
    let mut steady: Vec<&TrainSample> = readings.iter().filter(|r| !r.has_delay_jump && !r.is_disturbed).collect();
    steady.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let (mut sent, mut grown) = (0.0, 0.0);
    let bounds = steady.iter().map(|r| {
        sent += r.rate * r.duration;
        grown += r.delay_growth.max(0.05) * r.duration;
        sent / grown
    });
    bounds.fold(f64::INFINITY, f64::min)
}

/// See [`PathModel::burst_rate`]. Primes that came closer together than they left were held up and let go by a machine
/// that stalled, not by a bucket.
fn burst_rate(primes: &[Dispersion], capacity: f64) -> Option<f64> {
    let rates: Vec<f64> = primes.iter().filter(|d| d.gap.ratio() < 1.25).map(|d| d.rate).collect();
    median(&rates).filter(|&rate| rates.len() * 2 > primes.len() && rate > 3.0 * capacity)
}

fn read_trains(trains: &[PrimedTrain], bottleneck: Bottleneck) -> Vec<TrainSample> {
    let floor = delay_floor(trains, bottleneck);
    let full = trains.iter().map(|train| train.longest_wait(bottleneck, floor)).fold(0.0, f64::max);
    let in_bursts = trains.iter().filter(|train| train.is_in_bursts).count();
    let waiting = trains.iter().filter(|train| train.is_behind_bursts(bottleneck.capacity)).count();
    // As long as they are rare, long waits are pauses of a host.
    let cross = if waiting * 4 > in_bursts { CrossTrafficUnit::Burst } else { CrossTrafficUnit::Packet };
    trains.iter().filter_map(|train| train.sample(bottleneck, floor, full, cross)).collect()
}
