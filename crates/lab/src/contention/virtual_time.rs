//! Runs in virtual time.

use super::attack::{Attack, describe_ecn};
use super::row::{ContentionObservation, ContentionRow, MAX_PROBE_DELAY, ProbeDelays, ShortFlowTimes};
use super::scenario::{ContentionExperiment, ContentionPoint, Probes, ShortFlows};
use crate::delay_quantiles::DelayQuantiles;
use crate::error::RunError;
use crate::fairness::{ConnectionGroup, DropCounts, FlowShare};
use kumade_link::queue::Ecn;
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Medium, RateSchedule, SizeMix};
use kumade_sim::network::{
    FlowConfig, FlowId, FlowStatistics, LinkId, Network, SojournHistogram, TcpConfig, TrafficSource,
};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bulk transfers begin within so long, before they warm up.
const OPENING_TIME: Span = Span::from_secs(1);
/// Random delay of their packets, as a fraction of a packet's time at the bottleneck, as in experiments on fairness.
const PACKET_JITTER: (u64, u64) = (6, 5);
/// How often it is looked whether a transfer stalls.
const POLL_INTERVAL: Span = Span::from_millis(10);
/// Short transfers that begin in the last part of a run are not counted: it is too short for some of them.
const UNCOUNTED_END: Span = Span::from_secs(2);

/// One run in virtual time.
///
/// # Errors
/// Where the simulator refuses a setting.
pub(super) fn run(experiment: &ContentionExperiment, point: &ContentionPoint<'_>) -> Result<ContentionRow, RunError> {
    let refused = RunError::during("make the virtual network");
    let mut built = BuiltNetwork::new(experiment, point).map_err(refused)?;
    let before = built.run_until(built.measurement_start);
    let longest_stall = built.longest_stall(experiment.duration);
    let after = built.run_until(built.measurement_start + experiment.duration);
    built.network.run_until(after.time + MAX_PROBE_DELAY);
    let observed = built.observation(experiment, &before, &after, longest_stall);
    Ok(ContentionRow::new(point, experiment.bottleneck.rate, observed))
}

struct BuiltNetwork {
    network: Network,
    bottleneck: LinkId,
    /// When measuring begins.
    measurement_start: Time,
    /// With the group of each.
    bulk: Vec<(u32, FlowId)>,
    /// With what it sends, in words.
    attack: Option<(String, FlowId)>,
    probes: Option<FlowId>,
    /// What a probe takes on an idle path.
    probe_delay: Span,
    short_flows: Vec<FlowId>,
}

/// The counters at one time.
struct CounterSnapshot {
    time: Time,
    bulk: Vec<FlowStatistics>,
    attack: Option<FlowStatistics>,
    probes: Option<FlowStatistics>,
    forwarded_bytes: u64,
    sojourn: SojournHistogram,
    drops: DropCounts,
}

impl BuiltNetwork {
    fn new(experiment: &ContentionExperiment, point: &ContentionPoint<'_>) -> anyhow::Result<Self> {
        let shared = &experiment.bottleneck;
        let begin = Time::ZERO + OPENING_TIME + experiment.warm_up;
        let mut random = Pcg64Mcg::seed_from_u64(point.seed);
        let mut network = Network::new(random.random());
        let bottleneck =
            network.add_link(bottleneck_link(experiment, point, begin)?, Some(point.queue_config(shared)?))?;
        let flow = |source| FlowConfig { delay_back: shared.delay, ..FlowConfig::new(vec![bottleneck], source) };
        let mut bulk = Vec::new();
        for (index, group) in point.case.bulk.iter().enumerate() {
            for _ in 0..group.connections {
                let config = bulk_transfer(flow(TrafficSource::Tcp(TcpConfig::new(group.control))), group, shared.rate);
                bulk.push((index as u32, network.add_flow(config)?));
            }
        }
        let attack = match &point.case.attack {
            None => None,
            Some(attack) => {
                let (words, config) = attacker_flow(attack, flow, shared.rate, random.random());
                Some((words, network.add_flow(config)?))
            }
        };
        let probes = experiment.probes.map(|probes| {
            let config = flow(TrafficSource::Udp(probes.cross_traffic(random.random())));
            network.add_flow(FlowConfig { record_delays: true, ..config })
        });
        let probe_bytes = experiment.probes.map_or(0, |probes| probes.packet);
        let end = begin + experiment.duration;
        let mut short_flows = Vec::new();
        for short in experiment.short_flows.iter() {
            for start in short.start_times(begin, end) {
                short_flows.push(network.add_flow(FlowConfig { start, ..flow(short.transfer_source()) })?);
            }
        }
        Ok(BuiltNetwork {
            network,
            bottleneck,
            measurement_start: begin,
            bulk,
            attack,
            probes: probes.transpose()?,
            probe_delay: shared.delay + point.case.measured_rate(shared.rate).time_for(probe_bytes),
            short_flows,
        })
    }

