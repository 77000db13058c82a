//! When it is enough, and what it all came to.

use super::reading::Reading;
use super::{LEAST_TRAINS, Primed, control};
use crate::stats::{standard_deviation, student_t_95};
use crate::{Estimate, Outcome};
use units::{Rate, Span};

/// Value and half width of the interval, in bit/s.
struct Result {
    value: f64,
    half: f64,
    spread: f64,
}

/// Whether nothing more need be sent.
pub(super) fn enough(method: &Primed, elapsed: Span) -> bool {
    if method.failures_in_row >= 8 {
        return true;
    }
    let used = used(method);
    if used.len() < 6 {
        return false;
    }
    let capacity = method.knowledge.capacity.unwrap_or(0.0);
    let result = result(&used, elapsed.as_secs_f64(), capacity);
    result.half <= (result.value * method.config.precision).max(capacity * 0.0025)
}

/// The time budget, stretched where the path is so slow that it would not give a value.
pub(super) fn time_limit(method: &Primed) -> Span {
    let few = used(method).len() < LEAST_TRAINS + 1;
    method.config.budget_time * if few { 5 } else { 1 }
}

/// The readings that count: those of trains whose rate was near the one that is aimed at in the end. Their own values
/// must not enter here, or the mean would be biased.
pub(super) fn used(method: &Primed) -> Vec<Reading> {
    let readings = &method.knowledge.readings;
    let aim = control::aim(&method.knowledge, 0.0);
    readings.iter().filter(|r| (0.8 * aim..=1.3 * aim).contains(&r.rate)).copied().collect()
}

/// The mean over time: each train counts by how long it watched.
pub(super) fn weighted_mean(used: &[Reading]) -> f64 {
    let time: f64 = used.iter().map(|r| r.duration).sum();
    used.iter().map(|r| r.available * r.duration).sum::<f64>() / time
}

fn result(used: &[Reading], elapsed: f64, capacity: f64) -> Result {
    let values: Vec<f64> = used.iter().map(|r| r.available).collect();
    let value = weighted_mean(used);
    let spread = standard_deviation(&values);
    // The trains are a sample of the measurement's own time, whose mean is asked for: what was watched is known.
    let watched = (used.iter().map(|r| r.duration).sum::<f64>() / elapsed.max(1e-9)).min(0.9);
    let sampling = student_t_95(used.len()) * spread / (used.len() as f64).sqrt() * (1.0 - watched).sqrt();
    // What all trains have in common: the granularity of others' packets, and the capacity's error.
    let common = capacity * 0.001;
    Result { value, half: sampling.hypot(common), spread }
}

/// The measurement's outcome as far as it got.
pub(super) fn outcome(method: &Primed, elapsed: Span) -> Outcome {
    let used = used(method);
    let mut outcome = Outcome {
        available: None,
        reason: None,
        spread: None,
        capacity: method.knowledge.capacity.map(Rate::from_f64),
        trains_used: used.len() as u32,
        trains_rejected: method.rejected.clone(),
        warnings: Vec::new(),
    };
    if used.len() < LEAST_TRAINS {
        outcome.reason = Some(no_value(method));
        return outcome;
    }
    let result = result(&used, elapsed.as_secs_f64(), method.knowledge.capacity.unwrap_or(0.0));
    outcome.spread = Some(Rate::from_f64(result.spread));
    outcome.available = Some(Estimate {
        value: Rate::from_f64(result.value),
        low: Rate::from_f64(result.value - result.half),
        high: Rate::from_f64(result.value + result.half),
        confidence: 0.95,
    });
    outcome
}

fn no_value(method: &Primed) -> String {
    let rejected: u32 = method.rejected.values().sum();
    match method.rejected.iter().max_by_key(|(_, count)| **count) {
        _ if method.scouted.is_none() => "no packet of any train came through".to_owned(),
        Some((why, _)) => format!("{rejected} trains could not be used, most of them because {why}"),
        None => format!("the budget ended before {LEAST_TRAINS} trains could be used"),
    }
}
