//! Trains during which this host's clock is set. The tests of this file share the clock, so that there is one.

use kumade_net::fault_injection::step_clock;
use kumade_netns_testbed::eventually;
use kumade_probe_train::{Segment, Train};
use kumade_transport::{Error, Probes, UdpProbes};
use kumade_units::Span;
use kumade_wire::{Credential, SessionEndpoint, Token, Version};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TIMEOUT: Span = Span::from_secs(60);

fn probes() -> [Probes; 2] {
    let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    for (own, other) in [(0, 1), (1, 0)] {
        sockets[own].connect(sockets[other].local_addr().unwrap()).unwrap();
    }
    let credential = Credential::new(Token([7; 16]), Version::NEWEST, false);
    sockets.map(|socket| Probes::Udp(UdpProbes::new(socket, credential, SessionEndpoint::Client).unwrap()))
}

/// Whether both ends say that the clock was set.
fn both_report_clock_step([near, far]: &mut [Probes; 2], number: u32, train: &Train) -> bool {
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::SeqCst) {
                step_clock(Span::from_millis(20));
                thread::sleep(Duration::from_millis(5));
            }
        });
        let received = scope.spawn(|| far.receive(number, train, TIMEOUT));
        let sent = near.send(number, train);
        let received = received.join().unwrap();
        has_ended.store(true, Ordering::SeqCst);
        matches!((sent, received), (Err(Error::ClockStepped(_)), Err(Error::ClockStepped(_))))
    })
}

#[test]
fn a_train_during_which_the_clock_is_set_is_none_and_the_next_one_is_carried() {
    let mut probes = probes();
    let train =
        Train { segments: vec![Segment { count: 100, interval: Span::from_millis(1), first_size: 100, size_step: 0 }] };
    let mut numbers = 1..;
    assert!(eventually(|| both_report_clock_step(&mut probes, numbers.next().unwrap(), &train)));
    let number = numbers.next().unwrap();
    let [near, far] = &mut probes;
    thread::scope(|scope| {
        let received = scope.spawn(|| far.receive(number, &train, TIMEOUT));
        assert_eq!(near.send(number, &train).unwrap().departures.len(), 100);
        assert_eq!(received.join().unwrap().unwrap().arrivals.len(), 100);
    });
}
