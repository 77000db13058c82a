//! What a report must not say, whatever the estimators have found: the last step before a direction is reported.
//!
//! Each rule follows from the report alone, and none makes an interval wider. The estimators should leave nothing to it.

use super::{CapacityReport, DirectionReport, Warning};
use kumade_estimate::{BoundKind, CapacityReason, Reason};
use kumade_probe_train::Estimate;
use kumade_units::Rate;

/// The report without what contradicts the rest of it: no more is available than one flow's fair share, nor than the fastest rate at which
/// anything arrived; where flows have queues of their own, trains of one flow show neither capacity nor token bucket; and where packets
/// arrive in batches, or delays vary without load, bursts that come fast show none either. The fastest rate counts where single stamps are exact.
pub(crate) fn without_contradictions(report: DirectionReport, are_stamps_exact: bool) -> DirectionReport {
    let fastest = report.fastest_arrival_bits_per_second.filter(|_| are_stamps_exact);
    let report = limit_to_fastest_arrival(report, fastest);
    let report = limit_to_fair_share(report);
    let report = if has_irregular_arrivals(&report) { without_token_bucket(report) } else { report };
    match has_flow_queueing(&report) {
        true => DirectionReport { capacity: report.capacity.map(without_capacity), ..report },
        false => report,
    }
}

fn limit_to_fastest_arrival(report: DirectionReport, fastest: Option<Rate>) -> DirectionReport {
    let Some(fastest) = fastest else { return report };
    let at_most = report.at_most_bits_per_second.map(|most| most.min(fastest));
    let is_carried = report.at_least_bits_per_second.is_none_or(|least| least <= fastest);
    let report = DirectionReport {
        at_most_bits_per_second: at_most,
        at_least_bits_per_second: report.at_least_bits_per_second.filter(|_| is_carried),
        limited_by: report.limited_by.filter(|_| is_carried),
        fair_share_bits_per_second: report.fair_share_bits_per_second.and_then(|share| up_to(share, fastest)),
        ..report
    };
    match report.available_bits_per_second {
        Some(found) if found.low > fastest => withdraw(report, Reason::AboveArrivals(found.value, fastest)),
        Some(found) => DirectionReport { available_bits_per_second: up_to(found, fastest), ..report },
        None => report,
    }
}

fn limit_to_fair_share(report: DirectionReport) -> DirectionReport {
    match (report.available_bits_per_second, report.fair_share_bits_per_second) {
        (Some(found), Some(share)) if found.low > share.high => DirectionReport {
            at_most_bits_per_second: Some(share.high),
            limited_by: Some(BoundKind::FlowQueueing.name().to_owned()),
            ..withdraw(report, Reason::FairShareOfFlow)
        },
        (Some(found), Some(share)) => {
            // Where the share ends is not known more closely than the value.
            let Estimate { value, low, .. } = found;
            let found = Estimate { value: value.min(share.value), low: low.min(share.value), ..found };
            DirectionReport { available_bits_per_second: Some(found), ..report }
        }
        _ => report,
    }
}

/// The estimate without what exceeds this rate; none of one that lies above it.
fn up_to(found: Estimate<Rate>, most: Rate) -> Option<Estimate<Rate>> {
    let Estimate { value, low, high, .. } = found;
    (low <= most).then(|| Estimate { value: value.min(most), high: high.min(most), ..found })
}

/// The report without its value, and without the warnings that speak of it.
fn withdraw(report: DirectionReport, reason: Reason) -> DirectionReport {
    DirectionReport {
        available_bits_per_second: None,
        spread_bits_per_second: None,
        sustained_bytes: None,
        window_seconds: None,
        window_start_seconds: None,
        reason: Some(reason),
        warnings: report.warnings.into_iter().filter(|warning| !warning.is_of_value()).collect(),
        ..report
    }
}

/// Whether the report says for certain that flows have queues of their own.
fn has_flow_queueing(report: &DirectionReport) -> bool {
    use kumade_estimate::Warning::{IdleBesideFlowQueueing, WideBesideFlowQueueing};
    let is_warned =
        |warning: &Warning| matches!(warning, Warning::Estimate(IdleBesideFlowQueueing | WideBesideFlowQueueing));
    matches!(report.reason, Some(Reason::FairShareOfFlow | Reason::FairShareOfHost))
        || report.warnings.iter().any(is_warned)
}

