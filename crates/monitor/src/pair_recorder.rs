//! What is recorded of one pair: probes become samples, their absence gaps, changes of state events.

use crate::config::MonitoredTarget;
use crate::light::{ProbeKind, ProbeResult};
use crate::mesh::peer_path::PeerPath;
use crate::pair_state::{MAX_LOSS_RATIO, PairMonitor, PairState, lane_loss, path_loss};
use crate::status::{LaneDelay, PairStatus, RunStatus, StateStatus};
use kumade_archive::{Gap, HostId, PairId};
use kumade_planner::RunId;
use kumade_sketch::{Lane, LostIn, Outcome, PairFloors, Sample, Sketch, Summary};
use kumade_units::{Span, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

/// One pair of hosts.
#[derive(Debug)]
pub(crate) struct PairRecorder {
    pub(crate) target: MonitoredTarget,
    /// Since when it is monitored.
    pub(crate) added: Time,
    /// The number in the archive of the host that probes.
    pub(crate) source: HostId,
    /// The target's.
    pub(crate) host: HostId,
    /// The planner's number of its measurements; none where it is not measured.
    pub(crate) run: Option<RunId>,
    /// Its number in the archive; none until its address is known.
    pub(crate) id: Option<PairId>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) last_run: Option<RunStatus>,
    monitor: PairMonitor,
    /// To judge what is recent by the same buckets as the archive keeps.
    floors: PairFloors,
    /// The last answer had one-way delays, so that a lost probe lacks these.
    is_one_way: bool,
    /// Since when no probe could be sent, and why.
    pub(crate) outage: Option<Outage>,
    /// What the archive has not been given yet.
    pub(crate) pending: Vec<Sample>,
    /// Gaps that were over before the pair had a number, the last ones.
    unnumbered_gaps: VecDeque<(Range<Time>, String)>,
    duplicates: u64,
}

/// Gaps that are kept of a pair without a number: an agent that restarts again and again has one each time.
const MAX_UNNUMBERED_GAPS: usize = 100;

/// Results are told of sooner, unless an agent was cut off from its coordinator.
const MAX_REPORT_DELAY: Span = Span::from_secs(10);

/// A time in which no probe is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outage {
    /// UTC.
    pub(crate) from: Time,
    pub(crate) cause: String,
}

/// When measurements used this host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BusyTime {
    /// By the monotonic clock.
    pub(crate) from: Time,
    /// None while it runs.
    pub(crate) to: Option<Time>,
}

impl BusyTime {
    fn contains(&self, time: Time) -> bool {
        time >= self.from && self.to.is_none_or(|to| time <= to)
    }
}

impl PairRecorder {
    pub(crate) fn new(
        target: MonitoredTarget,
        (source, host): (HostId, HostId),
        run: Option<RunId>,
        utc: Time,
    ) -> Self {
        let light = &target.light;
        PairRecorder {
            monitor: PairMonitor::new(light.interval, light.limits.lost_after, utc),
            floors: PairFloors::default(),
            source,
            added: utc,
            host,
            run,
            id: None,
            address: None,
            last_run: None,
            is_one_way: false,
            outage: None,
            pending: Vec::new(),
            unnumbered_gaps: VecDeque::new(),
            duplicates: 0,
            target,
        }
    }

    /// The same target, by its id, with other settings.
    pub(crate) fn set_target(&mut self, target: MonitoredTarget) {
        self.monitor.set_interval(target.light.interval, target.light.limits.lost_after);
        self.target = target;
    }

    /// The target, and over which version of IP, as agents are told.
    pub(crate) fn path(&self) -> PeerPath {
        PeerPath::new(self.host.0, self.target.family)
    }

    /// The numbers of its source and its target.
    pub(crate) fn ends(&self) -> (HostId, HostId) {
        (self.source, self.host)
    }

