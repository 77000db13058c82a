//! What is sent after a method has ended, to see whether its value holds, or to give one where its trains do not tell.

use super::Measurement;
use super::phase::{
    AvailablePhase, CapacityResult, FlowQueueingPhase, FullnessPhase, InterpretedOutcome, Phase, PolicingPhase,
    UtilizationPhase, VaryingLinkPhase,
};
use crate::ecmp::EcmpLinks;
use crate::interpretation::aggregation::AggregationCycle;
use crate::interpretation::flow_queueing_test::{FlowQueueingTrain, ServiceOrder, ServiceOrderResult};
use crate::interpretation::jitter;
use crate::interpretation::policing;
use crate::interpretation::utilization;
use crate::interpretation::varying_link;
use crate::series::Cost;
use crate::step::{Purpose, Step};
use kumade_estimate::{
    Capacity, Outcome, PolicingProbe, PolicingResult, RequestedBudget, UtilizationConfig, UtilizationProbe,
    VaryingLinkProbe,
};
use kumade_probe_train::{Estimate, Transport};
use kumade_units::{Rate, Span, Time};

impl Measurement {
    /// Looks at whether the rate lasts, in a full measurement by a method that claims to know token buckets; none otherwise.
    pub(super) fn policing_probe(&self, phase: &AvailablePhase, outcome: &Outcome, now: Time) -> Option<PolicingProbe> {
        let found = phase.capacity.as_ref().filter(|_| self.plan.method.handles_token_bucket())?;
        policing::plan_probe(&found.capacity, outcome, &self.plan, &self.policing_limits(phase, found, now))
    }

    /// What longer trains are subject to, after what was spent on this capacity and this phase.
    fn policing_limits(&self, phase: &AvailablePhase, found: &CapacityResult, now: Time) -> policing::PolicingLimits {
        let connections = match (&self.ecmp_links, self.transport.kind()) {
            (Some(balanced), _) => Some(balanced.train_connections()),
            (None, Transport::Udp) => None,
            (None, _) => Some(self.transport.connections()),
        };
        let spent = Cost {
            bytes: found.cost.bytes + phase.series.bytes(),
            duration: found.cost.duration + phase.series.cost(now).duration,
            ..Cost::default()
        };
        // Packets on other links may have been faster.
        let least_delay = match &self.ecmp_links {
            Some(balanced) => balanced.min_delay(),
            None => self.delays.min_delay(phase.series.direction()),
        };
        let max_packet = self.transport.max_ethernet_packet();
        let cycle = phase.series.aggregation();
        let (is_batched, is_catching_up) = (cycle.is_batched(), cycle.is_catching_up());
        policing::PolicingLimits {
            max_packet,
            connections,
            spent,
            min_delay: least_delay,
            is_batched,
            is_catching_up,
            idle_variation: self.variation_without_queues(phase, connections),
            is_lossy: false,
            has_lost: phase.series.has_lost_packets(),
        }
    }

    /// By so much delays vary without queues, where packets of trains catch up with those before; none over connections, which
    /// seem to be served as they are sent where delays vary so, though they may be served in turn: a train meets others' queues then.
    fn variation_without_queues(&self, phase: &AvailablePhase, connections: Option<u32>) -> Span {
        let (cycle, direction) = (phase.series.aggregation(), phase.series.direction());
        let change = self.delays.median_idle_delay_change(direction);
        let is_of_packets = jitter::is_explained_by_packets(change, cycle.arrival_rate());
        let variation = self.delays.idle_variation(direction);
        variation.filter(|_| cycle.is_catching_up() && connections.is_none() && is_of_packets).unwrap_or_default()
    }

    /// Looks at whether the path is full, where little is available.
    pub(super) fn fullness_probe(
        &self,
        phase: &AvailablePhase,
        outcome: &Outcome,
        now: Time,
    ) -> Option<(Estimate<Rate>, UtilizationProbe)> {
        let capacity = &phase.capacity.as_ref()?.capacity;
        let (link, time) = utilization::needed_observation_before_long_train(capacity, outcome)?;
        Some((link, self.new_utilization_probe(phase, link.value, time, now)?))
    }

