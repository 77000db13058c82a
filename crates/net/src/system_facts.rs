//! What a system may tell of packets, sockets and connections: the same types whatever it tells.

use kumade_packet::DsField;
use kumade_units::{Span, Time};
use std::net::{IpAddr, SocketAddr};

/// Where stamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StampSource {
    /// The kernel, at the network device.
    Kernel,
    /// The kernel, before the queue discipline of the sending interface, which held packets back; the program's own clock
    /// readings just before sending where the kernel did not say.
    Queue,
    /// The program's own clock readings just before sending and just after receiving: microseconds off, more under
    /// load.
    User,
}

/// What a read with its stamp has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampedRead {
    /// Bytes written to the buffer; a longer datagram is cut off. Zero on TCP means the peer has closed.
    pub len: usize,
    /// When it came, where the kernel has said so credibly.
    pub stamp: Option<Time>,
}

/// When a packet left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitStamp {
    /// Which, as [`stamp`](crate::platform::stamp) counts them.
    pub key: u32,
    /// When it was there.
    pub time: Time,
    /// Where.
    pub place: StampPlace,
}

/// Where a packet was when it was stamped on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampPlace {
    /// Before the queue discipline of the interface.
    Queue,
    /// At the network device.
    Device,
}

/// A datagram that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Whether it was longer than the buffer, and cut off.
    pub is_truncated: bool,
    /// Who sent it.
    pub source: SocketAddr,
    /// To which address of this host, where the kernel says so.
    pub destination: Option<IpAddr>,
    /// Its TTL or hop limit as it arrived, where the kernel says so.
    pub ttl: Option<u8>,
    /// DSCP and ECN as it arrived, where the kernel says so.
    pub ds_field: Option<DsField>,
    /// When it came, where the kernel has said so credibly.
    pub stamp: Option<Time>,
}

/// What the kernel says of a datagram as it arrived. Each is none where it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramArrival {
    /// When, where that is credible: once `enable_receive` of [`stamp`](crate::platform::stamp) has asked for it.
    pub stamp: Option<Time>,
    /// The octet of DSCP and ECN: once `report_marks` of [`udp`](crate::platform::udp) has asked for it.
    pub ds_field: Option<u8>,
    /// TTL or hop limit: likewise.
    pub hop_limit: Option<u8>,
}

/// How a burst was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentBurst {
    /// As one packet of the kernel, which is stamped once and has one key.
    Segmented,
    /// As this many datagrams with one system call: from the first on, each with its key and its stamp.
    Separate(usize),
}

/// An ICMP or ICMPv6 error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// Who sent it; none where the kernel does not say.
    pub from: Option<IpAddr>,
    /// Whether it is ICMPv6.
    pub is_v6: bool,
    /// Its type.
    pub icmp_type: u8,
    /// Its code.
    pub icmp_code: u8,
    /// When it came, where the kernel has said so credibly.
    pub stamp: Option<Time>,
    /// Bytes of a datagram's payload, or from a segment's TCP header on, that it quotes, as far as there was room; the kernel tells nothing of the
    /// headers before.
    pub payload_bytes: usize,
}

/// A connection's sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSizes {
    /// Bytes of the IP and TCP headers on each data packet.
    pub header_bytes: u32,
    /// The most payload bytes that leave as one packet.
    pub max_payload_bytes: u32,
}

/// What the kernel tells of a connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpPathInfo {
    /// `TCPI_OPT_*`: time stamps 1, SACK 2, window scale 4, ECN 8, ECN-capable packets seen 16.
    pub options: u8,
    /// The maximum segment size that this end announced, in bytes.
    pub announced_mss: u32,
    /// Payload bytes of the largest segment that this end sends.
    pub send_mss: u32,
    /// The largest IP packet, in bytes, that the path takes as far as this host knows.
    pub path_mtu: u32,
    /// TTL or hop limit with which it sends.
    pub hop_limit: Option<u8>,
    /// Segments that arrived marked with CE, as the other end reported.
    pub delivered_ce: u32,
}

/// The coalescing of an interface's receive interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptCoalescing {
    /// The longest that a packet waits for others.
    pub max_delay: Span,
    /// The interrupt comes at the latest with so many packets; none where their number does not matter.
    pub max_packets: Option<u32>,
    /// Whether the driver changes both with the traffic.
    pub is_adaptive: bool,
}
