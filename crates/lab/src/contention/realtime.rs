//! Runs in real time: the kernel's TCP and real UDP at an emulated bottleneck.

use super::row::{ContentionObservation, ContentionRow, MAX_PROBE_DELAY, ProbeDelays};
use super::scenario::{ContentionExperiment, ContentionPoint, Probes};
use crate::delay_quantiles::DelayQuantiles;
use crate::error::RunError;
use crate::fairness::{
    BottleneckLink, CounterSnapshot, FlowShare, KernelControllers, RECEIVER_HOST, build_network, connections,
    sender_host_name,
};
use crate::study::{MAX_LATENESS, RunOutcome};
use kumade_netns_testbed::{
    ArrivalRecorder, Host, Network, NetworkError, NumberedPackets, PacketContent, Traffic, retransmitted_segments,
};
use kumade_units::{Direction, Rate, Span, Time};
use std::thread;

const ATTACKER_HOST: &str = "attacker";
const PROBER_HOST: &str = "prober";
/// A full packet of TCP, and the payload in it, with time stamps.
const PACKET_BYTES: u64 = 1500;
const SEGMENT_BYTES: u64 = 1448;
/// IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
/// Probes go on for so long after the run.
const PROBE_MARGIN: Span = Span::from_secs(5);

/// Builds the network of `point`, lets all compete, and removes it.
///
/// # Errors
/// Where the system refuses something.
pub(super) fn run(
    kernel: &KernelControllers,
    experiment: &ContentionExperiment,
    point: &ContentionPoint<'_>,
) -> Result<RunOutcome<ContentionRow>, RunError> {
    let network = build_contention_network(experiment, point).map_err(RunError::during("build the network"))?;
    observe(kernel, experiment, point, &network).map_err(RunError::during("run the traffic"))
}

fn build_contention_network(experiment: &ContentionExperiment, point: &ContentionPoint<'_>) -> anyhow::Result<Network> {
    let (shared, queue) = (&experiment.bottleneck, point.queue_config(&experiment.bottleneck)?);
    let bottleneck = BottleneckLink { rate: shared.rate, delay: shared.delay, queue: &queue, seed: point.seed };
    build_network(bottleneck, &point.case.bulk, &[ATTACKER_HOST, PROBER_HOST])
}

fn observe(
    kernel: &KernelControllers,
    experiment: &ContentionExperiment,
    point: &ContentionPoint<'_>,
    network: &Network,
) -> anyhow::Result<RunOutcome<ContentionRow>> {
    let (shared, case) = (&experiment.bottleneck, point.case);
    let receiver = network.host(RECEIVER_HOST)?;
    let pulses = case.attack.as_ref().and_then(|attack| attack.pulse_traffic(shared.rate, point.seed));
    let bulk = kernel.open_connections(&case.bulk, point.run, network)?;
    let attack =
        pulses.map(|pulses| Traffic::udp(network.host(ATTACKER_HOST)?, receiver, &pulses.cross_traffic(point.seed)));
    let attack = attack.transpose()?;
    let probing = experiment.probes.map(|probes| ProbeStream::start(experiment, probes, network)).transpose()?;
    thread::sleep(experiment.warm_up.to_duration());
    for connection in &bulk {
        connection.take_longest_gap();
    }
    let before = ContentionCounters::read(network, point, &bulk, attack.as_ref())?;
    thread::sleep(experiment.duration.to_duration());
    let after = ContentionCounters::read(network, point, &bulk, attack.as_ref())?;
    let lateness = network.lateness(Direction::Up, before.snapshot.time, after.snapshot.time)?;
    let duration = after.snapshot.time - before.snapshot.time;
    let rate = |bytes: u64| Rate::from_bytes_over(bytes, duration).as_f64();
    let delivered = after
        .snapshot
        .delivered_bytes
        .iter()
        .zip(&before.snapshot.delivered_bytes)
        .map(|(after, before)| after - before);
    let share = |((group, _), payload): ((usize, _), u64)| FlowShare {
        group: group as u32,
        goodput_bits_per_second: rate(payload * PACKET_BYTES / SEGMENT_BYTES),
    };
    let flows: Vec<_> = connections(&case.bulk).zip(delivered).map(share).collect();
    let carried_by_bulk: f64 = flows.iter().map(|flow| flow.goodput_bits_per_second).sum();
    let stalls = bulk.iter().map(Traffic::take_longest_gap);
    let resent = after.retransmitted_packets - before.retransmitted_packets;
    let observed = ContentionObservation {
        longest_stall_seconds: stalls.fold(Span::ZERO, Span::max).as_secs_f64(),
        attack: pulses.map(|pulses| {
            (
                pulses.to_string(),
                rate(after.attack_bytes.0 - before.attack_bytes.0),
                rate(after.attack_bytes.1 - before.attack_bytes.1),
            )
        }),
        probes: probing.map(|probing| probing.probe_delays(&before.snapshot, &after.snapshot)),
        short_flows: None,
        forwarded_bits_per_second: rate(after.snapshot.forwarded_bytes - before.snapshot.forwarded_bytes),
        queueing: after.snapshot.queueing,
        drops: after.snapshot.drops.difference_since(before.snapshot.drops),
        bulk_retransmissions: resent,
        bulk_packets: (carried_by_bulk * duration.as_secs_f64() / 8.0) as u64 / PACKET_BYTES + resent,
        flows,
        lateness_p99: Some(lateness.p99),
    };
    let row = ContentionRow::new(point, shared.rate, observed);
    let disturbed = lateness.p99 > MAX_LATENESS || after.snapshot.missed_packets > 0;
    Ok(RunOutcome { row, lateness: lateness.p99, disturbed })
}

