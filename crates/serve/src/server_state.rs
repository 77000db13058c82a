//! What the acceptor and the sessions share.

use crate::access_log::{AccessLog, RefusedKey};
use crate::client_table::{ClientChanges, ClientTable};
use crate::config::ServerConfig;
use crate::idle_flows::FlowNetworks;
use crate::named_client::NamedClient;
use crate::turn_queue::TurnQueue;
use kumade_daemon::{FairAdmission, Network, NetworkBudgets};
use kumade_net::clock;
use kumade_units::{Span, Time};
use kumade_wire::{Credential, CredentialBearer, Token};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// Maximum number of addresses from which a client may open UDP within a turn: one of the measurement, 26 of a trace's further flows, 32 of flows that
/// are to be idle, and some of what looks at address translation come to about 64; a NAT may map a retry of each differently.
const MAX_UDP_CANDIDATES: usize = 128;
/// Maximum number of answers to requests for UDP within a turn: of a measurement, of idle flows, and of what ports are compared with.
const MAX_UDP_ANSWERS: u32 = 512;
/// How long a session that is to end may take to tell its client why.
const ENDING_TIMEOUT: Span = Span::from_secs(1);
/// What it costs a network of its budget to have a key tried that is refused: on a core of today, a hundredth of it per network.
const KEY_TRIAL_COST: Span = Span::from_micros(500);
/// That budget, which one host with a wrong key does not spend.
const KEY_TRIAL_BURST: Span = Span::from_secs(10);
/// The reason for which a client is not accepted.
pub(super) const SERVER_FULL_REASON: &str = "the server has as many clients as it accepts; try again later";
/// The reason for which a client gives way to another.
const DISPLACED_REASON: &str = "the server has as many clients as it accepts, and your network has most of them";

/// What the acceptor and the sessions share.
pub(super) struct ServerState {
    pub(super) config: ServerConfig,
    clients: Mutex<Arc<ClientTable>>,
    pub(super) access_log: AccessLog,
    pub(super) stopping: AtomicBool,
    /// The networks of clients whose idle flows are kept.
    pub(super) idle_flow_networks: Arc<FlowNetworks>,
    key_trials: Mutex<NetworkBudgets>,
    state: Mutex<ClientRegistry>,
}

struct ClientRegistry {
    turns: TurnQueue,
    clients: BTreeMap<Token, Client>,
    /// Those that are not ending: by network, their numbers.
    ids_by_network: FairAdmission<u64>,
    next_id: u64,
}

/// A client as the acceptor knows it.
struct Client {
    id: u64,
    credential: Credential,
    peer: IpAddr,
    control: TcpStream,
    waker: Arc<EventFd>,
    /// Since when it is to end, and why.
    ending: Option<(Time, String)>,
    /// Present only during the client's turn.
    turn: Option<TurnAdmission>,
}

/// Probe connections and UDP requests that a turn accepts.
struct TurnAdmission {
    connection_sender: mpsc::Sender<(u16, TcpStream)>,
    /// Remaining number of probe connections.
    remaining_connections: u32,
    /// Remaining number of answers to requests for UDP.
    remaining_udp_replies: u32,
    udp_candidates: Vec<UdpCandidate>,
}

/// An address from which a client may open UDP.
#[derive(Clone, Copy)]
pub(super) struct UdpCandidate {
    /// What was sent there.
    nonce: [u8; 16],
    pub(super) address: SocketAddr,
    /// TTL or hop limit of the first request as it arrived.
    pub(super) arrived_hop_limit: Option<u8>,
}

/// Registration of a client with the server; ends when dropped.
pub(super) struct ClientRegistration {
    pub(super) credential: Credential,
    pub(super) waker: Arc<EventFd>,
    token: Token,
    id: u64,
    network: Network,
    shared: Arc<ServerState>,
}

/// Where a new client finds room.
enum Vacancy {
    Free,
    Replacing(u64),
}

