//! What one TCP connection gets through a tunnel over TCP: the tunnel's own choice of connections over the simulator's TCP, in
//! both layers.

use kumade_multipath::TcpOverTcpTuning;
use kumade_sim::network::TcpConfig;
use kumade_sim::sites::{FlowConfig, FlowReport, PathChange, PathModel, Plane, Sites, SitesConfig, TunnelModel};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_sim::tcp::{LossDetection, RecoveryConfig};
use kumade_units::{Rate, Span, Time};

const ONE_WAY: Span = Span::from_millis(10);
/// When the gateways have met.
const START: Span = Span::from_millis(500);

/// What is run, and how the hosts find losses.
struct World {
    mbit: u64,
    loss: f64,
    plane: Plane,
    detection: LossDetection,
}

fn at(secs: f64) -> Time {
    Time::ZERO + START + Span::from_secs_f64(secs)
}

impl World {
    fn new(mbit: u64, loss: f64, plane: Plane) -> Self {
        World { mbit, loss, plane, detection: LossDetection::RackTlp }
    }

    /// A bulk flow.
    fn bulk(&self, seed: u64) -> Sites {
        let path = PathModel::new(Rate::from_mbit(self.mbit), ONE_WAY);
        let queue_bytes = path.rate.bytes_in(ONE_WAY * 2);
        let paths = vec![PathModel { loss: self.loss, queue_bytes, configured_rate: None, ..path }];
        let mut sites = Sites::new(&SitesConfig { paths, plane: self.plane.clone(), seed }).unwrap();
        let recovery = RecoveryConfig { detection: self.detection, ..RecoveryConfig::default() };
        let tcp = TcpConfig { recovery, ..TcpConfig::new(CongestionControl::Cubic) };
        sites.add_flow(FlowConfig { start: Time::ZERO + START, ..FlowConfig::tcp(tcp) }).unwrap();
        sites
    }

    /// A bulk flow, and an echo of packets of 128 bytes each 10 ms beside it.
    fn sites(&self, seed: u64) -> Sites {
        let mut sites = self.bulk(seed);
        let start = Time::ZERO + START;
        let small = Rate::from_bytes_over(128, Span::from_millis(10));
        sites.add_flow(FlowConfig { start, is_echoed: true, ..FlowConfig::udp(small, 128) }).unwrap();
        sites
    }

    fn run(&self, seed: u64, seconds: f64) -> [FlowReport; 2] {
        self.sites(seed).measure(at(3.0), at(3.0 + seconds)).try_into().unwrap()
    }

    /// Mean goodput in Mbit/s, and the longest 99th percentile of the echo's round trips, of seeds 1 to 3.
    fn summary(&self, seconds: f64) -> (f64, Span) {
        let runs: Vec<_> = (1..=3).map(|seed| self.run(seed, seconds)).collect();
        let goodput = runs.iter().map(|[bulk, _]| mbit(bulk)).sum::<f64>() / runs.len() as f64;
        (goodput, runs.iter().map(|[_, echo]| p99(echo)).max().unwrap())
    }
}

fn mbit(report: &FlowReport) -> f64 {
    report.goodput().as_f64() / 1e6
}

fn p99(report: &FlowReport) -> Span {
    report.delays.quantile(0.99).unwrap()
}

fn rake() -> TunnelModel {
    TunnelModel::rake(CongestionControl::Cubic)
}

/// On hosts and gateways without SACK.
fn old_style(tunnel: TunnelModel) -> World {
    let recovery = RecoveryConfig { detection: LossDetection::NewReno, ..tunnel.tcp.recovery };
    let tunnel = TunnelModel { tcp: TcpConfig { recovery, ..tunnel.tcp }, ..tunnel };
    World { detection: LossDetection::NewReno, ..World::new(20, 0.01, Plane::Tunnel(tunnel)) }
}

