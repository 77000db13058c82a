use crate::shard_message::{Content, Occasion, ShardMessage};
use kumade_noise_session::{Endpoint, Event, PeerId, Route};
use kumade_units::{Span, Time};

/// What shakes hands with the peers of a node: the first of its shards.
pub(crate) enum Handshakes {
    Here(Box<Endpoint>),
    InFirstShard {
        /// What is to be told to it.
        messages: Vec<ShardMessage>,
        /// When it was last told that a session is needed.
        wanted: Option<Time>,
    },
}

/// A session that is needed is asked for no more often.
const WANTED_INTERVAL: Span = Span::from_millis(100);

impl Handshakes {
    pub(crate) fn in_first_shard() -> Self {
        Handshakes::InFirstShard { messages: Vec::new(), wanted: None }
    }

    /// A session with the peer is needed, or data has passed.
    pub(crate) fn note(&mut self, peer: PeerId, occasion: Occasion, now: Time) {
        match self {
            Handshakes::Here(endpoint) => match occasion {
                Occasion::Wanted => endpoint.connect(peer, now),
                Occasion::Sent => endpoint.data_sent(peer, now),
                Occasion::Received => endpoint.data_received(peer, now),
                Occasion::Keepalive => endpoint.keepalive_received(peer, now),
            },
            Handshakes::InFirstShard { messages, wanted } => {
                if occasion == Occasion::Wanted {
                    if wanted.is_some_and(|last| now - last < WANTED_INTERVAL) {
                        return;
                    }
                    *wanted = Some(now);
                }
                messages.push(ShardMessage(Content::Handshake(peer, occasion)));
            }
        }
    }

    /// Whether a message may be a peer's.
    pub(crate) fn receive(&mut self, datagram: &[u8], from: Route, now: Time) -> bool {
        match self {
            Handshakes::Here(endpoint) => endpoint.receive(datagram, from, now).is_ok(),
            Handshakes::InFirstShard { .. } => false,
        }
    }

    pub(crate) fn endpoint(&mut self) -> Option<&mut Endpoint> {
        match self {
            Handshakes::Here(endpoint) => Some(endpoint),
            Handshakes::InFirstShard { .. } => None,
        }
    }

    pub(crate) fn advance(&mut self, now: Time, wall: Time) {
        if let Some(endpoint) = self.endpoint() {
            endpoint.advance(now, wall);
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.endpoint()?.next_event()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match self {
            Handshakes::Here(endpoint) => endpoint.next_deadline(),
            Handshakes::InFirstShard { .. } => None,
        }
    }

    /// What the first shard is to be told.
    pub(crate) fn take_messages(&mut self) -> Vec<ShardMessage> {
        match self {
            Handshakes::Here(_) => Vec::new(),
            Handshakes::InFirstShard { messages, .. } => std::mem::take(messages),
        }
    }
}
