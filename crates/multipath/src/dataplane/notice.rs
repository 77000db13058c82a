use crate::PathId;
use kumade_noise_session::HandshakeNotice;
use kumade_units::Time;

/// What an administrator has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeNotice {
    /// When it happened: the clock of the calls.
    pub time: Time,
    /// What.
    pub content: NoticeContent,
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeContent {
    /// To a peer, or a path to it.
    Remote {
        /// The place of the peer.
        remote: usize,
        /// What.
        change: RemoteChange,
    },
    /// In a handshake.
    Handshake(HandshakeNotice),
}

/// What has become of a peer, or a path to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteChange {
    /// There is a session, and the peer answers on a path.
    Connected,
    /// It answers on no path any longer, or the session has ended.
    Lost {
        /// When anything authentic came from it last.
        last_heard: Option<Time>,
    },
    /// It has another life than before, in which it knows nothing of the last one.
    Restarted,
    /// A path that carried packets is not answered.
    PathFailed(PathId),
    /// A TCP connection has ended, of a path that carried packets.
    PathEnded(PathId),
    /// A path that had failed carries packets again.
    PathReturned(PathId),
}
