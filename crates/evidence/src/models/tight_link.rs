//! Two links: packets sent back to back show the rate of the narrow one, and the queue grows at the tight one, which is faster and has less left.
//!
//! Behind a head, the body's delay first falls while the narrow link serves what the head has queued.

use super::single_link::{LINE_VARIANCE_FACTOR, cross_variance, ln_idle_wait_of_traffic, ln_loss, ln_quick_rate};
use crate::assumptions::{
    DISPERSION_RANGE_OF_TWO_LINKS_BITS, TIGHT_LINK_RATIO_RANGE, TWO_QUEUES_RELATIVE_ERROR, USUAL_LOSS_FRACTION, priors,
};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Fact, Observation, Observations};

/// Narrow link's capacity; available part of that; the tight link's capacity over the narrow one's; index of dispersion.
pub(super) struct TightLinkElsewhere;

impl PathModel for TightLinkElsewhere {
    fn name(&self) -> &'static str {
        "tight-link-elsewhere"
    }

    fn describe(&self) -> &'static str {
        "a narrow link, and a faster one with less left"
    }

    fn prior(&self) -> f64 {
        priors::TIGHT_LINK_ELSEWHERE
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        let (least_ratio, most_ratio) = TIGHT_LINK_RATIO_RANGE;
        let (least, most) = DISPERSION_RANGE_OF_TWO_LINKS_BITS;
        vec![
            Axis::logarithmic(0.8 * seen.crude_capacity, 1.6 * seen.crude_capacity, 5),
            Axis::linear(0.0, 1.0, 16),
            Axis::logarithmic(least_ratio, most_ratio, 5),
            Axis::logarithmic(least, most, 4),
        ]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let [narrow, part, ratio, dispersion] = parameters[..] else { unreachable!("four axes") };
        let Observation { bits, duration, first_wait, fact, .. } = *segment;
        let (tight, available) = (narrow * ratio, narrow * part);
        if fact == Fact::Dispersion {
            let cross = cross_variance(narrow, duration, dispersion);
            return Expected {
                growth: bits / narrow - duration,
                variance: cross / (narrow * narrow),
                may_idle: false,
                silence: None,
            };
        }
        let at_tight = ((bits - available * duration) / tight).max(0.0);
        let at_narrow = (bits / narrow - duration).max(-first_wait);
        let cross = LINE_VARIANCE_FACTOR * cross_variance(tight - available, duration, dispersion) / (tight * tight);
        let inexact = TWO_QUEUES_RELATIVE_ERROR * (at_tight + at_narrow.abs());
        Expected { growth: at_tight + at_narrow, variance: cross + inexact * inexact, may_idle: false, silence: None }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        [ln_quick_rate(parameters[0], seen), ln_idle_wait_of_traffic(seen), ln_loss(USUAL_LOSS_FRACTION, seen)]
    }

    fn stretch(&self) -> f64 {
        // Where it leads and fits on 2 500 tuning paths of 25 kinds (`cargo run --release -p kumade-sim --example evidence -- KINDS 100`, see
        // docs/methods.md), so that 95 % of the truths are within its 95 % interval.
        2.75
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        Tells::Available(parameters[0] * parameters[1])
    }
}
