//! A queue for each flow (RFC 8290): a train over one flow is served at its share of the link, and sees nothing of the other flows but that.
//!
//! While it has something queued, its share F takes the place of both the capacity and what is available: the delay grows by bits/F − T. If F is more
//! than half of the link, nobody else can have as much: all others get what they want, so that F is what they leave, and packets of a head follow
//! one another at the link's rate but where others' are between. Else F is what each flow gets that wants more, and how much nobody uses is not
//! to be seen.

use super::single_link::{
    CROSS_PACKET_BITS, LINE_VARIANCE_FACTOR, cross_variance, ln_idle_wait, ln_loss, ln_quick_rate,
    ln_quick_rate_between, mean_wait,
};
use crate::assumptions::{DISPERSION_RANGE_BITS, MAX_HEAD_START_PACKETS, USUAL_LOSS_FRACTION, priors};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Fact, Observation, Observations};

/// From this part of the link on, a share is what others leave.
const UNCONTENDED_PART: f64 = 0.5;

/// Share of one flow; the share as a part of the link; by how many packets heads are ahead; index of dispersion of what
/// others take of it.
pub(super) struct FlowQueueing;

impl PathModel for FlowQueueing {
    fn name(&self) -> &'static str {
        "flow-queueing"
    }

    fn describe(&self) -> &'static str {
        "a link with a queue for each flow, of which one flow sees its share"
    }

    fn prior(&self) -> f64 {
        priors::FLOW_QUEUEING
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        let (least, most) = DISPERSION_RANGE_BITS;
        vec![
            Axis::logarithmic(0.3 * seen.crude_capacity, 2.0 * seen.crude_capacity, 12),
            Axis::logarithmic(0.125, 0.97, 4),
            Axis::linear(0.0, MAX_HEAD_START_PACKETS, 3),
            Axis::logarithmic(least, most, 4),
        ]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let [share, _, head_start, dispersion] = parameters[..] else { unreachable!("four axes") };
        let (factor, ahead) = match segment.fact {
            Fact::Dispersion => (1.0, head_start * CROSS_PACKET_BITS),
            _ => (LINE_VARIANCE_FACTOR, 0.0),
        };
        // Others take their turns for as long as this flow is served.
        let served = segment.duration.max(segment.bits / share);
        Expected {
            growth: (segment.bits - ahead) / share - segment.duration,
            variance: factor * cross_variance(share, served, dispersion) / (share * share),
            may_idle: true,
            silence: None,
        }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        let (share, part) = (parameters[0], parameters[1]);
        let link = share / part;
        // Idle packets have a queue of their own: they wait for the packet on the link.
        let (quick, busy_part) = match part > UNCONTENDED_PART {
            true => (ln_quick_rate(link, seen), 1.0 - part),
            false => (ln_quick_rate_between(share, link, seen), 1.0),
        };
        [quick, ln_idle_wait(mean_wait(link, busy_part, 0.0), seen), ln_loss(USUAL_LOSS_FRACTION, seen)]
    }

    fn stretch(&self) -> f64 {
        // Where it leads and fits on 2 500 tuning paths of 25 kinds (`cargo run --release -p kumade-sim --example evidence -- KINDS 100`, see
        // docs/methods.md), so that 95 % of the truths are within its 95 % interval.
        1.4
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        if parameters[1] > UNCONTENDED_PART { Tells::Available(parameters[0]) } else { Tells::Share(parameters[0]) }
    }
}
