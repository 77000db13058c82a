//! A link that trains share with TCP connections, which react to them.

use crate::network::{FlowConfig, FlowId, LinkId, Network, SojournHistogram, TcpConfig, TrafficSource};
use crate::packet_at_hop::PacketAtHop;
use crate::packet_transport::PacketTransport;
use crate::tcp::congestion::CongestionControl;
use kumade_link::{CrossConfig, CrossKind, LinkConfig};
use kumade_probe_train::statistics::mean;
use kumade_units::{ConfigError, Rate, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// A TCP connection that sends all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElasticFlow {
    /// Its congestion control.
    pub control: CongestionControl,
    /// Its round trip without queues, besides the link's own delay.
    pub delay_back: Span,
    /// Its receive window in bytes; it takes all that it can get, if none.
    pub receive_window: Option<u64>,
}

/// What a measurement did to the connections that it met.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlowImpact {
    /// The part of their goodput that they lost, from the first train to now.
    pub goodput_loss_ratio: f64,
    /// By how much the 99th percentile of sojourn times in the queue grew.
    pub added_queueing_delay: Span,
}

/// What many measurements did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImpactSummary {
    /// On average.
    pub mean: FlowImpact,
    /// The greatest of each, whichever measurement it was.
    pub max: FlowImpact,
}

impl ImpactSummary {
    /// None of no measurement.
    pub fn from_impacts(impacts: &[FlowImpact]) -> Option<Self> {
        let summed_up = |of: fn(&FlowImpact) -> f64| {
            let values: Vec<f64> = impacts.iter().map(of).collect();
            Some((mean(&values), values.iter().copied().max_by(f64::total_cmp)?))
        };
        let (lost, most_lost) = summed_up(|impact| impact.goodput_loss_ratio)?;
        let (added, most_added) = summed_up(|impact| impact.added_queueing_delay.as_secs_f64())?;
        let impact = |goodput_lost, seconds| FlowImpact {
            goodput_loss_ratio: goodput_lost,
            added_queueing_delay: Span::from_secs_f64(seconds),
        };
        Some(ImpactSummary { mean: impact(lost, added), max: impact(most_lost, most_added) })
    }
}

impl fmt::Display for ImpactSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ImpactSummary { mean, max: most } = self;
        let [lost, most_lost] = [mean, most].map(|impact| impact.goodput_loss_ratio * 100.0);
        let (added, most_added) = (mean.added_queueing_delay, most.added_queueing_delay);
        write!(
            f,
            "connections lost {lost:.1} % of their goodput on average, {most_lost:.1} % at most; the 99th percentile of \
             queueing grew by {added} on average, by {most_added} at most"
        )
    }
}

/// One link in a [`Network`] with TCP connections and trains on it.
#[derive(Debug)]
pub(crate) struct ElasticPath {
    link: LinkConfig,
    flows: Vec<ElasticFlow>,
    seed: u64,
    network: ElasticNetwork,
    /// When the first train left.
    at_first_train: Option<(Time, ElasticCounters)>,
}

/// The network, with or without trains: the same numbers are drawn.
#[derive(Debug)]
struct ElasticNetwork {
    network: Network,
    link: LinkId,
    flows: Vec<FlowId>,
    trains: FlowId,
    /// Packets of trains whose fate is open, in the order in which they left.
    train_packets_in_flight: VecDeque<PacketAtHop>,
    /// Arrivals of trains' packets that have been taken.
    taken_arrivals: usize,
}

/// Counters at some time.
#[derive(Debug, Clone)]
struct ElasticCounters {
    goodput_bytes: u64,
    delivered_bytes: u64,
    sojourn: SojournHistogram,
}

/// How often it is looked whether a train has arrived.
const ARRIVAL_POLL_INTERVAL: Span = Span::from_micros(200);

impl ElasticPath {
    pub fn new(link: LinkConfig, flows: Vec<ElasticFlow>, seed: u64) -> Result<Self, ConfigError> {
        let world = ElasticNetwork::new(&link, &flows, seed)?;
        Ok(ElasticPath { link, flows, seed, network: world, at_first_train: None })
    }

    pub fn base_delay(&self) -> Span {
        self.link.delay
    }

