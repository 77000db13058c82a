//! What the acceptor and the sessions share.

use crate::config::ServerConfig;
use crate::turns::Turns;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use wire::Token;

/// Maximum number of addresses from which a client may open UDP within a turn: a NAT may map retries differently.
const MAX_UDP_CANDIDATES: usize = 4;
/// Maximum number of answers to requests for UDP within a turn.
const MAX_UDP_ANSWERS: u32 = 32;

/// What the acceptor and the sessions share.
pub(super) struct Shared {
    pub(super) config: ServerConfig,
    pub(super) stopping: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    turns: Turns,
    clients: BTreeMap<Token, Client>,
    next_id: u64,
}

/// A client as the acceptor knows it.
struct Client {
    id: u64,
    peer: IpAddr,
    control: TcpStream,
    waker: Arc<EventFd>,
    /// Present only during the client's turn.
    turn: Option<OpenTurn>,
}

/// Probe connections and UDP requests that a turn accepts.
struct OpenTurn {
    probes: mpsc::Sender<(u16, TcpStream)>,
    /// Remaining number of probe connections.
    connections: u32,
    /// Remaining number of answers to requests for UDP.
    answers: u32,
    candidates: Vec<([u8; 16], SocketAddr)>,
}

/// Registration of a client with the server; ends when dropped.
pub(super) struct Membership {
    pub(super) token: Token,
    pub(super) waker: Arc<EventFd>,
    id: u64,
    shared: Arc<Shared>,
}

impl Shared {
    pub(super) fn new(config: ServerConfig) -> Self {
        Shared { config, stopping: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Whether another client is accepted from `peer`: a site may have a quarter of the clients at most.
    pub(super) fn has_room(&self, peer: IpAddr) -> bool {
        let state = self.lock();
        let same = state.clients.values().filter(|client| site(client.peer) == site(peer)).count();
        state.clients.len() < self.config.max_clients && same < self.config.max_clients.div_ceil(4)
    }

    /// Registers a client under a new token.
    pub(super) fn join(self: &Arc<Self>, control: &TcpStream) -> io::Result<Membership> {
        let mut token = Token([0; 16]);
        getrandom::fill(&mut token.0).map_err(io::Error::other)?;
        let waker = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let peer = control.peer_addr()?.ip().to_canonical();
        let control = control.try_clone()?;
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.clients.insert(token, Client { id, peer, control, waker: Arc::clone(&waker), turn: None });
        Ok(Membership { token, waker, id, shared: Arc::clone(self) })
    }

    /// Passes a probe connection to the session of `token`; it is closed unless it is that session's turn.
    pub(super) fn deliver(&self, token: Token, index: u16, stream: TcpStream) {
        let mut state = self.lock();
        let Some(turn) = state.clients.get_mut(&token).and_then(|client| client.turn.as_mut()) else { return };
        if let Some(rest) = turn.connections.checked_sub(1) {
            turn.connections = rest;
            // A session that has just ended closes the connection by dropping it.
            let _ = turn.probes.send((index, stream));
        }
    }

    /// Handles a request for UDP from `source`: returns the nonce to answer with, and the local address of the client's
    /// control connection; none if the request must not be answered. Only the client's address is answered, which the TCP
    /// handshake has verified.
    pub(super) fn answer_udp(&self, token: Token, source: SocketAddr) -> Option<([u8; 16], SocketAddr)> {
        let mut state = self.lock();
        let client = state.clients.get_mut(&token)?;
        let local = client.control.local_addr().ok()?;
        let turn = client.turn.as_mut().filter(|_| client.peer == source.ip())?;
        turn.answers = turn.answers.checked_sub(1)?;
        if let Some((nonce, _)) = turn.candidates.iter().find(|(_, address)| *address == source) {
            return Some((*nonce, local));
        }
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).ok()?;
        if turn.candidates.len() == MAX_UDP_CANDIDATES {
            return None;
        }
        turn.candidates.push((nonce, source));
        Some((nonce, local))
    }

    /// Ends all sessions: they wake up, and their control connections read as closed.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let state = self.lock();
        for client in state.clients.values() {
            // Only for reading: the reason is still sent to the client. It may be closed already.
            let _ = client.control.shutdown(Shutdown::Read);
            wake(&client.waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under this lock is consistent even if its thread panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// Queues for a turn.
    pub(super) fn enter(&self) {
        self.shared.lock().turns.enter(self.id);
    }

    /// Number of clients ahead; zero means that it is this client's turn.
    pub(super) fn place(&self) -> Option<usize> {
        self.shared.lock().turns.place(self.id)
    }

    /// Begins the turn: from now on probe connections, which arrive at the returned receiver, and UDP are accepted.
    pub(super) fn begin_turn(&self) -> mpsc::Receiver<(u16, TcpStream)> {
        let (probes, arrivals) = mpsc::channel();
        let allowed = self.shared.config.limits.connections.saturating_mul(4);
        let turn = OpenTurn { probes, connections: allowed, answers: MAX_UDP_ANSWERS, candidates: Vec::new() };
        if let Some(client) = self.shared.lock().clients.get_mut(&self.token) {
            client.turn = Some(turn);
        }
        arrivals
    }

    /// The address to which `nonce` was sent.
    pub(super) fn proved(&self, nonce: [u8; 16]) -> Option<SocketAddr> {
        let state = self.shared.lock();
        let candidates = &state.clients.get(&self.token)?.turn.as_ref()?.candidates;
        candidates.iter().find(|(sent, _)| *sent == nonce).map(|(_, address)| *address)
    }

    /// Gives up the turn or the place in the queue.
    pub(super) fn leave(&self) {
        self.shared.lock().leave(self.id, self.token);
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.leave(self.id, self.token);
        state.clients.remove(&self.token);
    }
}

impl State {
    fn leave(&mut self, id: u64, token: Token) {
        if let Some(client) = self.clients.get_mut(&token) {
            client.turn = None;
        }
        if self.turns.leave(id) {
            for client in self.clients.values().filter(|client| self.turns.place(client.id).is_some()) {
                wake(&client.waker);
            }
        }
    }
}

/// The addresses of one subscriber: in IPv6 at least a /64 (RFC 6177).
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 => v4,
    }
}

fn wake(waker: &EventFd) {
    // Fails only if the counter is full, in which case the session is awake already.
    let _ = waker.write(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_an_address_or_an_ipv6_network() {
        let same = |a: &str, b: &str| site(a.parse().unwrap()) == site(b.parse().unwrap());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::1"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }
}
