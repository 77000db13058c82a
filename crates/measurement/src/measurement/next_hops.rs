//! The routers on the way up, and down, after the marked packets, which say with which mark to ask them.

use super::Measurement;
use super::phase::Phase;
use crate::event::Event;
use crate::path::{MarkProbe, TraceProbe, TraceStep, routers_towards};
use crate::step::{MarkRequest, Step, TraceRequest};
use kumade_probe_train::{HopTraceRecord, PortProtocol, Transport};
use kumade_units::{Direction, Span, Time};

/// Receive timeout of packets for the receiver, beyond a round trip.
const TIMEOUT: Span = Span::from_millis(150);

impl Measurement {
    /// Reports what the routers have answered to the packets that [`next`](Self::next) requested.
    pub fn hops_traced(&mut self, record: &HopTraceRecord) {
        let request = self.hop_tracing.pending.take();
        if let (Some(request), Some(probe)) = (request, self.hop_tracing.probe()) {
            probe.record_answers(&request.trace, record);
        }
    }

    /// Reports that they could not be asked, and why.
    pub fn hops_not_traced(&mut self, reason: impl Into<String>) {
        if self.hop_tracing.pending.is_some() {
            self.hop_tracing.end_with(reason.into());
        }
    }

    /// The next packets for routers, or what follows them.
    pub(super) fn next_hops(&mut self, now: Time) -> (Phase, Option<Step>) {
        let follows = Phase::Direction(Direction::Up);
        let Some(direction) = self.hop_tracing.direction else { return (follows, None) };
        let protocol = self.traced_protocol();
        if self.hop_tracing.probe().is_none() {
            match self.hop_trace_probe(direction, protocol) {
                Err(why) => {
                    self.hop_tracing.end_with(why);
                    return (follows, None);
                }
                Ok(probe) => {
                    let (max_packets, max_time) = (probe.max_packets(), TraceProbe::MAX_TIME);
                    let max_duration_seconds = max_time.as_secs_f64();
                    self.events.push_back(Event::TraceBegins { direction, max_packets, max_duration_seconds });
                    self.hop_tracing.end = Some(now + max_time);
                    self.hop_tracing.probes[direction as usize] = Some(probe);
                }
            }
        }
        let tracing = &mut self.hop_tracing;
        let is_record_missing = tracing.pending.take().is_some() || std::mem::take(&mut tracing.awaits_arrivals);
        let time_left = tracing.end.map_or(Span::ZERO, |end| end - now);
        let step = tracing.probe().filter(|_| !is_record_missing).and_then(|probe| probe.next_step(time_left));
        let step = match step {
            None => {
                tracing.end_with(None);
                None
            }
            Some(TraceStep::Arrival(train)) => {
                tracing.awaits_arrivals = true;
                let timeout = self.session.round_trip + TIMEOUT;
                Some(Step::Mark(MarkRequest { direction, train, timeout }))
            }
            Some(TraceStep::Hops(trace)) => {
                let request = TraceRequest { direction, protocol, trace };
                tracing.pending = Some(request.clone());
                Some(Step::Trace(request))
            }
        };
        (follows, step)
    }

    /// That of the trains.
    fn traced_protocol(&self) -> PortProtocol {
        if self.transport.kind() == Transport::Udp { PortProtocol::Udp } else { PortProtocol::Tcp }
    }

    /// Of the mark that the path is known to change; else why the routers can't be asked.
    fn hop_trace_probe(&self, direction: Direction, protocol: PortProtocol) -> Result<TraceProbe, String> {
        let marks = self.marking.probes.as_ref().map(|probes| &probes[direction as usize]);
        let octet = match (protocol, direction) {
            (PortProtocol::Udp, _) => {
                self.unmarkable_reason().map_or(Ok(()), Err)?;
                marks.map_or(MarkProbe::USUAL_TRACED_OCTET, MarkProbe::octet_to_trace)
            }
            // SYNs have no ECN codepoint.
            (PortProtocol::Tcp, Direction::Up) => MarkProbe::USUAL_TRACED_OCTET & !0b11,
            (PortProtocol::Tcp, Direction::Down) => {
                return Err(
                    "over TCP, the far end would have to send segments that end on the way, of which its kernel tells \
                            only a process with CAP_NET_RAW who has answered; measure over UDP, or from the other host"
                        .to_owned(),
                );
            }
        };
        let routers = routers_towards(direction, protocol, &self.path_facts, marks);
        let routers = routers.ok_or("it is not known with which TTL or hop limit packets arrive there")?;
        Ok(TraceProbe::new(direction, protocol, octet, routers, self.session.round_trip))
    }
}
