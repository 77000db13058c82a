//! One TCP connection, and what it carries.

use crate::outcome::Outcome;
use kumade_net::namespace::Namespace;
use kumade_units::Rate;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a write and of a read.
const CHUNK_BYTES: usize = 1 << 17;

/// A cubic connection that sends as much as it can, until dropped.
pub struct Stream {
    ends: [TcpStream; 2],
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    /// From one host to an address of the other; no faster than `limit`, if there is one.
    pub fn start(from: &Namespace, to: &Namespace, address: &str, limit: Option<Rate>) -> Outcome<Self> {
        let address = SocketAddr::new(address.parse()?, 0);
        let listener = to.run(|| TcpListener::bind(address))??;
        let address = listener.local_addr()?;
        let near = from.run(|| connect(address))??;
        let far = listener.accept()?.0;
        if let Some(rate) = limit {
            kumade_net::tcp::set_max_pacing_rate(&near, rate)?;
        }
        let ends = [near.try_clone()?, far.try_clone()?];
        let received = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&received);
        let threads =
            vec![thread::spawn(move || send_continuously(near)), thread::spawn(move || count_received(far, &counter))];
        Ok(Stream { ends, received, threads })
    }

    /// Bytes of payload that have arrived.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bits of payload per second that arrive in so much time, from now on.
    pub fn goodput(&self, time: Duration) -> f64 {
        let (before, start) = (self.received_bytes(), Instant::now());
        thread::sleep(time);
        let bytes = self.received_bytes() - before;
        bytes as f64 * 8.0 / start.elapsed().as_secs_f64()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for end in &self.ends {
            // Where the other end was first, it is closed already.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The congestion control is chosen before connecting: a connection that was once BBR's keeps pacing.
fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(b"cubic")?;
    socket.connect_timeout(&address.into(), Duration::from_secs(10))?;
    Ok(socket.into())
}

fn send_continuously(mut stream: TcpStream) {
    let bytes = vec![7; CHUNK_BYTES];
    while stream.write_all(&bytes).is_ok() {}
}

fn count_received(mut stream: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        received.fetch_add(read as u64, Ordering::Relaxed);
    }
}
