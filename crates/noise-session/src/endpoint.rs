use crate::admission::{Admission, AdmissionDecision, Admitted, HostPrefix, MessageSource};
use crate::cipher::Cipher;
use crate::event::{EndpointEvent, PeerError, RefusedDatagram};
use crate::limits::MAX_RETRY_INTERVAL;
use crate::mac::{self, MacKeys};
use crate::message::{
    COOKIE_NONCE_BYTES, DatagramKind, INITIATION_BYTES, INITIATION_NOISE_RANGE, INITIATION_PAYLOAD_BYTES,
    INSTANCE_BYTES, LONG_INDICES, OVERHEAD_BYTES, RESPONSE_BYTES, RESPONSE_NOISE_RANGE, RESPONSE_PAYLOAD_BYTES,
    SHORT_INDICES, read_u32, to_array,
};
use crate::noise::{NoiseInitiator, NoiseResponder, Prologue};
use crate::notice::{HandshakeNotice, KeyRefusals};
use crate::peer::{DueAction, PeerHandshakes, PeerId, PeerState, Route, SentMessage};
use crate::policy::HandshakePolicy;
use crate::session::Session;
use crate::timestamp::{self, Timestamp, TimestampSource};
use crate::timestamp_reply::TimestampReplyKey;
use crate::{PresharedKey, PrivateKey, PublicKey};
use kumade_units::{Span, Time};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of the path on which an endpoint seals its own keepalives. The sessions that it hands out own all others.
pub const ENDPOINT_PATH: u8 = u8::MAX;

/// The most by which a session is replaced early, at random.
const MAX_REKEY_LEAD_MILLIS: u32 = 4000;

/// By which route a message came, and whether its sender is known to receive there.
#[derive(Debug, Clone, Copy)]
struct MessageOrigin {
    route: Route,
    is_proven: bool,
}

/// The initiation that a response answers: of whom, under which index, of which life of the peer; the capabilities that both have.
struct AnsweredInitiation {
    id: PeerId,
    index: u32,
    instance: u64,
    capabilities: u8,
}

/// The handshakes of one host with all its peers. The crate's first page has the loop contract.
pub struct Endpoint {
    identity: PrivateKey,
    instance: [u8; INSTANCE_BYTES],
    policy: HandshakePolicy,
    random: Box<dyn CryptoRng + Send>,
    own_macs: MacKeys,
    admission: Admission,
    timestamps: TimestampSource,
    peers: BTreeMap<PeerId, PeerHandshakes>,
    by_key: BTreeMap<PublicKey, PeerId>,
    /// Of sessions, and of the initiations that wait for a response.
    by_index: BTreeMap<u32, PeerId>,
    /// Where peers may be: by the addresses of their routes.
    expected_hosts: BTreeMap<HostPrefix, u32>,
    timers: BTreeSet<(Time, PeerId)>,
    events: VecDeque<EndpointEvent>,
    key_refusals: KeyRefusals,
    next_id: u32,
}

impl Endpoint {
    /// A host without peers. `random` makes the ephemeral keys: outside of tests, it is the operating system's.
    pub fn new(identity: PrivateKey, policy: HandshakePolicy, mut random: Box<dyn CryptoRng + Send>) -> Self {
        let mut instance = [0; INSTANCE_BYTES];
        random.fill_bytes(&mut instance);
        Endpoint {
            instance,
            own_macs: MacKeys::for_receiver(&identity.public_key()),
            admission: Admission::new(&policy, &mut *random),
            identity,
            policy,
            random,
            timestamps: TimestampSource::new(),
            peers: BTreeMap::new(),
            by_key: BTreeMap::new(),
            by_index: BTreeMap::new(),
            expected_hosts: BTreeMap::new(),
            timers: BTreeSet::new(),
            events: VecDeque::new(),
            key_refusals: KeyRefusals::new(),
            next_id: 0,
        }
    }

    /// This host's own key.
    pub fn public_key(&self) -> PublicKey {
        self.identity.public_key()
    }