/// One connection with a fixed timeout of 3 s and a buffer of its own: what the paper (Nakagawa, Nakamura: *TCP over TCP*)
/// looks at.
fn plain_of_three_seconds() -> TunnelModel {
    let tunnel = TunnelModel::tcp(CongestionControl::Cubic);
    let (min_timeout, max_timeout) = (Span::from_secs(3), Span::from_secs(3));
    let recovery = RecoveryConfig { min_timeout, max_timeout, ..tunnel.tcp.recovery };
    TunnelModel {
        tcp: TcpConfig { recovery, ..tunnel.tcp },
        tuning: TcpOverTcpTuning {
            limits_in_flight: false,
            duplicates_sparse_flows: false,
            drops_retransmissions: false,
            drops_stale_datagrams: false,
        },
        has_aqm: false,
        unsent_bytes: Some(256 << 10),
        ..tunnel
    }
}

#[test]
fn tunnels_over_tcp_fill_a_path_without_a_long_queue() {
    for tunnel in [TunnelModel::tcp(CongestionControl::Cubic), rake()] {
        let connections = tunnel.connections;
        let [bulk, echo] = World::new(100, 0.0, Plane::Tunnel(tunnel)).run(1, 5.0);
        println!("{connections} connections, seed 1: {:.1} Mbit/s, echo {}", mbit(&bulk), p99(&echo));
        assert!(mbit(&bulk) > 92.0 && bulk.out_of_order == 0);
        assert!(p99(&echo) < Span::from_millis(45));
    }
}

/// Fourteen connections share five packets of queue for each: fewer of them carry bulk traffic. How soon that is so differs with whatever
/// changes a packet's time, so that several slow paths are looked at.
#[test]
fn many_connections_fill_a_slow_path_too() {
    for (mbit, loss, wanted) in [(20, 0.0, 15.5), (20, 0.01, 15.0)] {
        let (rake, echo) = World::new(mbit, loss, Plane::Tunnel(rake())).summary(10.0);
        println!("seeds 1 to 3: {rake:.2} of {mbit} Mbit/s, {loss} lost; echo {echo}");
        assert!(rake > wanted);
    }
    let shares = [4, 5, 6, 7].map(|rate| {
        let [bulk, echo] = World::new(rate, 0.0, Plane::Tunnel(rake())).run(1, 10.0);
        println!("seed 1: {:.2} of {rate} Mbit/s; echo {}", mbit(&bulk), p99(&echo));
        mbit(&bulk) / rate as f64
    });
    let mean = shares.iter().sum::<f64>() / 4.0;
    assert!(mean > 0.65 && shares.iter().all(|share| *share > 0.55), "{shares:?}");
}

/// What is on its way counts against what may be open, and not what has arrived behind a lost segment: else a connection would be
/// held back during each recovery.
#[test]
fn one_connection_gets_nearly_what_plain_tcp_does_where_packets_are_lost() {
    let goodput = |plane: Plane| {
        let world = World::new(100, 0.001, plane);
        (1..=6).map(|seed| mbit(&world.bulk(seed).measure(at(3.0), at(33.0))[0])).sum::<f64>() / 6.0
    };
    let (plain, tunneled) =
        (goodput(Plane::single(0, 1)), goodput(Plane::Tunnel(TunnelModel::tcp(CongestionControl::Cubic))));
    println!("seeds 1 to 6: {tunneled:.1} Mbit/s, {plain:.1} without a tunnel");
    assert!(tunneled > 0.87 * plain);
}

/// On many connections, a loss delays only what shares its connection.
#[test]
fn many_connections_get_twice_what_one_gets_where_packets_are_lost() {
    for loss in [0.001, 0.01] {
        let (plain, _) = World::new(100, loss, Plane::single(0, 1)).summary(4.0);
        let (rake, echo) = World::new(100, loss, Plane::Tunnel(rake())).summary(4.0);
        println!("seeds 1 to 3, {loss}: {rake:.1} Mbit/s, {plain:.1} without a tunnel; echo {echo}");
        assert!(rake > 2.0 * plain, "{loss}: {rake} of {plain}");
        assert!(echo < Span::from_millis(50), "{echo}");
    }
}

/// Without SACK, a long timeout below holds all up for its length again and again; one that is shorter than what the hosts have
/// does not.
#[test]
fn what_collapses_with_a_long_timeout_below_does_not_with_one_that_adapts() {
    let (collapsed, late) = old_style(plain_of_three_seconds()).summary(15.0);
    let (adaptive, echo) = old_style(TunnelModel::tcp(CongestionControl::Cubic)).summary(15.0);
    let (rake, rake_echo) = old_style(rake()).summary(15.0);
    println!("seeds 1 to 3: {collapsed:.2}, {adaptive:.2}, {rake:.2} Mbit/s; echo {late}, {echo}, {rake_echo}");
    assert!(adaptive > 2.0 * collapsed && rake > 4.0 * collapsed);
    assert!(late > Span::from_secs(2) && echo < late / 8 && rake_echo < late / 20);
}

