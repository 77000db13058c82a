//! One queue before a link whose rate changes from train to train, by steps or at random: the capacity and what is available rise and fall
//! together, and longer trains don't scatter less.

use super::fifo::expect_of_link;
use super::single_link::{CROSS_PACKET_BITS, ln_idle_wait_of_traffic, ln_loss, ln_quick_rate_between};
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
        0.1
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        vec![
            Axis::logarithmic(0.6 * seen.crude_capacity, 1.8 * seen.crude_capacity, 7),
            Axis::linear(0.0, 1.0, 16),
            // From what a link layer's retransmissions cost to a link that is off at times.
            Axis::logarithmic(0.02, 0.6, 6),
        ]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let [capacity, part, deviation] = parameters[..] else { unreachable!("three axes") };
        let steady = expect_of_link(capacity, part * capacity, CROSS_PACKET_BITS, segment);
        let of_rate = deviation * segment.duration.max(segment.bits / capacity);
        Expected { variance: steady.variance + of_rate * of_rate, ..steady }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        // Radio links send what they hold at once.
        [
            ln_quick_rate_between(0.5 * parameters[0], 4.0 * parameters[0], seen),
            ln_idle_wait_of_traffic(seen),
            ln_loss(0.03, seen),
        ]
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        Tells::Available(parameters[0] * parameters[1])
    }
}
