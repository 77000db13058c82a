//! The thread that accepts connections, distinguishes control from probe connections, and answers requests for UDP.

use crate::pending::PendingConnections;
use crate::session;
use crate::shared::Shared;
use crate::udp;
use net::clock;
use net::readiness::Readiness;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use units::Span;
use wire::{Answer, Preamble, PreambleError, Verdict};

const LISTENER: u32 = 0;
const UDP: u32 = 1;
/// The number of the pending connection at place zero.
const FIRST_PENDING: u32 = 2;
/// Interval between checks of the stop flag and of pending connections' timeouts.
const TICK: Span = Span::from_millis(100);
/// Maximum number of connections accepted, or UDP packets read, before other sockets are served.
const BATCH: usize = 64;

pub(super) struct Acceptor {
    listener: TcpListener,
    udp: UdpSocket,
    readiness: Readiness,
    pending: PendingConnections,
    sessions: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl Acceptor {
    pub(super) fn new(listener: TcpListener, udp: UdpSocket, shared: Arc<Shared>) -> io::Result<Self> {
        let readiness = Readiness::new()?;
        readiness.add_reader(&listener, LISTENER)?;
        readiness.add_reader(&udp, UDP)?;
        let pending = PendingConnections::new(shared.config.max_pending);
        Ok(Acceptor { listener, udp, readiness, pending, sessions: Vec::new(), shared })
    }

    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            self.readiness.wait(&mut events, clock::monotonic() + TICK)?;
            for event in &events {
                match event.number {
                    LISTENER => self.accept(),
                    UDP => self.answer_udp(),
                    number => self.hear((number - FIRST_PENDING) as usize),
                }
            }
            self.pending.expire();
            self.sessions.retain(|session| !session.is_finished());
        }
        self.shared.stop();
        for session in self.sessions {
            // A session that panicked has released its resources all the same.
            let _ = session.join();
        }
        Ok(())
    }

    fn accept(&mut self) {
        for _ in 0..BATCH {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if out_of_descriptors(&error) => {
                    tracing::warn!("cannot accept a connection: {error}; dropping the oldest idle one");
                    if !self.pending.evict() {
                        // All descriptors belong to sessions: wait until some of them end.
                        thread::sleep(Duration::from_millis(20));
                        return;
                    }
                }
                // The connection was closed before it was accepted.
                Err(error) => tracing::debug!("cannot accept a connection: {error}"),
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) {
        if let Err(error) = stream.set_nonblocking(true) {
            tracing::debug!("cannot accept a connection: {error}");
            return;
        }
        let place = self.pending.admit(stream);
        let Some(stream) = self.pending.stream(place) else { return };
        if let Err(error) = self.readiness.add_reader(stream, FIRST_PENDING + place as u32) {
            // It is dropped when it times out.
            tracing::warn!("cannot watch a connection: {error}");
        }
    }

    fn hear(&mut self, place: usize) {
        let Some((stream, bytes)) = self.pending.hear(place) else { return };
        if self.readiness.remove(&stream).is_err() {
            return;
        }
        match Preamble::decode(&bytes) {
            Ok(Preamble::Probe { token, index }) => self.shared.deliver(token, index, stream),
            Ok(Preamble::Control { encrypted }) => {
                let has_room = stream.peer_addr().is_ok_and(|peer| self.shared.has_room(peer.ip()));
                match wire::judge(encrypted, self.shared.config.key.is_some(), has_room) {
                    Verdict::Welcome => self.start(stream),
                    verdict => reject(&stream, verdict),
                }
            }
            Err(PreambleError::OtherVersion { theirs }) => {
                tracing::info!("rejected a client with protocol version {theirs}");
                reject(&stream, Verdict::OtherVersion);
            }
            Err(error) => tracing::debug!("dropped a connection: {error}"),
        }
    }

    fn start(&mut self, stream: TcpStream) {
        let shared = Arc::clone(&self.shared);
        let named = thread::Builder::new().name("session".into());
        match self.shared.join(&stream).and_then(|member| named.spawn(move || session::run(&shared, member, stream))) {
            Ok(session) => self.sessions.push(session),
            Err(error) => tracing::warn!("cannot start a session: {error}"),
        }
    }

    fn answer_udp(&self) {
        for _ in 0..BATCH {
            if udp::answer_one(&self.udp, &self.shared).is_err() {
                return;
            }
        }
    }
}

/// Sends the reason, and closes the connection.
fn reject(mut stream: &TcpStream, verdict: Verdict) {
    // Received data must be read, or closing would reset the connection and discard the answer.
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(&Answer(verdict).encode());
    let _ = stream.shutdown(Shutdown::Write);
}

fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(nix::libc::EMFILE | nix::libc::ENFILE | nix::libc::ENOBUFS | nix::libc::ENOMEM))
}
