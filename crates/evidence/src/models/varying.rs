//! One queue before a link whose rate changes from train to train, by steps or at random: the capacity and what is available rise and fall
//! together, and longer trains don't scatter less.

use super::fifo::expect_of_link;
use super::single_link::{CROSS_PACKET_BITS, ln_idle_wait_of_traffic, ln_loss, ln_quick_rate_between};
use crate::assumptions::{QUICK_RATE_RANGE_OF_RADIO, RATE_DEVIATION_RANGE, VARYING_LINK_LOSS_FRACTION, priors};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Observation, Observations};

/// Mean capacity; available part of it; relative standard deviation of the rate.
pub(super) struct VaryingLink;

impl PathModel for VaryingLink {
    fn name(&self) -> &'static str {
        "varying-link"
    }

    fn describe(&self) -> &'static str {
        "a link whose rate varies from train to train"
    }

    fn prior(&self) -> f64 {
        priors::VARYING_LINK
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        let (least, most) = RATE_DEVIATION_RANGE;
        vec![
            Axis::logarithmic(0.6 * seen.crude_capacity, 1.8 * seen.crude_capacity, 7),
            Axis::linear(0.0, 1.0, 16),
            Axis::logarithmic(least, most, 6),
        ]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let [capacity, part, deviation] = parameters[..] else { unreachable!("three axes") };
        let steady = expect_of_link(capacity, part * capacity, CROSS_PACKET_BITS, segment);
        let of_rate = deviation * segment.duration.max(segment.bits / capacity);
        Expected { variance: steady.variance + of_rate * of_rate, ..steady }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        let (slowest, quickest) = QUICK_RATE_RANGE_OF_RADIO;
        [
            ln_quick_rate_between(slowest * parameters[0], quickest * parameters[0], seen),
            ln_idle_wait_of_traffic(seen),
            ln_loss(VARYING_LINK_LOSS_FRACTION, seen),
        ]
    }

    fn stretch(&self) -> f64 {
        // Where it leads and fits on 2 500 tuning paths of 25 kinds (`cargo run --release -p kumade-sim --example evidence -- KINDS 100`, see
        // docs/methods.md), so that 95 % of the truths are within its 95 % interval.
        13.3
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        Tells::Available(parameters[0] * parameters[1])
    }
}
