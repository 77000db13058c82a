//! What a link leaves whose packets arrive in batches, so that short trains do not tell: when long trains are sent, and what follows
//! for the result.

use crate::interpretation::aggregation::AggregationCycle;
use crate::interpretation::flow_queueing_test::ServiceOrder;
use crate::interpretation::policing::PolicingLimits;
use crate::plan::MeasurementPlan;
use kumade_estimate::{
    Outcome, PolicerOrShaper, PolicingResult, Reason, RequestedBudget, VaryingLink, VaryingLinkConfig,
    VaryingLinkProbe, Warning,
};
use kumade_units::{Rate, Span};

/// IP bytes and time of all long trains, unless the user has requested less.
const MAX_BUDGET_BYTES: u64 = 20_000_000;
const MAX_BUDGET_TIME: Span = Span::from_secs(8);
/// With less, they are not worth while.
const MIN_TRAIN_BYTES: u64 = 500_000;
const MIN_TRAIN_TIME: Span = Span::from_secs(1);
/// An interval wider than this part of its value tells nothing.
const MAX_RELATIVE_WIDTH: f64 = 1.0;
/// Cross traffic of less than this part of the link may be more, in other queues, unless the link varies by so much: ordinary ones do not.
const MIN_CROSS_TRAFFIC_PART: f64 = 0.1;
const MIN_SPREAD_PART: f64 = 0.05;

/// The trains, of which earlier and shorter ones arrived at this rate; none where the budget is spent.
pub(crate) fn plan_probe(
    cycle: &AggregationCycle,
    arrived: Rate,
    plan: &MeasurementPlan,
    limits: &PolicingLimits,
) -> Option<VaryingLinkProbe> {
    let RequestedBudget { bytes, time } = plan.budget;
    let budget_bytes = limits.bytes_left(bytes).min(MAX_BUDGET_BYTES);
    let budget_time = time.map_or(MAX_BUDGET_TIME, |time| (time - limits.spent.duration).min(MAX_BUDGET_TIME));
    let is_possible = arrived > Rate::ZERO && budget_bytes >= MIN_TRAIN_BYTES && budget_time >= MIN_TRAIN_TIME;
    is_possible.then(|| {
        VaryingLinkProbe::new(VaryingLinkConfig {
            rate: arrived,
            period: cycle.period,
            max_packet_bytes: limits.max_packet,
            max_packets: limits.max_packets(),
            budget_bytes,
            budget_time,
            seed: plan.seed,
        })
    })
}

/// The outcome in the light of long trains: their value, if they tell, and if it passed in an even longer train.
pub(crate) fn interpret_varying_link(
    found: Option<&VaryingLink>,
    cycle: &AggregationCycle,
    sustained: Option<&PolicingResult>,
    order: Option<ServiceOrder>,
    outcome: Outcome,
) -> Outcome {
    let is_one_queue = order == Some(ServiceOrder::Fifo);
    let Some(link) = found.filter(|link| (is_one_queue || !is_hidden(link, cycle)) && !is_refuted(link, sustained))
    else {
        return outcome;
    };
    let VaryingLink { available, spread, carried: (slowest, fastest), trains, .. } = link;
    if link.is_policed {
        let reason = Reason::LongTrainsLose(cycle.arrival, *trains);
        return Outcome { reason: Some(reason), ..outcome };
    }
    if link.cross_traffic_yields {
        let reason = Reason::CrossTrafficYields(cycle.arrival, *trains);
        return Outcome { reason: Some(reason), ..outcome };
    }
    let width = available.high.as_f64() - available.low.as_f64();
    if width > MAX_RELATIVE_WIDTH * available.value.as_f64() {
        let reason = Reason::VariesTooMuch(cycle.arrival, *trains, *slowest, *fastest);
        return Outcome { reason: Some(reason), ..outcome };
    }
    let mut warnings = outcome.warnings;
    warnings.push(Warning::MeanOfLongTrains(cycle.arrival, *trains, *slowest, *fastest));
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

/// Whether there may be cross traffic in queues of its own, of which the trains see nothing.
fn is_hidden(link: &VaryingLink, cycle: &AggregationCycle) -> bool {
    let carried = link.available.value.as_f64() + link.cross_rate.as_f64();
    let is_steady = link.spread.as_f64() < MIN_SPREAD_PART * carried;
    link.cross_rate.as_f64() < MIN_CROSS_TRAFFIC_PART * carried && (is_steady || !cycle.is_due_to_link)
}

/// Whether less arrived of an even longer train, as behind a token bucket, than the link left of the slowest of these.
fn is_refuted(link: &VaryingLink, sustained: Option<&PolicingResult>) -> bool {
    let Some(PolicingResult::Limited(PolicerOrShaper {
        delivered_rate: delivered, available_uncertainty: doubt, ..
    })) = sustained
    else {
        return false;
    };
    let least = link.available.low.as_f64().min(link.carried.0.as_f64() - link.cross_rate.as_f64());
    least > delivered.as_f64() + doubt.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::Estimate;

    /// Of virtual cellular and Wi-Fi links, 25 of 800 had no value for that, all of which would have been right.
    #[test]
    fn one_train_at_what_the_link_leaves_at_times_refutes_no_mean() {
        let [low, value, high, slowest] = [34, 37, 40, 30].map(Rate::from_mbit);
        let link = VaryingLink {
            available: Estimate { value, low, high, confidence: 0.95 },
            spread: Rate::from_mbit(5),
            carried: (slowest, Rate::from_mbit(60)),
            cross_rate: Rate::from_mbit(10),
            trains: 24,
            cross_traffic_yields: false,
            is_policed: false,
        };
        let limited = |mbit| {
            let (delivered, sent, doubt) = (Rate::from_mbit(mbit), Rate::from_mbit(50), Rate::from_mbit(1));
            let (policing, excess_bytes, available, committed_rate, burst_bytes) = (None, 0, None, None, None);
            PolicingResult::Limited(PolicerOrShaper {
                excess_action: policing,
                delivered_rate: delivered,
                sent_rate: sent,
                available_uncertainty: doubt,
                excess_bytes,
                available,
                committed_rate,
                burst_bytes,
            })
        };
        for (delivered, refutes) in [(10, true), (18, true), (20, false), (32, false)] {
            assert_eq!(is_refuted(&link, Some(&limited(delivered))), refutes, "{delivered}");
        }
        assert!(!is_refuted(&link, None));
    }
}
