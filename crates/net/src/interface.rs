//! Interfaces and routes of the namespace that the calling thread is in, by rtnetlink(7).

use crate::index::index_of;
use crate::netlink::{HEADER_BYTES, Netlink};
use crate::offloads::Switches;
use crate::setup::SetupError;
use nix::sys::socket::SockProtocol;
use std::io;

/// The number of an interface, which no other gets while this namespace lives.
///
/// # Errors
/// No such interface.
pub fn index(name: &str) -> Result<u32, SetupError> {
    index_of(name)
}

/// The names of all interfaces, in the order of their numbers.
///
/// # Errors
/// The system refuses the list.
pub fn names() -> Result<Vec<String>, SetupError> {
    let listed = nix::net::if_::if_nameindex().map_err(|error| SetupError::new("list the interfaces", error))?;
    Ok(listed.iter().map(|interface| interface.name().to_string_lossy().into_owned()).collect())
}

/// Whether there is such an interface.
pub fn exists(name: &str) -> bool {
    index_of(name).is_ok()
}

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

/// Switches off what joins, splits or leaves packets unfinished: TSO, GSO, GRO, LRO, scatter-gather and checksum offload.
///
/// # Errors
/// No such interface, or not allowed. What the device cannot switch is left alone.
pub fn offloads_off(name: &str) -> Result<(), SetupError> {
    let switches = Switches::open(name)?;
    switches.set(switches.read()?.off())
}

/// Which interface another one belongs to as a port: a bridge, bond, or team; none where it stands alone.
///
/// # Errors
/// No such interface.
pub fn master(name: &str) -> Result<Option<u32>, SetupError> {
    let body = link_message(index_of(name)?, 0, 0);
    let answer = Netlink::open(SockProtocol::NetlinkRoute)
        .and_then(|netlink| netlink.ask(libc::RTM_GETLINK, 0, &body))
        .map_err(|error| SetupError::new(format!("look at the interface {name}"), error))?;
    let mut attributes = answer.get(HEADER_BYTES + body.len()..).unwrap_or_default();
    while let Some(&[l0, l1, k0, k1]) = attributes.first_chunk::<4>() {
        let (length, kind) = (usize::from(u16::from_ne_bytes([l0, l1])), u16::from_ne_bytes([k0, k1]));
        if let (libc::IFLA_MASTER, Some(&value)) = (kind, attributes[4..].first_chunk::<4>()) {
            return Ok(Some(u32::from_ne_bytes(value)));
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(None)
}

/// struct ifinfomsg: family, padding, type, index, flags, change mask.
fn link_message(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let words = [0, index, flags, change];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// One rtnetlink request and its acknowledgement.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    Netlink::open(SockProtocol::NetlinkRoute)?.request(kind, flags, body)
}
