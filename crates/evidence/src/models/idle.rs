//! A link of a fixed rate that nobody else uses while it is measured: what is available is its rate, and nothing waits but for the trains
//! themselves.

use super::single_link::{ln_loss, ln_quick_rate};
use crate::assumptions::{USUAL_LOSS_FRACTION, priors};
use crate::grid::Axis;
use crate::hosts::STAMP_SCATTER_SECONDS;
use crate::model::{Expected, PathModel, Tells};
use crate::observations::{Observation, Observations};
use crate::student;
use std::f64::consts::LN_2;

/// Capacity.
pub(super) struct Idle;

impl PathModel for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn describe(&self) -> &'static str {
        "a link of a fixed rate that nobody else uses"
    }

    fn prior(&self) -> f64 {
        priors::IDLE
    }

    fn axes(&self, seen: &Observations) -> Vec<Axis> {
        vec![Axis::logarithmic(0.7 * seen.crude_capacity, 2.0 * seen.crude_capacity, 40)]
    }

    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected {
        Expected {
            growth: segment.bits / parameters[0] - segment.duration,
            variance: 0.0,
            may_idle: true,
            silence: None,
        }
    }

    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3] {
        // Stamps alone make idle packets wait.
        let of_stamps = |wait: f64| {
            let u = wait / (2.0 * STAMP_SCATTER_SECONDS);
            LN_2 + student::ln_density(u) + u.ln()
        };
        let waits = seen.idle_wait.map_or(0.0, |wait| of_stamps(wait.max(1e-7)));
        [ln_quick_rate(parameters[0], seen), waits, ln_loss(USUAL_LOSS_FRACTION, seen)]
    }

    fn tell(&self, parameters: &[f64], _: &Observations) -> Tells {
        Tells::Available(parameters[0])
    }
}