    /// Takes results of probes: `now` by the monotonic clock, `utc` the same moment by the clock of the day. Returns whether one of them was
    /// sent since the outage began: those that were sent before come for seconds.
    pub(crate) fn add_results(
        &mut self,
        results: &[ProbeResult],
        duplicates: u64,
        busy: &[BusyTime],
        now: Time,
        utc: Time,
    ) -> bool {
        self.duplicates = self.duplicates.saturating_add(duplicates);
        let mut is_sending_again = false;
        for result in results {
            let mut sample = Sample::new(utc - (now - result.sent), self.outcome(result));
            is_sending_again |= self.outage.as_ref().is_some_and(|outage| sample.sent > outage.from);
            sample.late = result.reply.is_ok_and(|reply| reply.is_late);
            sample.disturbed = busy.iter().any(|busy| busy.contains(result.sent));
            sample.duplicates = u8::try_from(std::mem::take(&mut self.duplicates)).unwrap_or(u8::MAX);
            // What comes later than that says nothing of how the path is now.
            if now - result.sent <= self.target.light.limits.lost_after + MAX_REPORT_DELAY {
                self.monitor.add_sample(&self.floors.quantise(&sample), result.sent, now);
            }
            self.pending.push(sample);
        }
        is_sending_again
    }

    /// Judges anew; returns what to tell where the state has changed.
    pub(crate) fn update(&mut self, now: Time, utc: Time) -> Option<String> {
        let before = self.monitor.since();
        let state = self.monitor.update(now, utc)?;
        let lasted = (utc - before).max(Span::ZERO);
        let name = &self.target.name;
        Some(match state {
            PairState::Up => format!("{name}: probes are answered, after {lasted}"),
            PairState::Lossy => format!("{name}: more than {} % of the probes are lost", MAX_LOSS_RATIO * 100.0),
            PairState::Down => format!("{name}: no probe is answered any more"),
            PairState::NoData => format!("{name}: no data any more"),
        })
    }

    /// Why no probe can be sent; none where one can again. Returns the outage that has ended.
    pub(crate) fn set_outage(&mut self, cause: Option<String>, utc: Time) -> Option<Outage> {
        let ended = self.outage.take();
        self.outage = cause.map(|cause| Outage { from: utc, cause });
        ended
    }

    /// A time without probes, which is over: it is written once the pair has a number.
    pub(crate) fn keep_gap(&mut self, time: Range<Time>, cause: &str) {
        self.unnumbered_gaps.truncate(MAX_UNNUMBERED_GAPS - 1);
        self.unnumbered_gaps.push_front((time, cause.to_owned()));
    }

    /// The pair has a number: the gaps that were kept until then.
    pub(crate) fn adopt_number(&mut self, pair: PairId) -> impl Iterator<Item = Gap> + use<> {
        self.id = Some(pair);
        let kept = std::mem::take(&mut self.unnumbered_gaps);
        kept.into_iter().map(move |(time, cause)| Gap { pair, from: time.start, to: time.end, cause })
    }

    pub(crate) fn status(&self) -> PairStatus {
        let recent = self.monitor.recent();
        let light = &self.target.light;
        PairStatus {
            id: self.target.id.clone(),
            name: self.target.name.clone(),
            ends: None,
            host: self.target.host.clone(),
            address: self.address.map(|address| address.ip().to_string()),
            probe: if matches!(light.kind, ProbeKind::Echo) { "echo" } else { "stamp" }.to_owned(),
            interval_seconds: light.interval.as_secs_f64(),
            is_measured: self.target.measurement.is_some(),
            state: self.state_status(),
            delays: idle_delays(recent),
            loss: path_loss(recent),
            loss_up: lane_loss(recent, Lane::Up),
            loss_down: lane_loss(recent, Lane::Down),
            run: self.last_run.clone(),
        }
    }

    fn state_status(&self) -> StateStatus {
        let (level, word, detail) = match self.monitor.state() {
            PairState::Up => ("good", "up", "Probes are answered.".to_owned()),
            PairState::Lossy => {
                ("warn", "lossy", format!("More than {} % of the probes are lost.", MAX_LOSS_RATIO * 100.0))
            }
            PairState::Down => ("bad", "down", "The last probes were all lost.".to_owned()),
            PairState::NoData => match &self.outage {
                Some(outage) => ("none", "no data", format!("No probe can be sent: {}.", outage.cause)),
                None => ("none", "no data", "No probe has had a result of late.".to_owned()),
            },
        };
        let since_seconds = self.monitor.since().as_secs_f64();
        StateStatus { level: level.to_owned(), word: word.to_owned(), detail, since_seconds }
    }

