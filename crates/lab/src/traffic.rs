//! Real cross traffic between two hosts: UDP at a given pattern, and greedy TCP.

use crate::network::{Host, NetworkError};
use link::{CrossConfig, CrossTraffic};
use net::pace::Pacer;
use net::{SetupError, clock};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use units::{Span, Time};

/// IPv4 and UDP.
const HEADER_BYTES: u32 = 28;
/// How long what was sent stays on record.
const MEMORY: Span = Span::from_secs(60);
/// A sender that is further behind its plan than this leaves out what it missed, in place of a burst.
const LOST: Span = Span::from_millis(5);
/// How often a thread that waits looks whether it should end.
const PATIENCE: Duration = Duration::from_millis(50);

/// UDP packets from one host to another in a pattern, until dropped. The sender sleeps between packets and spins only
/// shortly before each.
#[derive(Debug)]
pub struct UdpTraffic {
    sent: Arc<Mutex<Sent>>,
    received: Arc<AtomicU64>,
    threads: Threads,
}

/// Total IP bytes up to and including each packet's sending.
#[derive(Debug, Default)]
struct Sent {
    log: VecDeque<(Time, u64)>,
    total: u64,
    forgotten: u64,
}

impl UdpTraffic {
    /// Begins to send over IPv4, whatever the pattern's `start` says; sizes are of IP packets, and 28 bytes at least.
    ///
    /// # Errors
    /// Where the pattern makes no sense or the system refuses a socket or thread.
    pub fn start(from: &Host, to: &Host, pattern: &CrossConfig) -> Result<Self, NetworkError> {
        let failed = |error| SetupError::new(format!("send UDP from {} to {}", from.name, to.name), error);
        let source = CrossTraffic::new(CrossConfig { start: Time::ZERO, ..pattern.clone() })?;
        let address = (to.v4, 0);
        let sink = to.namespace.run(|| UdpSocket::bind(address))?.map_err(failed)?;
        sink.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let address = (from.v4, 0);
        let socket = from.namespace.run(|| UdpSocket::bind(address))?.map_err(failed)?;
        socket.connect(sink.local_addr().map_err(failed)?).map_err(failed)?;
        let (sent, received, mut threads) = (Arc::default(), Arc::default(), Threads::default());
        let (counter, stop) = (Arc::clone(&received), Arc::clone(&threads.stop));
        threads.handles.push(to.namespace.spawn("udp-sink", move || count(&sink, &counter, &stop))?);
        let (log, stop) = (Arc::clone(&sent), Arc::clone(&threads.stop));
        threads.handles.push(from.namespace.spawn("udp-source", move || send(&socket, source, &log, &stop))?);
        Ok(UdpTraffic { sent, received, threads })
    }

    /// IP bytes sent from `from` to `to` ([`clock::realtime`]); none where that is no longer on record.
    pub fn bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        if clock::realtime() - from > MEMORY {
            return None;
        }
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let before = |time: Time| {
            let index = sent.log.partition_point(|(at, _)| *at < time);
            index.checked_sub(1).map_or(sent.forgotten, |last| sent.log[last].1)
        };
        Some(before(to).saturating_sub(before(from)))
    }

    /// IP bytes that have arrived at the other host so far.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for UdpTraffic {
    fn drop(&mut self) {
        self.threads.end();
    }
}

/// A TCP connection that sends as fast as it can, until dropped.
#[derive(Debug)]
pub struct GreedyTcp {
    received: Arc<AtomicU64>,
    threads: Threads,
}

