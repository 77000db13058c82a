//! What the kernels of both ends know of the session's packets, which costs none: the driver asks them.

use kumade_probe_train::PortProtocol;
use std::net::SocketAddr;

/// What the kernel of one end says of the control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpEndFacts {
    /// `TCPI_OPT_*` of Linux: what was negotiated.
    pub options: u8,
    /// The maximum segment size that it announced, in bytes.
    pub announced_mss: u32,
    /// Payload bytes of the largest segment that it sends.
    pub send_mss: u32,
    /// The largest IP packet, in bytes, that the path takes as far as it knows.
    pub path_mtu: u32,
    /// TTL or hop limit with which it sends.
    pub hop_limit: Option<u8>,
    /// Segments of its own that arrived marked with CE.
    pub delivered_ce: u32,
}

/// What is known of the control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpFacts {
    /// This host's address and port.
    pub local: SocketAddr,
    /// The same as the far end sees it.
    pub seen: SocketAddr,
    /// Whether the far end has the address to which this host has connected.
    pub is_destination_kept: bool,
    /// The SYN as it arrived, from its IP header on; empty where the far end does not know.
    pub arrived_syn: Vec<u8>,
    /// A SYN of this host to itself, which no path has changed; none where that could not be had.
    pub reference_syn: Option<Vec<u8>>,
    /// `net.ipv4.tcp_ecn` of this host; none where it can't be read.
    pub ecn_setting: Option<u32>,
    /// This end.
    pub near: TcpEndFacts,
    /// The far end.
    pub far: TcpEndFacts,
}

/// What a SYN carried beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynProbeKind {
    /// Multipath TCP (RFC 8684).
    Mptcp,
    /// A request for a cookie of TCP Fast Open (RFC 7413).
    FastOpen,
    /// A request for ECN (RFC 3168).
    Ecn,
}

/// A connection that was opened for its SYN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SynProbeFacts {
    /// What the SYN was to carry.
    pub kind: SynProbeKind,
    /// A SYN of this host to itself that was to carry it; none where that could not be had.
    pub reference_syn: Option<Vec<u8>>,
    /// The SYN as it arrived; none where the connection did not open, empty where the far end does not know.
    pub arrived_syn: Option<Vec<u8>>,
}

/// What is known of UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpFacts {
    /// This host's address and port.
    pub local: SocketAddr,
    /// The same as the far end sees it.
    pub seen: SocketAddr,
    /// TTL or hop limit with which this end sends, and with which its packets arrive.
    pub up_hop_limits: [Option<u8>; 2],
    /// The same of the far end's packets.
    pub down_hop_limits: [Option<u8>; 2],
    /// The largest IP packet that the path takes, in bytes, as far as this end knows: ICMP messages have told where it is less than the
    /// interface's.
    pub near_path_mtu: Option<u32>,
    /// The same as far as the far end knows.
    pub far_path_mtu: Option<u32>,
}

/// What the far end has seen of packets, or connections, from one port of this host to several ports of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingFacts {
    /// Of which protocol.
    pub protocol: PortProtocol,
    /// This host's address and port.
    pub local: SocketAddr,
    /// As the far end sees them: at the port of the session, at its second port, and at the second port of its second address; none where
    /// nothing arrived.
    pub seen: [Option<SocketAddr>; 3],
    /// The far end's second port; none where it could not listen at one.
    pub second_port: Option<u16>,
    /// Whether it has a second address for that.
    pub has_second_address: bool,
    /// Packets of UDP from its second port, and from its second address, before this host had sent anything there; none where none were sent.
    pub unsolicited: [Option<UnsolicitedFacts>; 2],
    /// Why nothing of that was tried.
    pub failure: Option<String>,
}

/// Packets that the far end sent from a port to which this host had sent nothing, and those from there that were answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnsolicitedFacts {
    /// How many it sent.
    pub sent: u32,
    /// How many arrived here.
    pub arrived: u32,
    /// Afterwards, how many of this host's packets to that port were to be answered.
    pub solicited_sent: u32,
    /// How many answers arrived here.
    pub solicited_arrived: u32,
}

/// What the driver has found out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PathFacts {
    pub(crate) tcp: Option<TcpFacts>,
    pub(crate) udp: Option<UdpFacts>,
    /// Empty where it was not asked for.
    pub(crate) syn_probes: Vec<SynProbeFacts>,
    /// Of UDP, and of TCP; empty where it was not asked for.
    pub(crate) mappings: Vec<MappingFacts>,
    /// The version of the far end that knows nothing of them, and the first one that does.
    pub(crate) no_mappings: Option<[u16; 2]>,
    /// The version of the far end, which is too old to be asked, and the first one that is not.
    pub(crate) old_far_end: Option<[u16; 2]>,
}
