//! None of the others: delays that grow by anything, and no more available than has arrived.

use super::single_link::{ln_idle_wait_of_traffic, ln_loss, ln_quick_rate_between};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Fact, Observation, Observations};

/// By which part of a segment's time its growth differs from anything that is expected.
const RELATIVE_DEVIATION: f64 = 0.3;

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
        0.1
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
        Expected { growth, variance: (RELATIVE_DEVIATION * scale).powi(2), may_idle: false, silence: None }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        [
            ln_quick_rate_between(0.5 * parameters[0], 8.0 * parameters[0], seen),
            ln_idle_wait_of_traffic(seen),
            ln_loss(0.2, seen),
        ]
    }

    fn tell(&self, _: &[f64], seen: &Observations) -> Tells {
        Tells::AtMost(seen.fastest_arrival)
    }
}