    fn run_until(&mut self, end: Time) -> CounterSnapshot {
        self.network.run_until(end);
        let ledger = self.network.ledger(self.bottleneck);
        CounterSnapshot {
            time: end,
            bulk: self.bulk.iter().map(|(_, flow)| self.network.flow(*flow)).collect(),
            attack: self.attack.as_ref().map(|(_, flow)| self.network.flow(*flow)),
            probes: self.probes.map(|flow| self.network.flow(flow)),
            forwarded_bytes: ledger.packet_counters().forwarded.bytes,
            sojourn: self.network.sojourn(self.bottleneck).clone(),
            drops: DropCounts::from_counters(ledger.packet_counters()),
        }
    }

    /// Runs for so long; returns the longest time without an arrival of any one bulk transfer.
    fn longest_stall(&mut self, duration: Span) -> Span {
        let begin = self.network.now();
        let count = |network: &Network, flow: FlowId| network.flow(flow).delivered_packets;
        let arrived = |(_, flow): &(u32, FlowId)| (count(&self.network, *flow), begin);
        let mut last: Vec<(u64, Time)> = self.bulk.iter().map(arrived).collect();
        let (mut longest, mut now) = (Span::ZERO, begin);
        while now < begin + duration {
            now += POLL_INTERVAL;
            self.network.run_until(now.min(begin + duration));
            for ((_, flow), (packets, since)) in self.bulk.iter().zip(&mut last) {
                let seen = count(&self.network, *flow);
                longest = longest.max(now - *since);
                if seen > *packets {
                    (*packets, *since) = (seen, now);
                }
            }
        }
        longest - POLL_INTERVAL
    }

    fn observation(
        &self,
        experiment: &ContentionExperiment,
        before: &CounterSnapshot,
        after: &CounterSnapshot,
        longest_stall: Span,
    ) -> ContentionObservation {
        let rate = |bytes: u64| Rate::from_bytes_over(bytes, experiment.duration).as_f64();
        let pairs = || self.bulk.iter().zip(before.bulk.iter().zip(&after.bulk));
        let share = |((group, _), (before, after)): (&(u32, FlowId), (&FlowStatistics, &FlowStatistics))| FlowShare {
            group: *group,
            goodput_bits_per_second: rate(after.delivered_bytes - before.delivered_bytes),
        };
        let sum = |figure: fn(&FlowStatistics) -> u64| {
            pairs().map(|(_, (before, after))| figure(after) - figure(before)).sum::<u64>()
        };
        let attack = self.attack.as_ref().zip(before.attack.zip(after.attack)).map(|((words, _), (before, after))| {
            let packets = after.delivered_packets - before.delivered_packets;
            let bytes = after.delivered_bytes - before.delivered_bytes;
            let sent = (after.sent_packets - before.sent_packets) as f64;
            let mean_bytes = after.delivered_bytes as f64 / after.delivered_packets.max(1) as f64;
            let offered = rate((sent * mean_bytes) as u64);
            (words.clone(), offered, if packets > 0 { rate(bytes) } else { 0.0 })
        });
        let sojourn = after.sojourn.since(&before.sojourn);
        ContentionObservation {
            flows: pairs().map(share).collect(),
            longest_stall_seconds: longest_stall.as_secs_f64(),
            attack,
            probes: self.probes.map(|flow| self.probe_delays(flow, before, after)),
            short_flows: experiment
                .short_flows
                .map(|_| self.short_flow_times(self.measurement_start + experiment.duration)),
            forwarded_bits_per_second: rate(after.forwarded_bytes - before.forwarded_bytes),
            queueing: DelayQuantiles::from_quantiles(sojourn.count(), |part| sojourn.quantile(part)),
            drops: after.drops.difference_since(before.drops),
            bulk_retransmissions: sum(|flow| flow.tcp.retransmissions),
            bulk_packets: sum(|flow| flow.sent_packets),
            lateness_p99: None,
        }
    }

    /// Of those that were sent between two looks.
    fn probe_delays(&self, flow: FlowId, before: &CounterSnapshot, after: &CounterSnapshot) -> ProbeDelays {
        let is_within = |sent: Time| before.time < sent && sent <= after.time;
        let delays = self.network.delays(flow).iter().filter(|(arrived, delay)| is_within(*arrived - *delay));
        let added: Vec<_> =
            delays.map(|(_, delay)| (*delay - self.probe_delay).max(Span::ZERO).as_secs_f64()).collect();
        let sent_until = |look: &CounterSnapshot| look.probes.map_or(0, |probes| probes.sent_packets);
        let (sent, arrived) = (sent_until(after) - sent_until(before), added.len() as u64);
        ProbeDelays {
            packets: arrived,
            added: DelayQuantiles::from_seconds(added),
            lost_ratio: (sent - arrived) as f64 / sent.max(1) as f64,
        }
    }

