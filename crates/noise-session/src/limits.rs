//! How long a session and a handshake last, after the WireGuard paper §6 unless said otherwise.

use kumade_units::Span;

/// The age at which the initiator of a session makes another.
pub(crate) const REKEY_AFTER: Span = Span::from_secs(120);
/// How much later the responder does, if the initiator has not: after two simultaneous handshakes each host may use a
/// session in which it responded.
pub(crate) const RESPONDER_REKEY_DELAY: Span = Span::from_secs(15);
/// The age at which a session ends: nothing that was sealed before can be opened then.
pub const REJECT_AFTER: Span = Span::from_secs(180);
/// How long after data came a host that has sent nothing since sends an empty message.
pub(crate) const KEEPALIVE_AFTER: Span = Span::from_secs(10);
/// How long after data left without anything coming back a new session is made: the peer may have restarted.
pub(crate) const RESPONSE_TIMEOUT: Span = Span::from_secs(15);
/// How long a host tries to reach its peer after the last wish to send.
pub(crate) const GIVE_UP_AFTER: Span = Span::from_secs(90);
/// The first interval between two initiations; each further one is twice as long.
pub(crate) const FIRST_RETRY_INTERVAL: Span = Span::from_secs(1);
/// Initiations without an answer after which it is told that the peer does not answer: 7 s, when one or two may have been lost,
/// and before people give up waiting.
pub(crate) const UNANSWERED_INITIATIONS: u32 = 3;
/// The longest interval between two initiations.
pub(crate) const MAX_RETRY_INTERVAL: Span = Span::from_secs(16);
/// A session is not replaced by another before this age, other than by the peer's wish.
pub(crate) const MIN_SESSION_AGE: Span = Span::from_secs(5);
/// For how long a cookie is valid, and the secret that it is made of is used.
pub(crate) const COOKIE_LIFETIME: Span = Span::from_secs(120);
/// Handshakes of one peer per second that are computed on whatever strangers do. It takes one in two minutes, and some more where
/// paths or the peer fail.
pub(crate) const PEER_HANDSHAKES_PER_SECOND: f64 = 10.0;
/// Sessions of one peer that are kept: the one in use, the one before, and what two simultaneous handshakes add.
pub(crate) const MAX_SESSIONS: usize = 4;

/// Blocks of 16 bytes that one key may seal. With 2³⁵ an observer tells AES-GCM from an ideal cipher with a probability
/// of at most 2⁻⁵⁷ (RFC 9001 §B.1.1: (2 · blocks)² / 2¹²⁹); ChaCha20-Poly1305 would allow more.
pub(crate) const MAX_BLOCKS: u64 = 1 << 35;
/// Blocks after which a new session is made: 256 GiB. Messages, of one block at least, cannot exceed WireGuard's 2⁶⁰.
pub(crate) const REKEY_AFTER_BLOCKS: u64 = MAX_BLOCKS / 2;
