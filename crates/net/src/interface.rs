//! Interfaces and routes of the namespace that the calling thread is in, by rtnetlink(7).

pub use crate::family::Family;

use crate::index::{index_of, name_of};
use crate::netlink::{HEADER_BYTES, NetlinkSocket};
use crate::offloads::OffloadControl;
use crate::setup::SetupError;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_bindings::utils::{find_attr, push_header};
use netlink_bindings::{rt_addr, rt_route};
use nix::sys::socket::SockProtocol;
use std::io;

/// What is there already stays as it is.
const CREATE_FLAGS: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

/// The number of an interface, which no other gets while this namespace lives.
///
/// # Errors
/// No such interface.
pub fn index(name: &str) -> Result<u32, SetupError> {
    index_of(name)
}

/// The name that the kernel has for an interface, of 15 octets at most, by any of its names: it may have alternative ones, which
/// are longer (`ip link property add dev eth0 altname …`), and which much of the kernel does not take.
///
/// # Errors
/// No such interface.
pub fn kernel_name(name: &str) -> Result<String, SetupError> {
    let gone = || SetupError::new(format!("find the interface {name}"), io::Error::from_raw_os_error(libc::ENODEV));
    name_of(index_of(name)?).ok_or_else(gone)
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
pub fn set_up(name: &str) -> Result<(), SetupError> {
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
    set_u32_attribute(name, libc::IFLA_TXQLEN, packets)
}

/// Sets the length of the longest IP packet, in bytes, that leaves through an interface.
///
/// # Errors
/// No such interface, it cannot have this MTU, or not allowed.
pub fn set_mtu(name: &str, mtu: u16) -> Result<(), SetupError> {
    set_u32_attribute(name, libc::IFLA_MTU, mtu.into())
}

/// The length of the longest IP packet, in bytes, that leaves through an interface.
///
/// # Errors
/// No such interface.
pub fn mtu(name: &str) -> Result<u32, SetupError> {
    u32_attribute(name, libc::IFLA_MTU).map(Option::unwrap_or_default)
}

/// Gives an interface an address, and with it the route to the rest of the network. The kernel takes an IPv6 address into
/// use by itself, a moment later.
///
/// # Errors
/// No such interface, it has the address already, the family is switched off, or not allowed.
pub fn add_address(name: &str, address: IpNet) -> Result<(), SetupError> {
    let header = address_header(name, address)?;
    let mut body = Vec::new();
    rt_addr::OpNewaddrDo::encode_request(&mut body, &header).push_local(address.addr()).push_address(address.addr());
    request(libc::RTM_NEWADDR, CREATE_FLAGS, &body)
        .map_err(|error| refusal(format!("give the interface {name} the address {address}"), name, address, error))
}

/// Where IPv6 is switched off for an interface, the kernel says no more than for a lack of rights, but another number (EPERM).
fn refusal(operation: String, name: &str, network: IpNet, error: io::Error) -> SetupError {
    let is_switched_off = error.raw_os_error() == Some(libc::EACCES) && matches!(network, IpNet::V6(_));
    let failed = SetupError::new(operation, error);
    if !is_switched_off {
        return failed;
    }
    failed.with_hint(&format!(
        "IPv6 is switched off there (net.ipv6.conf.*.disable_ipv6=1): `sysctl -w net/ipv6/conf/{name}/disable_ipv6=0` switches it \
        on, and `sysctl -w net/ipv6/conf/default/disable_ipv6=0` for devices that are made anew; or leave IPv6 addresses and \
        networks out"
    ))
}

/// Takes an address away from an interface, and with it the route to the rest of the network.
///
/// # Errors
/// No such interface, it does not have the address, or not allowed.
pub fn remove_address(name: &str, address: IpNet) -> Result<(), SetupError> {
    let header = address_header(name, address)?;
    let mut body = Vec::new();
    rt_addr::OpDeladdrDo::encode_request(&mut body, &header).push_local(address.addr()).push_address(address.addr());
    request(libc::RTM_DELADDR, 0, &body)
        .map_err(|error| SetupError::new(format!("take the address {address} away from the interface {name}"), error))
}

fn address_header(name: &str, address: IpNet) -> Result<rt_addr::Ifaddrmsg, SetupError> {
    Ok(rt_addr::Ifaddrmsg {
        ifa_family: Family::from_address(address.addr()).address_family(),
        ifa_prefixlen: address.prefix_len(),
        ifa_index: index_of(name)?,
        ..Default::default()
    })
}

/// Sends everything of this family that no other route takes out through the interface, as on-link.
///
/// # Errors
/// As [`add_route`].
pub fn add_default_route(name: &str, family: Family) -> Result<(), SetupError> {
    let network: IpNet = match family {
        Family::V4 => Ipv4Net::default().into(),
        Family::V6 => Ipv6Net::default().into(),
    };
    add_route(name, network)
}

/// Sends what is for a network out through the interface, as on-link.
///
/// # Errors
/// No such interface, the route exists, the family is switched off, or not allowed.
pub fn add_route(name: &str, network: IpNet) -> Result<(), SetupError> {
    add_route_in_table(name, network, libc::RT_TABLE_MAIN.into())
}

/// The same in a routing table of this number.
pub(crate) fn add_route_in_table(name: &str, network: IpNet, table: u32) -> Result<(), SetupError> {
    let body = encode_route(name, network, table)?;
    request(libc::RTM_NEWROUTE, CREATE_FLAGS, &body).map_err(|error| {
        refusal(format!("route {network} through the interface {name} in the table {table}"), name, network, error)
    })
}

/// Removes the route of a network through an interface.
///
/// # Errors
/// No such interface, no such route, or not allowed.
pub fn remove_route(name: &str, network: IpNet) -> Result<(), SetupError> {
    let body = encode_route(name, network, libc::RT_TABLE_MAIN.into())?;
    request(libc::RTM_DELROUTE, 0, &body)
        .map_err(|error| SetupError::new(format!("remove the route of {network} through the interface {name}"), error))
}

fn encode_route(name: &str, network: IpNet, table: u32) -> Result<Vec<u8>, SetupError> {
    let header = rt_route::Rtmsg {
        rtm_family: Family::from_address(network.addr()).address_family(),
        rtm_dst_len: network.prefix_len(),
        rtm_protocol: libc::RTPROT_STATIC,
        rtm_scope: libc::RT_SCOPE_LINK,
        rtm_type: libc::RTN_UNICAST,
        ..Default::default()
    };
    let mut body = Vec::new();
    let route = rt_route::OpNewrouteDo::encode_request(&mut body, &header).push_table(table);
    let route = route.push_oif(index_of(name)?);
    match network.prefix_len() {
        0 => drop(route),
        _ => drop(route.push_dst(network.network())),
    }
    Ok(body)
}

/// Switches off what joins, splits or leaves packets unfinished: TSO, GSO, GRO, LRO, scatter-gather and checksum offload.
///
/// # Errors
/// No such interface, or not allowed. What the device cannot switch is left alone.
pub fn disable_offloads(name: &str) -> Result<(), SetupError> {
    let switches = OffloadControl::open(name)?;
    switches.set(switches.read()?.without_offloads())
}

/// Which interface another one belongs to as a port: a bridge, bond, or team; none where it stands alone.
///
/// # Errors
/// No such interface.
pub fn master(name: &str) -> Result<Option<u32>, SetupError> {
    u32_attribute(name, libc::IFLA_MASTER)
}

/// Whether there is such an interface, and it is switched on and its link is up.
pub fn is_running(name: &str) -> bool {
    const UP_AND_RUNNING_FLAGS: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let flags = get_link_message(name)
        .ok()
        .and_then(|answer| Some(u32::from_ne_bytes(*answer.get(FLAGS_OFFSET..)?.first_chunk()?)));
    flags.is_some_and(|flags| flags & UP_AND_RUNNING_FLAGS == UP_AND_RUNNING_FLAGS)
}

/// Whether packets of an interface have Ethernet headers.
///
/// # Errors
/// No such interface.
pub fn is_ethernet(name: &str) -> Result<bool, SetupError> {
    let answer = get_link_message(name)?;
    let kind = answer.get(HARDWARE_TYPE_OFFSET..).and_then(|rest| rest.first_chunk());
    Ok(kind.is_some_and(|kind| u16::from_ne_bytes(*kind) == libc::ARPHRD_ETHER))
}

/// An attribute of an interface that is a number of 32 bits; none where it has no such.
pub(crate) fn u32_attribute(name: &str, attribute: u16) -> Result<Option<u32>, SetupError> {
    let answer = get_link_message(name)?;
    let value = find_attr(answer.get(ATTRIBUTES_OFFSET..).unwrap_or_default(), attribute);
    Ok(value.and_then(|value| Some(u32::from_ne_bytes(*value.first_chunk()?))))
}

/// In the message about an interface, struct ifinfomsg follows the header: the type of its hardware, behind two octets.
const HARDWARE_TYPE_OFFSET: usize = HEADER_BYTES + 2;
/// Flags are the third word.
const FLAGS_OFFSET: usize = HEADER_BYTES + 8;
/// Behind both.
const ATTRIBUTES_OFFSET: usize = HEADER_BYTES + 16;

/// The kernel's message about an interface.
fn get_link_message(name: &str) -> Result<Vec<u8>, SetupError> {
    let body = link_message(index_of(name)?, 0, 0);
    let answer =
        NetlinkSocket::open(SockProtocol::NetlinkRoute).and_then(|netlink| netlink.query(libc::RTM_GETLINK, 0, &body));
    answer.map_err(|error| SetupError::new(format!("look at the interface {name}"), error))
}

/// Sets such an attribute.
pub(crate) fn set_u32_attribute(name: &str, attribute: u16, value: u32) -> Result<(), SetupError> {
    let mut body = link_message(index_of(name)?, 0, 0);
    push_header(&mut body, attribute, 4);
    body.extend(value.to_ne_bytes());
    request(libc::RTM_NEWLINK, 0, &body)
        .map_err(|error| SetupError::new(format!("set the attribute {attribute} of the interface {name}"), error))
}

/// struct ifinfomsg: family, padding, type, index, flags, change mask.
fn link_message(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let words = [0, index, flags, change];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// One rtnetlink request and its acknowledgement.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    NetlinkSocket::open(SockProtocol::NetlinkRoute)?.request(kind, flags, body)
}
