//! Socket options that nix lacks, each with the type of its value. Those that it has are used from there.

use nix::sys::socket::sockopt::Get;
use nix::sys::socket::{GetSockOpt, getsockopt};
use nix::{getsockopt_impl, libc, setsockopt_impl, sockopt_impl};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

/// What an option says.
///
/// # Errors
/// The system does not tell, or tells only a part of it, as emulators of Linux do.
pub fn read<T, O: GetSockOpt<Val = Option<T>>>(socket: &impl AsFd, option: O) -> io::Result<T> {
    let partial = || io::Error::new(io::ErrorKind::Unsupported, "the system answers with a part of it");
    getsockopt(socket, option)?.ok_or_else(partial)
}

/// Gets an option's value, if it comes whole: nix's own getter panics where it does not.
#[derive(Debug)]
pub struct GetWhole<T> {
    bytes: libc::socklen_t,
    value: MaybeUninit<T>,
}

impl<T: Copy> Get<Option<T>> for GetWhole<T> {
    fn uninit() -> Self {
        GetWhole { bytes: size_of::<T>() as libc::socklen_t, value: MaybeUninit::uninit() }
    }

    fn ffi_ptr(&mut self) -> *mut libc::c_void {
        self.value.as_mut_ptr().cast()
    }

    fn ffi_len(&mut self) -> *mut libc::socklen_t {
        &raw mut self.bytes
    }

    unsafe fn assume_init(self) -> Option<T> {
        // SAFETY: so much was written, and the types below consist of integers.
        (self.bytes as usize == size_of::<T>()).then(|| unsafe { self.value.assume_init() })
    }
}

sockopt_impl!(
    /// Whether IPv4 packets may be fragmented: `IP_PMTUDISC_*`.
    Ipv4MtuDiscover,
    SetOnly,
    libc::SOL_IP,
    libc::IP_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// Whether IPv6 packets may be fragmented: `IPV6_PMTUDISC_*`.
    Ipv6MtuDiscover,
    SetOnly,
    libc::SOL_IPV6,
    libc::IPV6_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// The known MTU of a connected IPv6 socket's path.
    Ipv6Mtu,
    GetOnly,
    libc::SOL_IPV6,
    libc::IPV6_MTU,
    libc::c_int
);
sockopt_impl!(
    /// Whether the kernel checks what a netlink request for a list asks for, and lists no more than that.
    NetlinkStrictCheck,
    SetOnly,
    libc::SOL_NETLINK,
    libc::NETLINK_GET_STRICT_CHK,
    bool
);
sockopt_impl!(
    /// Which of a socket's buffers keep their size: `SOCK_RCVBUF_LOCK`, `SOCK_SNDBUF_LOCK` (Linux 5.16).
    BufferLock,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_BUF_LOCK,
    u32
);
sockopt_impl!(
    /// What a socket holds in the kernel: its `SK_MEMINFO_*` fields, up to `DROPS` (Linux 4.12).
    SocketMemory,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    Option<[u32; 9]>,
    GetWhole<[u32; 9]>
);
/// The kernel's `struct tcp_info` up to the counters of bytes sent (Linux 4.19). Those of the C libraries end elsewhere, and newer
/// kernels append to it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TcpState {
    _state: u8,
    pub ca_state: u8,
    /// Timeouts in a row.
    pub retransmits: u8,
    _probes_backoff: [u8; 2],
    /// `TCPI_OPT_*`.
    pub options: u8,
    _bytes: [u8; 2],
    /// In microseconds.
    pub rto: u32,
    _ato: u32,
    pub snd_mss: u32,
    _rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    _fackets_to_last_ack_recv: [u32; 5],
    pub path_mtu: u32,
    _rcv_ssthresh: u32,
    /// Smoothed, in microseconds.
    pub rtt: u32,
    _rttvar_to_snd_ssthresh: [u32; 2],
    pub snd_cwnd: u32,
    pub advertised_mss: u32,
    _reordering_to_rcv_space: [u32; 3],
    pub total_retrans: u32,
    _pacing_rates: [u64; 2],
    pub bytes_acked: u64,
    _bytes_received: u64,
    _segs: [u32; 2],
    pub notsent_bytes: u32,
    /// In microseconds.
    pub min_rtt: u32,
    _data_segs: [u32; 2],
    pub delivery_rate: u64,
    _busy_and_limited_times: [u64; 3],
    /// Segments, in order or not; begins anew after 2³².
    pub delivered: u32,
    pub delivered_ce: u32,
    /// Of data, what was repeated included.
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
}

