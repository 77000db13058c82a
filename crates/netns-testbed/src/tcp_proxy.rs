//! A proxy that ends TCP connections and passes their bytes on over others, to a server.

use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Scope};
use std::time::Duration;

/// What a proxy does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyFaults {
    /// Connections that it passes; further ones are reset.
    pub connections: usize,
    /// Bytes from clients, all connections but the first together, after which those connections are reset; counts anew afterwards.
    pub reset_after: u64,
    /// How often it does so.
    pub resets: u64,
}

impl ProxyFaults {
    /// It passes everything.
    pub const NO_FAULTS: ProxyFaults = ProxyFaults { connections: usize::MAX, reset_after: u64::MAX, resets: 0 };
}

/// A proxy that ends the TCP connections of clients, and passes on what it reads when it reads it, over one connection to a server for
/// each of theirs. No UDP passes. It ends with its connections when dropped.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    listener: TcpListener,
    shared: Arc<ProxyState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ProxyState {
    server: SocketAddr,
    faults: ProxyFaults,
    accepted: AtomicUsize,
    /// From clients, but for those of the first connection.
    bytes: AtomicU64,
    resets: AtomicU64,
    is_cut: AtomicBool,
    has_ended: AtomicBool,
    /// Both sides of each connection that is open, with its number.
    open_connections: Mutex<Vec<(usize, [TcpStream; 2])>>,
}

/// More is not read at once.
const BUFFER_BYTES: usize = 65_536;
/// A server that does not answer is given up then.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl TcpProxy {
    /// Starts it with connections to the server from the calling thread's network namespace; the listener may be of another one.
    ///
    /// # Errors
    /// The system refuses a descriptor or a thread.
    pub fn start(listener: TcpListener, server: SocketAddr, faults: ProxyFaults) -> io::Result<Self> {
        let shared = Arc::new(ProxyState {
            server,
            faults,
            accepted: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            open_connections: Mutex::default(),
        });
        let (address, ours, accepting) = (listener.local_addr()?, Arc::clone(&shared), listener.try_clone()?);
        let work = move || thread::scope(|scope| ours.accept_all(&accepting, scope));
        let thread = Some(thread::Builder::new().name("proxy".into()).spawn(work)?);
        Ok(TcpProxy { address, listener, shared, thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing passes, and nobody is told: the network is cut.
    pub fn stop_forwarding(&self) {
        self.shared.is_cut.store(true, Ordering::SeqCst);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        // Accepting and reading fail at once, so that all threads end. Either fails only where there is nothing left to end.
        self.shared.has_ended.store(true, Ordering::SeqCst);
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        self.shared.close_connections(0, shut_down_stream);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl ProxyState {
    fn accept_all<'scope>(&'scope self, listener: &TcpListener, scope: &'scope Scope<'scope, '_>) {
        while let Ok((client, _)) = listener.accept() {
            let number = self.accepted.fetch_add(1, Ordering::SeqCst);
            if number < self.faults.connections {
                // Connecting takes a round trip, in which others are accepted.
                scope.spawn(move || drop(self.forward_bytes(number, &client, scope)));
            } else {
                reset_stream(&client);
            }
        }
    }

    fn forward_bytes<'scope>(
        &'scope self,
        number: usize,
        client: &TcpStream,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<()> {
        let server = TcpStream::connect_timeout(&self.server, CONNECT_TIMEOUT)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        self.lock().push((number, [client.try_clone()?, server.try_clone()?]));
        if self.has_ended.load(Ordering::SeqCst) {
            // The others have been ended already.
            self.close_connections(number, shut_down_stream);
        }
        let [from, to] = [server.try_clone()?, client.try_clone()?];
        scope.spawn(move || self.copy_bytes(&from, &to, false));
        self.copy_bytes(client, &server, number > 0);
        self.lock().retain(|(other, _)| *other != number);
        Ok(())
    }

    /// Until either side ends.
    fn copy_bytes(&self, mut from: &TcpStream, mut to: &TcpStream, counts: bool) {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if self.is_cut.load(Ordering::SeqCst) {
                continue;
            }
            if counts {
                self.count_bytes(count as u64);
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        shut_down_stream(from);
        shut_down_stream(to);
    }

    fn count_bytes(&self, bytes: u64) {
        let before = self.bytes.fetch_add(bytes, Ordering::SeqCst);
        let resets = self.resets.load(Ordering::SeqCst);
        if before + bytes >= self.faults.reset_after.saturating_mul(resets + 1) && resets < self.faults.resets {
            self.resets.fetch_add(1, Ordering::SeqCst);
            self.close_connections(1, reset_stream);
        }
    }

    /// Does this to both sides of each open connection from this number on.
    fn close_connections(&self, first: usize, finish: impl Fn(&TcpStream)) {
        let mut open = self.lock();
        for (_, streams) in open.iter().filter(|(number, _)| *number >= first) {
            streams.iter().for_each(&finish);
        }
        // What is reset goes with its last descriptor.
        open.retain(|(number, _)| *number < first);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, [TcpStream; 2])>> {
        self.open_connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has reading and writing end, in whatever thread.
fn shut_down_stream(stream: &TcpStream) {
    // It fails where the connection has ended.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Has the stream reset once its last descriptor is closed, which is soon: reading ends.
fn reset_stream(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    shut_down_stream(stream);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers with what it gets, for so many connections.
    fn echo(connections: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for _ in 0..connections {
                let (stream, _) = listener.accept().unwrap();
                thread::spawn(move || io::copy(&mut &stream, &mut &stream));
            }
        });
        address
    }

    fn proxy(connections: usize, faults: ProxyFaults) -> TcpProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpProxy::start(listener, echo(connections), faults).unwrap()
    }

    #[test]
    fn bytes_pass_both_ways_until_it_is_dropped() {
        let proxy = proxy(2, ProxyFaults::NO_FAULTS);
        let mut clients = [0, 1].map(|_| TcpStream::connect(proxy.address()).unwrap());
        for (client, text) in clients.iter_mut().zip([b"first ", b"second"]) {
            client.write_all(text).unwrap();
            let mut answer = [0; 6];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, text);
        }
        drop(proxy);
        for client in &mut clients {
            assert_eq!(client.read(&mut [0; 6]).unwrap_or(0), 0);
        }
    }

    #[test]
    fn connections_beyond_the_cap_are_reset() {
        let proxy = proxy(1, ProxyFaults { connections: 1, ..ProxyFaults::NO_FAULTS });
        let mut first = TcpStream::connect(proxy.address()).unwrap();
        first.write_all(b"x").unwrap();
        first.read_exact(&mut [0]).unwrap();
        let mut second = TcpStream::connect(proxy.address()).unwrap();
        let _ = second.write_all(b"x");
        assert!(!matches!(second.read(&mut [0]), Ok(1)));
    }
}
