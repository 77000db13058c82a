use crate::cipher::Cipher;
use crate::keyring::Keyring;
use crate::limits::{
    COOKIE_LIFETIME, FIRST_RETRY_INTERVAL, GIVE_UP_AFTER, KEEPALIVE_AFTER, MAX_RETRY_INTERVAL, MIN_SESSION_AGE,
    PEER_HANDSHAKES_PER_SECOND, REKEY_AFTER, RESPONDER_REKEY_DELAY, RESPONSE_TIMEOUT, UNANSWERED_INITIATIONS,
};
use crate::mac::{Cookie, MacKeys};
use crate::message::MAC_BYTES;
use crate::noise::NoiseInitiator;
use crate::session::Session;
use crate::timestamp::{Timestamp, TimestampFloor};
use crate::{PresharedKey, PublicKey};
use kumade_units::{Span, Time, TokenBucket, TokenRate};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A peer, as the [`Endpoint`](crate::Endpoint) that knows it numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub(crate) u32);

/// Where a datagram came from or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The path, as the caller numbers them.
    pub path: u8,
    /// The peer's address on that path.
    pub address: SocketAddr,
}

/// What there is with a peer, to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerState<'e> {
    /// Its key.
    pub key: PublicKey,
    /// Where it was last reached or is to be reached, by path.
    pub routes: &'e [Route],
    /// When the session in use was made, if there is one.
    pub session_established: Option<Time>,
    /// What it is sealed with.
    pub cipher: Option<Cipher>,
    /// When anything authentic came last, as far as the endpoint was told.
    pub last_received: Option<Time>,
    /// The initiations of the handshake that is under way, if one is.
    pub initiations_sent: Option<u32>,
}

/// All that is known of a peer.
pub(crate) struct PeerHandshakes {
    pub(crate) key: PublicKey,
    pub(crate) psk: PresharedKey,
    pub(crate) macs: MacKeys,
    pub(crate) routes: Vec<Route>,
    /// Those that were given; `routes` may have learned addresses in their place.
    pub(crate) given_routes: Vec<Route>,
    /// The route of the last handshake message that was authentic.
    pub(crate) last_route: Option<Route>,
    /// The greatest timestamp of its initiations.
    pub(crate) greatest_timestamp: Option<Timestamp>,
    /// For this host's own initiations.
    pub(crate) timestamp_floor: TimestampFloor,
    /// What its own handshakes may cost, beyond which they are as a stranger's.
    handshake_bucket: TokenBucket,
    pub(crate) keyring: Keyring,
    pub(crate) attempt: Option<HandshakeAttempt>,
    /// The last handshake message to it, which a cookie reply may answer.
    pub(crate) last_sent: Option<SentMessage>,
    /// What it gave us, by path, and until when it is valid.
    cookies: BTreeMap<u8, (Cookie, Time)>,
    traffic: TrafficTimes,
    /// By how much earlier than others of its kind the session is replaced, so that two hosts rarely do it at once.
    pub(crate) rekey_lead: Span,
    /// Its place among the timers.
    pub(crate) scheduled_deadline: Option<Time>,
}

/// A handshake that this host has begun, with its retransmissions.
pub(crate) struct HandshakeAttempt {
    started_at: Time,
    give_up_at: Time,
    pub(crate) next_initiation_at: Time,
    /// Initiations sent.
    pub(crate) initiations_sent: u32,
    /// A cookie has already brought a retransmission forward.
    has_retried_early: bool,
    /// A timestamp reply has.
    has_learned_timestamp: bool,
    /// It was told that the peer does not answer.
    has_reported_silence: bool,
    /// It was told that an answer is not authentic.
    pub(crate) has_reported_forgery: bool,
    /// When the first initiation left.
    first_initiation_at: Option<Time>,
    /// What this host's clock showed at the last initiation.
    pub(crate) clock: Option<Timestamp>,
    /// The route for the next initiation, where it is not just the next one.
    next_route: Option<Route>,
    /// The last initiation.
    pub(crate) outstanding: Option<(u32, NoiseInitiator)>,
}

/// What a cookie reply may answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentMessage {
    pub(crate) index: u32,
    pub(crate) mac1: [u8; MAC_BYTES],
    pub(crate) path: u8,
}

