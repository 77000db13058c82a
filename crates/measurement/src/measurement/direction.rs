//! What the trains of a direction come to: the method's outcome in the light of everything else, and the report.

use super::phase::{AvailablePhase, InterpretedOutcome};
use crate::delay::DelaySamples;
use crate::interpretation::aggregation;
use crate::interpretation::flow_queueing::{self, FlowQueueingEvidence};
use crate::interpretation::flow_queueing_test::ServiceOrder;
use crate::interpretation::host_limit;
use crate::interpretation::jitter;
use crate::interpretation::policing;
use crate::plan::{Coalescing, MeasurementPlan, Session};
use crate::report::{DirectionReport, Warning};
use crate::series::TrainSeries;
use crate::transport::TransportInUse;
use kumade_estimate::{Bound, Outcome, PolicingResult};
use kumade_probe_train::{Estimate, Transport};
use kumade_units::{Direction, Rate, Time};

/// An upper bound that is so many times the low end of the interval from which it follows tells nothing.
const MAX_BOUND_RATIO: f64 = 3.0;

/// What is known besides the direction's own trains.
pub(super) struct MeasurementContext<'m> {
    pub(super) plan: &'m MeasurementPlan,
    pub(super) session: &'m Session,
    pub(super) transport: &'m TransportInUse,
    pub(super) delays: &'m DelaySamples,
    /// Whether connections take one link, not several side by side.
    pub(super) is_one_link: bool,
}