    fn short_flow_times(&self, end: Time) -> ShortFlowTimes {
        let statistics = self.short_flows.iter().map(|flow| self.network.flow(*flow));
        let counted: Vec<_> =
            statistics.filter(|flow| flow.started.is_some_and(|started| started <= end - UNCOUNTED_END)).collect();
        let finished = |flow: &FlowStatistics| flow.finished.filter(|finished| *finished <= end);
        let times = counted.iter().filter_map(|flow| Some((finished(flow)? - flow.started?).as_secs_f64()));
        let times: Vec<_> = times.collect();
        ShortFlowTimes {
            started: counted.len() as u32,
            unfinished: (counted.len() - times.len()) as u32,
            mean_seconds: crate::statistics::mean(&times),
            times: DelayQuantiles::from_seconds(times),
        }
    }
}

fn bottleneck_link(
    experiment: &ContentionExperiment,
    point: &ContentionPoint<'_>,
    begin: Time,
) -> anyhow::Result<LinkConfig> {
    let shared = &experiment.bottleneck;
    let medium = match point.case.rate_change {
        None => None,
        Some(rate) => {
            Some(Medium::Schedule(RateSchedule::new(&[(Span::ZERO, shared.rate), (begin - Time::ZERO, rate)])?))
        }
    };
    Ok(LinkConfig { rate: Some(shared.rate), medium, delay: shared.delay, ..LinkConfig::default() })
}

fn bulk_transfer(flow: FlowConfig, group: &ConnectionGroup, rate: Rate) -> FlowConfig {
    let packet_bytes = if let TrafficSource::Tcp(tcp) = &flow.source { tcp.packet_bytes() } else { 0 };
    FlowConfig {
        delay_out: group.delay,
        delay_back: flow.delay_back + group.delay,
        jitter: rate.time_for(u64::from(packet_bytes) * PACKET_JITTER.0 / PACKET_JITTER.1),
        start_jitter: OPENING_TIME,
        ..flow
    }
}

/// What it sends, in words, and its flow.
fn attacker_flow(
    attack: &Attack,
    flow: impl Fn(TrafficSource) -> FlowConfig,
    rate: Rate,
    seed: u64,
) -> (String, FlowConfig) {
    match (attack, attack.pulse_traffic(rate, seed)) {
        (_, Some(pulses)) => {
            let config = flow(TrafficSource::Udp(pulses.cross_traffic(seed)));
            (pulses.to_string(), FlowConfig { ecn: pulses.ecn, ..config })
        }
        (Attack::ConcealsMarks(control), None) => {
            let ecn = if control.usual_ecn() == Ecn::Ect1 { Ecn::Ect1 } else { Ecn::Ect0 };
            let tcp = TcpConfig { ecn, conceals_marks: true, ..TcpConfig::new(*control) };
            (format!("{control}{}, marks concealed", describe_ecn(ecn)), flow(TrafficSource::Tcp(tcp)))
        }
        (Attack::Pulses(_) | Attack::RandomPulses, None) => unreachable!("these are UDP"),
    }
}

impl Probes {
    fn cross_traffic(&self, seed: u64) -> CrossConfig {
        let size = u32::try_from(self.packet).unwrap_or(u32::MAX);
        let rate = Rate::from_bytes_over(self.packet, self.interval);
        CrossConfig {
            kind: CrossKind::Poisson { rate, sizes: SizeMix::fixed(size) },
            start: Time::ZERO,
            phase: 0.0,
            seed,
        }
    }
}

impl ShortFlows {
    fn start_times(self, begin: Time, end: Time) -> impl Iterator<Item = Time> {
        std::iter::successors(Some(begin), move |start| Some(*start + self.interval))
            .take_while(move |start| *start < end)
    }

    /// Linux acknowledges each of the first packets of a connection.
    fn transfer_source(self) -> TrafficSource {
        TrafficSource::Tcp(TcpConfig {
            bytes: Some(self.bytes),
            segments_per_ack: 1,
            ..TcpConfig::new(CongestionControl::Cubic)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::contention::ContentionExperiment;
    use crate::scenario::load;
    use crate::study::{Overrides, run};

    /// Packets that were on their way when measuring ended were called lost, and those that had been when it began were none that had
    /// been sent: of the same 1003 packets, 1005 arrived with one discipline and 1004 with another.
    #[test]
    fn probes_that_arrive_and_those_that_are_lost_are_all_that_were_sent() {
        let overrides = Overrides { runs: Some(1), rows: vec![1, 5], ..Overrides::default() };
        let experiment = load("fair-latency", &overrides).unwrap().into_scenario::<ContentionExperiment>().unwrap();
        let sent: Vec<_> = run(&experiment, &mut |_| (), &|| false)
            .unwrap()
            .rows
            .iter()
            .map(|row| {
                let probes = row.probes.unwrap();
                (row.case.clone(), (probes.packets as f64 / (1.0 - probes.lost_ratio)).round())
            })
            .collect();
        let ContentionExperiment { cases, .. } = experiment;
        for case in cases {
            let counts: Vec<_> = sent.iter().filter(|(of, _)| *of == case.label).map(|(_, count)| *count).collect();
            assert!(counts.len() > 1 && counts.windows(2).all(|pair| pair[0] == pair[1]), "{}: {counts:?}", case.label);
        }
    }
}
