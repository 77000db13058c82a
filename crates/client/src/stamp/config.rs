use crate::cancel::CancelToken;
use crate::clocks::NtpServer;
use crate::family::Family;
use kumade_net::SocketBinding;
use kumade_units::Span;
use kumade_wire::PresharedKey;
use kumade_wire::stamp::PACKET_BYTES;

/// Configuration of a STAMP session sender.
#[derive(Debug, Clone)]
pub struct StampConfig {
    /// Name or address of the reflector.
    pub host: String,
    /// UDP port of the reflector.
    pub port: u16,
    /// Which addresses of the host to use.
    pub family: Family,
    /// Number of test packets.
    pub count: u32,
    /// Interval between test packets.
    pub interval: Span,
    /// Round-trip time above which a reply counts as late. Replies to the last test packets are awaited for twice that time, and longer
    /// on a path whose round trips are longer: half a minute at most. If no reply at all has come, for five times that time.
    pub late_after: Span,
    /// Size of the UDP payload in bytes: 44, or more with padding.
    pub size: usize,
    /// Authenticates test packets, and the replies that are accepted (RFC 8762, 4.4); then the size is 112 at least.
    pub key: Option<PresharedKey>,
    /// NTP servers that bound the error of this host's clock; of three and more, fewer than half may be wrong.
    pub ntp: Vec<NtpServer>,
    /// Source address, interface and firewall mark.
    pub binding: SocketBinding,
    /// Ends the measurement from another thread.
    pub cancel: CancelToken,
}

impl StampConfig {
    /// 200 test packets at intervals of 10 ms.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        StampConfig {
            host: host.into(),
            port,
            family: Family::Any,
            count: 200,
            interval: Span::from_millis(10),
            late_after: Span::from_secs(1),
            size: PACKET_BYTES,
            key: None,
            ntp: Vec::new(),
            binding: SocketBinding::default(),
            cancel: CancelToken::default(),
        }
    }
}
