//! Datagrams with a DSCP, ECN codepoint and hop limit of their own, and what these are when one arrives. None of it takes privilege.

use crate::control_messages::ControlMessages;
use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{IpRecvTos, Ipv4RecvTtl, Ipv6RecvHopLimit, Ipv6RecvTClass};
use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Lets the kernel tell DSCP, ECN and hop limit of each datagram that is received from now on, also of those that have arrived before; or no
/// longer.
///
/// # Errors
/// Where the system refuses an option that every Linux has.
pub fn report_marks(socket: &UdpSocket, are_reported: bool) -> io::Result<()> {
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, Ipv6RecvTClass, &are_reported)?;
        setsockopt(socket, Ipv6RecvHopLimit, &are_reported)?;
    }
    // IPv6 sockets carry IPv4 packets, too.
    setsockopt(socket, IpRecvTos, &are_reported)?;
    Ok(setsockopt(socket, Ipv4RecvTtl, &are_reported)?)
}

/// Sends a datagram over a connected socket with this DSCP and ECN, and with this hop limit, or that which the system uses.
///
/// # Errors
/// What the socket reports.
pub fn send_marked(socket: &UdpSocket, payload: &[u8], ds_field: u8, hop_limit: Option<u8>) -> io::Result<()> {
    let is_v4 = socket.peer_addr()?.ip().to_canonical().is_ipv4();
    let mut control = ControlMessages::EMPTY;
    let control_bytes = control.write_mark(is_v4, ds_field, hop_limit);
    let mut part = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    // SAFETY: msghdr is plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), control_bytes as _);
    // SAFETY: the header leads to one part, which leads to the payload, and to control data, of the lengths given with them, that live across
    // the call; the kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{DatagramReceiver, hop_limit};
    use crate::{clock, readiness};
    use kumade_units::Span;
    use std::net::IpAddr;

    fn passes(bind: &str, from: &str, to: &str) {
        let receiver = UdpSocket::bind(bind).unwrap();
        let sender = UdpSocket::bind(from).unwrap();
        let to: IpAddr = to.parse().unwrap();
        sender.connect((to, receiver.local_addr().unwrap().port())).unwrap();
        let marks: Vec<(u8, Option<u8>)> =
            (0..=255).map(|octet| (octet, (octet % 3 == 0).then_some(octet.max(1)))).collect();
        // What arrives before the kernel is asked to tell is told as well.
        for (octet, hops) in &marks {
            send_marked(&sender, &[*octet; 9], *octet, *hops).unwrap();
        }
        report_marks(&receiver, true).unwrap();
        let (mut datagrams, mut found) = (DatagramReceiver::new(1), Vec::new());
        while found.len() < marks.len() {
            assert!(readiness::wait_readable(&receiver, clock::monotonic() + Span::from_secs(60)).unwrap());
            datagrams
                .receive(&receiver, |bytes, arrival| found.push((bytes[0], arrival.ds_field, arrival.hop_limit)))
                .unwrap();
        }
        let usual = hop_limit(&sender, to);
        assert!(usual.is_some());
        for ((octet, hops), found) in marks.into_iter().zip(found) {
            assert_eq!(found, (octet, Some(octet), hops.or(usual)), "{bind} {to}");
        }
    }

    #[test]
    fn marks_arrive_as_they_were_sent_over_either_version_of_ip() {
        passes("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1");
        passes("[::1]:0", "[::1]:0", "::1");
        passes("[::]:0", "127.0.0.1:0", "127.0.0.1");
    }
}
