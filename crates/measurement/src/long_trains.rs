//! What a link leaves whose packets arrive in batches, so that short trains do not tell: when long trains are sent, and what follows
//! for the result.

use crate::plan::MeasurementPlan;
use crate::service_cycle::Cycle;
use crate::sustained::Limits;
use estimate::{LongTrains, LongTrainsConfig, Outcome, RequestedBudget, VaryingLink};
use units::{Rate, Span};

/// IP bytes and time of all long trains, unless the user has requested less.
const BUDGET_BYTES: u64 = 20_000_000;
const BUDGET_TIME: Span = Span::from_secs(8);
/// With less, they are not worth while.
const MIN_BYTES: u64 = 500_000;
const MIN_TIME: Span = Span::from_secs(1);
/// An interval wider than this part of its value tells nothing.
const MAX_WIDTH: f64 = 1.0;

/// The trains, of which earlier and shorter ones arrived at this rate; none where the budget is spent.
pub(crate) fn probe(cycle: &Cycle, arrived: Rate, plan: &MeasurementPlan, limits: &Limits) -> Option<LongTrains> {
    let RequestedBudget { bytes, time } = plan.budget;
    let budget_bytes = bytes.map_or(BUDGET_BYTES, |bytes| bytes.saturating_sub(limits.spent.bytes).min(BUDGET_BYTES));
    let budget_time = time.map_or(BUDGET_TIME, |time| (time - limits.spent.duration).min(BUDGET_TIME));
    let is_possible = arrived > Rate::ZERO && budget_bytes >= MIN_BYTES && budget_time >= MIN_TIME;
    is_possible.then(|| {
        LongTrains::new(LongTrainsConfig {
            rate: arrived,
            turn: cycle.turn,
            max_packet: limits.max_packet,
            max_packets: limits.max_packets(),
            budget_bytes,
            budget_time,
            seed: plan.seed,
        })
    })
}

/// The outcome in the light of long trains: their value, if they tell.
pub(crate) fn judge(found: Option<&VaryingLink>, cycle: &Cycle, outcome: Outcome) -> Outcome {
    let Some(VaryingLink { available, spread, carried: (slowest, fastest), trains }) = found else { return outcome };
    let width = available.high.as_f64() - available.low.as_f64();
    if width > MAX_WIDTH * available.value.as_f64() {
        let reason = format!(
            "{}: it carried from {slowest} to {fastest} during {trains} long trains, which varies too much to tell what it leaves on \
             average",
            cycle.what
        );
        return Outcome { reason: Some(reason), ..outcome };
    }
    let mut warnings = outcome.warnings;
    warnings.push(format!(
        "{}: the value is the mean over {trains} long trains, during which it carried from {slowest} to {fastest}",
        cycle.what
    ));
    Outcome {
        available: Some(*available),
        bound: None,
        reason: None,
        spread: Some(*spread),
        capacity: None,
        tight_link: None,
        trains_used: *trains,
        warnings,
        ..outcome
    }
}
