use crate::option::{self, BufferLock, MaxRto, MinRto, NotSentLowat, SocketMemory, TcpInfo, TcpState};
use kumade_packet::{DsField, Dscp, Ecn};
use kumade_units::{Rate, Span};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Ipv4Tos, Ipv6TClass};
use socket2::{Domain, Socket};
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

/// How a connection's sending end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendState {
    /// Bytes in the send buffer that have not left yet.
    pub unsent_bytes: u64,
    /// Bytes that may leave at once besides what has: the rest of the congestion window.
    pub available_window_bytes: u64,
    /// Bytes that were acknowledged in all.
    pub acknowledged_bytes: u64,
    /// Bytes that have arrived in all, in order or not. Segments that arrived out of order count as many as those that are not
    /// acknowledged have on average.
    pub delivered_bytes: u64,
    /// Bytes that are believed to be on their way, likewise: neither delivered nor lost.
    pub bytes_in_flight: u64,
    /// Bytes that were repeated in all.
    pub retransmitted_bytes: u64,
    /// Payload bytes of the longest segments.
    pub segment_bytes: u32,
    /// How many retransmission timeouts have passed in a row: the oldest segment was repeated so often in vain.
    pub timeouts: u32,
    /// Lost data is being repeated (Linux: any state but Open and Disorder).
    pub is_recovering: bool,
    /// Smoothed round-trip time; 0 until there is one.
    pub round_trip: Span,
    /// By how much that exceeds the least of some minutes.
    pub excess_round_trip: Span,
    /// At which it has delivered of late, in bits of payload.
    pub delivery_rate: Rate,
}

/// `TCP_CA_Disorder`: selective acknowledgements came, and nothing is known to be lost yet.
const TCP_CA_DISORDER: u8 = 1;
const MIN_RTO_RANGE_MICROS: std::ops::RangeInclusive<i64> = 1..=200_000;
const MAX_RTO_RANGE_MILLIS: std::ops::RangeInclusive<i64> = 1000..=120_000;

/// How the connection's sending end does now.
///
/// # Errors
/// Where the connection is no more, or the system does not tell.
pub fn send_state(stream: &TcpStream) -> io::Result<SendState> {
    Ok(SendState::from(&option::read(stream, TcpInfo)?))
}

impl From<&TcpState> for SendState {
    fn from(info: &TcpState) -> Self {
        // RFC 6675's pipe, as Linux counts it.
        let in_flight = (info.unacked + info.retrans).saturating_sub(info.sacked + info.lost);
        let free = info.snd_cwnd.saturating_sub(in_flight);
        SendState {
            unsent_bytes: info.notsent_bytes.into(),
            available_window_bytes: u64::from(free) * u64::from(info.snd_mss),
            acknowledged_bytes: info.bytes_acked,
            delivered_bytes: info.bytes_acked + unacknowledged_bytes_in(info, info.sacked),
            bytes_in_flight: unacknowledged_bytes_in(info, in_flight),
            retransmitted_bytes: info.bytes_retrans,
            segment_bytes: info.snd_mss,
            timeouts: info.retransmits.into(),
            is_recovering: info.ca_state > TCP_CA_DISORDER,
            round_trip: Span::from_micros(info.rtt.into()),
            excess_round_trip: Span::from_micros(info.rtt.saturating_sub(info.min_rtt).into()),
            delivery_rate: delivery_rate(info),
        }
    }
}

/// Bytes that have left and are not acknowledged.
fn unacknowledged_bytes(info: &TcpState) -> u64 {
    info.bytes_sent.saturating_sub(info.bytes_retrans).saturating_sub(info.bytes_acked)
}

/// How many bytes so many of the segments that are not acknowledged have, on average: the kernel counts segments here, which
/// are seldom full where few or short packets are carried.
fn unacknowledged_bytes_in(info: &TcpState, segments: u32) -> u64 {
    scale(unacknowledged_bytes(info), segments.into(), info.unacked.into())
}