#[test]
fn data_flows_soon_after_an_outage_unless_the_timeout_below_is_long() {
    let recovery = |tunnel: TunnelModel| {
        let mut sites = World::new(20, 0.0, Plane::Tunnel(tunnel)).sites(1);
        sites.schedule(at(3.0), 0, PathChange::Cut);
        sites.schedule(at(3.5), 0, PathChange::Restore);
        sites.measure(at(2.0), at(10.0))[0].recovery.unwrap()
    };
    let [long, one, many] =
        [plain_of_three_seconds(), TunnelModel::tcp(CongestionControl::Cubic), rake()].map(recovery);
    println!("seed 1: {long}, {one}, {many}");
    assert!(long > Span::from_secs(2) && one < Span::from_millis(600) && many < Span::from_millis(600));
}

/// The connection below says by itself when the path is back: nothing waits for an answer to a probe then, and the connection
/// inside is not stopped for so long that it repeats what is on its way.
#[test]
fn a_short_outage_costs_little_more_than_itself() {
    for (millis, wanted) in [(50, 65.0), (100, 55.0)] {
        let mut sites = World::new(100, 0.0, Plane::Tunnel(TunnelModel::tcp(CongestionControl::Cubic))).sites(1);
        let restored = at(4.137) + Span::from_millis(millis);
        sites.schedule(at(4.137), 0, PathChange::Cut);
        sites.schedule(restored, 0, PathChange::Restore);
        let [bulk, _] = sites.measure(at(4.137), at(5.137)).try_into().unwrap();
        println!("seed 1, {millis} ms: {:.1} Mbit/s in that second", mbit(&bulk));
        assert!(mbit(&bulk) > wanted && bulk.tcp.retransmissions < 50, "{}", bulk.tcp.retransmissions);
    }
}

/// What a camera or a telephone sent during the outage is of no use after it, and would keep what it sends now waiting.
#[test]
fn after_an_outage_datagrams_are_sent_newest_first() {
    let median = |drops_stale: bool, tunnel: TunnelModel| {
        let adaptation = TcpOverTcpTuning { drops_stale_datagrams: drops_stale, ..tunnel.tuning };
        let mut sites = World::new(50, 0.0, Plane::Tunnel(TunnelModel { tuning: adaptation, ..tunnel })).bulk(1);
        let start = Time::ZERO + START;
        sites.add_flow(FlowConfig { start, ..FlowConfig::udp(Rate::from_mbit(20), 1200) }).unwrap();
        sites.schedule(at(2.0), 0, PathChange::Cut);
        sites.schedule(at(5.0), 0, PathChange::Restore);
        // Half a second after it, data flows again.
        let [_, datagrams] = sites.measure(at(5.5), at(6.5)).try_into().unwrap();
        datagrams.delays.quantile(0.5).unwrap()
    };
    for tunnel in [TunnelModel::tcp(CongestionControl::Cubic), rake()] {
        let [all, newest] = [false, true].map(|drops_stale| median(drops_stale, tunnel));
        println!("seed 1: {all}, {newest}");
        assert!(newest < all / 2 && newest < Span::from_millis(250), "{all}, {newest}");
    }
}

/// All are held back now and then, so that the round trip of the empty path is seen: what they make up for afterwards must not
/// overflow the path's queue.
#[test]
fn many_connections_keep_filling_a_path() {
    let mut sites = World::new(100, 0.0, Plane::Tunnel(rake())).sites(1);
    let windows = (1..8).map(|number| f64::from(number) * 4.0);
    let goodputs: Vec<_> = windows.map(|start| mbit(&sites.measure(at(start), at(start + 4.0))[0])).collect();
    println!("seed 1: {goodputs:.1?} Mbit/s");
    assert!(goodputs.iter().all(|goodput| *goodput > 85.0));
}
