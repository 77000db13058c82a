//! CUBIC beside Prague, of which the packets are ECT(1), at one bottleneck: behind the coupled queues of DualPI2 what is published of
//! them, behind fair share what it promises.

use kumade_link::LinkConfig;
use kumade_link::queue::{Discipline, DualPi2Config, FairShareConfig, QueueConfig, QueueLimit};
use kumade_sim::network::{FlowConfig, FlowId, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

/// What a flow got, in Mbit/s, and how long its packets waited, in milliseconds.
#[derive(Debug)]
struct FlowFigures {
    mbit: f64,
    mean_wait: f64,
    p99_wait: f64,
}

const WARM_UP: Span = Span::from_secs(60);
const DURATION: Span = Span::from_secs(40);

/// Bulk transfers at a bottleneck of this rate and round trip.
fn run(discipline: Discipline, rate: Rate, round_trip: Span, controls: &[CongestionControl]) -> Vec<FlowFigures> {
    let mut network = Network::new(1);
    let queue = QueueConfig { limit: QueueLimit::Packets(10_000), discipline };
    let wire = LinkConfig { rate: Some(rate), delay: round_trip / 2, ..LinkConfig::default() };
    let link = network.add_link(wire, Some(queue)).unwrap();
    let add = |control: &CongestionControl| {
        let config = FlowConfig {
            delay_back: round_trip / 2,
            jitter: rate.time_for(1500),
            start_jitter: Span::from_millis(500),
            record_queueing: Some(link),
            ..FlowConfig::new(vec![link], TrafficSource::Tcp(TcpConfig::new(*control)))
        };
        network.add_flow(config).unwrap()
    };
    let flows: Vec<FlowId> = controls.iter().map(add).collect();
    let read = |network: &Network, flow: FlowId| {
        (network.flow(flow).delivered_bytes, network.flow_queueing(flow).unwrap().clone())
    };
    network.run_until(Time::ZERO + WARM_UP);
    let before: Vec<_> = flows.iter().map(|flow| read(&network, *flow)).collect();
    network.run_until(Time::ZERO + WARM_UP + DURATION);
    let figures = |(flow, (bytes, queueing)): (&FlowId, &(u64, _))| {
        let (bytes_after, queueing_after) = read(&network, *flow);
        let waited = queueing_after.since(queueing);
        FlowFigures {
            mbit: Rate::from_bytes_over(bytes_after - bytes, DURATION).as_f64() / 1e6,
            mean_wait: waited.mean().as_secs_f64() * 1e3,
            p99_wait: waited.quantile(0.99).as_secs_f64() * 1e3,
        }
    };
    flows.iter().zip(&before).map(figures).collect()
}

const CUBIC_AND_PRAGUE: [CongestionControl; 2] = [CongestionControl::Cubic, CongestionControl::Prague];

/// "Window balance": on equal paths the rates of CUBIC and Prague are within a factor of two of each other (RFC 9332, section 1.2; De
/// Schepper et al. 2022), while packets of the one wait for about the target of 15 ms, those of the other for about the threshold of 1 ms
/// at most. CUBIC's queue is empty at times on long paths, where one flow alone has nothing to fill it.
#[test]
fn prague_and_cubic_share_about_equally_behind_dualpi2() {
    for (rate, round_trip) in [(20, 5), (20, 20), (20, 100), (100, 5), (100, 20), (100, 100)] {
        let (rate, round_trip) = (Rate::from_mbit(rate), Span::from_millis(round_trip));
        let seen = run(DualPi2Config::default().into(), rate, round_trip, &CUBIC_AND_PRAGUE);
        println!("{rate}, {round_trip}: {seen:?}");
        let [cubic, prague] = &seen[..] else { panic!("two flows") };
        assert!((0.5..2.0).contains(&(prague.mbit / cubic.mbit)), "{rate}, {round_trip}: {seen:?}");
        assert!((7.0..18.0).contains(&cubic.mean_wait), "{rate}, {round_trip}: {seen:?}");
        assert!(prague.p99_wait < 1.5, "{rate}, {round_trip}: {seen:?}");
    }
}

/// Where nobody else is, marks for what packets waited keep the queue short and the link full; and shares are equal among several.
#[test]
fn fair_share_keeps_the_link_full_for_prague_alone_and_shares_equal_among_several() {
    let (rate, round_trip) = (Rate::from_mbit(100), Span::from_millis(20));
    let alone = run(FairShareConfig::default().into(), rate, round_trip, &[CongestionControl::Prague]);
    assert!(alone[0].mbit > 95.0 && alone[0].p99_wait < 2.0, "{alone:?}");
    let controls = [[CongestionControl::Cubic; 4], [CongestionControl::Prague; 4]].concat();
    let several = run(FairShareConfig::default().into(), rate, round_trip, &controls);
    assert!(several.iter().all(|flow| (0.85..1.15).contains(&(flow.mbit / 12.5))), "{several:.2?}");
    assert!(several[4..].iter().all(|flow| flow.p99_wait < 1.0), "{several:.2?}");
}

/// Equal shares at each delay (Jain's index of at least 0.99), and no packet of the L4S flow waits for more than 1 ms, or two packets'
/// time where that is more.
#[test]
fn fair_share_gives_prague_and_cubic_equal_shares_and_prague_no_queue() {
    let mut wrong = Vec::new();
    for (rate, round_trip) in [5, 20, 100].into_iter().flat_map(|rate| [5, 10, 20, 50, 100].map(|delay| (rate, delay)))
    {
        let (rate, round_trip) = (Rate::from_mbit(rate), Span::from_millis(round_trip));
        let seen = run(FairShareConfig::default().into(), rate, round_trip, &CUBIC_AND_PRAGUE);
        let (sum, squares) =
            seen.iter().fold((0.0, 0.0), |(sum, squares), flow| (sum + flow.mbit, squares + flow.mbit * flow.mbit));
        let jain = sum * sum / (2.0 * squares);
        let bound = (2.0 * rate.time_for(1500).as_secs_f64() * 1e3).max(1.0);
        println!("{rate}, {round_trip}: {jain:.4}, {:.2} of {bound:.2} ms, {seen:.2?}", seen[1].p99_wait);
        if jain < 0.99 || seen[1].p99_wait > bound {
            wrong.push((rate, round_trip));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
