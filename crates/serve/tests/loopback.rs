//! Whole measurements over loopback: every transport and method, both directions. (How good the values are is the lab's
//! business: loopback has no bottleneck.)

use crate::common;

use common::RunningServer;
use kumade_client::{Error, MeasureConfig, measure};
use kumade_estimate::{METHODS, MethodSettings};
use kumade_measurement::RequestedBudget;
use kumade_measurement::report::DirectionReport;
use kumade_measurement::{Directions, Event, TransportChoice};
use kumade_probe_train::Transport;
use kumade_serve::ServerConfig;
use kumade_units::Span;
use kumade_wire::PresharedKey;
use std::net::SocketAddr;

fn sends_something(direction: Option<&DirectionReport>, transport: Transport) {
    let direction = direction.unwrap();
    assert_eq!(direction.transport, transport, "{direction:?}");
    assert!(direction.packets_sent > 0 && direction.bytes_sent > 0, "{direction:?}");
    assert!(direction.trains + direction.trains_rejected > 0 || direction.reason.is_some(), "{direction:?}");
    assert_eq!(direction.available_bits_per_second.is_none(), direction.reason.is_some(), "{direction:?}");
}

fn scan() -> MethodSettings {
    "linear-scan".parse().unwrap()
}

#[test]
fn both_directions_over_udp_with_the_default_method() {
    let server = RunningServer::start(ServerConfig::default());
    let mut events = Vec::new();
    let report = measure(&server.measuring(), &mut |event| events.push(event.clone())).unwrap();
    sends_something(report.up.as_ref(), Transport::Udp);
    sends_something(report.down.as_ref(), Transport::Udp);
    assert!(matches!(events[0], Event::Connected { .. }), "{events:?}");
    assert!(matches!(events.last(), Some(Event::Done { .. })), "{events:?}");
}

#[test]
fn the_rake_and_the_single_connection_carry_the_papers_scan() {
    let server = RunningServer::start(ServerConfig::default());
    // On a machine that stalls, not all connections are ready in time.
    for (kind, transport, connections) in
        [(Transport::Rake, Transport::Rake, 12..=120), (Transport::Single, Transport::Single, 1..=1)]
    {
        let config = server.measuring().with_changed_plan(|plan| {
            plan.transport = TransportChoice::Fixed(kind);
            plan.method = scan();
        });
        let report = measure(&config, &mut |_| {}).unwrap();
        for direction in [&report.up, &report.down] {
            sends_something(direction.as_ref(), transport);
            assert!(connections.contains(&direction.as_ref().unwrap().connections), "{direction:?}");
            assert_eq!(direction.as_ref().unwrap().packets_sent, 120);
        }
    }
}

#[test]
fn every_transport_carries_every_method() {
    let server = RunningServer::start(ServerConfig::default());
    for info in METHODS {
        for kind in [Transport::Udp, Transport::Rake, Transport::Single] {
            let transport = TransportChoice::Fixed(kind);
            let budget_time = Some(Span::from_millis(300));
            let config = server.measuring().with_changed_plan(|plan| {
                plan.transport = transport;
                plan.method = info.name.parse().unwrap();
                plan.budget = RequestedBudget { time: budget_time, ..RequestedBudget::default() };
            });
            let report = measure(&config, &mut |_| {}).unwrap();
            for direction in [&report.up, &report.down] {
                sends_something(direction.as_ref(), kind);
                assert_eq!(direction.as_ref().unwrap().method, info.name);
            }
        }
    }
}

#[test]
fn the_capacity_is_told_or_the_reason_why_not_within_what_is_allowed() {
    let server = RunningServer::start(ServerConfig::default());
    for kind in [Transport::Udp, Transport::Rake, Transport::Single] {
        let transport = TransportChoice::Fixed(kind);
        let budget_bytes = Some(400_000);
        let config = server.measuring().with_changed_plan(|plan| {
            plan.capacity = true;
            plan.transport = transport;
            plan.budget = RequestedBudget { bytes: budget_bytes, ..RequestedBudget::default() };
        });
        let report = measure(&config, &mut |_| {}).unwrap();
        for direction in [&report.up, &report.down].map(|direction| direction.as_ref().unwrap()) {
            let Some(capacity) = &direction.capacity else {
                assert_eq!(kind, Transport::Single, "{direction:?}");
                continue;
            };
            assert_eq!(capacity.bottleneck_bits_per_second.is_none(), capacity.reason.is_some(), "{capacity:?}");
            assert!((1..=200_000).contains(&capacity.bytes_sent), "{capacity:?}");
            assert!(capacity.bytes_sent + direction.bytes_sent <= 400_000, "{direction:?}");
        }
    }
}

#[test]
fn one_direction_over_ipv6_with_a_key() {
    let listen = Some(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0)));
    let key = Some(PresharedKey::from_bytes([7; 32]));
    let server = RunningServer::start(ServerConfig { listen, key: key.clone(), ..ServerConfig::default() });
    for transport in [Transport::Udp, Transport::Rake] {
        let config = MeasureConfig {
            key: key.clone(),
            ..server.measuring().with_changed_plan(|plan| {
                plan.directions = Directions::Down;
                plan.transport = TransportChoice::Fixed(transport);
                plan.method = scan();
            })
        };
        let report = measure(&config, &mut |_| {}).unwrap();
        assert_eq!(report.up, None);
        sends_something(report.down.as_ref(), transport);
    }
    let other = MeasureConfig { key: Some(PresharedKey::from_bytes([8; 32])), ..server.measuring() };
    let error = measure(&other, &mut |_| {}).unwrap_err();
    assert!(
        matches!(error, Error::Handshake { .. }) && error.to_string().contains("keys of client and server differ"),
        "{error}"
    );
    let error = measure(&server.measuring(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("requires a key"), "{error}");
}

#[test]
fn a_dual_stack_server_takes_ipv4_clients_over_udp() {
    let listen = Some(SocketAddr::from(([0u16; 8], 0)));
    let server = RunningServer::start(ServerConfig { listen, ..ServerConfig::default() });
    let config =
        MeasureConfig { host: "127.0.0.1".into(), ..server.measuring().with_changed_plan(|plan| plan.method = scan()) };
    let report = measure(&config, &mut |_| {}).unwrap();
    sends_something(report.up.as_ref(), Transport::Udp);
    sends_something(report.down.as_ref(), Transport::Udp);
}
