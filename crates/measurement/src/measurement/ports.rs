//! Ports and idle flows, once all else is measured: neither loads the path, and what has been measured before remains whatever becomes of them.

use super::Measurement;
use crate::event::Event;
use crate::path::{IdleFlowResult, IdleRound, IdleTimeoutProbe, PortRoundRecord, PortsProbe};
use crate::step::Step;
use kumade_units::Span;

/// What a round takes beyond its idle time: flows are opened (2.2 s for those that are to count as streams), and packets are sent down and
/// up, three times each.
const ROUND_OVERHEAD: Span = Span::from_secs(10);

impl Measurement {
    /// Reports what became of the ports that [`next`](Self::next) has had tried.
    pub fn ports_tried(&mut self, record: &PortRoundRecord) {
        self.port_probing.probe.iter_mut().for_each(|probe| probe.record_round(record));
    }

    /// Reports that they could not be tried, and why.
    pub fn ports_failed(&mut self, reason: impl Into<String>) {
        (self.port_probing.is_over, self.port_probing.failure) = (true, Some(reason.into()));
    }

    /// Reports what became of the flows that [`next`](Self::next) has had idle, in their order; none of those that could not be opened.
    pub fn flows_idled(&mut self, results: &[Option<IdleFlowResult>]) {
        self.idle_flows.probe.iter_mut().for_each(|probe| probe.record_round(results));
    }

    /// Reports that there could be none, and why.
    pub fn flows_failed(&mut self, reason: impl Into<String>) {
        (self.idle_flows.is_over, self.idle_flows.failure) = (true, Some(reason.into()));
    }

    /// What of it comes next, if anything does.
    pub(super) fn next_ports_or_flows(&mut self) -> Option<Step> {
        self.next_ports().or_else(|| self.next_flows())
    }

    fn next_ports(&mut self) -> Option<Step> {
        if self.plan.ports.is_empty() || self.port_probing.is_over {
            return None;
        }
        let (round_trip, seed) = (self.session.round_trip, self.plan.seed);
        let is_new = self.port_probing.probe.is_none();
        let probe = self.port_probing.probe.get_or_insert_with(|| PortsProbe::new(&self.plan.ports, round_trip, seed));
        if is_new {
            let (max_tries, max_bytes, time) = probe.max_cost();
            let ports = self.plan.ports.len() as u32;
            let max_duration_seconds = time.as_secs_f64();
            self.events.push_back(Event::PortsBegin { ports, max_tries, max_bytes, max_duration_seconds });
            return self.events.pop_front().map(Step::Progress);
        }
        let round = probe.next_round();
        self.port_probing.is_over = round.is_none();
        round.map(Step::Ports)
    }

    fn next_flows(&mut self) -> Option<Step> {
        let max_idle = self.plan.idle_timeouts.filter(|_| !self.idle_flows.is_over)?;
        let is_new = self.idle_flows.probe.is_none();
        let probe = self.idle_flows.probe.get_or_insert_with(|| IdleTimeoutProbe::new(max_idle));
        if is_new {
            let (flows, max_idle_seconds) = (IdleRound::MAX_FLOWS as u32, max_idle.as_secs_f64());
            // The second round takes no longer than the first.
            let max_duration_seconds = ((max_idle + ROUND_OVERHEAD) * 2).as_secs_f64();
            self.events.push_back(Event::IdleFlowsBegin { flows, max_idle_seconds, max_duration_seconds });
            return self.events.pop_front().map(Step::Progress);
        }
        let round = probe.next_round();
        self.idle_flows.is_over = round.is_none();
        round.map(Step::IdleFlows)
    }
}
