//! What one TCP connection gets of two paths at once, by how the far gateway restores the order of its packets.
//!
//! Both directions pass gateways that divide packets in the ratio of the paths' rates. Anchors, of one CUBIC flow: plain
//! division in the kernel, 17 % of the sum over 8 Mbit/s at 0 ms and 8 Mbit/s at 25 ms, 13 % over 8/10 and 1.5/50, 54 %
//! over 100/10 and 100/35; with resequencing by a timer only 56 % of 8/0 and 8/25 where one packet in a thousand is
//! lost; MPTCP 98, 90 and 94 %.

use super::bonded::{Bonded, Record, Rule};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Loss, SizeMix};
use kumade_sim::network::{FlowConfig, GatewaysId, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

/// Two paths: their rates in kbit/s and their delays in ms, the ratio in which packets are divided, how many of them are
/// lost, and what the exact rule is to make of them at least.
struct Paths {
    rates: [u64; 2],
    delays: [i64; 2],
    weights: [i64; 2],
    loss: f64,
    min_used_fraction: f64,
}

const RULES: [Rule; 4] = [Rule::None, Rule::Timer, Rule::Minimum, Rule::Exact];

fn paths() -> Vec<Paths> {
    let paths = |rates, delays, weights, loss, bar| Paths { rates, delays, weights, loss, min_used_fraction: bar };
    vec![
        paths([8000, 8000], [0, 0], [1, 1], 0.0, 0.97),
        paths([8000, 8000], [50, 50], [1, 1], 0.0, 0.93),
        paths([8000, 8000], [100, 100], [1, 1], 0.0, 0.93),
        paths([8000, 8000], [0, 25], [1, 1], 0.0, 0.95),
        paths([8000, 8000], [100, 50], [1, 1], 0.0, 0.95),
        paths([8000, 1500], [10, 50], [16, 3], 0.0, 0.92),
        paths([100_000, 100_000], [10, 35], [1, 1], 0.0, 0.93),
        paths([300_000, 80_000], [5, 5], [15, 4], 0.0, 0.90),
        paths([8000, 8000], [0, 25], [1, 1], 0.001, 0.88),
    ]
}

impl Paths {
    /// One direction. The queue of each path holds what the path's round trip does, but at least 100 packets.
    fn gateways(
        &self,
        network: &mut Network,
        rule: Rule,
        weights: [i64; 2],
        record: &Rc<RefCell<Record>>,
    ) -> GatewaysId {
        let links = self.rates.into_iter().zip(self.delays).map(|(rate, delay)| {
            let (rate, delay) = (Rate::from_bits_per_second(rate * 1000), Span::from_millis(delay));
            let queue_bytes = rate.bytes_in(delay * 2).max(150_000);
            let loss = if self.loss > 0.0 { Loss::Independent(self.loss) } else { Loss::None };
            let config = LinkConfig { rate: Some(rate), delay, queue_bytes, loss, ..LinkConfig::default() };
            network.add_link(config, None).unwrap()
        });
        let links = links.collect();
        network.add_gateways(links, Box::new(Bonded::new(rule, weights, record.clone())))
    }

    /// Acknowledgements take the path with less delay.
    fn weights_back(&self) -> [i64; 2] {
        if self.delays[0] <= self.delays[1] { [1, 0] } else { [0, 1] }
    }

    /// What the paths can carry of a flow at most, in payload bits per second.
    fn max_payload_rate(&self, tcp: &TcpConfig, rule: Rule) -> f64 {
        let sum: u64 = self.rates.iter().sum();
        sum as f64 * 1000.0 * f64::from(tcp.segment_bytes) / f64::from(tcp.packet_bytes() + rule.overhead())
    }

    /// How long a run is: for about as many packets.
    fn seconds(&self) -> i64 {
        if self.rates.iter().sum::<u64>() < 50_000 { 80 } else { 10 }
    }

    fn name(&self) -> String {
        let [one, other] = [0, 1].map(|path| format!("{}/{}", self.rates[path] as f64 / 1000.0, self.delays[path]));
        let loss = if self.loss > 0.0 { format!(", {} % lost", self.loss * 100.0) } else { String::new() };
        format!("{one} + {other}{loss}")
    }
}

/// A connection with packets of 1500 bytes on the paths, its headers and those of the gateways included.
fn tcp(rule: Rule) -> TcpConfig {
    let tcp = TcpConfig::new(CongestionControl::Cubic);
    TcpConfig { segment_bytes: tcp.segment_bytes - rule.overhead(), ..tcp }
}

struct Outcome {
    /// Of what the paths can carry.
    used_fraction: f64,
    /// Packets in the direction of the data.
    out_of_order: u64,
    longest_wait: Span,
}

fn run(paths: &Paths, rule: Rule) -> Outcome {
    let mut network = Network::new(1);
    let [out, back] = [0, 1].map(|_| Rc::new(RefCell::new(Record::default())));
    let gateways = Some(paths.gateways(&mut network, rule, paths.weights, &out));
    let gateways_back = Some(paths.gateways(&mut network, rule, paths.weights_back(), &back));
    let tcp = tcp(rule);
    let jitter = Rate::from_bits_per_second(paths.rates[0] * 1000).time_for(1500);
    let config = FlowConfig { gateways, gateways_back, jitter, ..FlowConfig::new(Vec::new(), TrafficSource::Tcp(tcp)) };
    let flow = network.add_flow(config).unwrap();
    let (from, to) = (Span::from_secs(10), Span::from_secs(10 + paths.seconds()));
    network.run_until(Time::ZERO + from);
    let before = network.flow(flow).goodput_bytes;
    network.run_until(Time::ZERO + to);
    let goodput = (network.flow(flow).goodput_bytes - before) as f64 * 8.0 / (to - from).as_secs_f64();
    let used = goodput / paths.max_payload_rate(&tcp, rule);
    let record = out.borrow();
    let record = &record.flows[&flow.label()];
    Outcome {
        used_fraction: used,
        out_of_order: record.out_of_order,
        longest_wait: record.waits.iter().copied().max().unwrap(),
    }
}

/// How long packets of a sparse flow wait beside a connection, where one in a hundred is lost: the longest, and the
/// 99th percentile.
fn sparse_flow_waits(rule: Rule) -> [Span; 2] {
    let paths = Paths { rates: [8000, 8000], delays: [0, 25], weights: [1, 1], loss: 0.01, min_used_fraction: 0.0 };
    let mut network = Network::new(1);
    let record = Rc::new(RefCell::new(Record::default()));
    let gateways = Some(paths.gateways(&mut network, rule, paths.weights, &record));
    let tcp = FlowConfig { gateways, ..FlowConfig::new(Vec::new(), TrafficSource::Tcp(tcp(rule))) };
    network.add_flow(tcp).unwrap();
    let kind = CrossKind::Poisson { rate: Rate::from_bits_per_second(32_000), sizes: SizeMix::fixed(200) };
    let calls = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 1 };
    let calls = FlowConfig { gateways, ..FlowConfig::new(Vec::new(), TrafficSource::Udp(calls)) };
    let flow = network.add_flow(calls).unwrap();
    network.run_until(Time::ZERO + Span::from_secs(200));
    let mut waits = record.borrow().flows[&flow.label()].waits.clone();
    waits.sort();
    [waits[waits.len() - 1], waits[waits.len() * 99 / 100]]
}

