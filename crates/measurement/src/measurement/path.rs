//! Marked packets in both directions, before anything loads the path, and what the driver knows of the path besides.

use super::Measurement;
use super::phase::Phase;
use crate::path::{MappingFacts, MarkProbe, PathObservation, SynProbeFacts, TcpFacts, UdpFacts, report_path};
use crate::report::PathReport;
use crate::step::{MarkRequest, Step};
use kumade_probe_train::{MarkedRecord, Transport};
use kumade_units::{Direction, Span, Time};

/// No train begins after this time: all of it is to be over within three seconds.
const MAX_TIME: Span = Span::from_millis(2200);
/// Receive timeout, beyond a round trip.
const TIMEOUT: Span = Span::from_millis(150);

impl Measurement {
    /// Tells what the kernels of both ends know of the control connection.
    pub fn tcp_observed(&mut self, facts: TcpFacts) {
        self.path_facts.tcp = Some(facts);
    }

    /// Tells what became of the SYNs of connections that were opened for them.
    pub fn syns_observed(&mut self, probes: Vec<SynProbeFacts>) {
        self.path_facts.syn_probes = probes;
    }

    /// Tells what the far end has seen of packets from one port of this host to several of its own.
    pub fn mappings_observed(&mut self, mappings: Vec<MappingFacts>) {
        self.path_facts.mappings = mappings;
    }

    /// Tells that the far end speaks this version of the protocol, and does not listen at a second port before another one.
    pub fn mappings_unsupported(&mut self, version: u16, needed: u16) {
        self.path_facts.no_mappings = Some([version, needed]);
    }

    /// Tells what the kernels of both ends know of UDP. What is told last counts.
    pub fn udp_observed(&mut self, facts: UdpFacts) {
        self.path_facts.udp = Some(facts);
    }

    /// Tells that the far end speaks this version of the protocol, and knows nothing of this before another one.
    pub fn path_unsupported(&mut self, version: u16, needed: u16) {
        self.path_facts.old_far_end = Some([version, needed]);
    }

    /// Reports what became of the marked packets that [`next`](Self::next) requested.
    pub fn marks_delivered(&mut self, record: &MarkedRecord) {
        if std::mem::take(&mut self.hop_tracing.awaits_arrivals) {
            if let Some(probe) = self.hop_tracing.probe() {
                probe.record_arrivals(record);
            }
            return;
        }
        let Some((direction, train)) = self.marking.pending.take() else { return };
        if let Some(probes) = &mut self.marking.probes {
            probes[direction as usize].record_train(&train, record);
        }
    }

    /// Reports that they could not be sent or received, and why.
    pub fn marks_failed(&mut self, reason: impl Into<String>) {
        if self.hop_tracing.awaits_arrivals {
            self.hop_tracing.end_with(reason.into());
        } else if self.marking.pending.is_some() {
            self.marking.end_with(format!("ECN over UDP, and DSCP: {}", reason.into()));
        }
    }

    /// The next marked packets, or what follows them.
    pub(super) fn next_marks(&mut self, now: Time) -> (Phase, Option<Step>) {
        let follows = Phase::Direction(Direction::Up);
        if self.marking.probes.is_none() {
            if let Some(why) = self.unmarkable_reason() {
                self.marking.end_with(format!("ECN over UDP, and DSCP: {why}"));
                return (follows, None);
            }
            let seed = self.plan.seed;
            self.marking.probes = Some([MarkProbe::new(seed), MarkProbe::new(seed.wrapping_add(1))]);
            self.marking.end = Some(now + MAX_TIME);
        }
        // A train whose record has not come is given up.
        self.marking.pending = None;
        let is_late = self.marking.end.is_some_and(|end| now > end);
        match self.marking.next_train().filter(|_| !is_late) {
            None => {
                self.marking.end_with(None);
                (follows, None)
            }
            Some((direction, train)) => {
                self.marking.pending = Some((direction, train.clone()));
                let timeout = self.session.round_trip + TIMEOUT;
                (follows, Some(Step::Mark(MarkRequest { direction, train, timeout })))
            }
        }
    }

    /// Why no marked packets can be sent.
    pub(super) fn unmarkable_reason(&self) -> Option<String> {
        if let Some([version, needed]) = self.path_facts.old_far_end {
            return Some(format!(
                "the far end speaks version {version} of the protocol, which has them from {needed} on"
            ));
        }
        let is_udp = self.transport.kind() == Transport::Udp;
        (!is_udp).then(|| "they are seen by UDP alone, which does not pass, or was not asked for".to_owned())
    }

    /// The section on the path.
    pub(super) fn report_path(&self) -> Option<PathReport> {
        let marks = self.marking.probes.as_ref().map(|[up, down]| [up, down]);
        let no_marks = self.marking.failure.clone();
        let traces = self.hop_tracing.probes.each_ref().map(Option::as_ref);
        let sizes = self.transport.sizes();
        let (ports, idle_timeouts) = (self.port_probing.report(), self.idle_flows.report());
        let observed = PathObservation {
            marks,
            no_marks,
            traces,
            no_trace: &self.hop_tracing.failures,
            ports,
            idle_timeouts,
            sizes,
            ..PathObservation::default()
        };
        report_path(&self.path_facts, &self.observe_queues(observed))
    }
}
