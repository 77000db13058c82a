//! 10 000 UDP flows at once through a pair of gateways, and what memory that takes.

use crate::lines::Lines;
use crate::outcome::Outcome;
use crate::process::resident_bytes;
use net::Binding;
use net::interface::Family;
use net::udp::{BatchReceiver, BatchSocket};
use packet::Ecn;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Of each end; each of one sends to each of the other.
const SOCKETS: u16 = 100;
const FIRST_PORT: u16 = 20_000;
const TIME: Duration = Duration::from_secs(10);

pub fn measure() -> Outcome<()> {
    let lines = Lines::new(2)?;
    let planes = lines.bond(2)?;
    let open = |own: usize, first: u16| -> Outcome<Vec<BatchSocket>> {
        let bind = |port| BatchSocket::bind(&Binding::default(), Family::V4, port);
        Ok(lines.hosts[own].run(|| (first..first + SOCKETS).map(bind).collect::<Result<_, _>>())??)
    };
    let (near, far) = (open(0, FIRST_PORT)?, open(1, FIRST_PORT)?);
    let mut receivers: Vec<_> = far.iter().map(BatchReceiver::new).collect();
    let before = resident_bytes()?;
    let (mut sent, mut received, mut peak) = (0_u64, 0_u64, before);
    let end = Instant::now() + TIME;
    let mut count = |received: &mut u64| -> Outcome<()> {
        for receiver in &mut receivers {
            while receiver.receive(|arrived| *received += arrived.datagrams().count() as u64)? > 0 {}
        }
        Ok(())
    };
    while Instant::now() < end {
        for (socket, port) in
            near.iter().flat_map(|socket| (FIRST_PORT..FIRST_PORT + SOCKETS).map(move |port| (socket, port)))
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
    let flows = u64::from(SOCKETS) * u64::from(SOCKETS);
    println!(
        "{flows} UDP flows: {sent} packets sent, {received} received, at {:.0} packets/s; memory {:.1} MB before, {:.1} MB at \
         most (both gateways and hosts)",
        received as f64 / TIME.as_secs_f64(),
        before as f64 / 1e6,
        peak as f64 / 1e6,
    );
    drop(planes);
    Ok(())
}
