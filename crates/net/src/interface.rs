//! Interfaces and routes of the namespace that the calling thread is in, by rtnetlink(7) and ethtool's ioctl.

use crate::setup::SetupError;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};
use std::io;
use std::os::fd::AsRawFd;

/// Switches an interface on.
///
/// # Errors
/// No such interface, or not allowed.
pub fn up(name: &str) -> Result<(), SetupError> {
    let operation = || format!("switch the interface {name} on");
    let index = index_of(name)?;
    let flag = libc::IFF_UP as u32;
    request(libc::RTM_NEWLINK, 0, &link_message(index, flag, flag)).map_err(|error| SetupError::new(operation(), error))
}

/// Lets so many packets wait to leave through an interface. (The ioctl for this is refused in user namespaces.)
///
/// # Errors
/// No such interface, or not allowed.
pub fn set_queue_packets(name: &str, packets: u32) -> Result<(), SetupError> {
    let mut body = link_message(index_of(name)?, 0, 0);
    body.extend(8u16.to_ne_bytes());
    body.extend(libc::IFLA_TXQLEN.to_ne_bytes());
    body.extend(packets.to_ne_bytes());
    request(libc::RTM_NEWLINK, 0, &body)
        .map_err(|error| SetupError::new(format!("set the queue length of the interface {name}"), error))
}

/// Which internet protocol a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Sends everything of this family that no other route takes out through the interface, as on-link.
///
/// # Errors
/// No such interface, the route exists, the family is switched off, or not allowed.
pub fn default_route(name: &str, family: Family) -> Result<(), SetupError> {
    let index = index_of(name)?;
    let family_number = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    // struct rtmsg: family, destination and source lengths, tos, table, protocol, scope, type, flags.
    let mut body = vec![
        family_number as u8,
        0,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_LINK,
        libc::RTN_UNICAST,
    ];
    body.extend(0u32.to_ne_bytes());
    body.extend(8u16.to_ne_bytes());
    body.extend(libc::RTA_OIF.to_ne_bytes());
    body.extend(index.to_ne_bytes());
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    request(libc::RTM_NEWROUTE, flags as u16, &body)
        .map_err(|error| SetupError::new(format!("route {family:?} through the interface {name}"), error))
}

/// Switches off what joins, splits or leaves packets unfinished: TSO, GSO, GRO, scatter-gather and checksum offload.
///
/// # Errors
/// No such interface, or not allowed. What the device cannot switch is left alone.
pub fn offloads_off(name: &str) -> Result<(), SetupError> {
    // linux/ethtool.h: ETHTOOL_STXCSUM, _SSG, _STSO, _SGSO, _SGRO.
    const OFFLOADS: [u32; 5] = [0x17, 0x19, 0x1f, 0x24, 0x2c];
    let operation = || format!("switch the offloads of {name} off");
    index_of(name)?;
    let control = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|error| SetupError::new(operation(), error))?;
    for command in OFFLOADS {
        let mut value = EthtoolValue { command, data: 0 };
        let mut request = EthtoolRequest { name: [0; libc::IFNAMSIZ], value: &mut value, padding: [0; 16] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: `request` is laid out as struct ifreq (name, then a union of 24 bytes that begins with the
        // pointer), and both it and the ethtool_value that it points to live across the call.
        let outcome = unsafe { libc::ioctl(control.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if outcome < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EOPNOTSUPP) {
                return Err(SetupError::new(operation(), error));
            }
        }
    }
    Ok(())
}

/// struct ethtool_value.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// struct ifreq, as SIOCETHTOOL uses it.
#[repr(C)]
struct EthtoolRequest {
    name: [u8; libc::IFNAMSIZ],
    value: *mut EthtoolValue,
    padding: [u8; 16],
}

pub(crate) fn index_of(name: &str) -> Result<u32, SetupError> {
    if_nametoindex(name).map_err(|error| SetupError::new(format!("find the interface {name}"), error))
}

/// struct ifinfomsg: family, padding, type, index, flags, change mask.
fn link_message(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let words = [0, index, flags, change];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// One rtnetlink request and its acknowledgement.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    const HEADER: usize = 16;
    let netlink = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    sendto(netlink.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    // struct nlmsgerr follows the header; its first word is zero or the negative error number.
    match answer[..length].get(HEADER..HEADER + 4) {
        Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        },
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
