use crate::cancel::CancelToken;
use crate::clocks::NtpServer;
use crate::family::Family;
use kumade_net::SocketBinding;
use kumade_packet::DsField;
use kumade_units::Span;
use kumade_wire::PresharedKey;
use kumade_wire::stamp::{PACKET_BYTES, TlvRequest};

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
    /// Interval between test packets; up to eight times that while ECN-capable ones are marked.
    pub interval: Span,
    /// Round-trip time above which a reply counts as late. Replies to the last test packets are awaited for twice that time, and longer
    /// on a path whose round trips are longer: half a minute at most. If no reply at all has come, for five times that time.
    pub late_after: Span,
    /// Size of the UDP payload in bytes: 44, or more with padding, and with what extensions take.
    pub size: usize,
    /// DSCP and ECN of test packets. The reflector is asked with which they arrive, and to answer with the same (Class of Service,
    /// RFC 8972, 4.4). None for the system's own, about which it isn't asked.
    pub ds_field: Option<DsField>,
    /// Asks the reflector for what else RFC 8972 has it tell: how its clock is set and read, between which addresses test packets
    /// come, its counts of packets, when its answers left; and for the class of service.
    pub extensions: bool,
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
            ds_field: None,
            extensions: false,
            key: None,
            ntp: Vec::new(),
            binding: SocketBinding::default(),
            cancel: CancelToken::default(),
        }
    }

    /// What test packets ask for.
    pub(super) fn tlv_request(&self) -> TlvRequest {
        let all = self.extensions;
        TlvRequest {
            class_of_service: self.ds_field.or(all.then(DsField::default)),
            timestamp_information: all,
            location: all,
            direct_measurement: all,
            follow_up_telemetry: all,
            ..TlvRequest::default()
        }
    }
}