struct ContentionCounters {
    snapshot: CounterSnapshot,
    /// What the attacker sent, and what of it arrived, in bytes.
    attack_bytes: (u64, u64),
    retransmitted_packets: u64,
}

impl ContentionCounters {
    fn read(
        network: &Network,
        point: &ContentionPoint<'_>,
        bulk: &[Traffic],
        attack: Option<&Traffic>,
    ) -> Result<Self, NetworkError> {
        let retransmitted = |group| retransmitted_segments(network.host(&sender_host_name(group))?);
        Ok(ContentionCounters {
            snapshot: CounterSnapshot::take(network, point.case.bulk.len(), bulk)?,
            attack_bytes: attack.map_or((0, 0), |attack| (attack.sent_bytes(), attack.received_bytes())),
            retransmitted_packets: (0..point.case.bulk.len()).map(retransmitted).sum::<Result<_, _>>()?,
        })
    }
}

/// Sparse packets under way, here at equal intervals.
struct ProbeStream {
    packets: NumberedPackets,
    arrivals: ArrivalRecorder,
    interval: Span,
    /// What a packet takes on an idle path.
    idle_delay: Span,
}

impl ProbeStream {
    fn start(experiment: &ContentionExperiment, probes: Probes, network: &Network) -> anyhow::Result<Self> {
        let (from, to) = (network.host(PROBER_HOST)?, network.host(RECEIVER_HOST)?);
        let arrivals = ArrivalRecorder::start(to, Host::DEVICE)?;
        let time = experiment.warm_up + experiment.duration + PROBE_MARGIN;
        let count = (time.as_nanos() / probes.interval.as_nanos()) as u64;
        let payload = probes.packet.saturating_sub(HEADER_BYTES) as usize;
        let packets = NumberedPackets::send(from, (to, to.v4), payload, probes.interval, count)?;
        let shared = &experiment.bottleneck;
        let delay = shared.delay + shared.rate.time_for(probes.packet);
        Ok(ProbeStream { packets, arrivals, interval: probes.interval, idle_delay: delay })
    }

    /// Of those that were sent between two looks, early enough to arrive before the second; what the host adds to their
    /// delays is counted with them.
    fn probe_delays(&self, before: &CounterSnapshot, after: &CounterSnapshot) -> ProbeDelays {
        let end = after.time - MAX_PROBE_DELAY;
        let within = |sent: Time| before.time <= sent && sent < end;
        let (received, _) = self.arrivals.take_packets();
        let added = received.iter().filter_map(|packet| match packet.content {
            PacketContent::Numbered { port, sent, .. } if port == self.packets.port() && within(sent) => {
                Some((packet.stamp - sent - self.idle_delay).max(Span::ZERO).as_secs_f64())
            }
            _ => None,
        });
        let added: Vec<_> = added.collect();
        let sent = (end - before.time).as_nanos() as f64 / self.interval.as_nanos() as f64;
        ProbeDelays {
            packets: added.len() as u64,
            lost_ratio: (1.0 - added.len() as f64 / sent).max(0.0),
            added: DelayQuantiles::from_seconds(added),
        }
    }
}
