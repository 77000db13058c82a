//! The thread that accepts connections, distinguishes control from probe connections, and answers requests for UDP.

use crate::pending::PendingConnections;
use crate::server_state::{SERVER_FULL_REASON, ServerState};
use crate::session;
use crate::stop_waker::StopWaker;
use crate::udp;
use crate::unidentified_connection::{AdmissionContext, IdentificationResult, IdentifiedClient};
use kumade_net::clock;
use kumade_net::listener::is_out_of_resources;
use kumade_net::readiness::EpollSet;
use kumade_net::waker::Waker;
use kumade_units::{Span, Time};
use kumade_wire::ServerMessage;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LISTENER_EVENT: u32 = 0;
const UDP_EVENT: u32 = 1;
const STOP_EVENT: u32 = 2;
/// The number of the pending connection at place zero.
const FIRST_PENDING_EVENT: u32 = 3;
/// Interval between checks of the stop flag, where nobody wakes the server for it, and of the timeouts of clients that there are.
const CHECK_INTERVAL: Span = Span::from_millis(100);
/// Maximum number of connections accepted, or UDP packets read, before other sockets are served.
const MAX_BATCH_EVENTS: usize = 64;

pub(super) struct Acceptor {
    listener: TcpListener,
    udp: UdpSocket,
    readiness: EpollSet,
    pending: PendingConnections,
    sessions: Vec<JoinHandle<()>>,
    shared: Arc<ServerState>,
    stop_waker: StopWaker,
}

impl Acceptor {
    pub(super) fn new(listener: TcpListener, udp: UdpSocket, shared: Arc<ServerState>) -> io::Result<Self> {
        let readiness = EpollSet::new()?;
        readiness.add_reader(&listener, LISTENER_EVENT)?;
        readiness.add_reader(&udp, UDP_EVENT)?;
        let pending = PendingConnections::new(shared.config.max_pending);
        let stop_waker = StopWaker::new()?;
        readiness.add_reader(stop_waker.receiver(), STOP_EVENT)?;
        Ok(Acceptor { listener, udp, readiness, pending, sessions: Vec::new(), shared, stop_waker })
    }

    pub(super) fn stop_waker(&mut self) -> Arc<Waker> {
        self.stop_waker.take()
    }

    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let is_idle = self.pending.is_empty() && self.sessions.is_empty();
            let checks = !is_idle || !self.stop_waker.is_used();
            let deadline = if checks { clock::monotonic() + CHECK_INTERVAL } else { Time::MAX };
            self.readiness.wait(&mut events, deadline)?;
            for event in &events {
                match event.number {
                    LISTENER_EVENT => self.accept(),
                    UDP_EVENT => self.answer_udp(),
                    STOP_EVENT => self.stop_waker.receiver().clear(),
                    number => self.advance_pending((number - FIRST_PENDING_EVENT) as usize),
                }
            }
            self.pending.expire();
            self.shared.enforce_time_limits();
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
        for _ in 0..MAX_BATCH_EVENTS {
            match self.listener.accept() {
                Ok((stream, peer)) => self.add_pending(stream, peer.ip()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_out_of_resources(&error) => {
                    tracing::warn!("cannot accept a connection: {error}; dropping one that has not identified itself");
                    if !self.pending.evict(self.shared.turn_holder_network()) {
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

    fn add_pending(&mut self, stream: TcpStream, peer: IpAddr) {
        if let Err(error) = stream.set_nonblocking(true) {
            tracing::debug!("cannot accept a connection: {error}");
            return;
        }
        let place = self.pending.admit(stream, peer, self.shared.turn_holder_network());
        let Some(opening) = self.pending.get(place) else { return };
        if let Err(error) = self.readiness.add_reader(&opening.stream, FIRST_PENDING_EVENT + place as u32) {
            // It is dropped when it times out.
            tracing::warn!("cannot watch a connection: {error}");
        }
    }

    fn advance_pending(&mut self, place: usize) {
        let Some(opening) = self.pending.get(place) else { return };
        let peer = opening.stream.peer_addr().map(|peer| peer.ip());
        let shared = &self.shared;
        let tries_keys = peer.as_ref().is_ok_and(|peer| shared.tries_keys(*peer));
        let context = AdmissionContext { config: &shared.config, clients: shared.clients(), tries_keys };
        let opened = opening.advance(&context, || peer.as_ref().is_ok_and(|peer| shared.has_room(*peer)));
        if matches!(opened, IdentificationResult::Pending) {
            return;
        }
        let Some(stream) = self.pending.take(place) else { return };
        if self.readiness.remove(&stream).is_err() {
            return;
        }
        match opened {
            IdentificationResult::Probe { authenticator: shown, index } => {
                self.shared.deliver_connection(shown, index, stream)
            }
            IdentificationResult::Client(client) => self.start_session(stream, *client),
            IdentificationResult::KeyRefused(key) => {
                if let Ok(peer) = peer {
                    self.shared.record_refused_key(peer, key);
                }
            }
            IdentificationResult::Pending | IdentificationResult::Discarded => {}
        }
    }

    fn start_session(&mut self, mut stream: TcpStream, mut client: IdentifiedClient) {
        let credential = client.session.credential(client.token);
        let member = match self.shared.register(client.token, credential, &stream) {
            Ok(Some(member)) => member,
            Ok(None) => {
                if client.session.send(&ServerMessage::Refused(SERVER_FULL_REASON.to_owned())).is_ok() {
                    let _ = stream.write_all(&client.session.take_outgoing());
                }
                return;
            }
            Err(error) => {
                tracing::warn!("cannot start a session: {error}");
                return;
            }
        };
        let shared = Arc::clone(&self.shared);
        let named = thread::Builder::new().name("session".into());
        match named.spawn(move || session::serve_session(&shared, member, stream, client)) {
            Ok(session) => self.sessions.push(session),
            Err(error) => tracing::warn!("cannot start a session: {error}"),
        }
    }

    fn answer_udp(&self) {
        for _ in 0..MAX_BATCH_EVENTS {
            if udp::answer_request(&self.udp, &self.shared).is_err() {
                return;
            }
        }
    }
}