impl GreedyTcp {
    /// Connects over IPv4 and begins to send with the congestion control of this name: `cubic`, `reno`. (The machine's
    /// default may be any, so it is never left to it.)
    ///
    /// # Errors
    /// Where the kernel does not have this congestion control, or the host cannot be reached.
    pub fn start(from: &Host, to: &Host, congestion_control: &str) -> Result<Self, NetworkError> {
        let failed = |error| {
            SetupError::new(format!("send TCP with {congestion_control} from {} to {}", from.name, to.name), error)
                .hint("`sysctl net.ipv4.tcp_available_congestion_control` lists what this kernel has")
        };
        let address = (to.v4, 0);
        let listener = to.namespace.run(|| TcpListener::bind(address))?.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(5));
        let stream = from.namespace.run(connect)?.map_err(failed)?;
        SockRef::from(&stream).set_tcp_congestion(congestion_control.as_bytes()).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let sink = accept(&listener, stream.local_addr().map_err(failed)?).map_err(failed)?;
        sink.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let (received, mut threads) = (Arc::default(), Threads::default());
        let (counter, stop) = (Arc::clone(&received), Arc::clone(&threads.stop));
        threads.handles.push(to.namespace.spawn("tcp-sink", move || count(&sink, &counter, &stop))?);
        let stop = Arc::clone(&threads.stop);
        threads.handles.push(from.namespace.spawn("tcp-source", move || pour(&stream, &stop))?);
        Ok(GreedyTcp { received, threads })
    }

    /// Payload bytes that have arrived at the other host so far.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for GreedyTcp {
    fn drop(&mut self) {
        self.threads.end();
    }
}

#[derive(Debug, Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for handle in self.handles.drain(..) {
            // A panic in it has been printed.
            let _ = handle.join();
        }
    }
}

/// Where bytes end: what arrives, counted at the IP layer for UDP and as payload for TCP.
trait Sink {
    /// Bytes of the next read, to be counted.
    fn take(&self, buffer: &mut [u8]) -> std::io::Result<usize>;
}

impl Sink for UdpSocket {
    fn take(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.recv(buffer).map(|payload| payload + HEADER_BYTES as usize)
    }
}

impl Sink for TcpStream {
    fn take(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (&mut &*self).read(buffer)
    }
}

fn count(sink: &impl Sink, received: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match sink.take(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => drop(received.fetch_add(bytes as u64, Ordering::Relaxed)),
            Err(error) if is_patience(&error) => {}
            Err(error) => return tracing::warn!("cross traffic no longer arrives: {error}"),
        }
    }
}

fn send(socket: &UdpSocket, source: CrossTraffic, sent: &Mutex<Sent>, stop: &AtomicBool) {
    let payload = [0; u16::MAX as usize];
    let pacer = Pacer::starting_in(Span::from_millis(1));
    for packet in source {
        let offset = packet.time - Time::ZERO;
        while pacer.remaining(offset) > Span::from_millis(100) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PATIENCE);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if pacer.remaining(offset) < -LOST {
            continue;
        }
        pacer.wait(offset);
        let size = packet.size.saturating_sub(HEADER_BYTES) as usize;
        let now = clock::realtime();
        // An error, such as a full buffer, is a packet that was not sent.
        if socket.send(&payload[..size.min(payload.len())]).is_ok() {
            sent.lock().unwrap_or_else(PoisonError::into_inner).note(now, size as u64 + u64::from(HEADER_BYTES));
        }
    }
}

impl Sent {
    fn note(&mut self, now: Time, bytes: u64) {
        self.total += bytes;
        self.log.push_back((now, self.total));
        while self.log.front().is_some_and(|(at, _)| *at < now - MEMORY) {
            self.forgotten = self.log.pop_front().map_or(0, |(_, total)| total);
        }
    }
}

fn pour(mut stream: &TcpStream, stop: &AtomicBool) {
    let bytes = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&bytes) {
            Ok(_) => {}
            Err(error) if is_patience(&error) => {}
            Err(error) => return tracing::warn!("cross traffic has ended: {error}"),
        }
    }
}

/// The connection from `peer`, which is open already.
fn accept(listener: &TcpListener, peer: SocketAddr) -> std::io::Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept()?;
        if from == peer {
            return Ok(stream);
        }
    }
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
