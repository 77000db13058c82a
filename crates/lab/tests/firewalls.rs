//! Real measurements through firewalls and address translators on the lab's network: each goes on with the transport and
//! the connections that are left, or says in bounded time why it can't. A busy machine may leave it without a value: then
//! the report has the reason. How exact values are is asserted in virtual time (`sim/tests`) and shown by the lab.

use kumade_client::{Error, Family, MeasureConfig};
use kumade_link::LinkConfig;
use kumade_measurement::report::{DirectionReport, Report, Warning};
use kumade_measurement::{Directions, TransportChoice};
use kumade_middlebox::{FilterRule, MiddleboxConfig, NatConfig, PacketMatch, RefusalKind, ResetScope};
use kumade_netns_testbed::{Network, NetworkSpec, TEST_DEADLINE, in_namespaces};
use kumade_probe_train::Transport;
use kumade_serve::{Server, ServerConfig};
use kumade_units::{Rate, Span};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

const RATE: Rate = Rate::from_mbit(50);
/// Fewer connections can't carry the train of 120 packets.
const MIN_CONNECTIONS: u32 = 12;

/// A server on one host, and the way to it.
struct Path {
    network: Network,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Path {
    fn new() -> Self {
        let delay = Span::from_millis(5);
        let link = LinkConfig { rate: Some(RATE), queue_bytes: 250_000, delay, seed: 1, ..LinkConfig::default() };
        let network = Network::build(NetworkSpec::host_pair(link)).unwrap();
        let far = &network.host("b").unwrap().namespace;
        let server = far.run(|| Server::bind(ServerConfig::default())).unwrap().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serving = far.spawn("serve", move || server.run(&stopped).unwrap()).unwrap();
        Path { network, stop, serving: Some(serving) }
    }

    /// To the far host, by what passes, with the default method.
    fn config(&self, family: Family) -> MeasureConfig {
        let far = self.network.host("b").unwrap();
        let address = if family == Family::V6 { IpAddr::V6(far.v6.unwrap()) } else { IpAddr::V4(far.v4) };
        MeasureConfig::new(address.to_string(), kumade_serve::DEFAULT_PORT)
    }

    /// The same with one train in each direction, which shows as well what carries it.
    fn one_train(&self, family: Family) -> MeasureConfig {
        let mut config = self.config(family);
        config.plan.method = "linear-scan".parse().unwrap();
        config
    }

    /// The same in one direction only.
    fn one_train_up(&self) -> MeasureConfig {
        let mut config = self.one_train(Family::V4);
        config.plan.directions = Directions::Up;
        config
    }

    /// One measurement through a middlebox that has seen nothing yet.
    fn attempt(&self, middlebox: &MiddleboxConfig, config: &MeasureConfig) -> Result<Report, Error> {
        self.network.set_middlebox(Some(middlebox.clone())).unwrap();
        let near = &self.network.host("a").unwrap().namespace;
        let began = Instant::now();
        let result = near.run(|| kumade_client::measure(config, &mut |_| {})).unwrap();
        let took = began.elapsed();
        eprintln!("{took:?}: {}", show(&result));
        assert!(took < TEST_DEADLINE, "{took:?}: {}", show(&result));
        result
    }

    /// A measurement that ends with a report: of each direction a value, or the reason why there is none.
    fn measure(&self, middlebox: &MiddleboxConfig, config: &MeasureConfig) -> Report {
        // On a machine that is busy enough, the server answers too late now and then, or the client asks too late for a train; one of
        // them says so, and ends.
        let ends = || match self.attempt(middlebox, config) {
            Err(Error::ConnectionLost { cause, .. }) if cause.contains("no answer in time") => None,
            Err(Error::Refused { reason, .. }) if reason.contains("no packet train for") => None,
            result => Some(result),
        };
        let report = (0..3).find_map(|_| ends()).expect("one of three measurements with answers in time").unwrap();
        for direction in directions(&report) {
            assert!(direction.packets_sent > 0, "{direction:?}");
            match &direction.available_bits_per_second {
                Some(value) => assert!(value.low <= value.value && value.value <= value.high, "{value:?}"),
                None => assert!(direction.reason.is_some(), "{direction:?}"),
            }
        }
        report
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A panic of the server has been printed.
        let _ = self.serving.take().unwrap().join();
    }
}

fn directions(report: &Report) -> impl Iterator<Item = &DirectionReport> {
    [&report.up, &report.down].into_iter().flatten()
}

/// Of the connections that the path lets through, a busy machine may open some too late; the report says of how many.
fn assert_rake_of_at_most(direction: &DirectionReport, connections: u32) {
    assert_eq!(direction.transport, Transport::Rake);
    assert!((MIN_CONNECTIONS..=connections).contains(&direction.connections), "{}", direction.connections);
    let is_told =
        |warning: &Warning| matches!(warning, Warning::FewConnections(used, 120, _) if *used == direction.connections);
    let said = direction.warnings.iter().any(is_told);
    assert_eq!(said, direction.connections < 120, "{:?}", direction.warnings);
}

fn show(result: &Result<Report, Error>) -> String {
    match result {
        Ok(report) => directions(report)
            .map(|d| format!("{d} {:?} {:?}", d.trains_rejected_reasons, d.warnings))
            .collect::<Vec<_>>()
            .join("; "),
        Err(error) => error.to_string(),
    }
}

fn rules(rules: &[FilterRule]) -> MiddleboxConfig {
    MiddleboxConfig { rules: rules.to_vec(), ..Default::default() }
}

fn no_udp(refusal: RefusalKind) -> FilterRule {
    FilterRule::Refuse {
        matching: PacketMatch { protocol: Some(kumade_packet::protocol::UDP), destination_port: None },
        refusal,
    }
}

fn broke(direction: &DirectionReport) -> bool {
    direction.warnings.iter().any(|warning| matches!(warning, Warning::ConnectionsReplaced(..)))
}

fn warns_of_udp(direction: &DirectionReport, reason: &str) -> bool {
    direction.warnings.contains(&Warning::NoUdp(reason.to_owned()))
}

#[test]
fn where_udp_is_rejected_the_rake_measures_both_ways() {
    in_namespaces("where_udp_is_rejected_the_rake_measures_both_ways", || {
        let path = Path::new();
        for family in [Family::V4, Family::V6] {
            let report = path.measure(&rules(&[no_udp(RefusalKind::Reject)]), &path.one_train(family));
            for direction in directions(&report) {
                assert_rake_of_at_most(direction, 120);
                assert!(warns_of_udp(direction, "rejected"), "{:?}", direction.warnings);
            }
        }
    });
}

#[test]
fn where_one_tcp_port_is_open_and_all_else_dropped_the_rake_measures() {
    in_namespaces("where_one_tcp_port_is_open_and_all_else_dropped_the_rake_measures", || {
        let path = Path::new();
        let firewall =
            rules(&[FilterRule::AllowOnly { tcp_port: kumade_serve::DEFAULT_PORT, refusal: RefusalKind::Drop }]);
        let report = path.measure(&firewall, &path.config(Family::V4));
        for direction in directions(&report) {
            assert_rake_of_at_most(direction, 120);
            assert!(warns_of_udp(direction, "no answer"), "{:?}", direction.warnings);
        }
    });
}

#[test]
fn under_a_cap_on_connections_several_packets_travel_on_each() {
    in_namespaces("under_a_cap_on_connections_several_packets_travel_on_each", || {
        let path = Path::new();
        for refusal in [RefusalKind::Drop, RefusalKind::Reject] {
            // The control connection is one of them.
            let cap = FilterRule::LimitConnections { max_connections: 1 + 60, refusal };
            let report = path.measure(&rules(&[no_udp(RefusalKind::Reject), cap]), &path.one_train_up());
            assert_rake_of_at_most(&report.up.unwrap(), 60);
        }
    });
}

#[test]
fn under_a_cap_that_leaves_too_few_connections_the_error_says_so() {
    in_namespaces("under_a_cap_that_leaves_too_few_connections_the_error_says_so", || {
        let path = Path::new();
        let cap = FilterRule::LimitConnections { max_connections: 1 + 5, refusal: RefusalKind::Drop };
        let error = path.attempt(&rules(&[no_udp(RefusalKind::Reject), cap]), &path.one_train_up()).unwrap_err();
        assert!(matches!(error, Error::TooFewConnections { opened: ..=5, requested: 120, .. }), "{error}");
    });
}

#[test]
fn under_a_limit_on_syns_those_that_open_in_time_measure() {
    in_namespaces("under_a_limit_on_syns_those_that_open_in_time_measure", || {
        let path = Path::new();
        let limit = FilterRule::LimitSyns { per_second: 30, burst: 5 };
        let report = path.measure(&rules(&[no_udp(RefusalKind::Reject), limit]), &path.one_train_up());
        // In the two seconds that opening may take, 65, and more where this thread is not let run; the kernel's own repeated SYNs would
        // make it 10.
        assert_rake_of_at_most(&report.up.unwrap(), 120);
    });
}

#[test]
fn connections_that_are_reset_in_the_middle_of_a_train_are_replaced() {
    in_namespaces("connections_that_are_reset_in_the_middle_of_a_train_are_replaced", || {
        let path = Path::new();
        let cap = FilterRule::LimitConnections { max_connections: 1 + 60, refusal: RefusalKind::Reject };
        for (rules, most) in [(vec![no_udp(RefusalKind::Reject)], 120), (vec![no_udp(RefusalKind::Reject), cap], 60)] {
            // Which connection is hit, and when, depends on the trains. Where it is the control connection, or too many
            // in a row, the measurement ends; where it is none that is used again, nobody notices.
            let mut each = [700, 1100, 900, 1300, 800, 1000].into_iter().cycle().take(18);
            let replaced = each.find_map(|data_packets| {
                let resets = FilterRule::ResetAfter { data_packets, scope: ResetScope::Total };
                let middlebox = self::rules(&[&rules[..], &[resets]].concat());
                let mut config = path.config(Family::V4);
                config.plan.directions = Directions::Up;
                let up = path.attempt(&middlebox, &config).ok()?.up?;
                broke(&up).then_some(up.connections)
            });
            let connections = replaced.expect("a measurement that replaces connections and ends with a report");
            // Under the cap, there may be another one for each.
            assert!((MIN_CONNECTIONS..=most).contains(&connections), "{connections}");
        }
    });
}

#[test]
fn where_connections_are_reset_all_the_time_the_error_says_so() {
    in_namespaces("where_connections_are_reset_all_the_time_the_error_says_so", || {
        let path = Path::new();
        // While shaking hands, while opening, and in the middle of a train the control connection is the first that has
        // carried so many.
        for data_packets in [3, 12, 25] {
            let resets = FilterRule::ResetAfter { data_packets, scope: ResetScope::Connection };
            let error = path.attempt(&rules(&[no_udp(RefusalKind::Reject), resets]), &path.one_train_up()).unwrap_err();
            assert!(error.to_string().contains("reset"), "{error}");
        }
        // Several connections in each train: it may get by with those that are left.
        let resets = FilterRule::ResetAfter { data_packets: 15, scope: ResetScope::Total };
        match path.attempt(&rules(&[no_udp(RefusalKind::Reject), resets]), &path.one_train_up()) {
            Ok(report) => assert!(broke(&report.up.unwrap())),
            Err(Error::ConnectionsKeepBreaking { .. }) => {}
            Err(error) => assert!(error.to_string().contains("reset"), "{error}"),
        }
    });
}

#[test]
fn behind_an_address_translator_udp_passes() {
    in_namespaces("behind_an_address_translator_udp_passes", || {
        let path = Path::new();
        let external = "203.0.113.7".parse().unwrap();
        let router = MiddleboxConfig { nat: Some(NatConfig::new(external)), ..Default::default() };
        let report = path.measure(&router, &path.one_train(Family::V4));
        for direction in directions(&report) {
            assert_eq!((direction.transport, direction.connections), (Transport::Udp, 0));
        }
        let mut rake = path.one_train_up();
        rake.plan.transport = TransportChoice::Fixed(Transport::Rake);
        let report = path.measure(&router, &rake);
        assert_rake_of_at_most(&report.up.unwrap(), 120);
    });
}

#[test]
fn ipv6_carries_trains_by_udp_and_by_tcp() {
    in_namespaces("ipv6_carries_trains_by_udp_and_by_tcp", || {
        let path = Path::new();
        for transport in [Transport::Udp, Transport::Rake] {
            let mut config = path.one_train(Family::V6);
            config.plan.transport = TransportChoice::Fixed(transport);
            let report = path.measure(&MiddleboxConfig::default(), &config);
            assert!(directions(&report).all(|direction| direction.transport == transport));
            assert!(report.peer.starts_with("[fd77::2]"), "{}", report.peer);
        }
    });
}
