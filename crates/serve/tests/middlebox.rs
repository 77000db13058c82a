//! Something on the path that interferes: the measurement goes on with what is left, or says within bounded time why not.

use crate::common;

use common::{DEADLINE, RunningServer};
use kumade_client::report::{ProxySign, Rejection, Warning};
use kumade_client::{Error, MeasureConfig, measure};
use kumade_measurement::RequestedBudget;
use kumade_measurement::{Directions, Event, TransportChoice};
use kumade_netns_testbed::{ProxyFaults, TcpProxy};
use kumade_probe_train::Transport;
use kumade_serve::ServerConfig;
use kumade_units::Span;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Instant;

fn start(server: SocketAddr, faults: ProxyFaults) -> TcpProxy {
    start_on("127.0.0.1:0", server, faults)
}

fn start_on(listen: &str, server: SocketAddr, faults: ProxyFaults) -> TcpProxy {
    TcpProxy::start(TcpListener::bind(listen).unwrap(), server, faults).unwrap()
}

fn up(proxy: &TcpProxy) -> MeasureConfig {
    common::measuring(proxy.address()).with_changed_plan(|plan| plan.directions = Directions::Up)
}

#[test]
fn where_udp_does_not_pass_the_rake_does_the_work_and_says_so() {
    let server = RunningServer::start(ServerConfig::default());
    let proxy = start(server.address, ProxyFaults::NO_FAULTS);
    let report = measure(&up(&proxy), &mut |_| {}).unwrap().up.unwrap();
    assert_eq!(report.transport, Transport::Rake);
    assert!(matches!(report.warnings[0], Warning::NoUdp(_)), "{:?}", report.warnings);
    let config = up(&proxy).with_changed_plan(|plan| plan.transport = TransportChoice::Fixed(Transport::Udp));
    let error = measure(&config, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::TransportUnavailable { transport: Transport::Udp, .. }), "{error}");
}

#[test]
fn a_relay_with_other_headers_on_its_far_side_leaves_the_ends_in_step_and_is_named() {
    let server = RunningServer::start(ServerConfig::default());
    let proxy = start_on("[::1]:0", server.address, ProxyFaults::NO_FAULTS);
    let config = common::measuring(proxy.address());
    let report = measure(&config, &mut |_| {}).unwrap();
    let proxy = Warning::Proxy(ProxySign::Headers(72, 52));
    for direction in [report.up.unwrap(), report.down.unwrap()] {
        assert_eq!(direction.transport, Transport::Rake);
        assert!(direction.warnings.contains(&proxy), "{:?}", direction.warnings);
        // Out of step, packets would be missing of every train; on a busy machine they may be of some, whose stamps come too late.
        let missing = direction.trains_rejected_reasons.get(&Rejection::PacketsMissing).copied().unwrap_or(0);
        assert!(missing < direction.trains + direction.trains_rejected, "{direction:?}");
    }
}

#[test]
fn udp_that_is_dropped_in_silence_is_soon_given_up() {
    let server = RunningServer::start(ServerConfig::default());
    // Another test may have the same port over UDP.
    let with_udp = |_| {
        let proxy = start(server.address, ProxyFaults::NO_FAULTS);
        let swallows = UdpSocket::bind(proxy.address()).ok()?;
        Some((proxy, swallows))
    };
    let (proxy, swallows) = (0..20).find_map(with_udp).unwrap();
    let mut opened = None;
    let began = Instant::now();
    let report = measure(&up(&proxy), &mut |event| {
        if let Event::Opened { .. } = event {
            opened = Some(began.elapsed());
        }
    });
    drop(swallows);
    let up = report.unwrap().up.unwrap();
    assert_eq!(up.transport, Transport::Rake);
    assert_eq!(up.warnings[0], Warning::NoUdp("no answer".to_owned()));
    assert!(opened.unwrap() < DEADLINE, "{opened:?}");
}

#[test]
fn a_cap_on_connections_leaves_several_packets_on_each_of_the_rest() {
    let server = RunningServer::start(ServerConfig::default());
    let proxy = start(server.address, ProxyFaults { connections: 1 + 60, ..ProxyFaults::NO_FAULTS });
    let report = measure(&up(&proxy), &mut |_| {}).unwrap().up.unwrap();
    assert_eq!(report.transport, Transport::Rake);
    assert!((14..=60).contains(&report.connections), "{}", report.connections);
    assert!(report.warnings.iter().any(|w| matches!(w, Warning::FewConnections(_, 120, _))), "{:?}", report.warnings);
}

#[test]
fn too_few_connections_are_an_error() {
    let server = RunningServer::start(ServerConfig::default());
    let proxy = start(server.address, ProxyFaults { connections: 1 + 5, ..ProxyFaults::NO_FAULTS });
    let began = Instant::now();
    let error = measure(&up(&proxy), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::TooFewConnections { opened: ..=5, requested: 120, .. }), "{error}");
    assert!(began.elapsed() < DEADLINE);
}

#[test]
fn connections_that_are_reset_in_the_middle_of_a_train_are_replaced() {
    let server = RunningServer::start(ServerConfig::default());
    let proxy = start(server.address, ProxyFaults { reset_after: 100_000, resets: 2, ..ProxyFaults::NO_FAULTS });
    let report = measure(&up(&proxy), &mut |_| {}).unwrap().up.unwrap();
    let broke = report.warnings.iter().filter(|w| matches!(w, Warning::ConnectionsReplaced(..))).count();
    assert_eq!(broke, 1, "{:?}", report.warnings);
    assert!(report.connections >= 14 && report.connections < 120, "{}", report.connections);
}

#[test]
fn connections_that_are_reset_again_and_again_give_no_number() {
    let server = RunningServer::start(ServerConfig::default());
    let proxy = start(server.address, ProxyFaults { reset_after: 15_000, resets: u64::MAX, ..ProxyFaults::NO_FAULTS });
    let began = Instant::now();
    match measure(&up(&proxy), &mut |_| {}) {
        Err(error) => {
            assert!(matches!(error, Error::ConnectionsKeepBreaking { .. } | Error::TooFewConnections { .. }), "{error}")
        }
        // The method may give up first: then its report says so.
        Ok(report) => {
            let up = report.up.unwrap();
            assert!(up.available_bits_per_second.is_none() && up.reason.is_some(), "{up}");
            assert!(up.warnings.iter().any(|w| matches!(w, Warning::ConnectionsReplaced(..))), "{:?}", up.warnings);
        }
    }
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}

#[test]
fn a_cut_network_is_noticed() {
    for directions in [Directions::Up, Directions::Down] {
        let server = RunningServer::start(ServerConfig::default());
        let proxy = start(server.address, ProxyFaults::NO_FAULTS);
        let config = common::measuring(proxy.address()).with_changed_plan(|plan| {
            plan.directions = directions;
            plan.transport = TransportChoice::Fixed(Transport::Rake);
            plan.budget = RequestedBudget { bytes: Some(1 << 30), time: Some(Span::from_secs(170)) };
        });
        let mut cut = None;
        let error = measure(&config, &mut |event| {
            if let (Event::Train { .. }, None) = (event, cut) {
                proxy.stop_forwarding();
                cut = Some(Instant::now());
            }
        })
        .unwrap_err();
        assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        let noticed = cut.unwrap().elapsed();
        assert!(noticed < DEADLINE, "{noticed:?}");
    }
}
