use crate::cipher::Cipher;

/// What a host allows and prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakePolicy {
    /// What data is sealed with, if the peer prefers the same; otherwise it is ChaCha20-Poly1305.
    pub cipher: Cipher,
    /// Handshake messages per second that are computed on without further proof, whoever sent them. Each costs some
    /// 200 µs. As many again are computed on if they carry a cookie.
    pub handshakes_per_second: u32,
    /// Of those with a cookie, how many per second from one source: one IPv4 address or one /64 of IPv6. Also, how many
    /// cookie replies are sent there, where no peer is expected.
    pub handshakes_per_second_and_source: u32,
    /// Cookie replies per second; as many again to addresses where a peer is expected. Each costs some 2 µs and a datagram of 64 bytes, in answer to one of 104 at least.
    pub cookie_replies_per_second: u32,
}

impl Default for HandshakePolicy {
    /// The cipher that is faster on this processor; handshakes for at most a tenth of one processor's time.
    fn default() -> Self {
        HandshakePolicy {
            cipher: Cipher::fastest(),
            handshakes_per_second: 250,
            handshakes_per_second_and_source: 20,
            cookie_replies_per_second: 10_000,
        }
    }
}
