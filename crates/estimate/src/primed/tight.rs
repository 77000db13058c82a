//! The tight link, where it is not the narrow link.
//!
//! Trains of several rates tell what it leaves (see [`Hinge`]). What a prime shows is the rate of the narrow link, and what it leaves queued there hides what happens at the tight
//! link: these trains are paced from the first packet on.

use super::interval::Interval;
use super::packets::{Packets, Point};
use super::verification::{self, Verdict, Verification};
use crate::fit::robust_line;
use crate::hinge::{Hinge, Step};

/// Fewer stepped trains do not tell the slope.
const MIN_PACED_TRAINS: usize = 4;

/// By how much more of the narrow link's rate the tight link may be faster, in what a verification leaves possible …
const DECIDED_RATIO: f64 = 1.0;
/// … and where it stayed undecided.
const UNDECIDED_RATIO: f64 = 4.0;

/// Little is left below this part of the narrow link's rate.
pub(super) const MAX_LITTLE: f64 = 0.25;

/// The search for the tight link, and the verification of what was found.
#[derive(Debug, Default)]
pub(super) struct Search {
    trains: Vec<Packets>,
    verifications: Vec<Verification>,
    /// The lowest rate at which the queue was seen to grow although it seemed available, in bit/s.
    ceiling: Option<f64>,
    is_verified: bool,
    /// See [`Search::is_full`].
    is_full: bool,
    low: Option<f64>,
    /// What was found below the ceiling.
    pub(super) tight: Option<Tight>,
}

impl Search {
    /// Takes in a train of one rate; `verifies` tells whether it was to verify a value. For `scatter`, see
    /// [`verification::verdict`].
    pub(super) fn add(&mut self, train: Packets, verifies: bool, (scatter, narrow): (f64, f64)) {
        if verifies {
            self.verifications.extend(Verification::of(&train));
        }
        self.trains.push(train);
        let (verdict, growth) = verification::verdict(&self.verifications, scatter, narrow);
        let rate = self.verifications.iter().map(|v| v.rate).fold(f64::INFINITY, f64::min);
        let slower = growth * narrow * if verdict == Verdict::Undecided { UNDECIDED_RATIO } else { DECIDED_RATIO };
        self.low = (self.verifications.len() >= verification::MIN_TRAINS).then_some(rate - slower);
        match verdict {
            Verdict::Undecided => {}
            Verdict::Available => self.is_verified = true,
            Verdict::Grew if rate < MAX_LITTLE * narrow => self.is_full = true,
            Verdict::Grew => {
                self.ceiling = Some(rate);
                self.verifications.clear();
            }
        }
        self.tight = self.ceiling.and_then(|ceiling| Tight::of(&self.trains, ceiling));
    }

    /// The lowest rate at which the queue was seen to grow although it seemed available, in bit/s.
    pub(super) fn ceiling(&self) -> Option<f64> {
        self.ceiling
    }

    /// Whether the last value is one at which no queue grows.
    pub(super) fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// Whether the queue grew where little seemed available: that may be what connections gave up to the trains, which a search would
    /// push aside further.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The least that may be available for all that the verification says.
    pub(super) fn low(&self) -> Option<f64> {
        self.low
    }

    /// The newest train.
    pub(super) fn newest(&self) -> Option<&Packets> {
        self.trains.last()
    }

    /// The rate of the next train, given a random number from 0 to 1; none where there is nothing to search.
    pub(super) fn rate(&self, random: f64) -> Option<f64> {
        let ceiling = self.ceiling?;
        let between = |from: f64, to: f64| from + (to - from) * random;
        Some(match self.tight {
            Some(tight) if tight.hinge.error < 0.15 * tight.hinge.available => {
                between(0.75 * tight.hinge.available, (1.5 * tight.hinge.available).min(ceiling))
            }
            Some(tight) => between((0.5 * tight.hinge.available).clamp(0.1 * ceiling, 0.4 * ceiling), ceiling),
            None => between(0.2 * ceiling, ceiling),
        })
    }
}

/// What paced trains show of the link at which the queue grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tight {
    pub(super) hinge: Hinge,
    /// Trains whose rate was near the available bandwidth.
    pub(super) near: usize,
}

impl Tight {
    /// From trains no faster than `ceiling`. None from too few of them, or from rates all alike.
    fn of(trains: &[Packets], ceiling: f64) -> Option<Self> {
        let steps: Vec<Step> = trains.iter().filter_map(step).filter(|s| s.rate <= 1.02 * ceiling).collect();
        let hinge = Hinge::of(&steps).filter(|_| steps.len() >= MIN_PACED_TRAINS)?;
        let close = 0.85 * hinge.available..1.25 * hinge.available;
        Some(Tight { hinge, near: steps.iter().filter(|s| close.contains(&s.rate)).count() })
    }

    /// None where the slope may as well be zero, or hardly anything is known.
    pub(super) fn interval(&self) -> Option<Interval> {
        let Hinge { available, error, trains, .. } = self.hinge;
        let half = self.hinge.half();
        let interval =
            Interval { value: available, half, low: available - half, spread: error * (trains as f64).sqrt() };
        self.hinge.is_told().then_some(interval)
    }
}

fn step(train: &Packets) -> Option<Step> {
    let points: Vec<&Point> = train.body().collect();
    let (start, end) = (points.first()?, points.last()?);
    let duration = end.sent - start.sent;
    if points.len() < 4 || duration <= 0.0 {
        return None;
    }
    let rate = (end.carried - start.carried) / duration;
    let delays: Vec<(f64, f64)> = points.iter().map(|p| (p.sent, p.delay)).collect();
    Some(Step { rate, growth: robust_line(&delays)?.slope, weight: duration })
}
