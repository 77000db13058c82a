//! A middlebox on a host: it passes TCP connections on as they are, and datagrams up to a rate.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Passes what comes to the port of `near` on to `far`, in the namespace of the calling thread, until the process ends; of
/// datagrams so many bytes per second, in each direction.
pub fn start(near: SocketAddr, far: SocketAddr, bytes_per_second: f64) {
    let listener = TcpListener::bind(near).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Ok(onward) = TcpStream::connect(far) else { continue };
            for [mut from, mut to] in
                [[&stream, &onward], [&onward, &stream]].map(|pair| pair.map(|end| end.try_clone().unwrap()))
            {
                let _ = from.set_nodelay(true);
                thread::spawn(move || {
                    let _ = copy(&mut from, &mut to);
                    let _ = [from, to].map(|end| end.shutdown(Shutdown::Both));
                });
            }
        }
    });
    let inner = Arc::new(UdpSocket::bind(near).unwrap());
    thread::spawn(move || pass_datagrams(&inner, far, bytes_per_second));
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

/// Each sender has a socket of its own for what comes back.
fn pass_datagrams(inner: &Arc<UdpSocket>, far: SocketAddr, rate: f64) {
    let (mut outer, mut bucket, mut buffer) = (BTreeMap::new(), Bucket::new(rate), [0; 1 << 16]);
    while let Ok((count, from)) = inner.recv_from(&mut buffer) {
        let outer = outer.entry(from).or_insert_with(|| {
            let outer = Arc::new(UdpSocket::bind("0.0.0.0:0").unwrap());
            outer.connect(far).unwrap();
            let (inner, back) = (Arc::clone(inner), Arc::clone(&outer));
            thread::spawn(move || {
                let (mut bucket, mut buffer) = (Bucket::new(rate), [0; 1 << 16]);
                while let Ok(count) = back.recv(&mut buffer) {
                    if bucket.takes(count) {
                        let _ = inner.send_to(&buffer[..count], from);
                    }
                }
            });
            outer
        });
        if bucket.takes(count) {
            let _ = outer.send(&buffer[..count]);
        }
    }
}

/// A token bucket of 20 kB.
struct Bucket {
    rate: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    const BYTES: f64 = 20e3;

    fn new(rate: f64) -> Self {
        Bucket { rate, tokens: Self::BYTES, at: Instant::now() }
    }

    fn takes(&mut self, bytes: usize) -> bool {
        let passed = std::mem::replace(&mut self.at, Instant::now()).elapsed();
        self.tokens = (self.tokens + passed.as_secs_f64() * self.rate).min(Self::BYTES);
        let takes = self.tokens >= bytes as f64;
        if takes {
            self.tokens -= bytes as f64;
        }
        takes
    }
}