/// When data passed, as far as timers depend on it.
#[derive(Debug, Default)]
struct TrafficTimes {
    /// The first data sent since something was received.
    unanswered_since: Option<Time>,
    /// The first data received since something was sent.
    unacknowledged_since: Option<Time>,
    last_received: Option<Time>,
}

/// What an attempt that is due has come to.
pub(crate) enum DueAction {
    Wait,
    /// The peer has made a session meanwhile.
    Superseded,
    Initiate,
    GiveUp,
}

impl PeerHandshakes {
    pub(crate) fn new(key: PublicKey, psk: PresharedKey) -> Self {
        PeerHandshakes {
            key,
            psk,
            macs: MacKeys::for_receiver(&key),
            routes: Vec::new(),
            given_routes: Vec::new(),
            last_route: None,
            greatest_timestamp: None,
            timestamp_floor: TimestampFloor::default(),
            handshake_bucket: TokenBucket::FULL,
            keyring: Keyring::default(),
            attempt: None,
            last_sent: None,
            cookies: BTreeMap::new(),
            traffic: TrafficTimes::default(),
            rekey_lead: Span::ZERO,
            scheduled_deadline: None,
        }
    }

    pub(crate) fn state(&self, now: Time) -> PeerState<'_> {
        let session = self.keyring.current_session(now);
        PeerState {
            key: self.key,
            routes: &self.routes,
            session_established: session.map(|session| session.established),
            cipher: session.map(Session::cipher),
            last_received: self.traffic.last_received,
            initiations_sent: self.attempt.as_ref().map(|attempt| attempt.initiations_sent),
        }
    }

    /// Begins a handshake, unless one is under way or the session is new.
    pub(crate) fn connect(&mut self, now: Time) {
        if self.attempt.is_some()
            || self.keyring.current_session(now).is_none_or(|session| now - session.established >= MIN_SESSION_AGE)
        {
            self.reconnect(now);
        }
    }

    /// Begins a handshake, unless one is under way.
    pub(crate) fn reconnect(&mut self, now: Time) {
        let give_up_at = now + GIVE_UP_AFTER;
        match &mut self.attempt {
            Some(attempt) => attempt.give_up_at = give_up_at,
            None => {
                self.attempt = Some(HandshakeAttempt {
                    started_at: now,
                    give_up_at,
                    next_initiation_at: now,
                    initiations_sent: 0,
                    has_retried_early: false,
                    has_learned_timestamp: false,
                    has_reported_silence: false,
                    has_reported_forgery: false,
                    first_initiation_at: None,
                    clock: None,
                    next_route: None,
                    outstanding: None,
                });
            }
        }
    }

    pub(crate) fn record_data_sent(&mut self, now: Time) {
        self.traffic.unanswered_since.get_or_insert(now);
        self.traffic.unacknowledged_since = None;
        self.rekey_if_old(now);
    }

    pub(crate) fn record_data_received(&mut self, now: Time) {
        self.record_keepalive(now);
        self.traffic.unacknowledged_since.get_or_insert(now);
        self.rekey_if_old(now);
    }

    /// An authentic message without data came.
    pub(crate) fn record_keepalive(&mut self, now: Time) {
        self.traffic.unanswered_since = None;
        self.traffic.last_received = Some(now);
    }

    /// Whether nothing has come from the peer for so long that it may have lost its sessions.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        self.traffic.last_received.is_none_or(|heard| now - heard >= RESPONSE_TIMEOUT)
    }

    fn rekey_if_old(&mut self, now: Time) {
        let Some(session) = self.keyring.current_session(now) else { return };
        let delay = if session.is_initiator { Span::ZERO } else { RESPONDER_REKEY_DELAY };
        if now - session.established >= REKEY_AFTER + delay - self.rekey_lead {
            self.connect(now);
        }
    }

    /// When [`attempt_due_action`](Self::attempt_due_action) has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let attempt = self.attempt.as_ref().map(|attempt| attempt.next_initiation_at);
        let silence = self.traffic.unanswered_since.map(|since| since + RESPONSE_TIMEOUT);
        let keepalive = self.traffic.unacknowledged_since.map(|since| since + KEEPALIVE_AFTER);
        [attempt, silence, keepalive, self.keyring.next_expiry()].into_iter().flatten().min()
    }

    /// Whether a keepalive is to be sent; asks for a new session where the peer no longer answers.
    pub(crate) fn advance_traffic_timers(&mut self, now: Time) -> bool {
        if self.traffic.unanswered_since.is_some_and(|since| now - since >= RESPONSE_TIMEOUT) {
            self.traffic.unanswered_since = None;
            self.connect(now);
        }
        self.traffic.unacknowledged_since.take_if(|since| now - *since >= KEEPALIVE_AFTER).is_some()
    }

    pub(crate) fn attempt_due_action(&mut self, now: Time) -> DueAction {
        let Some(attempt) = self.attempt.as_ref().filter(|attempt| attempt.next_initiation_at <= now) else {
            return DueAction::Wait;
        };
        if self.keyring.current_session(now).is_some_and(|session| session.established >= attempt.started_at) {
            return DueAction::Superseded;
        }
        if now >= attempt.give_up_at { DueAction::GiveUp } else { DueAction::Initiate }
    }

    /// The route for the next initiation: one after the other, since some may be dead. So may be an address that was learned, at both
    /// ends, so that the given ones are tried, too.
    pub(crate) fn next_initiation_route(&self) -> Option<Route> {
        let attempt = self.attempt.as_ref()?;
        let given = self.given_routes.iter().filter(|given| !self.routes.contains(given));
        let mut routes = self.routes.iter().chain(given).copied();
        let new = attempt.next_route.filter(|route| self.routes.contains(route));
        new.or_else(|| {
            let count = routes.clone().count();
            routes.nth((attempt.initiations_sent as usize).checked_rem(count)?)
        })
    }

    /// The route for a keepalive: that by which the peer was heard last, unless it is none of its routes any more.
    pub(crate) fn keepalive_route(&self) -> Option<Route> {
        self.last_route.filter(|route| self.routes.contains(route)).or(self.routes.first().copied())
    }

    /// An authentic handshake message came by this route: the peer's address on that path. Whether it is another than
    /// before.
    pub(crate) fn learn_route(&mut self, route: Route) -> bool {
        self.last_route = Some(route);
        let is_new = !self.routes.contains(&route);
        if is_new {
            self.routes.retain(|known| known.path != route.path);
            self.routes.push(route);
        }
        is_new
    }

    pub(crate) fn cookie(&self, path: u8, now: Time) -> Option<&Cookie> {
        self.cookies.get(&path).filter(|(_, until)| now < *until).map(|(cookie, _)| cookie)
    }

    /// A cookie for messages on a path. The first one of an attempt brings its next initiation forward.
    pub(crate) fn store_cookie(&mut self, path: u8, cookie: Cookie, now: Time) {
        self.cookies.insert(path, (cookie, now + COOKIE_LIFETIME));
        if let Some(attempt) = self.attempt.as_mut().filter(|attempt| !attempt.has_retried_early) {
            attempt.has_retried_early = true;
            attempt.repeat_now(now);
        }
    }

    /// The peer has an initiation with this timestamp. The first time in an attempt the next initiation is brought forward.
    /// Returns by how much this host's clock is behind, where it is the first.
    pub(crate) fn learn_timestamp(&mut self, greatest: Timestamp, now: Time) -> Option<Span> {
        self.timestamp_floor.raise(greatest);
        let attempt = self.attempt.as_mut().filter(|attempt| !attempt.has_learned_timestamp)?;
        attempt.has_learned_timestamp = true;
        attempt.repeat_now(now);
        attempt.clock.map(|clock| greatest.since(clock))
    }

    /// Whether a handshake that the peer itself has begun is one of those that count for nothing.
    pub(crate) fn has_handshake_left(&mut self, now: Time) -> bool {
        let rate = TokenRate::new(PEER_HANDSHAKES_PER_SECOND, PEER_HANDSHAKES_PER_SECOND + 1.0);
        self.handshake_bucket.take(1.0, rate, now)
    }
}