#[test]
fn table_of_bonded_paths() {
    let mut text = String::from("one CUBIC flow, of what the paths can carry besides headers; a run of 80 or 10 s\n\n");
    writeln!(text, "{:26}  plain  timer  minimum  exact      bar   longest wait", "Mbit/s/ms").unwrap();
    for paths in paths() {
        let outcomes = RULES.map(|rule| run(&paths, rule));
        let [plain, timer, minimum, exact] = &outcomes;
        let [p, t, m, e] = [plain, timer, minimum, exact].map(|outcome| outcome.used_fraction * 100.0);
        let (name, bar) = (paths.name(), paths.min_used_fraction * 100.0);
        let wait = exact.longest_wait.as_secs_f64() * 1000.0;
        writeln!(text, "{name:26} {p:4.0} % {t:4.0} % {m:6.0} % {e:6.1} % {bar:4.0} % {wait:9.1} ms").unwrap();
        assert_eq!(exact.out_of_order, 0, "{name}: packets out of order");
        assert!(exact.used_fraction >= paths.min_used_fraction, "{name}: {}", exact.used_fraction);
        let best = outcomes.iter().map(|outcome| outcome.used_fraction).fold(0.0, f64::max);
        assert!(exact.used_fraction > best - 0.01, "{name}: {} against {best}", exact.used_fraction);
    }
    writeln!(text, "\nsparse flow beside it, 8/0 + 8/25 with 1 % lost: longest wait, 99th percentile").unwrap();
    for (name, rule) in [("timer", Rule::Timer), ("minimum", Rule::Minimum), ("exact", Rule::Exact)] {
        let [longest, most] = sparse_flow_waits(rule).map(|wait| wait.as_secs_f64() * 1000.0);
        writeln!(text, "{name:8} {longest:6.1} ms {most:6.1} ms").unwrap();
    }
    insta::assert_snapshot!("bonded_paths", text);
}
