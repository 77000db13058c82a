//! How fast one TCP flow goes from a TUN device over UDP to another TUN device, without encryption: the limit of what a
//! pair of gateways on this machine can carry. Both hosts and both gateways are here, joined by a veth pair.
//!
//! ```text
//! cargo run --release -p kumade-net --example gateway_pair -- [seconds]
//! ```

use kumade_net::interface::{self, Family};
use kumade_net::namespace::Namespace;
use kumade_net::readiness::EpollSet;
use kumade_net::tun::TunQueue;
use kumade_net::udp::{BatchReceiver, BatchSocket};
use kumade_net::{SocketBinding, clock};
use kumade_packet::Ecn;
use kumade_units::Span;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

const PORT: u16 = 7000;
/// The path's is 1500; headers of IPv4 and UDP take 28, and a gateway's own would take the rest.
const TUN_MTU: u16 = 1420;
/// So many packets or reads, and then the other direction.
const BATCH: usize = 64;

struct Gateway {
    queue: TunQueue,
    socket: BatchSocket,
    receiver: BatchReceiver,
    far: SocketAddr,
    buffers: Vec<Vec<u8>>,
    datagrams: u64,
}

impl Gateway {
    fn open(number: u8) -> Result<Self, Box<dyn Error + Send + Sync>> {
        interface::add_address("path", format!("10.1.0.{number}/24").parse()?)?;
        interface::set_up("path")?;
        let queue = TunQueue::open("tun", TUN_MTU, 1)?.remove(0);
        interface::add_address("tun", format!("10.2.0.{number}/24").parse()?)?;
        let socket = BatchSocket::bind(&SocketBinding::default(), Family::V4, PORT)?;
        let receiver = BatchReceiver::new(&socket);
        let far = SocketAddr::new([10, 1, 0, 3 - number].into(), PORT);
        Ok(Gateway { queue, socket, receiver, far, buffers: Vec::new(), datagrams: 0 })
    }

    fn run(mut self, ends: &AtomicBool) -> io::Result<u64> {
        let readiness = EpollSet::new()?;
        readiness.add_reader(&self.queue, 0)?;
        readiness.add_reader(&self.socket, 1)?;
        let mut events = Vec::new();
        while !ends.load(Ordering::Relaxed) {
            if !self.encapsulate()? && !self.decapsulate()? {
                readiness.wait(&mut events, clock::monotonic() + Span::from_millis(100))?;
            }
        }
        Ok(self.datagrams)
    }

    /// From the host to the path; whether there was anything.
    fn encapsulate(&mut self) -> io::Result<bool> {
        let mut count = 0;
        while count < BATCH {
            let mut packets = match self.queue.read(0) {
                Ok(packets) => packets,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            loop {
                if count == self.buffers.len() {
                    self.buffers.push(Vec::new());
                }
                if !packets.write_next(&mut self.buffers[count]) {
                    break;
                }
                count += 1;
            }
        }
        // What the socket has no room for is lost, as in a queue.
        self.socket.send(self.far, Ecn::NotEct, &self.buffers[..count], |_, _| {});
        self.datagrams += count as u64;
        Ok(count > 0)
    }

    /// From the path to the host.
    fn decapsulate(&mut self) -> io::Result<bool> {
        let (queue, mut refused) = (&mut self.queue, None);
        let count = self.receiver.receive(|received| {
            let packets: Vec<_> = received.datagrams().collect();
            queue.write_batch(&packets, |_| false, |_, error| refused = Some(error));
        })?;
        refused.map_or(Ok(count > 0), Err)
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let seconds = env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let hosts = [Namespace::new()?, Namespace::new()?];
    let mut ip = hosts[0].command("ip");
    ip.args(["link", "add", "path", "type", "veth", "peer", "name", "path", "netns", &hosts[1].path()]);
    assert!(ip.status()?.success(), "it takes iproute2");
    let gateways = [hosts[0].run(|| Gateway::open(1))??, hosts[1].run(|| Gateway::open(2))??];
    let listener = hosts[1].run(|| TcpListener::bind("10.2.0.2:9000"))??;
    let (ends, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| -> Result<(), Box<dyn Error + Send + Sync>> {
        let threads = gateways.map(|gateway| scope.spawn(|| gateway.run(&ends)));
        let mut near = hosts[0].run(|| TcpStream::connect("10.2.0.2:9000"))??;
        let mut far = listener.accept()?.0;
        let connection = [near.try_clone()?, far.try_clone()?];
        scope.spawn(move || while near.write_all(&[7; 1 << 17]).is_ok() {});
        let counter = &bytes;
        scope.spawn(move || receive(&mut far, counter));
        thread::sleep(Duration::from_secs(1));
        let (before, start) = (bytes.load(Ordering::Relaxed), Instant::now());
        thread::sleep(Duration::from_secs(seconds));
        let (carried, elapsed) = (bytes.load(Ordering::Relaxed) - before, start.elapsed().as_secs_f64());
        println!("{:.2} Gbit/s of TCP payload", carried as f64 * 8e-9 / elapsed);
        connection.iter().try_for_each(|end| end.shutdown(Shutdown::Both))?;
        ends.store(true, Ordering::Relaxed);
        for thread in threads {
            println!("{} datagrams sent", thread.join().expect("gateways do not panic")?);
        }
        Ok(())
    })
}

fn receive(stream: &mut TcpStream, bytes: &AtomicU64) {
    let mut buffer = vec![0; 1 << 17];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        bytes.fetch_add(read as u64, Ordering::Relaxed);
    }
}
