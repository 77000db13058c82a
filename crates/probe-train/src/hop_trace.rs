use kumade_units::Span;
use std::net::IpAddr;

/// Packets of one flow whose TTL or hop limit ends on the way, so that routers answer: each is sent when the one before it has been answered, or
/// its time is over. So an answer that quotes too little of a packet to tell which it was is of that which was sent last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopTrace {
    /// The octet of DSCP (RFC 2474) and ECN (RFC 3168) of all packets.
    pub ds_field: u8,
    /// In the order of sending.
    pub hop_limits: Vec<u8>,
    /// How long an answer is waited for.
    pub timeout: Span,
    /// After that, no packet is sent any more.
    pub max_duration: Span,
}

/// What a router said of a packet of a trace: ICMP (RFC 792) or ICMPv6 (RFC 4443).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopAnswer {
    /// The packet's place in the trace, counted from zero.
    pub index: u32,
    /// Who answered; none where the system does not say.
    pub from: Option<IpAddr>,
    /// Whether it is ICMPv6.
    pub is_v6: bool,
    /// The type.
    pub icmp_type: u8,
    /// The code.
    pub icmp_code: u8,
    /// From the packet's sending to the answer.
    pub round_trip: Span,
    /// DSCP and ECN of the packet as it came to the router, which quotes its header; none where that cannot be read.
    pub quoted_ds_field: Option<u8>,
}

/// What became of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HopTraceRecord {
    /// The places of the packets that left.
    pub sent: Vec<u32>,
    /// One for each packet at most: the first.
    pub answers: Vec<HopAnswer>,
    /// Whether this process may read what answers quote of headers.
    pub can_read_quotes: bool,
}
