use crate::admission::{Admission, Verdict};
use crate::cipher::Cipher;
use crate::event::{Event, PeerError, Refused};
use crate::limits::MAX_RETRY;
use crate::mac::{self, MacKeys};
use crate::message::{
    COOKIE_NONCE, INITIATION, INITIATION_NOISE, INITIATION_PAYLOAD, INSTANCE, Kind, OVERHEAD, RESPONSE, RESPONSE_NOISE,
    RESPONSE_PAYLOAD, array, read_u32,
};
use crate::noise::{Initiator, Prologue, Responder};
use crate::peer::{Due, Peer, PeerId, PeerState, Route, SentMessage};
use crate::policy::Policy;
use crate::session::Session;
use crate::timestamp::{self, Stamper, Timestamp};
use crate::{PresharedKey, PrivateKey, PublicKey};
use kumade_units::{Span, Time};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// The number of the path on which an endpoint seals its own keepalives. The sessions that it hands out own all others.
pub const ENDPOINT_PATH: u8 = u8::MAX;

/// The most by which a session is replaced early, at random.
const MAX_REKEY_LEAD_MILLIS: u32 = 4000;

/// The initiation that a response answers: of whom, under which index, of which life of the peer.
struct Answered {
    id: PeerId,
    index: u32,
    instance: u64,
}

/// The handshakes of one host with all its peers. The crate's first page has the loop contract.
pub struct Endpoint {
    identity: PrivateKey,
    instance: [u8; INSTANCE],
    policy: Policy,
    random: Box<dyn CryptoRng + Send>,
    own_macs: MacKeys,
    admission: Admission,
    stamper: Stamper,
    peers: BTreeMap<PeerId, Peer>,
    by_key: BTreeMap<PublicKey, PeerId>,
    /// Of sessions, and of the initiations that wait for a response.
    by_index: BTreeMap<u32, PeerId>,
    /// Where peers may be: the addresses of their routes.
    expected: BTreeSet<IpAddr>,
    timers: BTreeSet<(Time, PeerId)>,
    events: VecDeque<Event>,
    next_id: u32,
}

