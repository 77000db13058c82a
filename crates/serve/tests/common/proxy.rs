//! A middlebox: passes TCP connections on to a server (and no UDP), and misbehaves on demand.

use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// What the middlebox does wrong.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// Connections that it passes; further ones are reset.
    pub connections: usize,
    /// Bytes from the client, all connections but the first together, after which those connections are reset; counts
    /// anew afterwards.
    pub reset_after: u64,
    /// How often it does so.
    pub resets: u64,
}

impl Faults {
    pub const NONE: Faults = Faults { connections: usize::MAX, reset_after: u64::MAX, resets: 0 };
}

pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    faults: Faults,
    accepted: AtomicUsize,
    bytes: AtomicU64,
    /// Connections of earlier generations are reset.
    generation: AtomicU64,
    cut: AtomicBool,
    ended: AtomicBool,
}

impl Proxy {
    pub fn start(server: SocketAddr, faults: Faults) -> Self {
        Proxy::start_on("127.0.0.1:0", server, faults)
    }

    pub fn start_on(listen: &str, server: SocketAddr, faults: Faults) -> Self {
        let listener = TcpListener::bind(listen).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared {
            faults,
            accepted: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            cut: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let ours = Arc::clone(&shared);
        thread::spawn(move || ours.accept_all(&listener, server));
        Proxy { address, shared }
    }

    /// From now on nothing passes, and nobody is told: the network is cut.
    pub fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn accept_all(self: &Arc<Self>, listener: &TcpListener, server: SocketAddr) {
        while !self.ended.load(Ordering::SeqCst) {
            match listener.accept() {
                Ok((client, _)) => self.pass(client, server),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn pass(self: &Arc<Self>, client: TcpStream, server: SocketAddr) {
        let number = self.accepted.fetch_add(1, Ordering::SeqCst);
        if number >= self.faults.connections {
            return reset(&client);
        }
        let server = TcpStream::connect(server).unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        }
        let generation = if number == 0 { u64::MAX } else { self.generation.load(Ordering::SeqCst) };
        for (from, to, counts) in [(&client, &server, number > 0), (&server, &client, false)] {
            let (from, to, shared) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(self));
            thread::spawn(move || shared.copy(&from, &to, counts, generation));
        }
    }

    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream, counts: bool, generation: u64) {
        let mut buffer = [0; 2048];
        while !self.ended.load(Ordering::SeqCst) {
            if self.generation.load(Ordering::SeqCst) > generation {
                reset(from);
                return reset(to);
            }
            if self.cut.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    if counts {
                        self.count(count as u64);
                    }
                    if to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }

    fn count(&self, bytes: u64) {
        let before = self.bytes.fetch_add(bytes, Ordering::SeqCst);
        let resets = self.generation.load(Ordering::SeqCst);
        if before + bytes >= self.faults.reset_after.saturating_mul(resets + 1) && resets < self.faults.resets {
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    let _ = stream.shutdown(Shutdown::Both);
}
