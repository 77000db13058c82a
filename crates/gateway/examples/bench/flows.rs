//! 10 000 UDP flows at once through a pair of gateways, and what memory that takes.

use crate::lines::Lines;
use crate::outcome::Outcome;
use crate::process::resident_bytes;
use kumade_net::SocketBinding;
use kumade_net::interface::Family;
use kumade_net::namespace::Namespace;
use kumade_net::udp::{BatchReceiver, BatchSocket};
use kumade_overlay_io::BondedPlane;
use kumade_packet::Ecn;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Of each end; each of one sends to each of the other.
const SOCKETS_PER_HOST: u16 = 100;
const FIRST_PORT: u16 = 20_000;
const MEASUREMENT_TIME: Duration = Duration::from_secs(10);

/// With gateways of one thread, then of two.
pub fn measure() -> Outcome<()> {
    for threads in [1, 2] {
        println!("gateways of {threads} thread(s) each");
        measure_flows(&Lines::new(2)?.with_threads(threads))?;
    }
    Ok(())
}

fn measure_flows(lines: &Lines) -> Outcome<()> {
    let planes = lines.bond(2)?;
    let open = |own: usize, first: u16| -> Outcome<Vec<BatchSocket>> {
        let bind = |port| BatchSocket::bind(&SocketBinding::default(), Family::V4, port);
        Ok(lines.hosts[own].run(|| (first..first + SOCKETS_PER_HOST).map(bind).collect::<Result<_, _>>())??)
    };
    let (near, far) = (open(0, FIRST_PORT)?, open(1, FIRST_PORT)?);
    let mut receivers: Vec<_> = far.iter().map(BatchReceiver::new).collect();
    let before = resident_bytes()?;
    let (mut sent, mut received, mut peak) = (0_u64, 0_u64, before);
    let end = Instant::now() + MEASUREMENT_TIME;
    let mut count = |received: &mut u64| -> Outcome<()> {
        for receiver in &mut receivers {
            while receiver.receive(|arrived| *received += arrived.datagrams().count() as u64)? > 0 {}
        }
        Ok(())
    };
    while Instant::now() < end {
        for (socket, port) in
            near.iter().flat_map(|socket| (FIRST_PORT..FIRST_PORT + SOCKETS_PER_HOST).map(move |port| (socket, port)))
        {
            sent += socket.send(SocketAddr::from(([10, 2, 0, 2], port)), Ecn::NotEct, &[[7; 1000]], |_, _| {}) as u64;
            if sent.is_multiple_of(500) {
                count(&mut received)?;
                // 100 000 packets per second.
                thread::sleep(Duration::from_millis(5));
            }
        }
        peak = peak.max(resident_bytes()?);
    }
    thread::sleep(Duration::from_secs(1));
    count(&mut received)?;
    let flows = u64::from(SOCKETS_PER_HOST) * u64::from(SOCKETS_PER_HOST);
    println!(
        "{flows} UDP flows: {sent} packets sent, {received} received, at {:.0} packets/s; memory {:.1} MB before, {:.1} MB at \
         most (both gateways and hosts)",
        received as f64 / MEASUREMENT_TIME.as_secs_f64(),
        before as f64 / 1e6,
        peak as f64 / 1e6,
    );
    print_losses(lines, &planes)
}

/// Where packets were lost: sharing the cores with hosts and other work, a gateway may get less of them than it needs.
fn print_losses(lines: &Lines, [near, far]: &[BondedPlane; 2]) -> Outcome<()> {
    let (near, far) = (near.status()?, far.status()?);
    let Some((sending, receiving)) = near.remotes.first().zip(far.remotes.first()) else { return Ok(()) };
    let on_paths: u64 = sending.paths.iter().map(|path| path.status.lost_packets).sum();
    println!(
        "  lost before the gateway's device was read: {}; by the queue of the paths: {}; on the paths: {on_paths}; \
         refused by the system: {} + {}",
        device_drop_count(&lines.hosts[0])?,
        sending.dropped_packets,
        near.refused_packets,
        far.refused_packets,
    );
    for path in &sending.paths {
        println!("  a path carries {}, sent {} packets", path.status.rate, path.status.sent_packets);
    }
    println!("  delivered {}, {:?}", far.node.delivered_packets, receiving.resequencing);
    Ok(())
}

/// Packets of its hosts that a gateway's device had no room for.
fn device_drop_count(gateway: &Namespace) -> Outcome<u64> {
    let text = gateway.run(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
    let counters = text.lines().find_map(|line| line.trim_start().strip_prefix("tunnel:")).ok_or("no device")?;
    // Eight about arriving packets; bytes, packets and errors stand before drops.
    Ok(counters.split_whitespace().nth(11).ok_or("no counter")?.parse()?)
}