impl Endpoint {
    /// A host without peers. `random` makes the ephemeral keys: outside of tests, it is the operating system's.
    pub fn new(identity: PrivateKey, policy: Policy, mut random: Box<dyn CryptoRng + Send>) -> Self {
        let mut instance = [0; INSTANCE];
        random.fill_bytes(&mut instance);
        Endpoint {
            instance,
            own_macs: MacKeys::of(&identity.public()),
            admission: Admission::new(&policy),
            identity,
            policy,
            random,
            stamper: Stamper::new(),
            peers: BTreeMap::new(),
            by_key: BTreeMap::new(),
            by_index: BTreeMap::new(),
            expected: BTreeSet::new(),
            timers: BTreeSet::new(),
            events: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Adds a peer. Without a pre-shared key, give the default one.
    ///
    /// # Errors
    /// It is this host itself, or there already.
    pub fn add_peer(&mut self, key: PublicKey, psk: PresharedKey) -> Result<PeerId, PeerError> {
        if key == self.identity.public() {
            return Err(PeerError::OwnKey(key));
        }
        if self.by_key.contains_key(&key) {
            return Err(PeerError::Duplicate(key));
        }
        let id = PeerId(self.next_id);
        self.next_id += 1;
        self.by_key.insert(key, id);
        self.peers.insert(id, Peer::new(key, psk));
        Ok(id)
    }

    /// Forgets a peer: remove it from the tables, too.
    pub fn remove_peer(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.remove(&id) {
            self.by_key.remove(&peer.key);
            self.by_index.retain(|_, of| *of != id);
            self.timers.retain(|(_, of)| *of != id);
            self.note_addresses();
        }
    }

    /// The routes by which the peer may be reached; initiations try one after the other, a new one at once. Authentic handshake messages
    /// from elsewhere replace the address of their path.
    pub fn set_routes(&mut self, id: PeerId, routes: Vec<Route>, now: Time) {
        self.update(id, |peer| {
            let before = std::mem::replace(&mut peer.routes, routes);
            let new = peer.routes.iter().copied().find(|route| !before.contains(route));
            if let Some(attempt) = &mut peer.attempt {
                attempt.hurry(new, now);
            }
        });
        self.note_addresses();
    }

    /// Wishes for a session, because there is none to send with, the one in use is worn, or the peer seems to have lost
    /// it. Does nothing while a handshake is under way or the session is younger than 5 s.
    pub fn connect(&mut self, id: PeerId, now: Time) {
        self.update(id, |peer| peer.connect(now));
    }

    /// Wishes for a new session however young the last one is: what carried that has ended, and the peer may have, too.
    /// Does nothing while a handshake is under way.
    pub fn connect_anew(&mut self, id: PeerId, now: Time) {
        self.update(id, |peer| peer.connect_anew(now));
    }

    /// Tells that data was sent to the peer; once a second is enough while it flows.
    pub fn data_sent(&mut self, id: PeerId, now: Time) {
        self.update(id, |peer| peer.data_sent(now));
    }

    /// Tells that data came from the peer; once a second is enough while it flows.
    pub fn data_received(&mut self, id: PeerId, now: Time) {
        self.update(id, |peer| peer.data_received(now));
    }

    /// Tells that a keepalive came from the peer.
    pub fn keepalive_received(&mut self, id: PeerId, now: Time) {
        self.update(id, |peer| peer.heard(now));
    }

    /// What there is with a peer, to be shown. None if there is no such peer.
    pub fn peer_state(&self, id: PeerId, now: Time) -> Option<PeerState<'_>> {
        self.peers.get(&id).map(|peer| peer.state(now))
    }

    /// When to call [`advance`](Self::advance).
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The next thing to do. Ask after each other call until there is none.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Does what is due. `wall` is the time since the Unix epoch; it may step.
    pub fn advance(&mut self, now: Time, wall: Time) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.advance_peer(id, now, wall);
            self.reschedule(id);
        }
    }

    /// Takes in a handshake message or cookie reply ([`Kind`]) that came by `from`.
    ///
    /// # Errors
    /// Why it was dropped: for counters, not to be answered.
    pub fn receive(&mut self, datagram: &[u8], from: Route, now: Time) -> Result<(), Refused> {
        match Kind::of(datagram) {
            Some(Kind::Initiation) => self.receive_initiation(datagram, from, now),
            Some(Kind::Response) => self.receive_response(datagram, from, now),
            Some(Kind::CookieReply) => self.receive_cookie(datagram, now),
            Some(Kind::Data) | None => Err(Refused::Malformed),
        }
    }

    fn receive_initiation(&mut self, message: &[u8], from: Route, now: Time) -> Result<(), Refused> {
        self.admit(message, from, now)?;
        let noise = array(&message[INITIATION_NOISE]);
        let responder = Responder::read(Prologue::Session, &self.identity, &noise, &mut *self.random)
            .map_err(|_| Refused::Forged)?;
        let id = *self.by_key.get(&responder.initiator).ok_or(Refused::UnknownPeer)?;
        let (instance, rest) = responder.payload.split_at(INSTANCE);
        let instance = u64::from_le_bytes(array(instance));
        let (stamp, offer) = rest.split_at(timestamp::SIZE);
        let stamp = Timestamp(array(stamp));
        let offer = Cipher::from_byte(offer[0]).ok_or(Refused::Forged)?;
        let result = self.update(id, |peer| {
            if peer.greatest.is_some_and(|greatest| stamp <= greatest) {
                // The peer may have restarted with a clock that is behind. It can't be answered, for whoever copies its
                // messages could ask as well; but an initiation of ours reaches none but itself.
                if peer.is_silent(now) {
                    peer.connect(now);
                }
                return Err(Refused::Replayed);
            }
            peer.greatest = Some(stamp);
            Ok(())
        });
        result.unwrap_or(Err(Refused::UnknownPeer))?;
        self.hear(id, from, now);
        let answered = Answered { id, index: read_u32(message, 4), instance };
        self.respond(answered, responder, self.policy.cipher.with(offer), from, now)
    }

    fn respond(
        &mut self,
        Answered { id, index: receiver, instance }: Answered,
        responder: Responder,
        cipher: Cipher,
        to: Route,
        now: Time,
    ) -> Result<(), Refused> {
        let index = self.new_index();
        let peer = self.peers.get_mut(&id).ok_or(Refused::UnknownPeer)?;
        let mut payload = [0; RESPONSE_PAYLOAD];
        payload[..INSTANCE].copy_from_slice(&self.instance);
        payload[INSTANCE] = cipher.to_byte();
        let (noise, keys) = responder.respond(&peer.psk, &payload).map_err(|_| Refused::Forged)?;
        let mut message = vec![0; RESPONSE];
        message[..4].copy_from_slice(&Kind::Response.prefix());
        message[4..8].copy_from_slice(&index.to_le_bytes());
        message[8..12].copy_from_slice(&receiver.to_le_bytes());
        message[RESPONSE_NOISE].copy_from_slice(&noise);
        let mac1 = peer.macs.sign(&mut message, peer.cookie(to.path, now));
        peer.last_sent = Some(SentMessage { index, mac1, path: to.path });
        self.establish(id, Session::new(cipher, &keys, (index, receiver), false, now), to, instance, now);
        self.events.push_back(Event::Transmit { to, datagram: message });
        Ok(())
    }

    fn receive_response(&mut self, message: &[u8], from: Route, now: Time) -> Result<(), Refused> {
        let (sender, index) = (read_u32(message, 4), read_u32(message, 8));
        let id = *self.by_index.get(&index).ok_or(Refused::Unexpected)?;
        if self.outstanding(id, index).is_none() {
            return Err(Refused::Unexpected);
        }
        self.admit(message, from, now)?;
        let initiator = self.outstanding(id, index).ok_or(Refused::Unexpected)?;
        let (payload, keys) = initiator.finish(&array(&message[RESPONSE_NOISE])).map_err(|_| Refused::Forged)?;
        let (instance, choice) = payload.split_at(INSTANCE);
        let cipher = Cipher::from_byte(choice[0]).filter(|chosen| *chosen == self.policy.cipher.with(*chosen));
        let session = Session::new(cipher.ok_or(Refused::Forged)?, &keys, (index, sender), true, now);
        self.finish(id, session, u64::from_le_bytes(array(instance)), from, now);
        Ok(())
    }

    /// The peer has answered our initiation.
    fn finish(&mut self, id: PeerId, session: Session, instance: u64, from: Route, now: Time) {
        self.update(id, |peer| peer.attempt = None);
        self.hear(id, from, now);
        self.establish(id, session, from, instance, now);
        // The responder sends nothing before it has heard that its response arrived.
        self.send_keepalive(id, now);
    }

    fn receive_cookie(&mut self, message: &[u8], now: Time) -> Result<(), Refused> {
        let index = read_u32(message, 4);
        let id = *self.by_index.get(&index).ok_or(Refused::Unexpected)?;
        let result = self.update(id, |peer| {
            let sent = peer.last_sent.filter(|sent| sent.index == index).ok_or(Refused::Unexpected)?;
            let cookie = peer.macs.open_cookie(message, &sent.mac1).ok_or(Refused::Forged)?;
            peer.keep_cookie(sent.path, cookie, now);
            Ok(())
        });
        result.unwrap_or(Err(Refused::Unexpected))
    }

    /// Whether a handshake message is worth computing on.
    fn admit(&mut self, message: &[u8], from: Route, now: Time) -> Result<(), Refused> {
        if !self.own_macs.has_valid_mac1(message) {
            return Err(Refused::Stranger);
        }
        let is_expected = self.expected.contains(&from.address.ip().to_canonical());
        match self.admission.judge(message, from.address, is_expected, now, &mut *self.random) {
            Verdict::Compute => Ok(()),
            Verdict::Drop => Err(Refused::RateLimited),
            Verdict::AskForCookie(cookie) => {
                let mut nonce = [0; COOKIE_NONCE];
                self.random.fill_bytes(&mut nonce);
                let (receiver, mac1) = (read_u32(message, 4), mac::mac1(message));
                let reply = self.own_macs.cookie_reply(receiver, nonce, cookie, &mac1);
                self.events.push_back(Event::Transmit { to: from, datagram: reply.to_vec() });
                Err(Refused::CookieRequired)
            }
        }
    }

    /// An authentic handshake message came from a peer.
    fn hear(&mut self, id: PeerId, from: Route, now: Time) {
        let is_new = self.update(id, |peer| {
            peer.heard(now);
            peer.learn(from)
        });
        if is_new == Some(true) {
            self.note_addresses();
        }
    }

    fn note_addresses(&mut self) {
        let routes = self.peers.values().flat_map(|peer| &peer.routes);
        self.expected = routes.map(|route| route.address.ip().to_canonical()).collect();
    }

    /// Keeps a new session, and hands it out.
    fn establish(&mut self, id: PeerId, mut session: Session, route: Route, instance: u64, now: Time) {
        let index = session.index();
        let lead = Span::from_millis(i64::from(self.random.next_u32() % MAX_REKEY_LEAD_MILLIS));
        let Ok(own) = session.take_paths(ENDPOINT_PATH..=ENDPOINT_PATH) else { return };
        let dropped = self.update(id, |peer| {
            peer.rekey_lead = lead;
            peer.keyring.install(own, now)
        });
        for dropped in dropped.into_iter().flatten() {
            self.by_index.remove(&dropped);
        }
        self.by_index.insert(index, id);
        self.events.push_back(Event::Established { peer: id, session, route, instance });
    }

    fn advance_peer(&mut self, id: PeerId, now: Time, wall: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        for expired in peer.keyring.expire(now) {
            self.by_index.remove(&expired);
        }
        let owes_keepalive = peer.advance_traffic(now);
        match peer.advance_attempt(now) {
            Due::NotYet => {}
            Due::Superseded => self.end_attempt(id),
            Due::GiveUp => {
                self.end_attempt(id);
                self.events.push_back(Event::Unreachable { peer: id });
            }
            Due::Initiate => self.initiate(id, now, wall),
        }
        if owes_keepalive {
            self.send_keepalive(id, now);
        }
    }

    fn initiate(&mut self, id: PeerId, now: Time, wall: Time) {
        let index = self.new_index();
        let jitter = self.random.next_u32();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let route = peer.route_to_try();
        let Some(attempt) = &mut peer.attempt else { return };
        let Some(to) = route else {
            // Until the caller gives it a route.
            attempt.next = now + MAX_RETRY;
            return;
        };
        let mut payload = [0; INITIATION_PAYLOAD];
        payload[..INSTANCE].copy_from_slice(&self.instance);
        let (stamp, rest) = payload[INSTANCE..].split_at_mut(timestamp::SIZE);
        stamp.copy_from_slice(&self.stamper.stamp(wall).0);
        rest[0] = self.policy.cipher.to_byte();
        attempt.count(now, jitter);
        let begun =
            Initiator::begin(Prologue::Session, &self.identity, &peer.key, &peer.psk, &payload, &mut *self.random);
        // Fails only for a public key that is none.
        let Ok((initiator, noise)) = begun else { return };
        let mut message = vec![0; INITIATION];
        message[..4].copy_from_slice(&Kind::Initiation.prefix());
        message[4..8].copy_from_slice(&index.to_le_bytes());
        message[INITIATION_NOISE].copy_from_slice(&noise);
        if let Some((old, _)) = attempt.outstanding.replace((index, initiator)) {
            self.by_index.remove(&old);
        }
        self.by_index.insert(index, id);
        let mac1 = peer.macs.sign(&mut message, peer.cookie(to.path, now));
        peer.last_sent = Some(SentMessage { index, mac1, path: to.path });
        self.events.push_back(Event::Transmit { to, datagram: message });
    }

    fn end_attempt(&mut self, id: PeerId) {
        let attempt = self.peers.get_mut(&id).and_then(|peer| peer.attempt.take());
        if let Some((index, _)) = attempt.and_then(|attempt| attempt.outstanding) {
            self.by_index.remove(&index);
        }
    }

    fn send_keepalive(&mut self, id: PeerId, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut datagram = vec![0; OVERHEAD];
        if let Some(to) = peer.route_of_keepalives()
            && peer.keyring.seal(ENDPOINT_PATH, &mut datagram, now).is_ok()
        {
            self.events.push_back(Event::Transmit { to, datagram });
        }
    }

    /// The initiation with this index that the peer has not answered yet.
    fn outstanding(&mut self, id: PeerId, index: u32) -> Option<&mut Initiator> {
        let (of, initiator) = self.peers.get_mut(&id)?.attempt.as_mut()?.outstanding.as_mut()?;
        (*of == index).then_some(initiator)
    }

    /// One that is not in use, and that nobody guesses.
    fn new_index(&mut self) -> u32 {
        loop {
            let index = self.random.next_u32();
            if !self.by_index.contains_key(&index) {
                return index;
            }
        }
    }

    /// Changes a peer, and its timer with it.
    fn update<R>(&mut self, id: PeerId, change: impl FnOnce(&mut Peer) -> R) -> Option<R> {
        let result = change(self.peers.get_mut(&id)?);
        self.reschedule(id);
        Some(result)
    }

    fn reschedule(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let deadline = peer.deadline();
        let scheduled = std::mem::replace(&mut peer.scheduled, deadline);
        if scheduled != deadline {
            scheduled.map(|at| self.timers.remove(&(at, id)));
            deadline.map(|at| self.timers.insert((at, id)));
        }
    }
}
