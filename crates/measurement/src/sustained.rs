//! Whether what short trains found lasts: what is tried, and what follows for the result.

use crate::plan::MeasurementPlan;
use crate::series::Cost;
use estimate::{
    Bound, Capacity, Limit, Limiter, Outcome, Policing, RequestedBudget, Sustained, SustainedConfig, SustainedProbe,
};
use train::{Train, Transport};
use units::{Rate, Span};

/// The part of the least that is believed to be available at which the longer train is sent.
const TRIED_PART: f64 = 0.95;
/// IP bytes of both longer trains, unless the user has requested a budget.
const BUDGET_BYTES: u64 = 3_000_000;

/// What the longer trains are subject to.
pub(crate) struct Limits {
    /// Of the transport, in bytes.
    pub(crate) max_packet: u32,
    /// Open TCP connections; none for UDP.
    pub(crate) connections: Option<u32>,
    /// What was spent so far.
    pub(crate) spent: Cost,
}

/// The trial of what was found; none where nothing was, or the budget is spent.
pub(crate) fn probe(
    capacity: &Capacity,
    outcome: &Outcome,
    plan: &MeasurementPlan,
    limits: &Limits,
) -> Option<SustainedProbe> {
    let RequestedBudget { bytes, time } = plan.budget;
    let budget_bytes = bytes.map_or(BUDGET_BYTES, |bytes| bytes.saturating_sub(limits.spent.bytes).min(BUDGET_BYTES));
    if time.is_some_and(|time| limits.spent.duration + Span::from_secs(1) > time) {
        return None;
    }
    let narrow = capacity.bottleneck.map(|capacity| capacity.value).or(outcome.capacity);
    let rate = match outcome.available {
        Some(found) => Rate::from_f64(found.low.as_f64() * TRIED_PART),
        None => Rate::from_f64(narrow?.as_f64() * TRIED_PART),
    };
    let max_packets = limits
        .connections
        .map_or(Train::MAX_PACKETS, |connections| connections.saturating_mul(Transport::PACKETS_PER_CONNECTION));
    (rate > Rate::ZERO).then(|| {
        SustainedProbe::new(SustainedConfig {
            rate,
            cross: narrow.map_or(Rate::ZERO, |narrow| Rate::from_f64((narrow.as_f64() - rate.as_f64()).max(0.0))),
            max_packet: limits.max_packet,
            max_packets,
            budget_bytes,
            seed: plan.seed,
        })
    })
}

/// The outcome in the light of the longer trains.
pub(crate) fn judge(found: &Sustained, outcome: Outcome) -> Outcome {
    match found {
        Sustained::Untried(_) | Sustained::Lasts { .. } => outcome,
        Sustained::Limited(limiter) => limit(limiter, outcome),
    }
}

fn limit(limiter: &Limiter, outcome: Outcome) -> Outcome {
    let Limiter { policing, delivered, available, committed_rate, .. } = limiter;
    let what = match policing {
        Some(Policing::Drops) => "a policer drops what exceeds its committed rate",
        Some(Policing::Delays) => "what passes in short trains does not last: longer ones build a queue",
        None => "what passes in short trains does not last",
    };
    let reason = available.is_none().then(|| format!("{what}; at most {delivered} lasts beside the cross traffic"));
    let mut warnings = outcome.warnings;
    warnings.extend(available.map(|_| format!("{what}: the value is what lasts")));
    Outcome {
        available: *available,
        bound: available.is_none().then_some(Bound::AtMost(*delivered, Limit::TokenBucket)),
        reason,
        spread: None,
        capacity: committed_rate.map(|rate| rate.value),
        warnings,
        ..outcome
    }
}

/// Bytes that passed at the rate.
pub(crate) fn bytes(found: Option<&Sustained>) -> Option<u64> {
    match found? {
        Sustained::Lasts { bytes } => Some(*bytes),
        _ => None,
    }
}
