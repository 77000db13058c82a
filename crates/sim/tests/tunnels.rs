//! What one TCP connection gets through a tunnel over TCP: the tunnel's own choice of connections over the simulator's TCP, in
//! both layers.

use sim::network::TcpConfig;
use sim::sites::{FlowConfig, FlowReport, PathModel, Plane, Sites, SitesConfig, TunnelModel};
use sim::tcp::congestion::Control;
use units::{Rate, Span, Time};

const RATE: Rate = Rate::from_bits_per_second(100_000_000);
const ONE_WAY: Span = Span::from_millis(10);
/// When the gateways have met.
const START: Span = Span::from_millis(500);

fn at(secs: f64) -> Time {
    Time::ZERO + START + Span::from_secs_f64(secs)
}

/// A bulk flow and an echo beside it, of packets of 128 bytes each 10 ms.
fn run(plane: Plane, loss: f64, seed: u64) -> [FlowReport; 2] {
    let paths = vec![PathModel { loss, known_rate: None, ..PathModel::new(RATE, ONE_WAY) }];
    let mut sites = Sites::new(&SitesConfig { paths, plane, seed }).unwrap();
    let start = Time::ZERO + START;
    sites.add_flow(FlowConfig { start, ..FlowConfig::tcp(TcpConfig::new(Control::Cubic)) }).unwrap();
    let small = Rate::from_bytes_over(128, Span::from_millis(10));
    sites.add_flow(FlowConfig { start, is_echoed: true, ..FlowConfig::udp(small, 128) }).unwrap();
    sites.measure(at(3.0), at(8.0)).try_into().unwrap()
}

fn mbit(report: &FlowReport) -> f64 {
    report.goodput().as_f64() / 1e6
}

/// 99th percentile of the echo's round trip.
fn p99(report: &FlowReport) -> Span {
    report.delays.quantile(0.99).unwrap()
}

#[test]
fn tunnels_over_tcp_fill_a_path_without_a_long_queue() {
    for model in [TunnelModel::tcp(Control::Cubic), TunnelModel::rake(Control::Cubic)] {
        let connections = model.connections;
        let [bulk, echo] = run(Plane::Tunnel(model), 0.0, 1);
        println!("{connections} connections: {:.1} Mbit/s, echo {}", mbit(&bulk), p99(&echo));
        assert!(mbit(&bulk) > 92.0 && bulk.out_of_order == 0);
        assert!(p99(&echo) < Span::from_millis(60));
    }
}

/// On many connections, a loss delays only what shares its connection.
#[test]
fn many_connections_get_twice_what_one_gets_where_packets_are_lost() {
    for loss in [0.001, 0.01] {
        let sum = |plane: &Plane| (1..=3).map(|seed| mbit(&run(plane.clone(), loss, seed)[0])).sum::<f64>();
        let [plain, rake] =
            [Plane::single(0, 1), Plane::Tunnel(TunnelModel::rake(Control::Cubic))].map(|plane| sum(&plane));
        println!("seeds 1 to 3, {loss}: {:.1} Mbit/s, {:.1} without a tunnel", rake / 3.0, plain / 3.0);
        assert!(rake > 2.0 * plain, "{loss}: {rake} of {plain}");
    }
}
