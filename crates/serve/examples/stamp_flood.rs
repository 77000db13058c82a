//! What a STAMP reflector costs, and how many test packets of an honest sender it answers, while others come from forged
//! addresses (of 127.0.0.0/8): of a running `kumade serve --stamp 8620 --listen 127.0.0.1:0`, its process and a rate,
//! `cargo run --release -p kumade-serve --example stamp_flood -- 127.0.0.1:8620 PROCESS 100000`.

use kumade_net::datagram::{self, Datagram};
use kumade_net::{clock, pacing, readiness};
use kumade_units::{Span, Time};
use kumade_wire::stamp::{ErrorEstimate, PACKET_BYTES, Probe};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::{env, fs, thread};

const DURATION: Span = Span::from_secs(10);
const HONEST_INTERVAL: Span = Span::from_millis(5);
/// Time that one round of the flood stands for.
const ROUND: Span = Span::from_millis(1);

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, address, process, rate] = &arguments[..] else { return Err("usage: ADDRESS:PORT PROCESS RATE".into()) };
    let (address, rate): (SocketAddr, i64) = (address.parse()?, rate.parse()?);
    let before = cpu_time(process)?;
    let until = clock::monotonic() + DURATION;
    let honest = thread::spawn(move || send_honest_probes(address, until));
    let sent = flood(address, rate * ROUND.as_nanos() / 1_000_000_000, until)?;
    let used = cpu_time(process)? - before;
    let (asked, answered) = honest.join().map_err(|_| "the honest sender has ended")??;
    let packets = sent + asked;
    let (per_second, share) = (packets * 1_000_000_000 / DURATION.as_nanos(), used as f64 / DURATION.as_nanos() as f64);
    println!("{per_second} packets a second; of {asked} honest ones {answered} answered");
    println!("{} ns of CPU a packet, {:.0} % of a core", used / packets, 100.0 * share);
    Ok(())
}

/// CPU time of a process in nanoseconds: that of its threads, in the kernel too.
fn cpu_time(process: &str) -> Result<i64, Box<dyn Error + Send + Sync>> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let statistics = fs::read_to_string(task?.path().join("schedstat"))?;
        sum += statistics.split(' ').next().unwrap_or_default().parse::<i64>()?;
    }
    Ok(sum)
}

fn probe(sequence: u32) -> [u8; PACKET_BYTES] {
    let mut payload = [0; PACKET_BYTES];
    let clock = ErrorEstimate::new(false, Span::ZERO);
    Probe { sequence, sent: clock::realtime(), error_estimate: clock, session: 0 }.encode(&mut payload);
    payload
}

/// Returns how many test packets were sent, and how many answered.
fn send_honest_probes(address: SocketAddr, until: Time) -> std::io::Result<(i64, i64)> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    let (mut sent, mut answered) = (0, 0);
    let mut due = clock::monotonic();
    let mut buffer = [0; PACKET_BYTES];
    while due < until {
        socket.send(&probe(sent as u32))?;
        sent += 1;
        due += HONEST_INTERVAL;
        while readiness::wait_readable(&socket, if due < until { due } else { due + Span::from_millis(500) })? {
            socket.recv(&mut buffer)?;
            answered += 1;
        }
    }
    Ok((sent, answered))
}

/// Sends so many test packets each round, each from another address. Returns how many.
fn flood(address: SocketAddr, packets: i64, until: Time) -> std::io::Result<i64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let (mut sent, mut due) = (0, clock::monotonic());
    while due < until {
        for _ in 0..packets {
            // Neither the network's address nor the reflector's own.
            let source = Ipv4Addr::from(0x7f01_0000 + (sent % 0x00f0_0000) as u32);
            let stamp = None;
            let from = Datagram {
                len: 0,
                is_truncated: false,
                source: address,
                destination: Some(source.into()),
                ttl: None,
                ds_field: None,
                stamp,
            };
            sent += i64::from(datagram::answer(&socket, &from, &probe(sent as u32)).is_ok());
        }
        due += ROUND;
        pacing::sleep_until(due);
    }
    Ok(sent)
}