    fn outcome(&mut self, result: &ProbeResult) -> Outcome {
        let reply = match result.reply {
            Ok(reply) => reply,
            Err(lost_in) => return Outcome::Lost(if self.is_one_way { lost_in } else { LostIn::RoundTrip }),
        };
        self.is_one_way = reply.one_way.is_some();
        match reply.one_way {
            Some(one_way) => Outcome::Answered { up: one_way.up, down: one_way.down },
            None => Outcome::RoundTrip(reply.round_trip),
        }
    }
}

/// Quantiles of the delays while no measurement ran, of the lanes that have any.
pub(crate) fn idle_delays(summary: &Summary) -> Vec<LaneDelay> {
    let lanes = [(Lane::RoundTrip, "round_trip"), (Lane::Up, "up"), (Lane::Down, "down")];
    lanes.into_iter().filter_map(|(lane, name)| lane_delay(&summary[lane].idle.delays, name)).collect()
}

fn lane_delay(delays: &Sketch, lane: &str) -> Option<LaneDelay> {
    let found = delays.quantiles(&[0.0, 0.25, 0.5, 0.75, 0.95, 1.0]);
    let seconds: Vec<f64> =
        found.into_iter().map(|quantile| Some(quantile?.value.as_secs_f64())).collect::<Option<_>>()?;
    let [minimum, quarter, median, three_quarters, quantile_95, maximum] = seconds[..].try_into().ok()?;
    Some(LaneDelay {
        lane: lane.to_owned(),
        minimum_seconds: minimum,
        quantile_25_seconds: quarter,
        median_seconds: median,
        quantile_75_seconds: three_quarters,
        quantile_95_seconds: quantile_95,
        maximum_seconds: maximum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LightProbes;
    use crate::light::ReplyLimits;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn recorder() -> PairRecorder {
        let interval = Span::from_secs(1);
        let light = LightProbes { kind: ProbeKind::Echo, port: 0, interval, limits: ReplyLimits::default() };
        let target = MonitoredTarget {
            id: "a".to_owned(),
            name: "a".to_owned(),
            host: "192.0.2.1".to_owned(),
            family: None,
            light,
            measurement: None,
        };
        PairRecorder::new(target, (HostId(1), HostId(2)), None, after(0))
    }

    #[test]
    fn what_was_sent_before_an_outage_does_not_end_it() {
        let mut pair = recorder();
        let lost = |sent| ProbeResult { sequence: 0, sent: after(sent), reply: Err(LostIn::EitherWay) };
        assert!(!pair.add_results(&[lost(1)], 0, &[], after(5), after(5)), "there is none");
        pair.set_outage(Some("no route".to_owned()), after(6));
        assert!(!pair.add_results(&[lost(5)], 0, &[], after(9), after(9)));
        assert!(pair.add_results(&[lost(8)], 0, &[], after(12), after(12)));
        let ended = pair.set_outage(None, after(12));
        assert_eq!(ended, Some(Outage { from: after(6), cause: "no route".to_owned() }));
    }

    #[test]
    fn probes_beside_a_measurement_are_marked_until_it_has_ended() {
        let mut pair = recorder();
        let lost = |sent| ProbeResult { sequence: 0, sent: after(sent), reply: Err(LostIn::EitherWay) };
        let busy = [BusyTime { from: after(2), to: Some(after(4)) }, BusyTime { from: after(7), to: None }];
        pair.add_results(&[lost(1), lost(3), lost(5), lost(8)], 0, &busy, after(9), after(9));
        let marks: Vec<_> = pair.pending.iter().map(|sample| sample.disturbed).collect();
        assert_eq!(marks, [false, true, false, true]);
    }
}
