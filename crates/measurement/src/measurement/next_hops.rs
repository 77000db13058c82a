//! The routers on the way up, after the marked packets, which say with which mark to ask them.

use super::Measurement;
use super::phase::Phase;
use crate::event::Event;
use crate::path::{MarkProbe, TraceProbe, TraceStep, routers_up};
use crate::step::{MarkRequest, Step};
use kumade_probe_train::HopTraceRecord;
use kumade_units::{Direction, Span, Time};

/// Receive timeout of packets for the far end, beyond a round trip.
const TIMEOUT: Span = Span::from_millis(150);

impl Measurement {
    /// Reports what the routers have answered to the packets that [`next`](Self::next) requested.
    pub fn hops_traced(&mut self, record: &HopTraceRecord) {
        if let (Some(trace), Some(probe)) = (self.hop_tracing.pending.take(), &mut self.hop_tracing.probe) {
            probe.record_answers(&trace, record);
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
        if self.hop_tracing.probe.is_none() {
            match self.hop_trace_probe() {
                Err(why) => {
                    self.hop_tracing.end_with(why);
                    return (follows, None);
                }
                Ok(probe) => {
                    let max_duration_seconds = TraceProbe::MAX_TIME.as_secs_f64();
                    self.events
                        .push_back(Event::TraceBegins { max_packets: probe.max_packets(), max_duration_seconds });
                    self.hop_tracing.end = Some(now + TraceProbe::MAX_TIME);
                    self.hop_tracing.probe = Some(probe);
                }
            }
        }
        let tracing = &mut self.hop_tracing;
        let is_record_missing = tracing.pending.take().is_some() || std::mem::take(&mut tracing.awaits_arrivals);
        let time_left = tracing.end.map_or(Span::ZERO, |end| end - now);
        let step = tracing.probe.as_mut().filter(|_| !is_record_missing).and_then(|probe| probe.next_step(time_left));
        let step = match step {
            None => {
                tracing.end_with(None);
                None
            }
            Some(TraceStep::Arrival(train)) => {
                tracing.awaits_arrivals = true;
                let timeout = self.session.round_trip + TIMEOUT;
                Some(Step::Mark(MarkRequest { direction: Direction::Up, train, timeout }))
            }
            Some(TraceStep::Hops(trace)) => {
                tracing.pending = Some(trace.clone());
                Some(Step::Trace(trace))
            }
        };
        (follows, step)
    }

    /// Of the mark that the path is known to change; else why the routers can't be asked.
    fn hop_trace_probe(&self) -> Result<TraceProbe, String> {
        if let Some(why) = self.unmarkable_reason() {
            return Err(why);
        }
        let marks = self.marking.probes.as_ref().map(|[up, _]| up);
        let routers = routers_up(&self.path_facts, marks);
        let routers = routers.ok_or("the far end does not say with which TTL or hop limit packets arrive")?;
        let octet = marks.map_or(MarkProbe::USUAL_TRACED_OCTET, MarkProbe::octet_to_trace);
        Ok(TraceProbe::new(octet, routers, self.session.round_trip))
    }
}