impl MeasurementContext<'_> {
    /// The method's outcome in the light of the capacity, of longer trains, of delays and of how packets arrived.
    pub(super) fn interpret_outcome(
        &self,
        phase: &AvailablePhase,
        outcome: Outcome,
        sustained: Option<&PolicingResult>,
    ) -> InterpretedOutcome {
        let direction = phase.series.direction();
        let capacity = phase.capacity.as_ref().map(|found| &found.capacity);
        let outcome = match &phase.capacity {
            Some(found) => found.capacity.refuse_above_capacity(outcome, phase.series.burst_rate()),
            None => outcome,
        };
        let (outcome, fair_share) = match capacity {
            Some(capacity) if self.transport.kind() == Transport::Udp => {
                let in_bursts = phase.series.burst_rate().is_some();
                flow_queueing::interpret_one_flow(
                    capacity,
                    in_bursts,
                    self.delays.median_idle_delay_change(direction),
                    outcome,
                )
            }
            Some(capacity) => {
                let disordered_trains = phase.series.disordered_trains();
                let signs = FlowQueueingEvidence {
                    long_train_result: sustained,
                    disordered_trains,
                    service_order: phase.service_order,
                };
                (flow_queueing::interpret_many_flows(capacity, signs, outcome), None)
            }
            None => (outcome, None),
        };
        let is_open = flow_queueing::needs_service_order(sustained, &outcome);
        let fastest = capacity.and_then(|capacity| capacity.fastest_burst_rate);
        let service_cycle = phase.series.aggregation();
        let narrow = [fastest, outcome.capacity, service_cycle.arrival_rate()].into_iter().flatten().max();
        let is_catching_up = service_cycle.is_catching_up();
        let variation = self.delays.idle_variation(direction);
        let notable = jitter::notable_variation(variation, is_catching_up, narrow);
        // Of several links, idle packets have as many delays.
        let is_overtaking = flow_queueing::is_due_to_overtaking(&outcome);
        let outcome = if is_overtaking && notable.is_some() { Outcome { bound: None, ..outcome } } else { outcome };
        let notable = notable.filter(|_| self.is_one_link && !is_overtaking);
        let varies = notable.is_some();
        let hides_queues = is_catching_up || self.may_hide_queues(phase, sustained, narrow);
        let (outcome, fair_share) = jitter::interpret_with_jitter(notable, hides_queues, outcome, fair_share);
        // What a policer leaves of bursts arrives in clumps.
        let is_policed = phase.series.burst_rate().is_some() && sustained.is_some_and(policing::is_policed);
        // Else it is queues, of more than one link perhaps.
        let is_jitter = !is_policed && outcome.bound.is_none() && is_catching_up;
        // Where flows have queues of their own, packets come in clumps as well.
        let is_in_turn = phase.service_order == Some(ServiceOrder::RoundRobin) && !service_cycle.is_batched();
        // Where they take several paths, most trains arrive in clumps, and show one of these.
        let is_misled = is_in_turn && aggregation::arrives_in_clumps(&outcome, false);
        let outcome = if is_misled { Outcome { bound: None, ..outcome } } else { outcome };
        let (outcome, fair_share, cycle) = match is_policed
            || is_in_turn
            || (varies && outcome.available.is_none() && outcome.bound.is_none())
        {
            true => {
                (outcome, fair_share, notable.filter(|_| is_jitter).map(|it| service_cycle.idle_variation_cycle(it)))
            }
            false => service_cycle.interpret_outcome(outcome, fair_share, varies),
        };
        let is_order_open = phase.service_order.is_none() && (is_open || cycle.is_some());
        InterpretedOutcome {
            outcome,
            fair_share,
            is_flow_queueing_undecided: is_order_open,
            delays_vary: varies,
            cycle,
        }
    }

    /// Whether delays change so much from packet to packet that the method's trains may not show how queues grow, before a link of the rate
    /// `narrow`.
    fn may_hide_queues(
        &self,
        phase: &AvailablePhase,
        sustained: Option<&PolicingResult>,
        narrow: Option<Rate>,
    ) -> bool {
        let direction = phase.series.direction();
        let capacity = phase.capacity.as_ref().map(|found| &found.capacity);
        // Trains over many connections do not tell whether flows have queues of their own. Connections that are served as they are sent share
        // one queue. It is what makes delays vary if bursts show the capacity all the same.
        let has_clear_bursts = capacity.is_some_and(|capacity| capacity.bottleneck_rate.is_some());
        let is_one_queue = phase.service_order == Some(ServiceOrder::Fifo) && has_clear_bursts;
        let is_told = self.transport.kind() == Transport::Udp || is_one_queue;
        // Where bursts tell nothing, the method's trains tell no more, unless later ones have found a token bucket.
        let is_limited = matches!(sustained, Some(PolicingResult::Limited(_)));
        let is_indefinite = !is_limited && capacity.is_some_and(|capacity| capacity.is_indefinite);
        // No longer train tells whether as much lasts.
        let is_untried = matches!(sustained, Some(PolicingResult::NotTried(_)));
        // A queue that others fill at times does not hide the one that trains build.
        let is_of_queue = || jitter::is_explained_by_queue(&self.delays.idle_delays(direction));
        let is_doubtful = is_indefinite || (is_untried || !is_told) && !is_of_queue();
        let change = self.delays.median_idle_delay_change(direction);
        is_doubtful && jitter::is_explained_by_packets(change, narrow)
    }

    /// The report of a direction.
    pub(super) fn report_direction(
        &self,
        phase: AvailablePhase,
        judged: InterpretedOutcome,
        sustained: Option<&PolicingResult>,
        now: Time,
    ) -> DirectionReport {
        let InterpretedOutcome { outcome, fair_share, .. } = judged;
        // Several paths may carry more than these trains found.
        let bound = outcome.bound.filter(|_| !flow_queueing::is_due_to_overtaking(&outcome));
        let bound = bound.filter(|bound| is_useful(*bound, outcome.refused));
        let outcome = Outcome { bound, ..outcome };
        let shaped = phase.shaped_rate().is_some();
        let fastest =
            phase.series.fastest_arrival().max(phase.capacity.as_ref().and_then(|found| found.fastest_arrival));
        let (cost, window) = (phase.series.cost(now), phase.window);
        let mut capacity = phase.capacity.map(|found| found.report);
        if let Some(capacity) = capacity.as_mut().filter(|_| self.plan.method.handles_token_bucket()) {
            capacity.refuse_if_changed(&outcome);
        }
        if let (Some(capacity), Some(PolicingResult::Limited(limiter))) = (&mut capacity, sustained)
            && !flow_queueing::is_due_to_overtaking(&outcome)
        {
            capacity.set_limiter(limiter, phase.series.is_held_back());
        }
        if let (Some(capacity), Some(_)) = (&mut capacity, phase.series.burst_rate()) {
            capacity.warn_if_below_bursts(&outcome);
        }
        let mut warnings = self.transport.warnings();
        warnings.extend(self.black_hole_warning(&phase.series));
        warnings.extend((!phase.series.has_kernel_stamps()).then_some(Warning::NoKernelStamps));
        let own_shaper = capacity.as_ref().and_then(|capacity| capacity.shaper.as_ref()).is_some_and(|s| s.at_sender);
        warnings.extend((phase.series.is_held_back() && !own_shaper).then_some(Warning::HeldBackAtSender));
        warnings.extend(self.coalescing_warning(&phase.series));
        warnings.extend((shaped && !self.plan.method.handles_token_bucket()).then_some(Warning::UnmodelledShaper));
        let outcome = match self.transport.kind() {
            Transport::Udp => outcome,
            _ => host_limit::refuse_host_limited_rate(self.transport.max_ethernet_packet(), outcome),
        };
        let (transport, connections) = (self.transport.kind(), self.transport.connections());
        let window = window.filter(|_| outcome.available.is_some());
        let report = DirectionReport::new(transport, connections, self.plan.method.name(), outcome, capacity, &cost);
        warnings.extend(report.warnings.iter().cloned());
        DirectionReport {
            fair_share_bits_per_second: fair_share,
            sustained_bytes: policing::bucket_bytes(sustained),
            fastest_arrival_bits_per_second: fastest,
            window_seconds: window.map(|window| (window.time.ended - window.time.began).as_secs_f64()),
            window_start_seconds: window.map(|window| (window.time.began - window.method_began).as_secs_f64()),
            warnings,
            ..report
        }
    }

    /// Connections are open, and nothing long that a train has sent on them arrives.
    fn black_hole_warning(&self, series: &TrainSeries) -> Option<Warning> {
        let is_likely = self.transport.kind() != Transport::Udp && series.loses_all_long_packets();
        is_likely.then(|| Warning::BlackHole(self.transport.max_ethernet_packet()))
    }

    /// Names this host's own interface where it may be what made packets arrive in batches.
    fn coalescing_warning(&self, series: &TrainSeries) -> Option<Warning> {
        let Coalescing { interface, delay } = self.session.coalescing.as_ref()?;
        let is_likely = series.direction() == Direction::Down && series.aggregation().batch_period()? <= *delay * 2;
        is_likely.then(|| Warning::Coalescing(interface.clone(), *delay))
    }
}

/// Whether an upper bound in place of this value, if it is one, tells more than that something is available.
fn is_useful(bound: Bound, refused: Option<Estimate<Rate>>) -> bool {
    let is_near = |most: Rate, found: Estimate<Rate>| most.as_f64() <= MAX_BOUND_RATIO * found.low.as_f64();
    bound.upper_bound().zip(refused).is_none_or(|(most, found)| is_near(most, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_estimate::BoundKind;

    /// At most 145 Mbit/s were said where 41 were available, and 57 where 8 were.
    #[test]
    fn a_bound_far_above_what_was_seen_to_be_available_is_none() {
        let [low, value, high] = [10, 20, 40].map(Rate::from_mbit);
        let refused = Some(Estimate { value, low, high, confidence: 0.95 });
        let bound = |mbit| Bound::AtMost(Rate::from_mbit(mbit), BoundKind::FlowQueueing);
        assert!(is_useful(bound(30), refused) && !is_useful(bound(31), refused));
        assert!(is_useful(bound(31), None), "it follows from no interval");
        assert!(is_useful(Bound::AtLeast(Rate::from_mbit(99), BoundKind::Sender), refused));
    }
}
