//! What a network in virtual time is to show: links filled, shares equal, seeds reproducing.
use link::LinkConfig;
use sim::network::{FlowConfig, LinkId, Network, Source, TcpConfig};
use sim::tcp::congestion::Control;
use units::{Rate, Span, Time};

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
    FlowConfig { delay_out: delay, delay_back: delay, ..FlowConfig::new(vec![over], Source::Tcp(tcp)) }
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

fn dumbbell(seed: u64, mbit: u64, queue: Span, flows: &[(Control, Span)]) -> (Network, LinkId) {
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
    for (name, control) in Control::ALL {
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
