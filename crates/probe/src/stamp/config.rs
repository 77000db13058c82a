use crate::cancel::CancelToken;
use crate::clocks::NtpServer;
use crate::family::Family;
use net::Binding;
use units::Span;
use wire::stamp::SIZE;

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct StampConfig {
    /// The reflector: a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Which addresses of the host to use.
    pub family: Family,
    /// Probes to send.
    pub count: u32,
    /// From one to the next.
    pub interval: Span,
    /// A probe that takes longer is late.
    pub late_after: Span,
    /// Bytes of the UDP payload: 44, or more with padding.
    pub size: usize,
    /// A server that knows how wrong this host's clock is.
    pub ntp: Option<NtpServer>,
    /// From where on this host.
    pub binding: Binding,
    /// Ends the measurement from another thread.
    pub cancel: CancelToken,
}

impl StampConfig {
    /// 200 probes in two seconds.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        StampConfig {
            host: host.into(),
            port,
            family: Family::Any,
            count: 200,
            interval: Span::from_millis(10),
            late_after: Span::from_secs(1),
            size: SIZE,
            ntp: None,
            binding: Binding::default(),
            cancel: CancelToken::default(),
        }
    }
}
