use crate::cipher::Cipher;
use crate::keyring::Keyring;
use crate::limits::{
    COOKIE_LIFETIME, FIRST_RETRY, GIVE_UP_AFTER, KEEPALIVE_AFTER, MAX_RETRY, MIN_SESSION, REKEY_AFTER, RESPONDER_DELAY,
    SILENCE,
};
use crate::mac::{Cookie, MacKeys};
use crate::message::MAC;
use crate::noise::Initiator;
use crate::session::Session;
use crate::timestamp::Timestamp;
use crate::{PresharedKey, PublicKey};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use units::{Span, Time};

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
    pub established: Option<Time>,
    /// What it is sealed with.
    pub cipher: Option<Cipher>,
    /// When anything authentic came last, as far as the endpoint was told.
    pub heard: Option<Time>,
    /// The initiations of the handshake that is under way, if one is.
    pub initiations: Option<u32>,
}

/// All that is known of a peer.
pub(crate) struct Peer {
    pub(crate) key: PublicKey,
    pub(crate) psk: PresharedKey,
    pub(crate) macs: MacKeys,
    pub(crate) routes: Vec<Route>,
    /// The route of the last handshake message that was authentic.
    pub(crate) last_route: Option<Route>,
    /// The greatest timestamp of its initiations.
    pub(crate) greatest: Option<Timestamp>,
    pub(crate) keyring: Keyring,
    pub(crate) attempt: Option<Attempt>,
    /// The last handshake message to it, which a cookie reply may answer.
    pub(crate) last_sent: Option<SentMessage>,
    /// What it gave us, by path, and until when it is valid.
    cookies: BTreeMap<u8, (Cookie, Time)>,
    traffic: Traffic,
    /// By how much earlier than others of its kind the session is replaced, so that two hosts rarely do it at once.
    pub(crate) rekey_lead: Span,
    /// Its place among the timers.
    pub(crate) scheduled: Option<Time>,
}

/// A handshake that this host has begun, with its retransmissions.
pub(crate) struct Attempt {
    begun: Time,
    give_up_at: Time,
    pub(crate) next: Time,
    /// Initiations sent.
    pub(crate) sent: u32,
    /// A cookie has already brought a retransmission forward.
    has_hurried: bool,
    /// The route for the next initiation, where it is not just the next one.
    route: Option<Route>,
    /// The last initiation.
    pub(crate) outstanding: Option<(u32, Initiator)>,
}

/// What a cookie reply may answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentMessage {
    pub(crate) index: u32,
    pub(crate) mac1: [u8; MAC],
    pub(crate) path: u8,
}

/// When data passed, as far as timers depend on it.
#[derive(Debug, Default)]
struct Traffic {
    /// The first data sent since something was received.
    unanswered_since: Option<Time>,
    /// The first data received since something was sent.
    unacknowledged_since: Option<Time>,
    heard: Option<Time>,
}

/// What an attempt that is due has come to.
pub(crate) enum Due {
    NotYet,
    /// The peer has made a session meanwhile.
    Superseded,
    Initiate,
    GiveUp,
}

impl Peer {
    pub(crate) fn new(key: PublicKey, psk: PresharedKey) -> Self {
        Peer {
            key,
            psk,
            macs: MacKeys::of(&key),
            routes: Vec::new(),
            last_route: None,
            greatest: None,
            keyring: Keyring::default(),
            attempt: None,
            last_sent: None,
            cookies: BTreeMap::new(),
            traffic: Traffic::default(),
            rekey_lead: Span::ZERO,
            scheduled: None,
        }
    }

