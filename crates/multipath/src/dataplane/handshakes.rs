use crate::OuterTransport;
use crate::dataplane::shard_message::{HandshakeTrigger, ShardMessage, ShardMessageContent};
use kumade_noise_session::{Endpoint, EndpointEvent, PeerId, RefusedDatagram, Route};
use kumade_units::{Span, Time};

/// What shakes hands with the peers of a node: the first of its shards.
pub(crate) enum Handshakes {
    Local(Box<Endpoint>),
    Delegated {
        /// What is to be told to it.
        messages: Vec<ShardMessage>,
        /// When it was last told that a session is needed.
        last_request: Option<Time>,
    },
}

/// A session that is needed is asked for no more often.
const SESSION_REQUEST_INTERVAL: Span = Span::from_millis(100);

impl Handshakes {
    pub(crate) fn delegated() -> Self {
        Handshakes::Delegated { messages: Vec::new(), last_request: None }
    }

    /// A session with the peer is needed, or data has passed.
    pub(crate) fn notify(&mut self, peer: PeerId, occasion: HandshakeTrigger, now: Time) {
        match self {
            Handshakes::Local(endpoint) => match occasion {
                HandshakeTrigger::SessionNeeded => endpoint.connect(peer, now),
                HandshakeTrigger::DataSent => endpoint.record_data_sent(peer, now),
                HandshakeTrigger::DataReceived => endpoint.record_data_received(peer, now),
                HandshakeTrigger::KeepaliveReceived => endpoint.record_keepalive_received(peer, now),
            },
            Handshakes::Delegated { messages, last_request: wanted } => {
                if occasion == HandshakeTrigger::SessionNeeded {
                    if wanted.is_some_and(|last| now - last < SESSION_REQUEST_INTERVAL) {
                        return;
                    }
                    *wanted = Some(now);
                }
                messages.push(ShardMessage(ShardMessageContent::Handshake(peer, occasion)));
            }
        }
    }

    /// Takes in a message that came over this transport.
    pub(crate) fn receive(
        &mut self,
        datagram: &[u8],
        from: Route,
        transport: OuterTransport,
        now: Time,
    ) -> Result<(), RefusedDatagram> {
        match (self, transport) {
            (Handshakes::Local(endpoint), OuterTransport::Udp) => endpoint.receive(datagram, from, now),
            (Handshakes::Local(endpoint), OuterTransport::Tcp) => endpoint.receive_from_connection(datagram, from, now),
            (Handshakes::Delegated { .. }, _) => Err(RefusedDatagram::Unexpected),
        }
    }

    pub(crate) fn endpoint(&mut self) -> Option<&mut Endpoint> {
        match self {
            Handshakes::Local(endpoint) => Some(endpoint),
            Handshakes::Delegated { .. } => None,
        }
    }

    pub(crate) fn advance(&mut self, now: Time, wall: Time) {
        if let Some(endpoint) = self.endpoint() {
            endpoint.advance(now, wall);
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<EndpointEvent> {
        self.endpoint()?.next_event()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match self {
            Handshakes::Local(endpoint) => endpoint.next_deadline(),
            Handshakes::Delegated { .. } => None,
        }
    }

    /// What the first shard is to be told.
    pub(crate) fn take_messages(&mut self) -> Vec<ShardMessage> {
        match self {
            Handshakes::Local(_) => Vec::new(),
            Handshakes::Delegated { messages, .. } => std::mem::take(messages),
        }
    }
}
