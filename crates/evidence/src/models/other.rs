//! None of the others: delays that grow by anything, and no more available than has arrived.

use super::single_link::{ln_idle_wait_of_traffic, ln_loss, ln_quick_rate_between};
use crate::assumptions::{OTHER_LOSS_FRACTION, OTHER_RELATIVE_DEVIATION, QUICK_RATE_RANGE_OF_OTHER, priors};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Fact, Observation, Observations};

/// About the rate at which heads arrive.
pub(super) struct Other;

impl PathModel for Other {
    fn name(&self) -> &'static str {
        "other"
    }

    fn describe(&self) -> &'static str {
        "none of the paths that are modelled"
    }

    fn prior(&self) -> f64 {
        priors::OTHER
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        vec![Axis::logarithmic(0.3 * seen.crude_capacity, 3.0 * seen.crude_capacity, 12)]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let served = segment.bits / parameters[0];
        let (growth, scale) = match segment.fact {
            Fact::Dispersion => (served - segment.duration, served),
            _ => (0.0, segment.duration),
        };
        Expected { growth, variance: (OTHER_RELATIVE_DEVIATION * scale).powi(2), may_idle: false, silence: None }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        let (slowest, quickest) = QUICK_RATE_RANGE_OF_OTHER;
        [
            ln_quick_rate_between(slowest * parameters[0], quickest * parameters[0], seen),
            ln_idle_wait_of_traffic(seen),
            ln_loss(OTHER_LOSS_FRACTION, seen),
        ]
    }

    fn tell(&self, _: &[f64], seen: &Observations) -> Tells {
        Tells::AtMost(seen.fastest_arrival)
    }
}