impl ServerState {
    pub(super) fn new(config: ServerConfig) -> Self {
        let turns = TurnQueue::new(config.limits.turn);
        let state =
            ClientRegistry { turns, clients: BTreeMap::new(), ids_by_network: FairAdmission::default(), next_id: 0 };
        ServerState {
            clients: Mutex::new(Arc::new(ClientTable::new(&config))),
            access_log: AccessLog::new(config.access_log.clone()),
            config,
            stopping: AtomicBool::new(false),
            idle_flow_networks: Arc::default(),
            key_trials: Mutex::new(NetworkBudgets::new(KEY_TRIAL_BURST)),
            state: Mutex::new(state),
        }
    }

    /// Whether a client from `peer` is accepted, possibly in place of another.
    pub(super) fn has_room(&self, peer: IpAddr) -> bool {
        self.lock().find_room(Network::containing(peer), self.config.max_clients).is_some()
    }

    /// Whether keys of a client from `peer` are tried: not where its network has had too many refused lately.
    pub(super) fn tries_keys(&self, peer: IpAddr) -> bool {
        !self.lock_key_trials().is_spent(Network::containing(peer), clock::monotonic())
    }

    /// Tells of a client without a valid key, and counts what it has cost to find that out.
    pub(super) fn record_refused_key(&self, peer: IpAddr, key: RefusedKey) {
        let trials = if key == RefusedKey::Unknown { self.clients().keys.len() } else { 0 };
        let cost = KEY_TRIAL_COST * trials as i64;
        self.lock_key_trials().charge(Network::containing(peer), cost, clock::monotonic());
        self.access_log.record_refused_key(peer.to_canonical(), key);
    }

    /// Whom it serves now.
    pub(super) fn clients(&self) -> Arc<ClientTable> {
        Arc::clone(&self.lock_clients())
    }

    /// Serves these clients from now on, in place of those before.
    pub(super) fn replace_clients(&self, clients: &[NamedClient]) -> ClientChanges {
        let mut table = self.lock_clients();
        let replaced = Arc::new(table.with_clients(clients, self.config.key.as_ref()));
        let changes = replaced.changes_since(&table);
        *table = replaced;
        changes
    }

    fn lock_clients(&self) -> MutexGuard<'_, Arc<ClientTable>> {
        // Every change under this lock is consistent even if its thread panics.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_key_trials(&self) -> MutexGuard<'_, NetworkBudgets> {
        // Every change under this lock is consistent even if its thread panics.
        self.key_trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a client, which has been told `token`; none if there is no room. If the server is full, the newest client of
    /// the busiest network gives way.
    pub(super) fn register(
        self: &Arc<Self>,
        token: Token,
        credential: Credential,
        control: &TcpStream,
    ) -> io::Result<Option<ClientRegistration>> {
        let waker = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let peer = control.peer_addr()?.ip().to_canonical();
        let control = control.try_clone()?;
        let mut state = self.lock();
        let network = Network::containing(peer);
        let Some(room) = state.find_room(network, self.config.max_clients) else { return Ok(None) };
        if let Vacancy::Replacing(id) = room {
            state.end_session(id, DISPLACED_REASON.to_owned());
        }
        let id = state.next_id;
        state.next_id += 1;
        state.ids_by_network.insert(network, id);
        let client = Client { id, credential, peer, control, waker: Arc::clone(&waker), ending: None, turn: None };
        state.clients.insert(token, client);
        Ok(Some(ClientRegistration { credential, waker, token, id, network, shared: Arc::clone(self) }))
    }

    /// Ends the session of the client whose turn has lasted too long, and cuts off those that don't end.
    pub(super) fn enforce_time_limits(&self) {
        let now = clock::monotonic();
        let mut state = self.lock();
        if let (Some(id), Some((end, why))) = (state.turns.holder(), state.turns.turn_end())
            && now >= end
        {
            state.end_session(id, why.to_string());
        }
        for client in state.clients.values() {
            if client.ending.as_ref().is_some_and(|(since, _)| now - *since > ENDING_TIMEOUT) {
                let _ = client.control.shutdown(Shutdown::Both);
            }
        }
    }

