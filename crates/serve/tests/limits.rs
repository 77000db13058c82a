//! What a caller of the library may set: deadline, cancellation, and from where packets are sent.

use crate::common;

use common::{RawClient, RunningServer};
use kumade_client::{CancelToken, Error, MeasureConfig, measure};
use kumade_measurement::{Directions, Event};
use kumade_serve::ServerConfig;
use kumade_units::Span;
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than any of these ends may take, and far shorter than what they end.
const SOON: Duration = Duration::from_secs(20);

/// Trains of half a minute.
fn long(server: &RunningServer) -> MeasureConfig {
    let mut config = server.measuring();
    config.plan.method = "linear-scan:interval=1s:packets=29".parse().unwrap();
    config.plan.directions = Directions::Up;
    config
}

#[test]
fn another_thread_cancels_in_the_middle_of_a_train() {
    let server = RunningServer::start(ServerConfig::default());
    let cancel = CancelToken::default();
    let config = MeasureConfig { cancel: cancel.clone(), ..long(&server) };
    let (opened, is_open) = mpsc::channel();
    let client = thread::spawn(move || {
        measure(&config, &mut |event| {
            if matches!(event, Event::Opened { .. }) {
                opened.send(()).unwrap();
            }
        })
    });
    is_open.recv().unwrap();
    thread::sleep(Duration::from_millis(1500));
    let began = Instant::now();
    cancel.cancel();
    let error = client.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_client_that_waits_for_its_turn_can_be_cancelled() {
    let server = RunningServer::start(ServerConfig::default());
    let _holder = RawClient::with_turn(server.address);
    let cancel = CancelToken::default();
    let config = MeasureConfig { cancel: cancel.clone(), ..server.measuring() };
    let began = Instant::now();
    let error = measure(&config, &mut |event| {
        if matches!(event, Event::Waiting { .. }) {
            cancel.cancel();
        }
    });
    assert!(matches!(error, Err(Error::Cancelled)), "{error:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_token_that_is_cancelled_before_lets_nothing_begin() {
    let cancel = CancelToken::default();
    cancel.cancel();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = MeasureConfig { cancel, ..common::measuring(silent.local_addr().unwrap()) };
    let error = measure(&config, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
}

#[test]
fn a_deadline_ends_a_train_and_a_server_that_never_speaks() {
    let server = RunningServer::start(ServerConfig::default());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let deadline = Span::from_secs(2);
    for config in [long(&server), common::measuring(silent.local_addr().unwrap())] {
        let began = Instant::now();
        let error = measure(&MeasureConfig { deadline: Some(deadline), ..config }, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::DeadlineExceeded { .. }), "{error}");
        assert!((deadline.to_duration()..SOON).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}

#[test]
fn packets_come_from_the_address_and_interface_that_were_chosen() {
    let server = RunningServer::start(ServerConfig::default());
    let source: IpAddr = "127.0.0.9".parse().unwrap();
    let mut config = server.measuring();
    config.plan.method = "linear-scan".parse().unwrap();
    config.binding.source = Some(source);
    config.binding.interface = Some("lo".into());
    let seen = watch_sources(server.address.port(), || measure(&config, &mut |_| {}).unwrap());
    assert!(seen.contains(&source), "{seen:?}");
    config.binding.source = Some("192.0.2.77".parse().unwrap());
    let error = measure(&config, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Bind { .. }) && error.hint().is_some(), "{error}");
}

/// The remote addresses of TCP connections to this port while `body` runs, as the kernel lists them.
fn watch_sources<T>(port: u16, body: impl FnOnce() -> T) -> Vec<IpAddr> {
    let (done, is_done) = mpsc::channel();
    let watcher = thread::spawn(move || {
        let mut seen = Vec::new();
        while is_done.try_recv() == Err(mpsc::TryRecvError::Empty) {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            seen.extend(table.lines().skip(1).filter_map(|line| source_to(line, port)));
            thread::sleep(Duration::from_millis(2));
        }
        seen
    });
    body();
    done.send(()).unwrap();
    watcher.join().unwrap()
}

/// The local address of a line of `/proc/net/tcp` whose remote port is this one.
fn source_to(line: &str, port: u16) -> Option<IpAddr> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, remote) = (fields.next()?, fields.next()?);
    let remote_port = u16::from_str_radix(remote.split_once(':')?.1, 16).ok()?;
    let local = u32::from_str_radix(local.split_once(':')?.0, 16).ok()?;
    (remote_port == port).then(|| IpAddr::from(local.to_le_bytes()))
}
