//! A middlebox on a host: it passes TCP connections on as they are, and datagrams of some lengths, up to a rate.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Which datagrams pass, in each direction.
pub struct Policer {
    bytes_per_second: u32,
    max_bytes: AtomicUsize,
}

impl Policer {
    /// So many bytes per second, in datagrams of up to so many.
    pub fn new(bytes_per_second: u32, max_bytes: usize) -> Arc<Self> {
        Arc::new(Policer { bytes_per_second, max_bytes: AtomicUsize::new(max_bytes) })
    }

    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// Passes what comes to the port of `near` on to `far`, in the namespace of the calling thread, until the process ends.
    pub fn start(self: &Arc<Self>, near: SocketAddr, far: SocketAddr) {
        let listener = TcpListener::bind(near).unwrap();
        thread::spawn(move || pass_connections(&listener, far));
        let (inner, police) = (Arc::new(UdpSocket::bind(near).unwrap()), Arc::clone(self));
        thread::spawn(move || police.pass_datagrams(&inner, far));
    }

    /// Each sender has a socket of its own for what comes back.
    fn pass_datagrams(self: Arc<Self>, inner: &Arc<UdpSocket>, far: SocketAddr) {
        let (mut outer, mut bucket, mut buffer) = (BTreeMap::new(), Bucket::new(&self), [0; 1 << 16]);
        while let Ok((count, from)) = inner.recv_from(&mut buffer) {
            let outer = outer.entry(from).or_insert_with(|| {
                let outer = Arc::new(UdpSocket::bind("0.0.0.0:0").unwrap());
                outer.connect(far).unwrap();
                let (inner, back) = (Arc::clone(inner), Arc::clone(&outer));
                let mut bucket = Bucket::new(&self);
                thread::spawn(move || {
                    let mut buffer = [0; 1 << 16];
                    // An ICMP error about an earlier datagram may be told in place of one.
                    loop {
                        let count = back.recv(&mut buffer).unwrap_or(0);
                        if bucket.try_take(count) {
                            let _ = inner.send_to(&buffer[..count], from);
                        }
                    }
                });
                outer
            });
            if bucket.try_take(count) {
                let _ = outer.send(&buffer[..count]);
            }
        }
    }
}

fn pass_connections(listener: &TcpListener, far: SocketAddr) {
    for stream in listener.incoming().map_while(Result::ok) {
        let Ok(onward) = TcpStream::connect(far) else { continue };
        for [from, to] in [[&stream, &onward], [&onward, &stream]] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let _ = from.set_nodelay(true);
            thread::spawn(move || {
                let _ = copy(&mut from, &mut to);
                let _ = [from, to].map(|end| end.shutdown(Shutdown::Both));
            });
        }
    }
}

fn copy(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

/// A token bucket of 20 kB.
struct Bucket {
    policer: Arc<Policer>,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    const BYTES: f64 = 20e3;

    fn new(police: &Arc<Policer>) -> Self {
        Bucket { policer: Arc::clone(police), tokens: Self::BYTES, at: Instant::now() }
    }

    fn try_take(&mut self, bytes: usize) -> bool {
        let passed = std::mem::replace(&mut self.at, Instant::now()).elapsed();
        let more = passed.as_secs_f64() * f64::from(self.policer.bytes_per_second);
        self.tokens = (self.tokens + more).min(Self::BYTES);
        let takes =
            self.tokens >= bytes as f64 && (1..=self.policer.max_bytes.load(Ordering::Relaxed)).contains(&bytes);
        self.tokens -= if takes { bytes as f64 } else { 0.0 };
        takes
    }
}