    pub(crate) fn state(&self, now: Time) -> PeerState<'_> {
        let session = self.keyring.current(now);
        PeerState {
            key: self.key,
            routes: &self.routes,
            established: session.map(|session| session.established),
            cipher: session.map(Session::cipher),
            heard: self.traffic.heard,
            initiations: self.attempt.as_ref().map(|attempt| attempt.sent),
        }
    }

    /// Begins a handshake, unless one is under way or the session is new.
    pub(crate) fn connect(&mut self, now: Time) {
        if self.attempt.is_some()
            || self.keyring.current(now).is_none_or(|session| now - session.established >= MIN_SESSION)
        {
            self.connect_anew(now);
        }
    }

    /// Begins a handshake, unless one is under way.
    pub(crate) fn connect_anew(&mut self, now: Time) {
        let give_up_at = now + GIVE_UP_AFTER;
        match &mut self.attempt {
            Some(attempt) => attempt.give_up_at = give_up_at,
            None => {
                let (next, has_hurried, route, outstanding) = (now, false, None, None);
                self.attempt = Some(Attempt { begun: now, give_up_at, next, sent: 0, has_hurried, route, outstanding });
            }
        }
    }

    pub(crate) fn data_sent(&mut self, now: Time) {
        self.traffic.unanswered_since.get_or_insert(now);
        self.traffic.unacknowledged_since = None;
        self.rekey_if_old(now);
    }

    pub(crate) fn data_received(&mut self, now: Time) {
        self.heard(now);
        self.traffic.unacknowledged_since.get_or_insert(now);
        self.rekey_if_old(now);
    }

    /// An authentic message without data came.
    pub(crate) fn heard(&mut self, now: Time) {
        self.traffic.unanswered_since = None;
        self.traffic.heard = Some(now);
    }

    /// Whether nothing has come from the peer for so long that it may have lost its sessions.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        self.traffic.heard.is_none_or(|heard| now - heard >= SILENCE)
    }

    fn rekey_if_old(&mut self, now: Time) {
        let Some(session) = self.keyring.current(now) else { return };
        let delay = if session.is_initiator { Span::ZERO } else { RESPONDER_DELAY };
        if now - session.established >= REKEY_AFTER + delay - self.rekey_lead {
            self.connect(now);
        }
    }

    /// When [`advance`](Self::advance) has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let attempt = self.attempt.as_ref().map(|attempt| attempt.next);
        let silence = self.traffic.unanswered_since.map(|since| since + SILENCE);
        let keepalive = self.traffic.unacknowledged_since.map(|since| since + KEEPALIVE_AFTER);
        [attempt, silence, keepalive, self.keyring.next_expiry()].into_iter().flatten().min()
    }

    /// Whether a keepalive is to be sent; asks for a new session where the peer no longer answers.
    pub(crate) fn advance_traffic(&mut self, now: Time) -> bool {
        if self.traffic.unanswered_since.is_some_and(|since| now - since >= SILENCE) {
            self.traffic.unanswered_since = None;
            self.connect(now);
        }
        self.traffic.unacknowledged_since.take_if(|since| now - *since >= KEEPALIVE_AFTER).is_some()
    }

    pub(crate) fn advance_attempt(&mut self, now: Time) -> Due {
        let Some(attempt) = self.attempt.as_ref().filter(|attempt| attempt.next <= now) else { return Due::NotYet };
        if self.keyring.current(now).is_some_and(|session| session.established >= attempt.begun) {
            return Due::Superseded;
        }
        if now >= attempt.give_up_at { Due::GiveUp } else { Due::Initiate }
    }

    /// The route for the next initiation: one after the other, since some may be dead.
    pub(crate) fn route_to_try(&self) -> Option<Route> {
        let attempt = self.attempt.as_ref()?;
        let sent = attempt.sent as usize;
        let new = attempt.route.filter(|route| self.routes.contains(route));
        new.or_else(|| self.routes.get(sent.checked_rem(self.routes.len())?).copied())
    }

    /// The route for a keepalive.
    pub(crate) fn route_of_keepalives(&self) -> Option<Route> {
        self.last_route.or(self.routes.first().copied())
    }

    /// An authentic handshake message came by this route: the peer's address on that path. Whether it is another than
    /// before.
    pub(crate) fn learn(&mut self, route: Route) -> bool {
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
    pub(crate) fn keep_cookie(&mut self, path: u8, cookie: Cookie, now: Time) {
        self.cookies.insert(path, (cookie, now + COOKIE_LIFETIME));
        if let Some(attempt) = self.attempt.as_mut().filter(|attempt| !attempt.has_hurried) {
            attempt.has_hurried = true;
            attempt.next = now;
            // The same route again.
            attempt.sent = attempt.sent.saturating_sub(1);
        }
    }
}

impl Attempt {
    /// Notes an initiation that has been sent; `jitter` is a random number.
    pub(crate) fn count(&mut self, now: Time, jitter: u32) {
        let interval = (FIRST_RETRY * (1 << self.sent.min(10))).min(MAX_RETRY);
        self.sent = self.sent.saturating_add(1);
        self.route = None;
        self.next = now + interval + interval / 4 * i64::from(jitter >> 16) / (1 << 16);
    }

    /// Tries again at once, by a route that has become known, if there is one.
    pub(crate) fn hurry(&mut self, route: Option<Route>, now: Time) {
        self.next = self.next.min(now);
        self.route = route.or(self.route);
    }
}
