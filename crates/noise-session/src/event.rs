use crate::PublicKey;
use crate::notice::HandshakeNotice;
use crate::peer::{PeerId, Route};
use crate::session::Session;
use thiserror::Error;

/// What an endpoint wants done.
#[derive(Debug)]
pub enum EndpointEvent {
    /// Send a datagram.
    Transmit {
        /// On which path, and where.
        to: Route,
        /// Its bytes.
        datagram: Vec<u8>,
    },
    /// A handshake has made a session: install it in the [`SessionTable`](crate::SessionTable)s, whichever sessions the
    /// peer has already.
    Established {
        /// With whom.
        peer: PeerId,
        /// It owns all paths but [`ENDPOINT_PATH`](crate::ENDPOINT_PATH).
        session: Session,
        /// Where the peer's last message came from.
        route: Route,
        /// Which life of the peer this is: another one than before if the peer has restarted and with it forgotten all that
        /// belongs to earlier sessions.
        instance: u64,
    },
    /// The peer has not answered for 90 s, and nobody has wished to send for as long: no more is tried.
    Unreachable {
        /// Who.
        peer: PeerId,
    },
    /// Tell the administrator. Of strangers, little is told.
    Notice(HandshakeNotice),
}

/// Why a datagram was dropped. Nothing is answered, but for a cookie reply where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RefusedDatagram {
    /// Not a handshake message or cookie reply.
    #[error("it is not a handshake message")]
    Malformed,
    /// The sender does not know this host's public key.
    #[error("its sender does not know this host's public key")]
    InvalidMac,
    /// Too many handshake messages come; the sender has been asked to show that it receives at its address.
    #[error("too many handshake messages arrive: its sender was sent a cookie")]
    CookieRequired,
    /// Too many handshake messages come, in all or from this source.
    #[error("too many handshake messages arrive")]
    RateLimited,
    /// It fails its authentication.
    #[error("it is not authentic")]
    Forged,
    /// The sender has a key that this host does not know.
    #[error("its sender is not among the peers of this host")]
    UnknownPeer,
    /// An initiation no newer than one before: a copy, or of a host whose clock has been set back.
    #[error("it is a copy of an earlier message, or the clock of its sender was set back")]
    Replayed,
    /// An initiation older than one before. Its sender was told from which timestamp to go on, in an answer that only the
    /// peer itself can read.
    #[error(
        "it is older than an earlier message: its sender, if it is the peer, was told to go on from that one's time"
    )]
    Outdated,
    /// It answers nothing that this host has sent and still waits for.
    #[error("it answers no handshake that is under way")]
    Unexpected,
}

impl RefusedDatagram {
    /// Whether the next message of its sender may be taken, if that is a peer.
    pub fn may_be_followed(self) -> bool {
        matches!(self, RefusedDatagram::CookieRequired | RefusedDatagram::RateLimited | RefusedDatagram::Outdated)
    }
}

/// Why a peer was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The peer has the host's own key.
    #[error("the peer {0} has this host's own key")]
    OwnKey(PublicKey),
    /// There is such a peer already.
    #[error("the peer {0} is there already")]
    Duplicate(PublicKey),
}