    /// Adds a peer. Without a pre-shared key, give the default one.
    ///
    /// # Errors
    /// It is this host itself, or there already.
    pub fn add_peer(&mut self, key: PublicKey, psk: PresharedKey) -> Result<PeerId, PeerError> {
        if key == self.identity.public_key() {
            return Err(PeerError::OwnKey(key));
        }
        if self.by_key.contains_key(&key) {
            return Err(PeerError::Duplicate(key));
        }
        let id = PeerId(self.next_id);
        self.next_id += 1;
        self.by_key.insert(key, id);
        self.peers.insert(id, PeerHandshakes::new(key, psk));
        Ok(id)
    }

    /// Forgets a peer: remove it from the tables, too.
    pub fn remove_peer(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.remove(&id) {
            self.by_key.remove(&peer.key);
            self.by_index.retain(|_, of| *of != id);
            self.timers.retain(|(_, of)| *of != id);
            self.forget_addresses(&peer.routes);
        }
    }

    /// The routes by which the peer may be reached; initiations try one after the other, a new one at once. Authentic handshake messages
    /// from elsewhere replace the address of their path; initiations go on to try the one that was given, in turn.
    pub fn set_routes(&mut self, id: PeerId, routes: Vec<Route>, now: Time) {
        let before = self.peers.get(&id).map(|peer| peer.routes.clone()).unwrap_or_default();
        self.update_peer(id, |peer| {
            (peer.routes, peer.given_routes) = (routes.clone(), routes);
            let new = peer.routes.iter().copied().find(|route| !before.contains(route));
            if let Some(attempt) = &mut peer.attempt {
                attempt.retry_now(new, now);
            }
        });
        self.replace_addresses(id, &before);
    }

    /// Wishes for a session, because there is none to send with, the one in use is worn, or the peer seems to have lost
    /// it. Does nothing while a handshake is under way or the session is younger than 5 s.
    pub fn connect(&mut self, id: PeerId, now: Time) {
        self.update_peer(id, |peer| peer.connect(now));
    }

    /// Wishes for a new session however young the last one is: what carried that has ended, and the peer may have, too.
    /// Does nothing while a handshake is under way.
    pub fn reconnect(&mut self, id: PeerId, now: Time) {
        self.update_peer(id, |peer| peer.reconnect(now));
    }

    /// Tells that data was sent to the peer; once a second is enough while it flows.
    pub fn record_data_sent(&mut self, id: PeerId, now: Time) {
        self.update_peer(id, |peer| peer.record_data_sent(now));
    }

    /// Tells that data came from the peer; once a second is enough while it flows.
    pub fn record_data_received(&mut self, id: PeerId, now: Time) {
        self.update_peer(id, |peer| peer.record_data_received(now));
    }

    /// Tells that a keepalive came from the peer.
    pub fn record_keepalive_received(&mut self, id: PeerId, now: Time) {
        self.update_peer(id, |peer| peer.record_keepalive(now));
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
    pub fn next_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// Does what is due. `wall` is the time since the Unix epoch; it may step.
    pub fn advance(&mut self, now: Time, wall: Time) {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.advance_peer(id, now, wall);
            self.reschedule_timer(id);
        }
    }

    /// Takes in a handshake message, cookie reply or timestamp reply ([`DatagramKind`]) that came by `from`.
    ///
    /// # Errors
    /// Why it was dropped: for counters, not to be answered.
    pub fn receive(&mut self, datagram: &[u8], from: Route, now: Time) -> Result<(), RefusedDatagram> {
        self.receive_message(datagram, MessageOrigin { route: from, is_proven: false }, now)
    }

    /// The same of one that came over a TCP connection, whose sender is known to receive at its address and is asked for no cookie.
    ///
    /// # Errors
    /// As [`Endpoint::receive`].
    pub fn receive_from_connection(&mut self, datagram: &[u8], from: Route, now: Time) -> Result<(), RefusedDatagram> {
        self.receive_message(datagram, MessageOrigin { route: from, is_proven: true }, now)
    }