/// The kernel takes each segment to be full.
fn delivery_rate(info: &TcpState) -> Rate {
    let (bytes, segments) = match info.unacked {
        0 => (info.bytes_acked, info.delivered),
        unacked => (unacknowledged_bytes(info), unacked),
    };
    let full_bytes = u64::from(segments) * u64::from(info.snd_mss);
    let rate = scale(info.delivery_rate, bytes.min(full_bytes), full_bytes);
    Rate::from_bits_per_second(rate.saturating_mul(8))
}

/// `value * part / whole`; nothing of nothing.
fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The kernel's memory for the bytes of a connection (`SO_MEMINFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferedBytes {
    /// For what has come and was not read, with the kernel's own headers of it.
    pub unread: u32,
    /// For what was not sent or not acknowledged, FIN included, likewise.
    pub unacknowledged: u32,
}

/// What the kernel holds for a connection.
///
/// # Errors
/// Where the system does not tell.
pub fn buffered_bytes(stream: &TcpStream) -> io::Result<BufferedBytes> {
    let [unread, _, _, _, _, unacknowledged] = option::read(stream, SocketMemory)?;
    Ok(BufferedBytes { unread, unacknowledged })
}

/// Has the kernel's buffers of a connection grow with what it carries again, after a size was set. Kernels before Linux 5.16
/// leave them as they are.
pub fn release_buffer_sizes(stream: &TcpStream) {
    let _ = setsockopt(stream, BufferLock, &0);
}

/// The connection takes more, and reports that it does, only while fewer bytes than this have not left yet
/// (`TCP_NOTSENT_LOWAT`).
///
/// # Errors
/// Where the connection is no more.
pub fn limit_unsent(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    Ok(setsockopt(stream, NotSentLowat, &bytes)?)
}

/// The DSCP of a socket's packets, and of those of the connections that a listener accepts.
///
/// # Errors
/// The system refuses.
pub fn set_dscp(socket: &Socket, dscp: Dscp) -> io::Result<()> {
    let octet = DsField::new(dscp, Ecn::NotEct).octet();
    if socket.domain()? == Domain::IPV6 {
        setsockopt(socket, Ipv6TClass, &octet.into())?;
    }
    // IPv6 sockets carry IPv4 packets, too.
    Ok(setsockopt(socket, Ipv4Tos, &octet.into())?)
}

/// The least retransmission timeout (RFC 6298 §2.4) of a socket that is not connected yet, and of those that a listener
/// accepts: 1 µs to 200 ms. Returns whether this kernel can set it (`TCP_RTO_MIN_US`, Linux 6.17).
///
/// # Errors
/// It is out of range.
pub(super) fn set_min_rto(socket: &impl AsFd, least: Span) -> io::Result<bool> {
    let micros = least.as_nanos() / 1000;
    if !MIN_RTO_RANGE_MICROS.contains(&micros) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the kernel takes 1 µs to 200 ms"));
    }
    is_option_known(setsockopt(socket, MinRto, &(micros as libc::c_int)))
}

/// The greatest retransmission timeout (RFC 6298 §2.5), up to which it is doubled, of a socket, and of those that a listener
/// accepts: 1 s to 120 s. Returns whether this kernel can set it (`TCP_RTO_MAX_MS`, Linux 6.15).
///
/// # Errors
/// It is out of range.
pub(super) fn set_max_rto(socket: &impl AsFd, most: Span) -> io::Result<bool> {
    let millis = most.as_nanos() / 1_000_000;
    if !MAX_RTO_RANGE_MILLIS.contains(&millis) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the kernel takes 1 s to 120 s"));
    }
    is_option_known(setsockopt(socket, MaxRto, &(millis as libc::c_int)))
}

