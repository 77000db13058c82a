//! A queue for each flow (RFC 8290): a train over one flow is served at its share of the link, and sees nothing of the other flows but that.
//!
//! While it has something queued, F · (what time is left of serving `bits`) holds with the share F in place of both the capacity and what is
//! available: the delay grows by bits/F − T.

use super::single_link::{
    DISPERSION_RANGE_BITS, LINE_VARIANCE_FACTOR, USUAL_LOSS_FRACTION, cross_variance, ln_idle_wait_of_traffic, ln_loss,
    ln_quick_rate_above,
};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Fact, Observation, Observations};

/// Share of one flow; index of dispersion of what others take of it.
pub(super) struct FlowQueueing;

impl PathModel for FlowQueueing {
    fn name(&self) -> &'static str {
        "flow-queueing"
    }

    fn describe(&self) -> &'static str {
        "a link with a queue for each flow, of which one flow sees its share"
    }

    fn prior(&self) -> f64 {
        0.15
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        let (least, most) = DISPERSION_RANGE_BITS;
        vec![
            Axis::logarithmic(0.3 * seen.crude_capacity, 2.0 * seen.crude_capacity, 30),
            Axis::logarithmic(least, most, 7),
        ]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let [share, dispersion] = parameters[..] else { unreachable!("two axes") };
        let factor = if segment.fact == Fact::Growth { LINE_VARIANCE_FACTOR } else { 1.0 };
        // Others take their turns for as long as this flow is served.
        let served = segment.duration.max(segment.bits / share);
        Expected {
            growth: segment.bits / share - segment.duration,
            variance: factor * cross_variance(share, served, dispersion) / (share * share),
            may_idle: true,
        }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        [ln_quick_rate_above(parameters[0], seen), ln_idle_wait_of_traffic(seen), ln_loss(USUAL_LOSS_FRACTION, seen)]
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        Tells::Share(parameters[0])
    }
}