    fn receive_message(&mut self, datagram: &[u8], from: MessageOrigin, now: Time) -> Result<(), RefusedDatagram> {
        match DatagramKind::from_datagram(datagram) {
            Some(DatagramKind::Initiation) => self.receive_initiation(datagram, from, now),
            Some(DatagramKind::Response) => self.receive_response(datagram, from, now),
            Some(DatagramKind::CookieReply) => self.receive_cookie(datagram, now),
            Some(DatagramKind::TimestampReply) => self.receive_timestamp(datagram, now),
            Some(DatagramKind::Data) | None => Err(RefusedDatagram::Malformed),
        }
    }

    fn receive_initiation(&mut self, message: &[u8], from: MessageOrigin, now: Time) -> Result<(), RefusedDatagram> {
        let admitted = self.admit_message(message, from, now)?;
        let answered = self.answer_initiation(message, from, now);
        let peer = answered.ok().and_then(|id| self.peers.get_mut(&id));
        if !peer.is_some_and(|peer| peer.has_handshake_left(now)) {
            self.admission.charge(admitted, now);
        }
        answered.map(|_| ())
    }

    fn answer_initiation(&mut self, message: &[u8], from: MessageOrigin, now: Time) -> Result<PeerId, RefusedDatagram> {
        let noise = to_array(&message[INITIATION_NOISE_RANGE]);
        let responder = NoiseResponder::read(Prologue::Session, &self.identity, &noise, &mut *self.random)
            .map_err(|_| RefusedDatagram::Forged)?;
        let Some(&id) = self.by_key.get(&responder.initiator) else {
            let (offered, address) = (responder.initiator, from.route.address.ip());
            let notice = self.key_refusals.unknown_peer(offered, address, self.by_key.keys(), now);
            notice.into_iter().for_each(|notice| self.report(notice));
            return Err(RefusedDatagram::UnknownPeer);
        };
        let (instance, rest) = responder.payload.split_at(INSTANCE_BYTES);
        let instance = u64::from_le_bytes(to_array(instance));
        let (stamp, offer) = rest.split_at(timestamp::TIMESTAMP_BYTES);
        let stamp = Timestamp(to_array(stamp));
        let capabilities = offer[1] & self.policy.capabilities;
        let offer = Cipher::from_byte(offer[0]).ok_or(RefusedDatagram::Forged)?;
        check_index(read_u32(message, 4))?;
        let greatest = self.peers.get(&id).and_then(|peer| peer.greatest_timestamp);
        if let Some(greatest) = greatest.filter(|greatest| stamp <= *greatest) {
            return Err(self.refuse_timestamp(id, message, (stamp, greatest), from, now));
        }
        self.update_peer(id, |peer| peer.greatest_timestamp = Some(stamp));
        let from = from.route;
        self.record_handshake(id, from, now);
        let answered = AnsweredInitiation { id, index: read_u32(message, 4), instance, capabilities };
        self.send_response(answered, responder, self.policy.cipher.agree_with(offer), from, now)?;
        Ok(id)
    }

    fn report(&mut self, notice: HandshakeNotice) {
        self.events.push_back(EndpointEvent::Notice(notice));
    }

