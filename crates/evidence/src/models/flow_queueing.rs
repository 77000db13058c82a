//! A queue for each flow (RFC 8290): a train over one flow is served at its share of the link, and sees nothing of the other flows but that.
//!
//! While it has something queued, its share F takes the place of both the capacity and what is available: the delay grows by bits/F − T. If F is more
//! than half of the link, nobody else can have as much: all others get what they want, so that F is what they leave, and packets of a head follow
//! one another at the link's rate but where others' are between. Else F is what each flow gets that wants more, and how much nobody uses is not
//! to be seen.

use super::single_link::{
    CROSS_PACKET_BITS, DISPERSION_RANGE_BITS, LINE_VARIANCE_FACTOR, USUAL_LOSS_FRACTION, cross_variance,
    ln_idle_wait_of_traffic, ln_loss, ln_quick_rate, ln_quick_rate_between,
};
use crate::grid::Axis;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Fact, Observation, Observations};

/// From this part of the link on, a share is what others leave.
const UNCONTENDED_PART: f64 = 0.5;
/// Heads begin at the link's rate: the first packet of a flow that had none queued is served at once (RFC 8290, section 4.2), and others' turns
/// have one packet or two. So the end of a head is late or early by so many packets' times.
const HEAD_SCATTER_PACKETS: f64 = 1.0;

/// Share of one flow; the share as a part of the link; index of dispersion of what others take of it.
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
            Axis::logarithmic(0.3 * seen.crude_capacity, 2.0 * seen.crude_capacity, 16),
            Axis::logarithmic(0.125, 0.97, 6),
            Axis::logarithmic(least, most, 5),
        ]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        let [share, _, dispersion] = parameters[..] else { unreachable!("three axes") };
        let is_head = segment.fact == Fact::Dispersion;
        let turns = if is_head { (HEAD_SCATTER_PACKETS * CROSS_PACKET_BITS).powi(2) } else { 0.0 };
        let factor = if is_head { 1.0 } else { LINE_VARIANCE_FACTOR };
        // Others take their turns for as long as this flow is served.
        let served = segment.duration.max(segment.bits / share);
        Expected {
            growth: segment.bits / share - segment.duration,
            variance: (factor * cross_variance(share, served, dispersion) + turns) / (share * share),
            may_idle: true,
            silence: None,
        }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        let (share, part) = (parameters[0], parameters[1]);
        let quick = match part > UNCONTENDED_PART {
            true => ln_quick_rate(share / part, seen),
            false => ln_quick_rate_between(share, share / part, seen),
        };
        [quick, ln_idle_wait_of_traffic(seen), ln_loss(USUAL_LOSS_FRACTION, seen)]
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        if parameters[1] > UNCONTENDED_PART { Tells::Available(parameters[0]) } else { Tells::Share(parameters[0]) }
    }
}