/// Whether the kernel knows the option.
fn is_option_known(outcome: Result<(), Errno>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(Errno::ENOPROTOOPT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_netns_testbed::eventually;
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn what_has_not_left_is_bounded() {
        let (near, _far) = pair();
        limit_unsent(&near, 20_000).unwrap();
        let state = send_state(&near).unwrap();
        assert!(state.available_window_bytes > 0 && state.unsent_bytes == 0 && !state.is_recovering, "{state:?}");
        // Of the handshake, on the loopback interface.
        assert!(state.round_trip < Span::from_secs(1), "{state:?}");
        // The far end reads nothing, so that its window closes.
        while crate::tcp::send(&near, &[0; 10_000], false).is_ok() {}
        let SendState { unsent_bytes: unsent, delivered_bytes: delivered, .. } = send_state(&near).unwrap();
        assert!(delivered > 0);
        // The kernel takes the buffer whole that it has begun.
        assert!((1..200_000).contains(&unsent), "{unsent}");
    }

    /// Each was taken for a full segment: on the loopback interface, 65 kB for 50 bytes.
    #[test]
    fn short_segments_count_with_their_own_bytes() {
        const SEGMENT_BYTES: usize = 50;
        const SEGMENTS: usize = 200;
        let (near, mut far) = pair();
        near.set_nodelay(true).unwrap();
        let mut written = 0;
        let check = |written| {
            let state = send_state(&near).unwrap();
            // SYN counts as one.
            assert!(state.delivered_bytes <= written + 1, "{state:?}");
            assert!(state.bytes_in_flight + state.acknowledged_bytes <= written + 1, "{state:?}");
            assert!(state.retransmitted_bytes <= written, "{state:?}");
            state
        };
        for _ in 0..SEGMENTS {
            crate::tcp::send(&near, &[7; SEGMENT_BYTES], false).unwrap();
            written += SEGMENT_BYTES as u64;
            check(written);
            io::Read::read_exact(&mut far, &mut [0; SEGMENT_BYTES]).unwrap();
        }
        while check(written).acknowledged_bytes < written {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(check(written).delivered_bytes >= written);
    }

    #[test]
    fn rates_and_what_is_in_flight_are_in_bytes() {
        let stream = pair().0;
        let mut info = option::read(&stream, TcpInfo).unwrap();
        info.snd_mss = 1400;
        // Forty segments of 70 bytes, of which ten arrived out of order and five are lost.
        (info.unacked, info.sacked, info.lost, info.retrans) = (40, 10, 5, 0);
        (info.bytes_sent, info.bytes_retrans, info.bytes_acked) = (10_000 + 40 * 70 + 700, 700, 10_000);
        info.delivery_rate = 1_400_000;
        let state = SendState::from(&info);
        assert_eq!((state.delivered_bytes, state.bytes_in_flight), (10_000 + 700, 25 * 70));
        assert_eq!((state.retransmitted_bytes, state.delivery_rate), (700, Rate::from_bits_per_second(70_000 * 8)));
        // Nothing is on its way: as those before.
        (info.unacked, info.sacked, info.lost, info.delivered) = (0, 0, 0, 100);
        info.bytes_acked = info.bytes_sent - info.bytes_retrans;
        info.bytes_acked -= info.bytes_acked % 100;
        let state = SendState::from(&info);
        assert_eq!((state.delivered_bytes, state.bytes_in_flight), (12_800, 0));
        assert_eq!(state.delivery_rate, Rate::from_bits_per_second(128_000 * 8));
    }

    #[test]
    fn what_the_kernel_holds_is_known_at_both_ends() {
        let (near, mut far) = pair();
        assert_eq!(buffered_bytes(&near).unwrap(), BufferedBytes::default());
        while crate::tcp::send(&near, &[0; 10_000], false).is_ok() {}
        assert!(buffered_bytes(&near).unwrap().unacknowledged > 10_000);
        assert!(buffered_bytes(&far).unwrap().unread > 10_000);
        near.shutdown(std::net::Shutdown::Write).unwrap();
        std::io::copy(&mut far, &mut io::sink()).unwrap();
        assert!(eventually(|| buffered_bytes(&near).unwrap() == BufferedBytes::default()));
    }

    #[test]
    fn timeouts_are_set_where_the_kernel_can() {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        assert!(set_min_rto(&socket, Span::from_millis(8)).is_ok());
        assert!(set_min_rto(&socket, Span::from_millis(201)).is_err());
        assert!(set_max_rto(&socket, Span::from_secs(3)).is_ok());
        assert!(set_max_rto(&socket, Span::from_millis(999)).is_err());
    }
}
