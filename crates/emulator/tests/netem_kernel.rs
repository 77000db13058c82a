//! The translation of `netem delay 20ms 5ms` in docs/coming-from.md, against the kernel's netem where it has one.

use crate::common;

use common::{config, emulate};
use kumade_emulator::settings::{Settings, SettingsChange};
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, eventually, in_namespaces};
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const PACKETS: u32 = 500;
const GAP: Duration = Duration::from_millis(1);
const TRANSLATION: &str = "delay 20ms jitter 5ms jitter-distribution uniform jitter-reorder on";

/// What a receiver sees of the packets.
#[derive(Debug)]
struct Seen {
    /// The shortest delay.
    least: Duration,
    /// Packets that arrived behind a later one.
    reordered: usize,
}

/// Sends numbered packets, and takes the time until each arrives.
fn observe(hosts: &VethHosts) -> Seen {
    let receiver = hosts.right.run(|| UdpSocket::bind("10.79.0.2:0").unwrap()).unwrap();
    let sender = hosts.left.run(|| UdpSocket::bind("10.79.0.1:0").unwrap()).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    receiver.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    // Finds the neighbour.
    sender.send(&u32::MAX.to_be_bytes()).unwrap();
    receiver.recv(&mut [0; 4]).unwrap();
    let sending = thread::spawn(move || {
        let send = |number: u32| {
            let now = Instant::now();
            sender.send(&number.to_be_bytes()).unwrap();
            thread::sleep(GAP);
            now
        };
        (0..PACKETS).map(send).collect::<Vec<_>>()
    });
    let arrivals: Vec<(u32, Instant)> = (0..PACKETS)
        .map(|_| {
            let mut number = [0; 4];
            receiver.recv(&mut number).unwrap();
            (u32::from_be_bytes(number), Instant::now())
        })
        .collect();
    let sent = sending.join().unwrap();
    let least = arrivals.iter().map(|(number, arrival)| *arrival - sent[*number as usize]).min().unwrap();
    let reordered = arrivals.iter().scan(0, |next, (number, _)| {
        let late = number < next;
        *next = (*next).max(number + 1);
        Some(late)
    });
    Seen { least, reordered: reordered.filter(|late| *late).count() }
}

/// On a busy machine packets are further apart, and fewer overtake each other: until some have.
fn observe_reordering(hosts: &VethHosts) -> Seen {
    let mut seen = observe(hosts);
    eventually(|| {
        let last = observe(hosts);
        seen = Seen { least: seen.least.min(last.least), reordered: seen.reordered + last.reordered };
        seen.reordered > 0
    });
    seen
}

fn tc(host: &Namespace, words: &str) -> Result<(), String> {
    let output =
        host.run(|| Command::new("tc").args(words.split(' ')).output()).unwrap().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// Both are around the delay, and reorder. How late packets are at most is for the machine to say.
#[test]
fn the_translation_of_netems_jitter_does_what_netem_does() {
    in_namespaces("the_translation_of_netems_jitter_does_what_netem_does", || {
        let hosts = VethHosts::new(1500).unwrap();
        let settings = Settings::new(&SettingsChange::parse(TRANSLATION).unwrap()).unwrap();
        let [up, _] = settings.configs();
        let engine = emulate(&hosts, [up.clone(), config()]);
        let ours = observe_reordering(&hosts);
        engine.stop().unwrap();
        let engine = emulate(&hosts, [config(), config()]);
        let added = tc(&hosts.left, &format!("qdisc add dev {} root netem delay 20ms 5ms", VethHosts::DEVICE));
        let netems = added.map(|()| observe_reordering(&hosts));
        engine.stop().unwrap();
        println!("kumade: {ours:?}; netem: {netems:?}");
        for seen in [Ok(ours), netems].into_iter().flatten() {
            assert!(seen.least >= Duration::from_millis(15) && seen.reordered > 0, "{seen:?}");
        }
    });
}