    /// The network of the client whose turn it is.
    pub(super) fn turn_holder_network(&self) -> Option<Network> {
        self.lock().turns.holder_network()
    }

    /// Passes a probe connection to the session that it shows; it is closed unless it is that session's turn.
    pub(super) fn deliver_connection(&self, shown: Token, index: u16, stream: TcpStream) {
        let mut state = self.lock();
        let Some(client) = state.authenticated_turn_holder(CredentialBearer::Connection { index }, shown) else {
            return;
        };
        // Whoever sees the path knows what it shows: with a key, that serves only the client that has proved to have it.
        let is_client = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical() == client.peer);
        let Some(turn) = client.turn.as_mut().filter(|_| is_client || !self.clients().requires_key()) else { return };
        if let Some(rest) = turn.remaining_connections.checked_sub(1) {
            turn.remaining_connections = rest;
            // A session that has just ended closes the connection by dropping it.
            let _ = turn.connection_sender.send((index, stream));
        }
    }

    /// Handles a request for UDP from `source`: returns the nonce to answer with, and the local address of the client's
    /// control connection; none if the request must not be answered. Only the client's address is answered, which the TCP
    /// handshake has verified.
    pub(super) fn answer_udp(
        &self,
        shown: Token,
        source: SocketAddr,
        arrived_hop_limit: Option<u8>,
    ) -> Option<([u8; 16], SocketAddr)> {
        let mut state = self.lock();
        let client = state.authenticated_turn_holder(CredentialBearer::UdpRequest, shown)?;
        let local = client.control.local_addr().ok()?;
        let turn = client.turn.as_mut().filter(|_| client.peer == source.ip())?;
        turn.remaining_udp_replies = turn.remaining_udp_replies.checked_sub(1)?;
        if let Some(candidate) = turn.udp_candidates.iter().find(|candidate| candidate.address == source) {
            return Some((candidate.nonce, local));
        }
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).ok()?;
        if turn.udp_candidates.len() == MAX_UDP_CANDIDATES {
            return None;
        }
        turn.udp_candidates.push(UdpCandidate { nonce, address: source, arrived_hop_limit });
        Some((nonce, local))
    }

    /// Ends all sessions: they wake up, and their control connections read as closed.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let state = self.lock();
        for client in state.clients.values() {
            // Only for reading: the reason is still sent to the client. It may be closed already.
            let _ = client.control.shutdown(Shutdown::Read);
            wake_session(&client.waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClientRegistry> {
        // Every change under this lock is consistent even if its thread panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientRegistration {
    /// How much longer than on a short path the client may be idle in its turn.
    pub(super) fn set_idle_allowance(&self, allowance: Span) {
        self.shared.lock().turns.set_idle_allowance(self.id, allowance);
    }

    /// Queues for a turn.
    pub(super) fn enter_queue(&self) {
        self.shared.lock().turns.enter_queue(self.id, self.network, clock::monotonic());
    }

    /// Number of clients ahead; zero means that it is this client's turn.
    pub(super) fn queue_position(&self) -> Option<usize> {
        self.shared.lock().turns.position(self.id, clock::monotonic())
    }

    /// Why this session is to end, if it is.
    pub(super) fn ending_reason(&self) -> Option<String> {
        Some(self.shared.lock().clients.get(&self.token)?.ending.as_ref()?.1.clone())
    }

    /// Carries out what the client's turn is for, so that it does not count as idle meanwhile.
    pub(super) fn while_working<T>(&self, work: impl FnOnce() -> T) -> T {
        self.report_working(true);
        let done = work();
        self.report_working(false);
        done
    }

    /// Reports that such work begins, or that it has ended.
    pub(super) fn report_working(&self, is_working: bool) {
        self.shared.lock().turns.set_working(self.id, is_working, clock::monotonic());
    }

    /// Begins the turn: from now on probe connections, which arrive at the returned receiver, and UDP are accepted.
    pub(super) fn begin_turn(&self) -> mpsc::Receiver<(u16, TcpStream)> {
        let (probes, arrivals) = mpsc::channel();
        let allowed = self.shared.config.limits.connections.saturating_mul(4);
        let turn = TurnAdmission {
            connection_sender: probes,
            remaining_connections: allowed,
            remaining_udp_replies: MAX_UDP_ANSWERS,
            udp_candidates: Vec::new(),
        };
        if let Some(client) = self.shared.lock().clients.get_mut(&self.token) {
            client.turn = Some(turn);
        }
        arrivals
    }

    /// To whom `nonce` was sent.
    pub(super) fn candidate_of_nonce(&self, nonce: [u8; 16]) -> Option<UdpCandidate> {
        let state = self.shared.lock();
        let candidates = &state.clients.get(&self.token)?.turn.as_ref()?.udp_candidates;
        candidates.iter().find(|candidate| candidate.nonce == nonce).copied()
    }

    /// Gives up the turn or the place in the queue.
    pub(super) fn remove_client(&self) {
        self.shared.lock().remove_client(self.id, self.token);
    }
}

impl Drop for ClientRegistration {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.remove_client(self.id, self.token);
        state.clients.remove(&self.token);
        state.ids_by_network.remove(self.network, &self.id);
    }
}

impl ClientRegistry {
    /// Gives up the turn or the place in the queue, and wakes the client whose turn it is then.
    fn remove_client(&mut self, id: u64, token: Token) {
        if let Some(client) = self.clients.get_mut(&token) {
            client.turn = None;
        }
        let before = self.turns.holder();
        self.turns.leave_queue(id, clock::monotonic());
        let next = self.turns.holder().filter(|_| self.turns.holder() != before);
        self.clients.values().filter(|client| Some(client.id) == next).for_each(|client| wake_session(&client.waker));
    }

    /// The client with the turn, if this is what such a connection or packet of its session shows.
    fn authenticated_turn_holder(&mut self, bearer: CredentialBearer, shown: Token) -> Option<&mut Client> {
        let mut clients = self.clients.values_mut().filter(|client| client.turn.is_some());
        clients.find(|client| client.credential.is_authenticator_of(bearer, &shown))
    }

    /// Makes the session of a client end, unless it is already ending: it wakes up, its control connection reads as closed,
    /// and no probe connection is accepted any more.
    fn end_session(&mut self, id: u64, why: String) {
        let Some(client) = self.clients.values_mut().find(|client| client.id == id && client.ending.is_none()) else {
            return;
        };
        client.ending = Some((clock::monotonic(), why));
        client.turn = None;
        self.ids_by_network.remove(Network::containing(client.peer), &id);
        // Only for reading: the reason is still sent to the client. It may be closed already.
        let _ = client.control.shutdown(Shutdown::Read);
        wake_session(&client.waker);
    }

    /// Where a client of this network would find room, if anywhere.
    fn find_room(&self, network: Network, max_clients: usize) -> Option<Vacancy> {
        if self.ids_by_network.len() < max_clients {
            return Some(Vacancy::Free);
        }
        if self.clients.len() >= 2 * max_clients {
            // As many as that are ending.
            return None;
        }
        let now = clock::monotonic();
        let business = |network, count| (count, self.turns.priority_time(network, now));
        let busiest = self.ids_by_network.busiest_network(business)?;
        let count = self.ids_by_network.member_count(busiest);
        if business(network, self.ids_by_network.member_count(network) + 1) >= business(busiest, count) {
            return None;
        }
        let holder = self.turns.holder();
        self.ids_by_network.members(busiest).rev().find(|&&id| Some(id) != holder).map(|&id| Vacancy::Replacing(id))
    }
}

fn wake_session(waker: &EventFd) {
    // Fails only if the counter is full, in which case the session is awake already.
    let _ = waker.write(1);
}
