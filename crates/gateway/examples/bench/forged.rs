//! One TCP connection through a gateway to which a stranger sends 100 000 datagrams per second, by a line of their own.
//!
//! The stranger's sending and the kernel's reception take time of the same processors. How much is measured by the same
//! datagrams to a port where nobody reads: what the gateway itself loses is the difference to that.

use crate::lines::{self, Lines, PORT};
use crate::outcome::{Outcome, mean, minimum};
use crate::stream::Stream;
use kumade_net::interface::Family;
use kumade_net::namespace::Namespace;
use kumade_net::packet_socket::Receiver;
use kumade_net::udp::BatchSocket;
use kumade_net::{SocketBinding, clock};
use kumade_noise_session::{Endpoint, EndpointEvent, HandshakePolicy, PresharedKey, PrivateKey, Route};
use kumade_packet::Ecn;
use kumade_units::Rate;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PACKETS_PER_SECOND: u64 = 100_000;
/// Sent at a time, a thousand times per second.
const BATCH_PACKETS: usize = PACKETS_PER_SECOND as usize / 1000;
const UNREAD_PORT: u16 = 7274;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASUREMENT_TIME: Duration = Duration::from_secs(2);
const MAX_GOODPUT_DROP_FRACTION: f64 = 0.1;

pub fn measure(repeats: usize) -> Outcome<()> {
    println!(
        "{PACKETS_PER_SECOND} forged datagrams/s from a stranger, {repeats} rounds, Gbit/s of the peer's TCP payload:"
    );
    for (text, limit) in [("without limit", None), ("at 300 Mbit/s", Some(Rate::from_mbit(300)))] {
        let mut lines = Lines::new(1)?;
        let stranger = lines.add_attacker()?;
        let _planes = lines.bond(1)?;
        let index = session_index(&lines.hosts[1])?;
        let _unread = lines.hosts[1].run(|| UdpSocket::bind(("0.0.0.0", UNREAD_PORT)))??;
        let stream = Stream::start(&lines.hosts[0], &lines.hosts[1], "10.2.0.2", limit)?;
        thread::sleep(WARM_UP);
        for (name, batch) in [
            ("data of no session", data_messages(None)),
            ("data of the peer's session", data_messages(Some(index))),
            ("initiations", initiations()?),
        ] {
            compare(&format!("{name}, {text}"), &stream, &stranger, &batch, repeats)?;
        }
    }
    Ok(())
}

fn compare(name: &str, stream: &Stream, stranger: &Namespace, batch: &[Vec<u8>], repeats: usize) -> Outcome<()> {
    let mut rates = [const { Vec::new() }; 3];
    let mut sent = Vec::new();
    for _ in 0..repeats {
        rates[0].push(stream.goodput(MEASUREMENT_TIME) / 1e9);
        for (place, port) in [(1, UNREAD_PORT), (2, PORT)] {
            let flood = Flood::start(stranger, port, batch.to_vec())?;
            rates[place].push(stream.goodput(MEASUREMENT_TIME) / 1e9);
            sent.push(flood.packet_rate());
        }
    }
    let falls: Vec<f64> = rates[1].iter().zip(&rates[2]).map(|(without, with)| 1.0 - with / without).collect();
    let most = falls.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let verdict = if mean(&falls) < MAX_GOODPUT_DROP_FRACTION { "met" } else { "missed" };
    println!(
        "  {name:<42} {:5.2} alone, {:5.2} beside unread ones, {:5.2} beside forged ones ({:.0}/s): {:.1} % less, most \
         {:.1} % (target {:.0} %: {verdict})",
        mean(&rates[0]),
        mean(&rates[1]),
        mean(&rates[2]),
        minimum(&sent),
        mean(&falls) * 100.0,
        most * 100.0,
        MAX_GOODPUT_DROP_FRACTION * 100.0,
    );
    Ok(())
}

/// Datagrams to a port of the second host, until dropped.
struct Flood {
    sent: Arc<AtomicU64>,
    begun: Instant,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(from: &Namespace, port: u16, batch: Vec<Vec<u8>>) -> Outcome<Self> {
        let (sent, ends) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counter, stop) = (Arc::clone(&sent), Arc::clone(&ends));
        let socket = from.run(|| BatchSocket::bind(&SocketBinding::default(), Family::V4, 0))??;
        let thread = from.spawn("stranger", move || {
            let (to, begun) = (SocketAddr::from(([10, 1, 2, 2], port)), Instant::now());
            while !stop.load(Ordering::Relaxed) {
                let due = begun.elapsed().as_millis() as u64 * BATCH_PACKETS as u64;
                while counter.load(Ordering::Relaxed) < due {
                    socket.send(to, Ecn::NotEct, &batch, |_, refusal| panic!("{refusal:?}"));
                    counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(1));
            }
        })?;
        Ok(Flood { sent, begun: Instant::now(), ends, thread: Some(thread) })
    }

    fn packet_rate(&self) -> f64 {
        self.sent.load(Ordering::Relaxed) as f64 / self.begun.elapsed().as_secs_f64()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Data messages, to the session with this index or to any. Each is longer than the one before, so that no kernel makes one
/// packet of them.
fn data_messages(index: Option<u32>) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(1);
    let datagram = |length| {
        let mut datagram: Vec<u8> = (0..length).map(|_| random.random()).collect();
        datagram[..4].copy_from_slice(&[4, 0, 0, 0]);
        if let Some(index) = index {
            datagram[4..8].copy_from_slice(&index.to_le_bytes());
        }
        datagram
    };
    (1000..).take(BATCH_PACKETS).map(datagram).collect()
}

/// Initiations of somebody who knows the gateway's public key, every other datagram; the others are longer junk.
fn initiations() -> Outcome<Vec<Vec<u8>>> {
    let random = Box::new(StdRng::seed_from_u64(2));
    let mut endpoint = Endpoint::new(PrivateKey::from_bytes([9; 32]), HandshakePolicy::default(), random);
    let now = clock::monotonic();
    let gateway = endpoint.add_peer(Lines::keys()[1].public_key(), PresharedKey::default())?;
    endpoint.set_routes(gateway, vec![Route { path: 0, address: ([10, 1, 2, 2], PORT).into() }], now);
    endpoint.connect(gateway, now);
    endpoint.advance(now, clock::realtime());
    let Some(EndpointEvent::Transmit { datagram, .. }) = endpoint.next_event() else {
        return Err("no initiation".into());
    };
    let junk = vec![0xff; datagram.len() + 1];
    Ok([datagram, junk].into_iter().cycle().take(BATCH_PACKETS).collect())
}

/// The index by which the host knows its session, as its peer's datagrams show it to anyone on the line.
fn session_index(host: &Namespace) -> Outcome<u32> {
    const UDP_PAYLOAD_OFFSET: usize = 14 + 20 + 8;
    let mut receiver = host.run(|| Receiver::open(&lines::name(1)))??;
    let end = Instant::now() + Duration::from_secs(20);
    let mut index = None;
    while Instant::now() < end {
        receiver.next(|arrived| {
            if let Some([4, 0, 0, 0, rest @ ..]) = arrived.frame.get(UDP_PAYLOAD_OFFSET..) {
                index = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).or(index);
            }
        });
        if let Some(index) = index {
            return Ok(index);
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err("the peer sends no data".into())
}