impl HandshakeAttempt {
    /// Notes an initiation that has been sent; `jitter` is a random number.
    pub(crate) fn record_initiation(&mut self, now: Time, jitter: u32) {
        let interval = (FIRST_RETRY_INTERVAL * (1 << self.initiations_sent.min(10))).min(MAX_RETRY_INTERVAL);
        self.initiations_sent = self.initiations_sent.saturating_add(1);
        self.next_route = None;
        self.next_initiation_at = now + interval + interval / 4 * i64::from(jitter >> 16) / (1 << 16);
    }

    /// If enough initiations are unanswered now, and that was not told yet: for how long they have been.
    pub(crate) fn take_silence_to_report(&mut self, now: Time) -> Option<Span> {
        let first = *self.first_initiation_at.get_or_insert(now);
        let is_told = self.initiations_sent >= UNANSWERED_INITIATIONS && !self.has_reported_silence;
        self.has_reported_silence |= is_told;
        is_told.then(|| now - first)
    }

    /// Sends the last initiation anew at once, by the same route.
    fn repeat_now(&mut self, now: Time) {
        self.next_initiation_at = now;
        self.initiations_sent = self.initiations_sent.saturating_sub(1);
    }

    /// Tries again at once, by a route that has become known, if there is one.
    pub(crate) fn retry_now(&mut self, route: Option<Route>, now: Time) {
        self.next_initiation_at = self.next_initiation_at.min(now);
        self.next_route = route.or(self.next_route);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::{pair, sealed};

    const TICK: Span = Span::from_nanos(1);
    const LEAD: Span = Span::from_secs(3);

    fn after(span: Span) -> Time {
        Time::ZERO + span
    }

    fn secs(count: i64) -> Time {
        after(Span::from_secs(count))
    }

    fn peer() -> PeerHandshakes {
        PeerHandshakes::new(PublicKey::from_bytes([1; 32]), PresharedKey::default())
    }

    /// With a session since time zero that the peer has confirmed.
    fn connected(is_initiator: bool) -> PeerHandshakes {
        let (mut initiated, responded) = pair(Cipher::Aes256Gcm);
        responded.open(&mut sealed(&mut initiated, 0, b"")).unwrap();
        let mut peer = peer();
        peer.keyring.install(if is_initiator { initiated } else { responded }, Time::ZERO);
        peer.rekey_lead = LEAD;
        peer
    }

    fn route(path: u8, port: u16) -> Route {
        Route { path, address: ([192, 0, 2, 1], port).into() }
    }

    #[test]
    fn intervals_between_initiations_double_up_to_16_s_and_are_a_quarter_longer_at_random() {
        for (jitter, extra) in [(0, 0.0), (1 << 31, 0.125), (u32::MAX, 0.25)] {
            let mut peer = peer();
            peer.connect(Time::ZERO);
            let attempt = peer.attempt.as_mut().unwrap();
            for seconds in [1, 2, 4, 8, 16, 16, 16, 16, 16, 16, 16, 16, 16] {
                attempt.record_initiation(secs(100), jitter);
                let interval = (attempt.next_initiation_at - secs(100)).as_secs_f64();
                let expected = f64::from(seconds) * (1.0 + extra);
                assert!((interval - expected).abs() < 1e-4 * expected, "{interval} s for {expected} s");
            }
            assert_eq!(attempt.initiations_sent, 13);
        }
    }

    #[test]
    fn a_cookie_is_of_its_path_lasts_for_two_minutes_and_hurries_an_attempt_once() {
        let mut peer = peer();
        peer.connect(Time::ZERO);
        peer.attempt.as_mut().unwrap().record_initiation(Time::ZERO, 0);
        peer.store_cookie(3, [7; MAC_BYTES], after(TICK));
        assert_eq!(
            (peer.attempt.as_ref().unwrap().next_initiation_at, peer.attempt.as_ref().unwrap().initiations_sent),
            (after(TICK), 0)
        );
        peer.attempt.as_mut().unwrap().record_initiation(secs(1), 0);
        peer.store_cookie(3, [8; MAC_BYTES], secs(1));
        assert_eq!(peer.attempt.as_ref().unwrap().next_initiation_at, secs(2));
        assert_eq!(peer.cookie(3, secs(121) - TICK), Some(&[8; MAC_BYTES]));
        assert_eq!((peer.cookie(3, secs(121)), peer.cookie(4, secs(1))), (None, None));
    }

    #[test]
    fn a_peer_is_silent_15_s_after_it_was_heard() {
        let mut peer = peer();
        assert!(peer.is_silent(Time::ZERO));
        peer.record_keepalive(secs(1));
        assert!(!peer.is_silent(secs(16) - TICK) && peer.is_silent(secs(16)));
    }

    #[test]
    fn data_without_an_answer_for_15_s_asks_for_a_new_session() {
        let mut peer = connected(true);
        peer.record_data_sent(secs(10));
        assert_eq!(peer.next_deadline(), Some(secs(25)));
        assert!(!peer.advance_traffic_timers(secs(25) - TICK) && peer.attempt.is_none());
        assert!(!peer.advance_traffic_timers(secs(25)) && peer.attempt.is_some());
    }

    #[test]
    fn data_that_nothing_was_sent_after_is_acknowledged_after_10_s() {
        let mut peer = connected(true);
        peer.record_data_received(secs(10));
        assert_eq!(peer.next_deadline(), Some(secs(20)));
        assert!(!peer.advance_traffic_timers(secs(20) - TICK));
        assert!(peer.advance_traffic_timers(secs(20)) && !peer.advance_traffic_timers(secs(21)));
        peer.record_data_received(secs(30));
        peer.record_data_sent(secs(31));
        peer.record_data_received(secs(32));
        assert_eq!(peer.next_deadline(), Some(secs(42)));
        peer.record_data_sent(secs(33));
        peer.record_keepalive(secs(34));
        assert_eq!(peer.next_deadline(), Some(secs(180)), "the session's end");
    }

    #[test]
    fn a_session_is_replaced_at_5_s_by_wish_and_at_its_age_by_data() {
        let mut peer = connected(true);
        peer.connect(secs(5) - TICK);
        assert!(peer.attempt.is_none());
        peer.connect(secs(5));
        assert!(peer.attempt.is_some());
        for (is_initiator, age) in [(true, 120), (false, 135)] {
            let mut peer = connected(is_initiator);
            peer.record_data_sent(secs(age) - LEAD - TICK);
            assert!(peer.attempt.is_none(), "{age} s");
            peer.record_data_sent(secs(age) - LEAD);
            assert!(peer.attempt.is_some(), "{age} s");
        }
    }

    #[test]
    fn an_attempt_goes_on_for_90_s_after_the_last_wish_however_young_the_session_is() {
        let mut peer = connected(true);
        peer.reconnect(secs(1));
        assert!(matches!(peer.attempt_due_action(secs(1) - TICK), DueAction::Wait));
        assert!(matches!(peer.attempt_due_action(secs(1)), DueAction::Initiate));
        peer.connect(secs(2));
        assert!(matches!(peer.attempt_due_action(secs(92) - TICK), DueAction::Initiate));
        assert!(matches!(peer.attempt_due_action(secs(92)), DueAction::GiveUp));
        let mut peer = connected(true);
        peer.reconnect(Time::ZERO);
        assert!(matches!(peer.attempt_due_action(Time::ZERO), DueAction::Superseded));
    }

    #[test]
    fn an_address_from_which_a_peer_is_heard_replaces_the_one_of_its_path() {
        let mut peer = peer();
        peer.routes = vec![route(0, 1), route(1, 1)];
        assert_eq!(peer.keepalive_route(), Some(route(0, 1)));
        assert!(!peer.learn_route(route(1, 1)));
        assert_eq!(peer.routes, [route(0, 1), route(1, 1)]);
        assert!(peer.learn_route(route(0, 2)));
        assert_eq!(peer.routes, [route(1, 1), route(0, 2)]);
        assert_eq!(peer.keepalive_route(), Some(route(0, 2)));
        // Initiations try the given ones, too.
        peer.given_routes = vec![route(0, 1), route(1, 1)];
        peer.connect(Time::ZERO);
        let initiations = (0..3).map(|sent| {
            peer.attempt.as_mut().unwrap().initiations_sent = sent;
            peer.next_initiation_route().unwrap()
        });
        assert_eq!(initiations.collect::<Vec<_>>(), [route(1, 1), route(0, 2), route(0, 1)]);
        // As where a path leaves by another interface since.
        peer.routes = vec![route(1, 3)];
        assert_eq!(peer.keepalive_route(), Some(route(1, 3)));
    }
}