sockopt_impl!(
    /// The state of a TCP connection, up to the counters of bytes sent.
    TcpInfo,
    GetOnly,
    libc::SOL_TCP,
    libc::TCP_INFO,
    Option<TcpState>,
    GetWhole<TcpState>
);
sockopt_impl!(
    /// Bytes not sent yet above which a TCP connection takes no more.
    NotSentLowat,
    SetOnly,
    libc::SOL_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32
);
sockopt_impl!(
    /// Whether a listener keeps the SYN of each connection, without the link layer's header where it is 1.
    SaveSyn,
    SetOnly,
    libc::SOL_TCP,
    libc::TCP_SAVE_SYN,
    libc::c_int
);
/// `TCP_FASTOPEN_CONNECT` of linux/tcp.h.
const TCP_FASTOPEN_CONNECT: libc::c_int = 30;
sockopt_impl!(
    /// Whether a SYN asks for a cookie of TCP Fast Open, or carries data with one.
    FastOpenConnect,
    SetOnly,
    libc::SOL_TCP,
    TCP_FASTOPEN_CONNECT,
    libc::c_int
);
/// `TCP_RTO_MIN_US` of linux/tcp.h, which libc lacks.
const TCP_RTO_MIN_US: libc::c_int = 45;
sockopt_impl!(
    /// The least retransmission timeout, in microseconds.
    MinRto,
    SetOnly,
    libc::SOL_TCP,
    TCP_RTO_MIN_US,
    libc::c_int
);
/// `TCP_RTO_MAX_MS` of linux/tcp.h, which libc lacks.
const TCP_RTO_MAX_MS: libc::c_int = 44;
sockopt_impl!(
    /// The greatest retransmission timeout, in milliseconds.
    MaxRto,
    SetOnly,
    libc::SOL_TCP,
    TCP_RTO_MAX_MS,
    libc::c_int
);
sockopt_impl!(
    /// Bytes per second at which TCP sends at most.
    MaxPacingRate,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u32
);
sockopt_impl!(
    /// The layout of a packet socket's ring: `TPACKET_V*`.
    PacketVersion,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VERSION,
    libc::c_int
);
sockopt_impl!(
    /// Gives a packet socket a ring for receiving.
    PacketReceiveRing,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_RX_RING,
    libc::tpacket_req
);
sockopt_impl!(
    /// Packets that a packet socket has received and dropped since this was last read.
    PacketStatistics,
    GetOnly,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    Option<libc::tpacket_stats>,
    GetWhole<libc::tpacket_stats>
);
sockopt_impl!(
    /// Whether frames too long for the ring wait in the socket's queue.
    PacketCopyThreshold,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_COPY_THRESH,
    libc::c_int
);
sockopt_impl!(
    /// Whether a virtio_net_hdr stands before each frame.
    PacketVnetHeader,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VNET_HDR,
    libc::c_int
);
sockopt_impl!(
    /// Whether a packet socket passes over frames that leave.
    PacketIgnoreOutgoing,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_IGNORE_OUTGOING,
    libc::c_int
);
sockopt_impl!(
    /// Whether a packet socket sends past the interface's queue discipline.
    PacketQdiscBypass,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_QDISC_BYPASS,
    libc::c_int
);
sockopt_impl!(
    /// Joins a multicast group, or makes an interface promiscuous.
    PacketAddMembership,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_ADD_MEMBERSHIP,
    libc::packet_mreq
);
/// `SO_NETNS_COOKIE` of asm-generic/socket.h, which libc lacks.
const SO_NETNS_COOKIE: libc::c_int = 71;
sockopt_impl!(
    /// The number of the network namespace that a socket is in, which no other one ever has had (Linux 5.14).
    NamespaceCookie,
    GetOnly,
    libc::SOL_SOCKET,
    SO_NETNS_COOKIE,
    Option<u64>,
    GetWhole<u64>
);
#[cfg(test)]
sockopt_impl!(
    /// Whether UDP over IPv4 leaves without checksum.
    NoChecksum,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_NO_CHECK,
    libc::c_int
);

#[cfg(test)]
mod tests {
    use super::*;

    sockopt_impl!(
        /// More than any kernel tells.
        LongTcpInfo,
        GetOnly,
        libc::SOL_TCP,
        libc::TCP_INFO,
        Option<[u64; 512]>,
        GetWhole<[u64; 512]>
    );

    /// As of emulators of Linux, and of older kernels: this was a panic.
    #[test]
    fn what_the_system_tells_a_part_of_is_an_error() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(read(&socket, LongTcpInfo).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(read(&socket, TcpInfo).is_ok());
    }
}
