//! What all trains together tell of the path.

use super::reading::{Dispersion, Packets, Reading, delay_floor};
use crate::stats::{median, standard_deviation};

/// All trains read with what is now known of the path. Made anew whenever a train is added, since capacity and floor
/// are known better then: a train that was misread by a wrong capacity is put right.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    /// Of the link that limits the path, in bit/s; where no train was faster than the path, the fastest train's rate.
    pub(super) capacity: Option<f64>,
    /// How far the capacities that single primes showed lie apart: their standard deviation.
    pub(super) capacity_scatter: f64,
    /// See [`Dispersion::openness`].
    pub(super) prime_openness: f64,
    /// The rate at which most primes passed, where that is far more than the path can keep up: a token bucket.
    pub(super) burst_rate: Option<f64>,
    /// Trains were faster than the path: primes came out slower than they went in, or bodies filled the queue.
    pub(super) saturated: bool,
    /// Of all trains that tell something.
    pub(super) readings: Vec<Reading>,
    /// Trains in which the receiver's machine stalled.
    pub(super) receiver_stalls: u32,
    /// The newest train is one of them.
    pub(super) newest_stalled: bool,
}

impl Knowledge {
    /// From all trains so far, at least one; the scout came out at the rate `scouted`.
    pub(super) fn of(trains: &[Packets], scouted: f64) -> Self {
        let primes: Vec<Dispersion> = trains.iter().filter_map(Packets::dispersion).collect();
        let shown: Vec<Dispersion> = primes.iter().copied().filter(Dispersion::shows_capacity).collect();
        let rates: Vec<f64> = shown.iter().map(|d| d.rate).collect();
        let fastest = trains.iter().map(Packets::body_rate).fold(scouted, f64::max);
        let prime_rate = median(&rates).unwrap_or(fastest);
        let readings = read(trains, prime_rate);
        let bound = bound(&readings);
        let capacity = if bound < 0.5 * prime_rate { bound } else { prime_rate };
        let mut readings = if capacity < prime_rate { read(trains, capacity) } else { readings };
        let filled = readings.iter().filter(|r| !r.emptied).count();
        let saturated = shown.len() * 4 > trains.len() || filled * 2 > readings.len();
        // A path that nothing has filled may well be faster than any packets seen.
        let stalled = |reading: &Reading| saturated && reading.compressed;
        let receiver_stalls = readings.iter().filter(|r| stalled(r)).count() as u32;
        let newest_stalled = readings.last().is_some_and(stalled);
        // A train far faster than the link tells the link's capacity and nothing else.
        readings.retain(|r| !stalled(r) && r.rate < 3.0 * capacity);
        Knowledge {
            capacity: Some(capacity),
            capacity_scatter: standard_deviation(&rates).min(bound),
            prime_openness: shown.iter().map(|d| d.openness).fold(0.0, f64::max),
            burst_rate: burst_rate(&primes, capacity),
            saturated,
            readings,
            receiver_stalls,
            newest_stalled,
        }
    }
}

/// Nothing available is the least there can be, which bounds what the queue's growth lets the capacity be. Over a short
/// time others may send more than the link carries, which shows the more the slower a train is: a train counts only
/// together with all that were faster.
fn bound(readings: &[Reading]) -> f64 {
    let mut steady: Vec<&Reading> = readings.iter().filter(|r| !r.jumped).collect();
    steady.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let (mut sent, mut grown) = (0.0, 0.0);
    let bounds = steady.iter().map(|r| {
        sent += r.rate * r.duration;
        grown += r.growth.max(0.05) * r.duration;
        sent / grown
    });
    bounds.fold(f64::INFINITY, f64::min)
}

/// See [`Knowledge::burst_rate`]. Primes that came closer together than they left were held up and let go by a machine
/// that stalled, not by a bucket.
fn burst_rate(primes: &[Dispersion], capacity: f64) -> Option<f64> {
    let rates: Vec<f64> = primes.iter().filter(|d| d.openness < 1.25).map(|d| d.rate).collect();
    median(&rates).filter(|&rate| rates.len() * 2 > primes.len() && rate > 3.0 * capacity)
}

fn read(trains: &[Packets], capacity: f64) -> Vec<Reading> {
    let floor = delay_floor(trains, capacity);
    let full = trains.iter().map(|train| train.longest_wait(capacity, floor)).fold(0.0, f64::max);
    trains.iter().filter_map(|train| train.reading(capacity, floor, full)).collect()
}