    /// Sends these packets. Returns those that have arrived; where some have not, a receiver waits for them until they must have been lost.
    pub fn pass_packets(&mut self, packets: &[PacketAtHop]) -> Vec<PacketAtHop> {
        let Some(last) = packets.last() else { return Vec::new() };
        let mut arrived = Vec::with_capacity(packets.len());
        packets.iter().for_each(|packet| self.offer(*packet));
        self.advance(last.time, &mut arrived);
        while let Some(next) = self.next_event() {
            self.advance(next, &mut arrived);
        }
        if arrived.len() < packets.len() {
            self.network.network.run_until(last.time + self.longest_transit());
        }
        arrived
    }

    /// How long a packet takes that finds a full queue.
    fn longest_transit(&self) -> Span {
        let full = self.link.rate.unwrap_or_default().time_for(self.link.queue_bytes + 3000);
        full + self.link.delay + ARRIVAL_POLL_INTERVAL
    }

    pub fn now(&self) -> Time {
        self.network.network.now()
    }

    pub fn run_until(&mut self, now: Time) {
        self.network.network.run_until(now);
    }

    /// What the connections would have left of the link from `from` to `to` without any trains.
    pub fn true_available(&self, from: Time, to: Time) -> Rate {
        let rate = self.link.rate.unwrap_or_default().as_f64();
        let carried = self.counters_without_trains(from, to).map_or(0.0, |[before, after]| {
            Rate::from_bytes_over(after.delivered_bytes - before.delivered_bytes, to - from).as_f64()
        });
        Rate::from_f64((rate - carried).max(0.0))
    }

    /// What the trains did so far.
    pub fn measure_impact(&self) -> Option<FlowImpact> {
        let (from, before) = self.at_first_train.as_ref()?;
        let [twin_before, twin] = self.counters_without_trains(*from, self.now()).ok()?;
        let now = self.network.counters();
        let goodput =
            |seen: &ElasticCounters, before: &ElasticCounters| (seen.goodput_bytes - before.goodput_bytes) as f64;
        let queueing =
            |seen: &ElasticCounters, before: &ElasticCounters| seen.sojourn.since(&before.sojourn).quantile(0.99);
        Some(FlowImpact {
            goodput_loss_ratio: 1.0 - goodput(&now, before) / goodput(&twin, &twin_before).max(1.0),
            added_queueing_delay: queueing(&now, before) - queueing(&twin, &twin_before),
        })
    }

    fn counters_without_trains(&self, from: Time, to: Time) -> Result<[ElasticCounters; 2], ConfigError> {
        let mut world = ElasticNetwork::new(&self.link, &self.flows, self.seed)?;
        Ok([from, to].map(|time| {
            world.network.run_until(time);
            world.counters()
        }))
    }
}

impl PacketTransport for ElasticPath {
    fn offer(&mut self, packet: PacketAtHop) {
        // Packets are told apart by when they leave.
        let earliest =
            self.network.train_packets_in_flight.back().map_or(packet.time, |last| last.time + Span::from_nanos(1));
        let packet = PacketAtHop { time: packet.time.max(earliest), ..packet };
        if self.at_first_train.is_none() {
            self.network.network.run_until(packet.time - Span::from_nanos(1));
            self.at_first_train = Some((packet.time, self.network.counters()));
        }
        self.network.network.send(self.network.trains, [(packet.time, packet.size)]);
        self.network.train_packets_in_flight.push_back(packet);
    }

    fn next_event(&self) -> Option<Time> {
        self.network.train_packets_in_flight.front().map(|_| self.now() + ARRIVAL_POLL_INTERVAL)
    }

    fn advance(&mut self, now: Time, out: &mut Vec<PacketAtHop>) {
        self.network.network.run_until(now);
        self.network.take_arrived(out);
        // What is not there when all that was queued before it has passed was dropped.
        let latest = self.longest_transit();
        while self.network.train_packets_in_flight.front().is_some_and(|packet| packet.time + latest < now) {
            self.network.train_packets_in_flight.pop_front();
        }
    }
}

