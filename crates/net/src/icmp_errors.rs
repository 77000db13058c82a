//! What routers answer to packets that they could not pass on: ICMP errors, which the kernel keeps in the error queue of a UDP socket, and of a TCP
//! socket whose SYN they answer (`IP_RECVERR` of ip(7); for TCP since Linux 5.9, which says nobody's address of an established connection). None of it
//! takes privilege.

pub use crate::system_facts::IcmpError;

use crate::stamp::{self, ControlBuffer};
use nix::libc;
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use socket2::{Domain, SockRef};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

/// Lets the kernel keep ICMP errors from now on, or no longer, which forgets those that it keeps.
///
/// # Errors
/// Where the system refuses an option that every Linux has.
pub fn report_icmp_errors(socket: &impl AsFd, are_reported: bool) -> io::Result<()> {
    if SockRef::from(socket).domain()? == Domain::IPV6 {
        setsockopt(socket, Ipv6RecvErr, &are_reported)?;
    }
    // IPv6 sockets carry IPv4 packets, too.
    Ok(setsockopt(socket, Ipv4RecvErr, &are_reported)?)
}

/// Takes the oldest ICMP error that waits, and the beginning of the payload that it quotes; none where none waits. Anything else in the error
/// queue, such as transmit stamps, is dropped.
///
/// # Errors
/// Where the socket can't be read.
pub fn next_icmp_error(socket: &impl AsFd, payload: &mut [u8]) -> io::Result<Option<IcmpError>> {
    loop {
        match receive_error(socket, payload) {
            Ok(Some(error)) => return Ok(Some(error)),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn receive_error(socket: &impl AsFd, payload: &mut [u8]) -> io::Result<Option<IcmpError>> {
    let mut control = ControlBuffer::default();
    let mut parts = [IoSliceMut::new(payload)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let received = recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut parts, Some(&mut control.0), flags)?;
    let (mut found, mut arrived) = (None, None);
    for part in received.cmsgs()? {
        match part {
            ControlMessageOwned::ScmTimestampsns(stamps) => arrived = stamp::credible_time(stamps.system),
            ControlMessageOwned::Ipv4RecvErr(error, from) => {
                let from = from.map(|from| IpAddr::from(Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr))));
                found = Some((error, from));
            }
            ControlMessageOwned::Ipv6RecvErr(error, from) => {
                let from = from.map(|from| IpAddr::from(Ipv6Addr::from(from.sin6_addr.s6_addr)).to_canonical());
                found = Some((error, from));
            }
            _ => {}
        }
    }
    Ok(found.and_then(|(error, from)| {
        let is_v6 = match error.ee_origin {
            libc::SO_EE_ORIGIN_ICMP => false,
            libc::SO_EE_ORIGIN_ICMP6 => true,
            _ => return None,
        };
        Some(IcmpError {
            from: from.filter(|from| !from.is_unspecified()),
            is_v6,
            icmp_type: error.ee_type,
            icmp_code: error.ee_code,
            stamp: arrived,
            payload_bytes: received.bytes,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IcmpListener, clock, readiness};
    use kumade_packet::IcmpQuote;
    use kumade_units::Span;
    use std::net::UdpSocket;

    /// A closed port of this host answers like a router.
    fn is_told_of_a_closed_port(own: &str) {
        let closed = UdpSocket::bind(own).unwrap().local_addr().unwrap();
        let socket = UdpSocket::bind(own).unwrap();
        socket.connect(closed).unwrap();
        report_icmp_errors(&socket, true).unwrap();
        let listener = IcmpListener::open(closed.ip()).ok();
        crate::udp::send_marked(&socket, b"which packet this is", 0b1011_1010, None).unwrap();
        assert!(readiness::wait_readable(&socket, clock::monotonic() + Span::from_secs(60)).unwrap());
        let mut payload = [0; 5];
        let error = next_icmp_error(&socket, &mut payload).unwrap().unwrap();
        assert_eq!(&payload[..error.payload_bytes], b"which");
        let [icmp_type, icmp_code] = if closed.is_ipv6() { [1, 4] } else { [3, 3] };
        let expected = IcmpError {
            from: Some(closed.ip()),
            is_v6: closed.is_ipv6(),
            icmp_type,
            icmp_code,
            stamp: error.stamp,
            payload_bytes: 5,
        };
        assert_eq!(error, expected);
        assert_eq!(next_icmp_error(&socket, &mut payload).unwrap(), None);
        let Some(listener) = listener else { return println!("not tested: quotes take CAP_NET_RAW") };
        let mut memory = [0; IcmpListener::MAX_MESSAGE_BYTES];
        // Other programs' messages come there, too.
        while let Some((message, from)) = listener.receive(&mut memory).unwrap() {
            match IcmpQuote::from_icmp(message, closed.is_ipv6()) {
                Some(quoted) if quoted.destination_port == closed.port() => {
                    assert_eq!((quoted.ds_field, from), (0b1011_1010, Some(closed.ip())));
                    return assert_eq!(quoted.payload, b"which packet this is");
                }
                _ => {}
            }
        }
        panic!("no quote");
    }

    #[test]
    fn an_icmp_error_is_told_with_what_it_quotes() {
        is_told_of_a_closed_port("127.0.0.1:0");
        is_told_of_a_closed_port("[::1]:0");
    }
}