    pub(super) fn next_fullness(&mut self, mut phase: Box<FullnessPhase>, now: Time) -> (Phase, Option<Step>) {
        if self.renew_connections(now) {
            return (Phase::UtilizationBeforePolicing(phase), None);
        }
        match phase.probe.next(now) {
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.policing_phase.outcome.available.map(|estimate| estimate.value);
                let step = self.send_next(
                    &phase.policing_phase.available.series,
                    Purpose::Utilization,
                    wait,
                    train,
                    so_far,
                    now,
                );
                (Phase::UtilizationBeforePolicing(phase), Some(step))
            }
            kumade_estimate::Step::Done(Some(found)) if utilization::is_always_busy(&found) => {
                let PolicingPhase { mut available, outcome, .. } = phase.policing_phase;
                let (before, link) = (outcome.available, &phase.narrow_link);
                let window = self.latest_window().filter(|_| utilization::is_value_of_look(&found, link, &outcome));
                let outcome = utilization::interpret_utilization(&found, link, false, outcome, None);
                available.update_window([before, outcome.available], window);
                (self.end_direction(available, outcome, None, now), None)
            }
            kumade_estimate::Step::Done(_) => (Phase::Policing(Box::new(phase.policing_phase)), None),
        }
    }

    pub(super) fn next_policing(&mut self, mut phase: Box<PolicingPhase>, now: Time) -> (Phase, Option<Step>) {
        if phase.probe.sends_more() && self.renew_connections(now) {
            return (Phase::Policing(phase), None);
        }
        if let Some(connections) = phase.probe.connections_mut().filter(|_| self.ecmp_links.is_none()) {
            *connections = self.transport.opened_connections();
        }
        // No train leaves before connections have recovered.
        let earliest = now + phase.available.series.time_until_gap(self.recovery_time, now);
        match phase.probe.next(earliest) {
            kumade_estimate::Step::Send { train, .. } if self.exceeds_connections(&train) => {
                (self.end_direction(phase.available, phase.outcome, None, now), None)
            }
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.outcome.available.map(|estimate| estimate.value);
                let step = self.send_next(&phase.available.series, Purpose::Policing, wait, train, so_far, now);
                (Phase::Policing(phase), Some(step))
            }
            kumade_estimate::Step::Done(found) => (self.end_policing(*phase, found, now), None),
        }
    }

    /// Tries whether what was found beside the method's own trains lasts, where it is to and the budget allows it; else reports the direction.
    fn policing_or_report(
        &mut self,
        available: AvailablePhase,
        judged: InterpretedOutcome,
        sustained: Option<PolicingResult>,
        is_to_last: bool,
        now: Time,
    ) -> Phase {
        let outcome = judged.outcome.clone();
        match self.policing_probe(&available, &outcome, now).filter(|_| is_to_last) {
            Some(probe) => {
                let (judged, earlier) = (Some(judged), sustained);
                Phase::Policing(Box::new(PolicingPhase {
                    available,
                    outcome,
                    probe,
                    interpreted: judged,
                    earlier_policing: earlier,
                }))
            }
            None => self.report_direction(available, judged, sustained.as_ref(), now),
        }
    }

    /// Tries whether as much passes as sparse packets found idle where trains lose packets; reports the direction without it where the
    /// budget does not allow that.
    fn policing_despite_losses(
        &mut self,
        available: AvailablePhase,
        judged: InterpretedOutcome,
        outcome: Outcome,
        sustained: Option<PolicingResult>,
        now: Time,
    ) -> Phase {
        let found = available.capacity.as_ref();
        let limits = found
            .map(|found| policing::PolicingLimits { is_lossy: true, ..self.policing_limits(&available, found, now) });
        let probe = found
            .zip(limits)
            .and_then(|(found, limits)| policing::plan_probe(&found.capacity, &outcome, &self.plan, &limits));
        match probe {
            Some(probe) => {
                let (judged, earlier) = (Some(judged), sustained);
                Phase::Policing(Box::new(PolicingPhase {
                    available,
                    outcome,
                    probe,
                    interpreted: judged,
                    earlier_policing: earlier,
                }))
            }
            None => self.report_direction(available, judged, sustained.as_ref(), now),
        }
    }

    /// What follows a train that tried whether a rate lasts.
    fn end_policing(&mut self, phase: PolicingPhase, found: PolicingResult, now: Time) -> Phase {
        let PolicingPhase { mut available, outcome, interpreted: judged, earlier_policing: earlier, .. } = phase;
        // Packets that come in batches look like a bucket, too, and are told from one later.
        let found = match available.series.aggregation().is_catching_up() {
            true => found,
            false => policing::without_bucket_of_link(found, &outcome),
        };
        if policing::replaces_value(&found) {
            available.replace_window(self.latest_window());
        }
        match judged {
            Some(judged) if judged.outcome.available.is_none() => {
                let passed = utilization::outcome_of_passed_rate(&found, outcome);
                let shown = if passed.is_some() { Some(&found) } else { earlier.as_ref() };
                let outcome = passed.unwrap_or_else(|| judged.outcome.clone());
                self.report_direction(available, InterpretedOutcome { outcome, ..judged }, shown, now)
            }
            Some(judged) => {
                let judged = InterpretedOutcome { outcome: policing::interpret_mean_rate(&found, outcome), ..judged };
                self.report_direction(available, judged, Some(&found), now)
            }
            None => {
                let outcome = policing::interpret_policing(&found, outcome);
                self.end_direction(available, outcome, Some(found), now)
            }
        }
    }

    /// Sees whether connections are served in turn, where that is open; sends long trains where packets arrive in batches, and looks at how
    /// busy the link is where trains leave that open; else reports the direction.
    pub(super) fn end_direction(
        &mut self,
        phase: AvailablePhase,
        outcome: Outcome,
        sustained: Option<PolicingResult>,
        now: Time,
    ) -> Phase {
        let judged = self.context().interpret_outcome(&phase, outcome.clone(), sustained.as_ref());
        if let Some(train) = self.flow_queueing_train(&phase, &judged, now) {
            let (available, order) = (phase, ServiceOrderResult::default());
            return Phase::FlowQueueing(Box::new(FlowQueueingPhase {
                available,
                outcome,
                policing: sustained,
                train,
                order_so_far: order,
            }));
        }
        if let Some((cycle, probe)) = self.varying_link_probe(&phase, &judged, now) {
            return Phase::VaryingLink(Box::new(VaryingLinkPhase {
                available: phase,
                policing: sustained,
                interpreted: judged,
                cycle,
                probe,
            }));
        }
        let probe = match &sustained {
            Some(PolicingResult::Limited(limiter))
                if policing::has_bucket(limiter) || !utilization::may_explain_losses(&judged.outcome) =>
            {
                None
            }
            sustained => self.utilization_probe(&phase, &judged, sustained.as_ref(), now),
        };
        match probe {
            Some((link, probe)) => Phase::Utilization(Box::new(UtilizationPhase {
                available: phase,
                policing: sustained,
                interpreted: judged,
                narrow_link: link,
                probe,
            })),
            None => self.report_direction(phase, judged, sustained.as_ref(), now),
        }
    }

    /// In a full measurement of one link by a method that is not bound to its own trains, where these leave open whether connections are
    /// served in turn; none otherwise.
    fn flow_queueing_train(
        &self,
        phase: &AvailablePhase,
        judged: &InterpretedOutcome,
        now: Time,
    ) -> Option<FlowQueueingTrain> {
        let found = phase
            .capacity
            .as_ref()
            .filter(|_| self.plan.method.handles_token_bucket() && judged.is_flow_queueing_undecided)?;
        let Capacity { bottleneck_rate: bottleneck, fastest_burst_rate: fastest_burst, .. } = &found.capacity;
        let arrived = phase.series.aggregation().arrival_rate();
        let rates = [bottleneck.map(|link| link.value), *fastest_burst, judged.outcome.capacity, arrived];
        let (all, max_packet) = (self.transport.opened_connections(), self.transport.max_ethernet_packet());
        let connections = self.ecmp_links.as_ref().map_or(all, EcmpLinks::measured_connections);
        let train = FlowQueueingTrain::new(connections, all, rates.into_iter().flatten().max()?, max_packet)?;
        let spent = self.policing_limits(phase, found, now).spent;
        let RequestedBudget { bytes, time } = self.plan.budget;
        let most_bytes = train.plan_train().bytes() * u64::from(ServiceOrderResult::MAX_TRAINS);
        let most_time = FlowQueueingTrain::MAX_DURATION * i64::from(ServiceOrderResult::MAX_TRAINS);
        let is_within = !self.exceeds_connections(&train.plan_train())
            && bytes.is_none_or(|max| spent.bytes + most_bytes <= max)
            && time.is_none_or(|max| spent.duration + most_time <= max);
        is_within.then_some(train)
    }

    pub(super) fn next_flow_queueing(&mut self, phase: Box<FlowQueueingPhase>, now: Time) -> (Phase, Option<Step>) {
        if let Some(order) = phase.order_so_far.decided_order() {
            let FlowQueueingPhase { available, outcome, policing: sustained, .. } = *phase;
            let available = AvailablePhase { service_order: Some(order), ..available };
            return (self.end_direction(available, outcome, sustained, now), None);
        }
        let so_far = phase.outcome.available.map(|estimate| estimate.value);
        let train = phase.train.plan_train();
        let pause = FlowQueueingTrain::DRAIN_PAUSE;
        let step = self.send_next(&phase.available.series, Purpose::FlowQueueing, pause, train, so_far, now);
        let order = phase.order_so_far.after_train_sent();
        (Phase::FlowQueueing(Box::new(FlowQueueingPhase { order_so_far: order, ..*phase })), Some(step))
    }

    /// In a full measurement of one link by a method that is not bound to its own trains, where these do not tell because of how packets
    /// arrive; none otherwise. With what that is.
    fn varying_link_probe(
        &self,
        phase: &AvailablePhase,
        judged: &InterpretedOutcome,
        now: Time,
    ) -> Option<(AggregationCycle, VaryingLinkProbe)> {
        let found = phase.capacity.as_ref().filter(|_| self.plan.method.handles_token_bucket())?;
        let is_one_link = self.ecmp_links.is_none() && self.transport.kind() != Transport::Single;
        let is_in_turn = phase.service_order == Some(ServiceOrder::RoundRobin);
        let cycle = judged.cycle.as_ref().filter(|_| is_one_link && !is_in_turn)?;
        let arrived = phase.series.aggregation().arrival_rate()?;
        let probe = varying_link::plan_probe(cycle, arrived, &self.plan, &self.policing_limits(phase, found, now))?;
        Some((cycle.clone(), probe))
    }

    pub(super) fn next_varying_link(&mut self, mut phase: Box<VaryingLinkPhase>, now: Time) -> (Phase, Option<Step>) {
        match phase.probe.next(now) {
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.probe.so_far();
                let step = self.send_next(&phase.available.series, Purpose::VaryingLink, wait, train, so_far, now);
                (Phase::VaryingLink(phase), Some(step))
            }
            kumade_estimate::Step::Done(found) => {
                let VaryingLinkPhase { mut available, policing: sustained, interpreted: judged, cycle, .. } = *phase;
                let (order, outcome) = (available.service_order, judged.outcome.clone());
                let outcome =
                    varying_link::interpret_varying_link(found.as_ref(), &cycle, sustained.as_ref(), order, outcome);
                available.replace_window(self.latest_window());
                // What looked like a token bucket was the cycle.
                let sustained = sustained.filter(|_| outcome.available.is_none());
                // An even longer train passes at the mean of a link that does not vary itself.
                let is_to_last = outcome.available.is_some() && !cycle.is_due_to_link;
                let judged = InterpretedOutcome { outcome, ..judged };
                (self.policing_or_report(available, judged, sustained, is_to_last, now), None)
            }
        }
    }

    /// In a full measurement of one link by a method that knows what trains do not show; none where that is not needed. With the
    /// rate of the link.
    fn utilization_probe(
        &self,
        phase: &AvailablePhase,
        judged: &InterpretedOutcome,
        sustained: Option<&PolicingResult>,
        now: Time,
    ) -> Option<(Estimate<Rate>, UtilizationProbe)> {
        let found = phase.capacity.as_ref().filter(|_| self.plan.method.handles_token_bucket())?;
        if phase.series.burst_rate().is_some() && found.capacity.bottleneck_rate.is_none() {
            // Nothing is known of the time that the narrow link takes for one packet.
            return None;
        }
        // TCP connections make room for slower trains, too, but not for sparse packets.
        let is_of_slower_trains = matches!(sustained, Some(PolicingResult::Overloads { available: Some(_), .. }));
        let is_narrow = judged.outcome.tight_link.is_none();
        if judged.delays_vary || !(is_narrow || is_of_slower_trains) {
            return None;
        }
        let (link, time) = utilization::needed_observation(&found.capacity, &judged.outcome)?;
        Some((link, self.new_utilization_probe(phase, link.value, time, now)?))
    }

    /// A look at a link of this rate for so long, if the path allows for it, and the budget.
    fn new_utilization_probe(
        &self,
        phase: &AvailablePhase,
        rate: Rate,
        time: Span,
        now: Time,
    ) -> Option<UtilizationProbe> {
        let found = phase.capacity.as_ref()?;
        let is_one_link = self.ecmp_links.is_none() && self.transport.kind() != Transport::Single;
        if !is_one_link || phase.series.aggregation().is_batched() {
            return None;
        }
        let max_packet = self.transport.max_ethernet_packet();
        let config = UtilizationConfig { rate, time, seed: self.plan.seed, max_packet };
        let bytes = found.cost.bytes + phase.series.bytes() + config.bytes();
        let duration = found.cost.duration + phase.series.cost(now).duration + time;
        let RequestedBudget { bytes: max_bytes, time: max_time } = self.plan.budget;
        let is_within = max_bytes.is_none_or(|max| bytes <= max) && max_time.is_none_or(|max| duration <= max);
        (is_within && config.is_possible()).then(|| UtilizationProbe::new(config))
    }

    pub(super) fn next_utilization(&mut self, mut phase: Box<UtilizationPhase>, now: Time) -> (Phase, Option<Step>) {
        if self.renew_connections(now) {
            return (Phase::Utilization(phase), None);
        }
        match phase.probe.next(now) {
            kumade_estimate::Step::Send { wait, train } => {
                let so_far = phase.interpreted.outcome.available.map(|estimate| estimate.value);
                let step = self.send_next(&phase.available.series, Purpose::Utilization, wait, train, so_far, now);
                (Phase::Utilization(phase), Some(step))
            }
            kumade_estimate::Step::Done(found) => {
                let UtilizationPhase {
                    mut available, policing: sustained, interpreted: judged, narrow_link: link, ..
                } = *phase;
                let before = judged.outcome.available;
                let lasts = matches!(sustained, Some(PolicingResult::Sustainable { .. }));
                let idle = found.and_then(|found| utilization::idle_despite_losses(&found, &link, &judged.outcome));
                if let Some(outcome) = idle {
                    available.replace_window(self.latest_window());
                    return (self.policing_despite_losses(available, judged, outcome, sustained, now), None);
                }
                let is_of_look =
                    found.is_some_and(|found| utilization::is_value_of_look(&found, &link, &judged.outcome));
                let outcome = match found {
                    Some(found) => {
                        utilization::interpret_utilization(&found, &link, lasts, judged.outcome, judged.fair_share)
                    }
                    None => judged.outcome,
                };
                available.update_window([before, outcome.available], self.latest_window().filter(|_| is_of_look));
                let is_to_last = policing::is_beyond_tried_rate(&outcome, sustained.as_ref());
                let judged = InterpretedOutcome { outcome, ..judged };
                (self.policing_or_report(available, judged, sustained, is_to_last, now), None)
            }
        }
    }
}
