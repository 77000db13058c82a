//! A minute of traffic through a tunnel whose paths come and go each second.

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::run_ip;
use std::fs;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(60);
/// Buffers have grown to the load by then.
const WARM_UP: Duration = Duration::from_secs(15);
/// What a process may have grown by since.
const MAX_GROWTH_BYTES: u64 = 8 << 20;

/// Sends packets from one host of the tunnel to the other while the paths of a site come and go. Checks that none comes twice
/// or altered, and that the gateways, by their process numbers, take no more memory in the end than in the beginning.
pub fn run(near: &UdpSocket, far: &UdpSocket, site: &Namespace, gateways: [u32; 2]) {
    let ends = AtomicBool::new(false);
    let (sent, received) = thread::scope(|scope| {
        let sender = scope.spawn(|| send(near, &ends));
        let receiver = scope.spawn(|| receive(far, &ends));
        scope.spawn(|| flap(site, &ends));
        thread::sleep(WARM_UP);
        let before = gateways.map(resident_bytes);
        thread::sleep(TIME - WARM_UP);
        ends.store(true, Ordering::Relaxed);
        let after = gateways.map(resident_bytes);
        println!("memory of the gateways: {before:?} bytes after {WARM_UP:?}, {after:?} at the end");
        assert!(before.iter().zip(after).all(|(before, after)| after < before + MAX_GROWTH_BYTES));
        (sender.join().unwrap(), receiver.join().unwrap())
    });
    println!("{sent} packets sent, {received} received");
    assert!(received > sent / 4, "there is always a path");
}

/// Packets of all lengths with their number and bytes that follow from it; about 2000 per second. Returns how many.
fn send(socket: &UdpSocket, ends: &AtomicBool) -> u64 {
    let (begun, mut sent) = (Instant::now(), 0);
    while !ends.load(Ordering::Relaxed) {
        while sent < begun.elapsed().as_millis() as u64 * 2 {
            // A device may be full for a moment.
            let _ = socket.send_to(&content(sent), "10.8.0.2:9");
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Checks what arrives. Returns how many packets.
fn receive(socket: &UdpSocket, ends: &AtomicBool) -> u64 {
    let (mut has_come, mut received) = (Vec::new(), 0);
    let mut buffer = [0; 2000];
    loop {
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if ends.load(Ordering::Relaxed) {
                    return received;
                }
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let number = u64::from_be_bytes(*buffer[..length].first_chunk().unwrap());
        assert!(buffer[..length] == content(number), "packet {number} was altered");
        let place = number as usize;
        has_come.resize(has_come.len().max(place + 1), false);
        assert!(!std::mem::replace(&mut has_come[place], true), "packet {number} came twice");
        received += 1;
    }
}

fn content(number: u64) -> Vec<u8> {
    let length = 8 + number as usize * 37 % 1300;
    let mut content: Vec<u8> = (0..length as u64).map(|place| (number * 31 + place * 7) as u8).collect();
    content[..8].copy_from_slice(&number.to_be_bytes());
    content
}

/// Each second another path is away for half of it.
fn flap(site: &Namespace, ends: &AtomicBool) {
    for path in ["path1", "path2"].into_iter().cycle() {
        for state in ["down", "up"] {
            run_ip(site, &["link", "set", path, state]).unwrap();
            thread::sleep(Duration::from_millis(500));
        }
        if ends.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn resident_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
