//! What a network in virtual time is to show: links filled, shares equal, seeds reproducing.
use kumade_link::queue::{CoDelConfig, Discipline, Ecn, QueueConfig, QueueLimit};
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Loss, PeriodLengths, Reordering, SizeMix};
use kumade_sim::network::{FlowConfig, FlowId, LinkId, Network, TcpConfig, TrafficSource};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};

fn link(mbit: u64, queue: Span) -> LinkConfig {
    let rate = Rate::from_mbit(mbit);
    let queue_bytes = rate.bytes_in(queue);
    LinkConfig { rate: Some(rate), queue_bytes, delay: Span::from_millis(1), ..LinkConfig::default() }
}

fn at(seconds: i64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// A flow with this round trip besides the link's delay of 1 ms.
fn flow(over: LinkId, tcp: TcpConfig, round_trip: Span) -> FlowConfig {
    let delay = round_trip / 2;
    FlowConfig { delay_out: delay, delay_back: delay, ..FlowConfig::new(vec![over], TrafficSource::Tcp(tcp)) }
}

/// Goodput of each flow between two moments, in Mbit/s.
fn throughput(network: &mut Network, from: Time, to: Time) -> Vec<f64> {
    let read =
        |network: &Network| -> Vec<u64> { network.flows().map(|flow| network.flow(flow).goodput_bytes).collect() };
    network.run_until(from);
    let before = read(network);
    network.run_until(to);
    let per = |(now, then): (u64, &u64)| (now - then) as f64 * 8.0 / (to - from).as_secs_f64() / 1e6;
    read(network).into_iter().zip(&before).map(per).collect()
}

fn dumbbell(seed: u64, mbit: u64, queue: Span, flows: &[(CongestionControl, Span)]) -> (Network, LinkId) {
    let mut network = Network::new(seed);
    let bottleneck = network.add_link(link(mbit, queue), None).unwrap();
    for (control, round_trip) in flows {
        let mut config = flow(bottleneck, TcpConfig::new(*control), *round_trip);
        config.start_jitter = Span::from_millis(500);
        config.jitter = Rate::from_mbit(mbit).time_for(1500);
        network.add_flow(config).unwrap();
    }
    (network, bottleneck)
}

#[test]
fn one_flow_of_any_controller_fills_a_link() {
    for (name, control) in CongestionControl::ALL {
        let round_trip = Span::from_millis(19);
        let (mut network, _) = dumbbell(1, 50, Span::from_millis(20), &[(control, round_trip)]);
        let got = throughput(&mut network, at(5), at(25))[0];
        let statistics = network.flow(network.flows().next().unwrap());
        println!("{name}: {got:.2} Mbit/s {statistics:?}");
        // The headers take 52 of 1500 bytes.
        let most = 50.0 * 1448.0 / 1500.0;
        assert!(got > 0.95 * most && got <= most * 1.001, "{name}: {got}");
        assert_eq!(statistics.tcp.timeouts, 0, "{name}");
    }
}

#[test]
fn like_flows_get_like_shares() {
    for control in [CongestionControl::NewReno, CongestionControl::Cubic] {
        let flows = vec![(control, Span::from_millis(19)); 8];
        let (mut network, link) = dumbbell(2, 80, Span::from_millis(20), &flows);
        let got = throughput(&mut network, at(10), at(60));
        let sum: f64 = got.iter().sum();
        let jain = sum * sum / (8.0 * got.iter().map(|one| one * one).sum::<f64>());
        let p95 = network.sojourn(link).quantile(0.95);
        println!("{control}: {got:.1?} Mbit/s, index {jain:.3}, {p95} in the queue at most for 95 %");
        assert!(jain > 0.97 && sum > 0.98 * 80.0 * 1448.0 / 1500.0, "{control}: {got:?}");
        assert!(p95 <= Span::from_millis(21), "{p95}");
    }
}

/// Reno's share falls with the round trip (RFC 5348 and its kin): the shorter one has more than twice as much.
#[test]
fn the_shorter_round_trip_gets_more() {
    let flows =
        [(CongestionControl::NewReno, Span::from_millis(9)), (CongestionControl::NewReno, Span::from_millis(79))];
    let (mut network, _) = dumbbell(3, 20, Span::from_millis(20), &flows);
    let got = throughput(&mut network, at(10), at(100));
    println!("{got:.1?} Mbit/s");
    assert!(got[0] > 2.0 * got[1] && got[1] > 0.5, "{got:?}");
}

#[test]
fn a_seed_gives_the_same_run_bit_by_bit_however_often_it_is_stopped() {
    let flows = CongestionControl::ALL.map(|(_, control)| (control, Span::from_millis(19)));
    let run = |seed, steps: i64| {
        let (mut network, link) = dumbbell(seed, 30, Span::from_millis(20), &flows);
        for step in 1..=steps {
            network.run_until(Time::ZERO + Span::from_secs(6) * step / steps);
        }
        let flows: Vec<_> = network.flows().map(|flow| network.flow(flow)).collect();
        (flows, *network.ledger(link).packet_counters(), network.event_count(), network.to_string())
    };
    assert_eq!(run(7, 1), run(7, 1000));
    assert_ne!(run(7, 1).0, run(8, 1).0);
    assert_eq!(run(7, 1).3, "network of 1 links and 8 flows, seed 7");
}

/// Mathis, Semke, Mahdavi and Ott 1997: where losses are random and few, throughput is C · segment / (round trip · √p),
/// C = √(3/2) with every segment acknowledged.
#[test]
fn random_loss_gives_reno_the_throughput_of_the_square_root_law() {
    for loss in [0.0003, 0.001, 0.003, 0.01] {
        let mut network = Network::new(11);
        let lossy = LinkConfig { loss: Loss::Independent(loss), ..link(1000, Span::from_millis(50)) };
        let lossy = network.add_link(lossy, None).unwrap();
        let tcp = TcpConfig { segments_per_ack: 1, ..TcpConfig::new(CongestionControl::NewReno) };
        network.add_flow(flow(lossy, tcp, Span::from_millis(49))).unwrap();
        let got = throughput(&mut network, at(20), at(220))[0];
        let law = 1.5f64.sqrt() * 1448.0 * 8.0 / (0.05 * loss.sqrt()) / 1e6;
        println!("{loss}: {got:.2} Mbit/s, by the law {law:.2}");
        assert!((0.8..1.25).contains(&(got / law)), "{loss}: {got} {law}");
    }
}

#[test]
fn a_finite_connection_ends_with_every_byte_delivered_once() {
    let mut network = Network::new(5);
    let lossy = LinkConfig { loss: Loss::Independent(0.02), ..link(10, Span::from_millis(50)) };
    let lossy = network.add_link(lossy, None).unwrap();
    let back =
        network.add_link(LinkConfig { loss: Loss::Independent(0.02), ..link(1, Span::from_millis(50)) }, None).unwrap();
    let tcp = TcpConfig { bytes: Some(1_000_001), ..TcpConfig::new(CongestionControl::Cubic) };
    let config = FlowConfig { back: vec![back], ..flow(lossy, tcp, Span::from_millis(20)) };
    let id = network.add_flow(config.clone()).unwrap();
    let nothing = TrafficSource::Tcp(TcpConfig { bytes: Some(0), ..tcp });
    let empty = network.add_flow(FlowConfig { source: nothing, start: at(1), ..config }).unwrap();
    assert_eq!([id, empty], [0, 1].map(FlowId::from_index));
    network.run_until(at(60));
    assert_eq!((network.flow(empty).sent_packets, network.flow(empty).finished), (0, Some(at(1))));
    let statistics = network.flow(id);
    assert_eq!(statistics.goodput_bytes, 1_000_001);
    assert!(statistics.finished.is_some_and(|end| end < at(30)), "{statistics:?}");
    let events = network.event_count();
    network.run_until(at(120));
    assert_eq!(network.event_count(), events, "nothing moves any more");
}

#[test]
fn a_stopped_flow_leaves_the_link_to_the_other() {
    let (mut network, link) =
        dumbbell(4, 20, Span::from_millis(20), &[(CongestionControl::Cubic, Span::from_millis(19))]);
    let config = flow(link, TcpConfig::new(CongestionControl::Cubic), Span::from_millis(19));
    network.add_flow(FlowConfig { start: at(2), stop: Some(at(12)), ..config }).unwrap();
    let shared = throughput(&mut network, at(8), at(12));
    let alone = throughput(&mut network, at(16), at(20));
    println!("{shared:.1?}, then {alone:.1?}");
    assert!(shared[1] > 3.0 && alone[1] == 0.0 && alone[0] > 18.5, "{shared:?} {alone:?}");
    assert!(network.flow(network.flows().last().unwrap()).finished.is_some_and(|end| end < at(13)));
}

/// RFC 3168: marks slow a sender as losses do, and nothing need be sent again.
#[test]
fn marks_hold_a_queue_short_without_losses() {
    let mut network = Network::new(6);
    let codel = CoDelConfig { ecn: true, ..CoDelConfig::default() };
    let queue = QueueConfig { limit: QueueLimit::Packets(2000), discipline: Discipline::CoDel(codel) };
    let marking = network.add_link(link(50, Span::ZERO), Some(queue)).unwrap();
    let tcp = TcpConfig { ecn: Ecn::Ect0, ..TcpConfig::new(CongestionControl::NewReno) };
    let id = network.add_flow(flow(marking, tcp, Span::from_millis(19))).unwrap();
    let got = throughput(&mut network, at(5), at(25))[0];
    let (statistics, counters) = (network.flow(id), *network.ledger(marking).packet_counters());
    println!("{got:.1} Mbit/s, {counters:?}, {statistics:?}");
    assert_eq!((statistics.tcp.retransmissions, counters.aqm_dropped.packets), (0, 0));
    assert!(counters.marked.packets >= statistics.tcp.reductions && statistics.tcp.reductions > 10);
    assert!(got > 40.0 && network.sojourn(marking).quantile(0.5) < Span::from_millis(15));
}

/// A source with a line of its own no faster than the link never fills the link's queue.
#[test]
fn an_access_line_spaces_what_a_source_sends() {
    let mut network = Network::new(9);
    let bottleneck = network.add_link(link(50, Span::from_millis(50)), None).unwrap();
    let tcp = TcpConfig {
        access_rate: Some(Rate::from_mbit(49)),
        receive_window: Some(1448 * 500),
        ..TcpConfig::new(CongestionControl::NewReno)
    };
    network.add_flow(flow(bottleneck, tcp, Span::from_millis(19))).unwrap();
    let got = throughput(&mut network, at(5), at(15))[0];
    assert!((got / (49.0 * 1448.0 / 1500.0) - 1.0).abs() < 0.001, "{got}");
    assert_eq!(network.sojourn(bottleneck).quantile(1.0), Span::ZERO);
}

#[test]
fn plain_sources_send_at_their_rates_and_tcp_takes_the_rest() {
    let rate = Rate::from_mbit(4);
    let kinds = [
        (CrossKind::Constant { rate, size: 1000 }, 0.01),
        (CrossKind::Poisson { rate, sizes: SizeMix::imix() }, 0.05),
        (
            CrossKind::OnOff {
                rate: Rate::from_mbit(8),
                size: 1000,
                on: Span::from_millis(50),
                off: Span::from_millis(50),
                periods: PeriodLengths::Exponential,
            },
            0.1,
        ),
    ];
    for (kind, tolerance) in kinds {
        let (mut network, bottleneck) =
            dumbbell(1, 20, Span::from_millis(50), &[(CongestionControl::Cubic, Span::from_millis(9))]);
        let cross = CrossConfig { kind: kind.clone(), start: Time::ZERO, phase: 0.0, seed: 1 };
        let id = network
            .add_flow(FlowConfig { start: at(1), ..FlowConfig::new(vec![bottleneck], TrafficSource::Udp(cross)) })
            .unwrap();
        let tcp = throughput(&mut network, at(5), at(65))[0];
        let statistics = network.flow(id);
        let sent = network.ledger(bottleneck).packet_counters().offered.bytes;
        let mbit = statistics.delivered_bytes as f64 * 8.0 / 64.0 / 1e6;
        println!("{kind:?}: {mbit:.2} Mbit/s, beside TCP's {tcp:.2}");
        assert!(sent > 0 && (mbit / 4.0 - 1.0).abs() < tolerance + 0.03, "{kind:?}: {mbit}");
        assert!((tcp / (16.0 * 1448.0 / 1500.0) - 1.0).abs() < 0.05, "{kind:?}: {tcp}");
        assert_eq!(statistics.goodput_bytes, statistics.delivered_bytes - 28 * statistics.delivered_packets);
    }
}

#[test]
fn a_link_that_reorders_and_duplicates_costs_a_connection_little() {
    let mut network = Network::new(12);
    let reordering = Reordering { probability: 0.01, extra: Span::from_millis(4) };
    let disordered = LinkConfig { reordering, duplication: 0.01, ..link(50, Span::from_millis(20)) };
    let disordered = network.add_link(disordered, None).unwrap();
    let id =
        network.add_flow(flow(disordered, TcpConfig::new(CongestionControl::Cubic), Span::from_millis(19))).unwrap();
    let got = throughput(&mut network, at(5), at(25))[0];
    println!("{got:.2} Mbit/s, {:?}", network.flow(id));
    // A hundredth of the link goes to the copies of nothing: they are made behind its rate.
    assert!(got > 0.97 * 50.0 * 1448.0 / 1500.0, "{got}");
}