    /// A peer has restarted with a clock that is behind, or somebody copies its messages. Nothing may come of a copy; but it may
    /// be said which timestamp is the greatest, in a way that none but the peer reads.
    fn refuse_timestamp(
        &mut self,
        id: PeerId,
        message: &[u8],
        (stamp, greatest): (Timestamp, Timestamp),
        from: MessageOrigin,
        now: Time,
    ) -> RefusedDatagram {
        let Some(peer) = self.peers.get_mut(&id) else { return RefusedDatagram::UnknownPeer };
        // A peer of an earlier version does not know the answer, but an initiation of ours reaches none but itself.
        if peer.is_silent(now) {
            peer.connect(now);
            self.reschedule_timer(id);
        }
        // The last initiation itself comes again where a path duplicates datagrams.
        let source = self.message_source(from);
        if stamp == greatest || !self.admission.can_reply(source, now) {
            return RefusedDatagram::Replayed;
        }
        let Some(peer) = self.peers.get(&id) else { return RefusedDatagram::UnknownPeer };
        let Some(key) = TimestampReplyKey::derive(&self.identity, &peer.key, &peer.psk, &peer.key) else {
            return RefusedDatagram::Replayed;
        };
        let mut nonce = [0; COOKIE_NONCE_BYTES];
        self.random.fill_bytes(&mut nonce);
        let reply = key.seal(read_u32(message, 4), nonce, greatest, &mac::mac1(message));
        self.events.push_back(EndpointEvent::Transmit { to: from.route, datagram: reply.to_vec() });
        RefusedDatagram::Outdated
    }

    fn send_response(
        &mut self,
        AnsweredInitiation { id, index: receiver, instance, capabilities }: AnsweredInitiation,
        responder: NoiseResponder,
        cipher: Cipher,
        to: Route,
        now: Time,
    ) -> Result<(), RefusedDatagram> {
        let index = self.new_index();
        let peer = self.peers.get_mut(&id).ok_or(RefusedDatagram::UnknownPeer)?;
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        payload[..INSTANCE_BYTES].copy_from_slice(&self.instance);
        payload[INSTANCE_BYTES..INSTANCE_BYTES + 2].copy_from_slice(&[cipher.to_byte(), capabilities]);
        let (noise, keys) = responder.respond(&peer.psk, &payload).map_err(|_| RefusedDatagram::Forged)?;
        let mut message = vec![0; RESPONSE_BYTES];
        message[..4].copy_from_slice(&DatagramKind::Response.type_prefix());
        message[4..8].copy_from_slice(&index.to_le_bytes());
        message[8..12].copy_from_slice(&receiver.to_le_bytes());
        message[RESPONSE_NOISE_RANGE].copy_from_slice(&noise);
        let mac1 = peer.macs.write_macs(&mut message, peer.cookie(to.path, now));
        peer.last_sent = Some(SentMessage { index, mac1, path: to.path });
        let session = Session::new(cipher, &keys, (index, receiver), false, now).with_capabilities(capabilities);
        self.establish_session(id, session, to, instance, now);
        self.events.push_back(EndpointEvent::Transmit { to, datagram: message });
        Ok(())
    }

    fn receive_response(&mut self, message: &[u8], from: MessageOrigin, now: Time) -> Result<(), RefusedDatagram> {
        let index = read_u32(message, 8);
        let id = *self.by_index.get(&index).ok_or(RefusedDatagram::Unexpected)?;
        if self.outstanding_initiator(id, index).is_none() {
            return Err(RefusedDatagram::Unexpected);
        }
        let admitted = self.admit_message(message, from, now)?;
        let read = self.read_response(message, (id, index), from.route, now);
        if read.is_err() {
            self.admission.charge(admitted, now);
        }
        read
    }

    fn read_response(
        &mut self,
        message: &[u8],
        (id, index): (PeerId, u32),
        from: Route,
        now: Time,
    ) -> Result<(), RefusedDatagram> {
        let sender = read_u32(message, 4);
        // Nothing authenticates it: the peer's own answer may still come.
        check_index(sender)?;
        let initiator = self.outstanding_initiator(id, index).ok_or(RefusedDatagram::Unexpected)?;
        let Ok((payload, keys)) = initiator.finish(&to_array(&message[RESPONSE_NOISE_RANGE])) else {
            self.report_forged_answer(id, from);
            return Err(RefusedDatagram::Forged);
        };
        let (instance, choice) = payload.split_at(INSTANCE_BYTES);
        let cipher = Cipher::from_byte(choice[0]).filter(|chosen| *chosen == self.policy.cipher.agree_with(*chosen));
        let session = Session::new(cipher.ok_or(RefusedDatagram::Forged)?, &keys, (index, sender), true, now);
        let session = session.with_capabilities(choice[1] & self.policy.capabilities);
        self.finish_handshake(id, session, u64::from_le_bytes(to_array(instance)), from, now);
        Ok(())
    }

