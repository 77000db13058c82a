//! One queue for all before a link of a fixed rate, with cross traffic.
//!
//! Over a segment of duration T with which `bits` are sent, cross traffic of the mean rate C − A sends (C − A) T bits on average. As long as the
//! queue isn't empty, the delay grows by (bits + (C − A) T)/C − T = (bits − A T)/C.

use super::single_link::{
    CROSS_PACKET_BITS, LINE_VARIANCE_FACTOR, cross_variance, ln_idle_wait, ln_loss, ln_quick_rate, mean_wait,
};
use crate::assumptions::{DISPERSION_RANGE_BITS, USUAL_LOSS_FRACTION, priors};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Silence, Tells};
use crate::observations::{Observation, Observations};

/// Capacity; available part of it; index of dispersion of cross traffic.
pub(super) struct Fifo;

impl PathModel for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn describe(&self) -> &'static str {
        "one queue before a link of a fixed rate, with cross traffic"
    }

    fn prior(&self) -> f64 {
        priors::FIFO
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        let (least, most) = DISPERSION_RANGE_BITS;
        vec![
            // Cross traffic within heads makes the capacity seem less than it is.
            Axis::logarithmic(0.7 * seen.crude_capacity, 2.0 * seen.crude_capacity, 6),
            Axis::linear(0.0, 1.0, 16),
            Axis::logarithmic(least, most, 6),
        ]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let [capacity, part, dispersion] = parameters[..] else { unreachable!("three axes") };
        expect_of_link(capacity, part * capacity, dispersion, segment)
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        let wait = mean_wait(parameters[0], 1.0 - parameters[1], parameters[2]);
        [ln_quick_rate(parameters[0], seen), ln_idle_wait(wait, seen), ln_loss(USUAL_LOSS_FRACTION, seen)]
    }

    fn stretch(&self) -> f64 {
        // Beside Poisson traffic deviations are so many times what is stated (`cargo run --release -p kumade-evidence --example calibration`).
        1.2
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        Tells::Available(parameters[0] * parameters[1])
    }
}

/// What is expected of a link of this capacity, of which so much is available.
pub(super) fn expect_of_link(capacity: f64, available: f64, dispersion: f64, segment: &Observation) -> Expected {
    let Observation { bits, duration, .. } = *segment;
    let cross = cross_variance(capacity - available, duration, dispersion);
    Expected {
        growth: (bits - available * duration) / capacity,
        variance: LINE_VARIANCE_FACTOR * cross / (capacity * capacity),
        may_idle: true,
        silence: silence(capacity, available, dispersion, segment),
    }
}

/// Cross traffic whose pieces come at random (a compound Poisson process) has pieces of the size of its index of dispersion, and sends none of them
/// with the probability e⁻ⁿ, where n are due. What comes at even intervals sends none only where less than one packet is due.
fn silence(capacity: f64, available: f64, dispersion: f64, segment: &Observation) -> Option<Silence> {
    let bits = (capacity - available) * segment.duration;
    let probability = match dispersion < CROSS_PACKET_BITS {
        true => 1.0 - bits / CROSS_PACKET_BITS,
        false => (-bits / dispersion).exp(),
    };
    let growth = segment.bits / capacity - segment.duration;
    (probability > NEGLIGIBLE_PROBABILITY).then_some(Silence { probability, growth })
}

/// Less makes no difference in some dozens of segments.
const NEGLIGIBLE_PROBABILITY: f64 = 1e-3;
