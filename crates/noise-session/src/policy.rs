use crate::cipher::Cipher;

/// What a host allows and prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakePolicy {
    /// What data is sealed with, if the peer prefers the same; otherwise it is ChaCha20-Poly1305.
    pub cipher: Cipher,
    /// What the host understands in its sessions beyond what all do, a bit each, in the sense of what uses them. A session has those
    /// that both ends have ([`Session::capabilities`](crate::Session::capabilities)); hosts of earlier versions have none.
    pub capabilities: u8,
    /// Handshake messages per second that are computed on although they are no peer's, whoever sent them. Each costs some
    /// 100 µs. As many again are computed on if their sender has shown, by a cookie or a TCP connection, that it receives at
    /// its address. Beyond that rate the networks (IPv4 /24, IPv6 /48) that have sent most of them lately are refused first,
    /// and addresses at which peers are expected last. Messages of peers do not count.
    pub handshakes_per_second: u32,
    /// Cookie replies per second; as many again to addresses where a peer is expected. Each costs some 2 µs and a datagram of 64 bytes, in answer to one of 104 at least.
    pub cookie_replies_per_second: u32,
    /// Of these, how many to one source where no peer is expected: one IPv4 address or one /64 of IPv6.
    pub cookie_replies_per_second_and_source: u32,
}

impl Default for HandshakePolicy {
    /// The cipher that is faster on this processor; strangers' handshakes for at most a twentieth of one processor's time.
    fn default() -> Self {
        HandshakePolicy {
            cipher: Cipher::fastest(),
            capabilities: 0,
            handshakes_per_second: 250,
            cookie_replies_per_second: 10_000,
            cookie_replies_per_second_and_source: 20,
        }
    }
}