impl ElasticNetwork {
    fn new(link: &LinkConfig, flows: &[ElasticFlow], seed: u64) -> Result<Self, ConfigError> {
        let mut network = Network::new(seed);
        let link_id = network.add_link(link.clone(), None)?;
        let packet = link.rate.unwrap_or_default().time_for(1500);
        let connection = |flow: &ElasticFlow| FlowConfig {
            delay_back: flow.delay_back,
            jitter: packet,
            start_jitter: Span::from_secs(1),
            ..FlowConfig::new(
                vec![link_id],
                TrafficSource::Tcp(TcpConfig { receive_window: flow.receive_window, ..TcpConfig::new(flow.control) }),
            )
        };
        let flows = flows.iter().map(|flow| network.add_flow(connection(flow))).collect::<Result<_, _>>()?;
        let nothing = CrossKind::Constant { rate: Rate::ZERO, size: 1500 };
        let trains = TrafficSource::Udp(CrossConfig { kind: nothing, start: Time::ZERO, phase: 0.0, seed: 0 });
        let trains = FlowConfig { record_delays: true, ..FlowConfig::new(vec![link_id], trains) };
        let trains = network.add_flow(trains)?;
        Ok(ElasticNetwork {
            network,
            link: link_id,
            flows,
            trains,
            train_packets_in_flight: VecDeque::new(),
            taken_arrivals: 0,
        })
    }

    fn counters(&self) -> ElasticCounters {
        let flows = || self.flows.iter().map(|id| self.network.flow(*id));
        ElasticCounters {
            goodput_bytes: flows().map(|flow| flow.goodput_bytes).sum(),
            delivered_bytes: flows().map(|flow| flow.delivered_bytes).sum(),
            sojourn: self.network.sojourn(self.link).clone(),
        }
    }

    /// Takes what has arrived of the packets that were sent, which keep their order.
    fn take_arrived(&mut self, out: &mut Vec<PacketAtHop>) {
        let arrived = &self.network.delays(self.trains)[self.taken_arrivals..];
        self.taken_arrivals += arrived.len();
        for &(at, delay) in arrived {
            while let Some(packet) = self.train_packets_in_flight.pop_front() {
                if packet.time == at - delay {
                    out.push(PacketAtHop { time: at, ..packet });
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::DsField;

    fn elastic(flows: usize, receive_window: Option<u64>) -> ElasticPath {
        let link = LinkConfig {
            rate: Some(Rate::from_mbit(20)),
            queue_bytes: 100_000,
            delay: Span::from_millis(5),
            ..LinkConfig::default()
        };
        let flow = ElasticFlow { control: CongestionControl::Cubic, delay_back: Span::from_millis(15), receive_window };
        ElasticPath::new(link, vec![flow; flows], 3).unwrap()
    }

    #[test]
    fn greedy_connections_leave_nothing_and_small_windows_what_they_do_not_take() {
        let (from, to) = (Time::ZERO + Span::from_secs(5), Time::ZERO + Span::from_secs(10));
        let [greedy, bounded] =
            [None, Some(25_000)].map(|window| elastic(1, window).true_available(from, to).as_f64() / 1e6);
        println!("{greedy:.2} and {bounded:.2} Mbit/s");
        // A window of 17 full packets in 20.6 ms.
        assert!(greedy < 1.0 && (bounded - 10.0).abs() < 1.0, "{greedy}, {bounded}");
    }

    #[test]
    fn trains_arrive_in_the_order_of_the_link_and_take_from_the_connections_what_they_carry() {
        let mut elastic = elastic(4, None);
        let start = Time::ZERO + Span::from_secs(5);
        let mut arrived = 0;
        for train in 0..100 {
            let first = start + Span::from_millis(50) * train;
            let sent = |index: usize| PacketAtHop {
                index,
                flow: 0,
                size: 1500,
                ds_field: DsField::default(),
                time: first + Span::from_micros(10) * index as i64,
            };
            let packets: Vec<_> = (0..30).map(sent).collect();
            let arrivals: Vec<_> = elastic.pass_packets(&packets).into_iter().map(|packet| packet.time).collect();
            assert!(arrivals.is_sorted() && arrivals.iter().all(|time| *time > first + Span::from_millis(5)));
            arrived += arrivals.len();
        }
        let impact = elastic.measure_impact().unwrap();
        println!("{arrived} of 3000 arrived; {impact:?}");
        assert!(arrived > 1500 && (0.1..0.5).contains(&impact.goodput_loss_ratio));
    }
}