/// Whether packets arrive in batches, or with delays that vary without load, as on radio links.
fn has_irregular_arrivals(report: &DirectionReport) -> bool {
    use kumade_estimate::Warning::MeanOfLongTrains;
    let is_warned = |warning: &Warning| matches!(warning, Warning::Estimate(MeanOfLongTrains(..)));
    report.reason.as_ref().is_some_and(|reason| reason.arrival_pattern().is_some())
        || report.warnings.iter().any(is_warned)
}

fn without_token_bucket(report: DirectionReport) -> DirectionReport {
    use kumade_estimate::Warning::BurstsPass;
    let is_of_bucket = |warning: &Warning| matches!(warning, Warning::Estimate(BurstsPass(_)));
    DirectionReport {
        capacity: report.capacity.map(|capacity| CapacityReport { shaper: None, ..capacity }),
        warnings: report.warnings.into_iter().filter(|warning| !is_of_bucket(warning)).collect(),
        ..report
    }
}

fn without_capacity(capacity: CapacityReport) -> CapacityReport {
    CapacityReport {
        bottleneck_bits_per_second: None,
        shaper: None,
        reason: Some(capacity.reason.unwrap_or(CapacityReason::FlowQueueing)),
        ..capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ShaperReport;
    use crate::series::Cost;
    use kumade_estimate::{ArrivalPattern, Outcome};
    use kumade_probe_train::Transport;
    use kumade_units::Span;

    fn rates(low: u64, value: u64, high: u64) -> Estimate<Rate> {
        let [low, value, high] = [low, value, high].map(Rate::from_mbit);
        Estimate { value, low, high, confidence: 0.95 }
    }

    fn report(available: Option<Estimate<Rate>>) -> DirectionReport {
        let outcome = Outcome { available, reason: None, ..Outcome::without_value(Reason::NoPacketArrived) };
        let outcome = Outcome { reason: available.is_none().then_some(Reason::MaybeFairShare), ..outcome };
        DirectionReport::new(Transport::Udp, 0, "primed", outcome, None, &Cost::default())
    }

    /// With a token bucket.
    fn capacity() -> CapacityReport {
        let (committed_rate, burst_bytes) =
            (rates(9, 10, 11), Estimate { value: 3, low: 3, high: 3, confidence: 0.95 });
        CapacityReport {
            bottleneck_bits_per_second: Some(committed_rate),
            at_least_bits_per_second: None,
            reason: None,
            shaper: Some(ShaperReport { peak_rate: None, committed_rate, at_sender: false, burst_bytes }),
            policer: None,
            bursts: 0,
            packets_sent: 0,
            bytes_sent: 0,
            duration_seconds: 0.0,
        }
    }

    #[test]
    fn what_does_not_contradict_itself_is_left_as_it_is() {
        for report in [report(Some(rates(40, 50, 60))), report(None)] {
            let fastest_arrival_bits_per_second = Some(Rate::from_mbit(90));
            let report = DirectionReport { fastest_arrival_bits_per_second, ..report };
            assert_eq!(without_contradictions(report.clone(), true), report);
        }
    }

    #[test]
    fn no_more_is_available_than_the_fair_share_of_one_flow() {
        let share = |available| {
            let fair_share_bits_per_second = Some(rates(45, 50, 55));
            let window_seconds = Some(0.4);
            let direction = DirectionReport { fair_share_bits_per_second, window_seconds, ..report(available) };
            without_contradictions(direction, true)
        };
        assert_eq!(share(Some(rates(40, 52, 70))).available_bits_per_second, Some(rates(40, 50, 70)));
        let withdrawn = share(Some(rates(60, 65, 70)));
        assert_eq!(withdrawn.window_seconds, None, "of a value that is none");
        assert_eq!(
            (withdrawn.available_bits_per_second, withdrawn.reason.clone()),
            (None, Some(Reason::FairShareOfFlow))
        );
        assert_eq!(withdrawn.at_most_bits_per_second, Some(Rate::from_mbit(55)));
        assert_eq!(withdrawn.limited_by.as_deref(), Some("flow-queueing"));
    }

    /// On a line of 250 Mbit/s, at most 459 were said to be available where 70 were.
    #[test]
    fn nothing_is_said_to_exceed_what_arrived() {
        let fastest = Some(Rate::from_mbit(250));
        let limited = |report| {
            without_contradictions(DirectionReport { fastest_arrival_bits_per_second: fastest, ..report }, true)
        };
        assert_eq!(limited(report(Some(rates(200, 240, 300)))).available_bits_per_second, Some(rates(200, 240, 250)));
        // Single stamps that scatter bound nothing.
        let inexact =
            DirectionReport { fastest_arrival_bits_per_second: fastest, ..report(Some(rates(200, 240, 300))) };
        assert_eq!(without_contradictions(inexact.clone(), false), inexact);
        let at_most_bits_per_second = Some(Rate::from_mbit(459));
        assert_eq!(
            limited(DirectionReport { at_most_bits_per_second, ..report(None) }).at_most_bits_per_second,
            fastest
        );
        let at_least_bits_per_second = Some(Rate::from_mbit(300));
        assert_eq!(
            limited(DirectionReport { at_least_bits_per_second, ..report(None) }).at_least_bits_per_second,
            None
        );
        let warned = Warning::Estimate(kumade_estimate::Warning::BurstsDoNotLast(None));
        let impossible =
            DirectionReport { warnings: vec![warned, Warning::NoKernelStamps], ..report(Some(rates(300, 310, 320))) };
        let withdrawn = limited(impossible);
        assert_eq!(withdrawn.reason, Some(Reason::AboveArrivals(Rate::from_mbit(310), Rate::from_mbit(250))));
        assert_eq!(withdrawn.warnings, [Warning::NoKernelStamps], "nothing speaks of a value");
    }

    /// "A token bucket shapes the path" was said of cellular links and of Wi-Fi.
    #[test]
    fn where_packets_arrive_in_batches_bursts_show_no_token_bucket() {
        let pattern = ArrivalPattern::Subframes(Span::from_millis(1));
        let bucket = || Warning::Estimate(kumade_estimate::Warning::BurstsPass(Rate::from_mbit(6)));
        let mean = Warning::Estimate(kumade_estimate::Warning::MeanOfLongTrains(
            pattern,
            20,
            Rate::from_mbit(4),
            Rate::from_mbit(6),
        ));
        let told = |report| without_contradictions(DirectionReport { capacity: Some(capacity()), ..report }, true);
        let irregular = [
            DirectionReport { warnings: vec![bucket(), mean], ..report(Some(rates(4, 5, 6))) },
            DirectionReport { warnings: vec![bucket()], reason: Some(Reason::TrainsTooShort(pattern)), ..report(None) },
            DirectionReport {
                warnings: vec![bucket()],
                reason: Some(Reason::IdleDelaysVary(Span::from_millis(6))),
                ..report(None)
            },
        ];
        for report in irregular {
            let told = told(report);
            assert!(!told.warnings.contains(&bucket()) && told.capacity.is_some_and(|found| found.shaper.is_none()));
        }
        let regular = told(DirectionReport { warnings: vec![bucket()], ..report(Some(rates(4, 5, 6))) });
        assert_eq!((regular.warnings, regular.capacity), (vec![bucket()], Some(capacity())));
    }

    #[test]
    fn where_flows_have_queues_of_their_own_there_is_neither_capacity_nor_token_bucket() {
        let found = |report| without_contradictions(DirectionReport { capacity: Some(capacity()), ..report }, true);
        let warned = Warning::Estimate(kumade_estimate::Warning::IdleBesideFlowQueueing);
        let told = [
            DirectionReport { reason: Some(Reason::FairShareOfFlow), ..report(None) },
            DirectionReport { warnings: vec![warned], ..report(Some(rates(4, 5, 6))) },
        ];
        for report in told {
            let capacity = found(report).capacity.unwrap();
            assert_eq!((capacity.bottleneck_bits_per_second, capacity.shaper), (None, None));
            assert_eq!(capacity.reason, Some(CapacityReason::FlowQueueing));
        }
        assert_eq!(found(report(None)).capacity, Some(capacity()), "they may have");
    }
}
