//! Prague and DCTCP beside CUBIC, behind the coupled queues of DualPI2: what is published of them.

use kumade_link::LinkConfig;
use kumade_link::queue::{Discipline, DualPi2Config, Ecn, QueueConfig, QueueLimit};
use kumade_sim::network::{FlowConfig, FlowId, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

/// What a flow got in a minute, in Mbit/s, and how long its packets waited, in milliseconds.
struct FlowFigures {
    mbit: f64,
    mean_wait: f64,
    p99_wait: f64,
}

/// Bulk transfers behind DualPI2, at a rate in Mbit/s and a round trip in milliseconds.
fn run((rate, round_trip): (u64, i64), flows: &[TcpConfig]) -> Vec<FlowFigures> {
    let rate = Rate::from_mbit(rate);
    let half = Span::from_micros(round_trip * 500);
    let mut network = Network::new(1);
    let queue = QueueConfig { limit: QueueLimit::Packets(10_000), discipline: DualPi2Config::default().into() };
    let wire = LinkConfig { rate: Some(rate), delay: half, ..LinkConfig::default() };
    let link = network.add_link(wire, Some(queue)).unwrap();
    let mut add = |tcp: &TcpConfig| {
        let config = FlowConfig {
            delay_back: half,
            jitter: rate.time_for(1500),
            start_jitter: Span::from_millis(500),
            record_queueing: Some(link),
            ..FlowConfig::new(vec![link], TrafficSource::Tcp(*tcp))
        };
        network.add_flow(config).unwrap()
    };
    let ids: Vec<FlowId> = flows.iter().map(&mut add).collect();
    network.run_until(Time::ZERO + Span::from_secs(20));
    let before: Vec<_> =
        ids.iter().map(|id| (network.flow(*id), network.flow_queueing(*id).unwrap().clone())).collect();
    network.run_until(Time::ZERO + Span::from_secs(80));
    let figures = |(id, (statistics, queueing)): (&FlowId, &(_, _))| {
        let statistics: &kumade_sim::network::FlowStatistics = statistics;
        let waited = network.flow_queueing(*id).unwrap().since(queueing);
        FlowFigures {
            mbit: (network.flow(*id).delivered_bytes - statistics.delivered_bytes) as f64 * 8.0 / 60e6,
            mean_wait: waited.mean().as_secs_f64() * 1e3,
            p99_wait: waited.quantile(0.99).as_secs_f64() * 1e3,
        }
    };
    ids.iter().zip(&before).map(figures).collect()
}

/// "Window balance": on equal paths, the rates of one CUBIC and one Prague are within a factor of two of each other (De Schepper et al. 2022,
/// "Dual Queue Coupled AQM"; RFC 9332, section 1.2), while the L4S queue stays about its threshold of 1 ms and the
/// classic one about its target of 15 ms.
#[test]
fn prague_and_cubic_share_about_equally_behind_dualpi2() {
    let mut text = String::new();
    for rate in [20, 100] {
        for round_trip in [5, 10, 20, 50, 100] {
            let flows = [CongestionControl::Cubic, CongestionControl::Prague].map(TcpConfig::new);
            let [cubic, prague] = &run((rate, round_trip), &flows)[..] else { panic!("two flows") };
            let ratio = prague.mbit / cubic.mbit;
            text += &format!(
                "{rate} Mbit/s, {round_trip} ms: CUBIC {:.2}, Prague {:.2} Mbit/s, ratio {ratio:.2}; waits {:.2} ({:.2}), {:.2} ({:.2}) ms\n",
                cubic.mbit, prague.mbit, cubic.mean_wait, cubic.p99_wait, prague.mean_wait, prague.p99_wait
            );
        }
    }
    println!("{text}");
}