    fn report_forged_answer(&mut self, id: PeerId, from: Route) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Some(attempt) = peer.attempt.as_mut().filter(|attempt| !attempt.has_reported_forgery) {
            attempt.has_reported_forgery = true;
            let notice = HandshakeNotice::AnswerForged { peer: peer.key, address: from.address };
            self.report(notice);
        }
    }

    /// The peer has answered our initiation.
    fn finish_handshake(&mut self, id: PeerId, session: Session, instance: u64, from: Route, now: Time) {
        self.update_peer(id, |peer| peer.attempt = None);
        self.record_handshake(id, from, now);
        self.establish_session(id, session, from, instance, now);
        // The responder sends nothing before it has heard that its response arrived.
        self.send_keepalive(id, now);
    }

    fn receive_cookie(&mut self, message: &[u8], now: Time) -> Result<(), RefusedDatagram> {
        let index = read_u32(message, 4);
        let id = *self.by_index.get(&index).ok_or(RefusedDatagram::Unexpected)?;
        let result = self.update_peer(id, |peer| {
            let sent = peer.last_sent.filter(|sent| sent.index == index).ok_or(RefusedDatagram::Unexpected)?;
            let cookie = peer.macs.open_cookie(message, &sent.mac1).ok_or(RefusedDatagram::Forged)?;
            peer.store_cookie(sent.path, cookie, now);
            Ok(())
        });
        result.unwrap_or(Err(RefusedDatagram::Unexpected))
    }

    fn receive_timestamp(&mut self, message: &[u8], now: Time) -> Result<(), RefusedDatagram> {
        let index = read_u32(message, 4);
        let id = *self.by_index.get(&index).ok_or(RefusedDatagram::Unexpected)?;
        if self.outstanding_initiator(id, index).is_none() {
            return Err(RefusedDatagram::Unexpected);
        }
        let peer = self.peers.get(&id).ok_or(RefusedDatagram::UnknownPeer)?;
        let sent = peer.last_sent.filter(|sent| sent.index == index).ok_or(RefusedDatagram::Unexpected)?;
        let own = self.identity.public_key();
        let key = TimestampReplyKey::derive(&self.identity, &peer.key, &peer.psk, &own);
        let peer_key = peer.key;
        let greatest = key.and_then(|key| key.open(message, &sent.mac1)).ok_or(RefusedDatagram::Forged)?;
        if let Some(behind) = self.update_peer(id, |peer| peer.learn_timestamp(greatest, now)).flatten() {
            self.report(HandshakeNotice::OwnClockBehind { peer: peer_key, behind });
        }
        Ok(())
    }

    fn message_source(&self, MessageOrigin { route, is_proven }: MessageOrigin) -> MessageSource {
        let is_expected = self.expected_hosts.contains_key(&HostPrefix::containing(route.address.ip()));
        MessageSource { address: route.address, is_proven, is_expected }
    }

    /// Whether a handshake message is worth computing on.
    fn admit_message(&mut self, message: &[u8], from: MessageOrigin, now: Time) -> Result<Admitted, RefusedDatagram> {
        if !self.own_macs.has_valid_mac1(message) {
            let own = self.identity.public_key();
            let notice = self.key_refusals.other_receiver(from.route.address.ip(), own, now);
            notice.into_iter().for_each(|notice| self.report(notice));
            return Err(RefusedDatagram::InvalidMac);
        }
        let source = self.message_source(from);
        match self.admission.decide(message, source, now, &mut *self.random) {
            AdmissionDecision::Compute(admitted) => Ok(admitted),
            AdmissionDecision::Drop => Err(RefusedDatagram::RateLimited),
            AdmissionDecision::AskForCookie(cookie) => {
                let mut nonce = [0; COOKIE_NONCE_BYTES];
                self.random.fill_bytes(&mut nonce);
                let (receiver, mac1) = (read_u32(message, 4), mac::mac1(message));
                let reply = self.own_macs.cookie_reply(receiver, nonce, cookie, &mac1);
                self.events.push_back(EndpointEvent::Transmit { to: from.route, datagram: reply.to_vec() });
                Err(RefusedDatagram::CookieRequired)
            }
        }
    }

    /// An authentic handshake message came from a peer.
    fn record_handshake(&mut self, id: PeerId, from: Route, now: Time) {
        let before = self.peers.get(&id).map(|peer| peer.routes.clone()).unwrap_or_default();
        let is_new = self.update_peer(id, |peer| {
            peer.record_keepalive(now);
            peer.learn_route(from)
        });
        if is_new == Some(true) {
            self.replace_addresses(id, &before);
        }
    }

    /// A peer has other routes than before.
    fn replace_addresses(&mut self, id: PeerId, before: &[Route]) {
        for route in self.peers.get(&id).into_iter().flat_map(|peer| &peer.routes) {
            *self.expected_hosts.entry(HostPrefix::containing(route.address.ip())).or_default() += 1;
        }
        if self.peers.contains_key(&id) {
            self.forget_addresses(before);
        }
    }

    fn forget_addresses(&mut self, routes: &[Route]) {
        for route in routes {
            let prefix = HostPrefix::containing(route.address.ip());
            if let Some(count) = self.expected_hosts.get_mut(&prefix) {
                *count -= 1;
                if *count == 0 {
                    self.expected_hosts.remove(&prefix);
                }
            }
        }
    }

    /// Keeps a new session, and hands it out.
    fn establish_session(&mut self, id: PeerId, mut session: Session, route: Route, instance: u64, now: Time) {
        let index = session.index();
        let lead = Span::from_millis(i64::from(self.random.next_u32() % MAX_REKEY_LEAD_MILLIS));
        let Ok(own) = session.take_paths(ENDPOINT_PATH..=ENDPOINT_PATH) else { return };
        let dropped = self.update_peer(id, |peer| {
            peer.rekey_lead = lead;
            peer.keyring.install(own, now)
        });
        for dropped in dropped.into_iter().flatten() {
            self.by_index.remove(&dropped);
        }
        self.by_index.insert(index, id);
        self.events.push_back(EndpointEvent::Established { peer: id, session, route, instance });
    }

    fn advance_peer(&mut self, id: PeerId, now: Time, wall: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        for expired in peer.keyring.expire(now) {
            self.by_index.remove(&expired);
        }
        let owes_keepalive = peer.advance_traffic_timers(now);
        match peer.attempt_due_action(now) {
            DueAction::Wait => {}
            DueAction::Superseded => self.end_attempt(id),
            DueAction::GiveUp => {
                self.end_attempt(id);
                self.events.push_back(EndpointEvent::Unreachable { peer: id });
            }
            DueAction::Initiate => self.send_initiation(id, now, wall),
        }
        if owes_keepalive {
            self.send_keepalive(id, now);
        }
    }

    fn send_initiation(&mut self, id: PeerId, now: Time, wall: Time) {
        let index = self.new_index();
        let jitter = self.random.next_u32();
        let clock = self.timestamps.next_timestamp(wall);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let timestamp = peer.timestamp_floor.next_timestamp(clock);
        let route = peer.next_initiation_route();
        let Some(attempt) = &mut peer.attempt else { return };
        let Some(to) = route else {
            // Until the caller gives it a route.
            attempt.next_initiation_at = now + MAX_RETRY_INTERVAL;
            return;
        };
        let mut payload = [0; INITIATION_PAYLOAD_BYTES];
        payload[..INSTANCE_BYTES].copy_from_slice(&self.instance);
        let (stamp, rest) = payload[INSTANCE_BYTES..].split_at_mut(timestamp::TIMESTAMP_BYTES);
        stamp.copy_from_slice(&timestamp.0);
        rest[..2].copy_from_slice(&[self.policy.cipher.to_byte(), self.policy.capabilities]);
        if let Some(tried) = attempt.take_silence_to_report(now) {
            let own = self.identity.public_key();
            let notice = HandshakeNotice::Unanswered { peer: peer.key, own, address: to.address, tried };
            self.events.push_back(EndpointEvent::Notice(notice));
        }
        attempt.record_initiation(now, jitter);
        attempt.clock = Some(clock);
        let begun =
            NoiseInitiator::begin(Prologue::Session, &self.identity, &peer.key, &peer.psk, &payload, &mut *self.random);
        // Fails only for a public key that is none.
        let Ok((initiator, noise)) = begun else { return };
        let mut message = vec![0; INITIATION_BYTES];
        message[..4].copy_from_slice(&DatagramKind::Initiation.type_prefix());
        message[4..8].copy_from_slice(&index.to_le_bytes());
        message[INITIATION_NOISE_RANGE].copy_from_slice(&noise);
        if let Some((old, _)) = attempt.outstanding.replace((index, initiator)) {
            self.by_index.remove(&old);
        }
        self.by_index.insert(index, id);
        let mac1 = peer.macs.write_macs(&mut message, peer.cookie(to.path, now));
        peer.last_sent = Some(SentMessage { index, mac1, path: to.path });
        self.events.push_back(EndpointEvent::Transmit { to, datagram: message });
    }

    fn end_attempt(&mut self, id: PeerId) {
        let attempt = self.peers.get_mut(&id).and_then(|peer| peer.attempt.take());
        if let Some((index, _)) = attempt.and_then(|attempt| attempt.outstanding) {
            self.by_index.remove(&index);
        }
    }

    fn send_keepalive(&mut self, id: PeerId, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut datagram = vec![0; OVERHEAD_BYTES];
        if let Some(to) = peer.keepalive_route()
            && peer.keyring.seal(ENDPOINT_PATH, &mut datagram, now).is_ok()
        {
            self.events.push_back(EndpointEvent::Transmit { to, datagram });
        }
    }

    /// The initiation with this index that the peer has not answered yet.
    fn outstanding_initiator(&mut self, id: PeerId, index: u32) -> Option<&mut NoiseInitiator> {
        let (of, initiator) = self.peers.get_mut(&id)?.attempt.as_mut()?.outstanding.as_mut()?;
        (*of == index).then_some(initiator)
    }

    /// One that is not in use; a short one while most of these are free.
    fn new_index(&mut self) -> u32 {
        let range = if self.by_index.len() < SHORT_INDICES as usize / 2 { SHORT_INDICES } else { LONG_INDICES };
        loop {
            let index = self.random.next_u32() % range;
            if !self.by_index.contains_key(&index) {
                return index;
            }
        }
    }

    /// Changes a peer, and its timer with it.
    fn update_peer<R>(&mut self, id: PeerId, change: impl FnOnce(&mut PeerHandshakes) -> R) -> Option<R> {
        let result = change(self.peers.get_mut(&id)?);
        self.reschedule_timer(id);
        Some(result)
    }

    fn reschedule_timer(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let deadline = peer.next_deadline();
        let scheduled = std::mem::replace(&mut peer.scheduled_deadline, deadline);
        if scheduled != deadline {
            scheduled.map(|at| self.timers.remove(&(at, id)));
            deadline.map(|at| self.timers.insert((at, id)));
        }
    }
}

/// Data cannot be sent to a peer that has given the session a longer index than a header has room for.
fn check_index(index: u32) -> Result<(), RefusedDatagram> {
    if index < LONG_INDICES { Ok(()) } else { Err(RefusedDatagram::Forged) }
}

#[cfg(test)]
mod tests;
