//! The addresses of this host's interfaces, and what is on their links.

use crate::index::index_of;
use crate::interface::Family;
use crate::netlink::{HEADER_BYTES, NetlinkSocket};
use ipnet::IpNet;
use netlink_bindings::rt_route;
use netlink_bindings::utils::find_attr;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{SockProtocol, SockaddrStorage};
use std::io;
use std::net::IpAddr;

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's name.
    pub interface: String,
    /// The address, with the length of the prefix of its network.
    pub address: IpNet,
    /// On a point-to-point link: the address of its far end.
    pub far_end: Option<IpAddr>,
}

/// struct rtmsg, between the header and the attributes of a message about a route.
const RTMSG_BYTES: usize = 12;

/// The addresses of all interfaces.
///
/// # Errors
/// The system does not list them.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let known = getifaddrs()?.filter_map(|entry| {
        let address = ip_address(entry.address.as_ref()?)?;
        let mask = ip_address(entry.netmask.as_ref()?)?;
        let address = IpNet::with_netmask(address, mask).ok()?;
        let is_point_to_point = entry.flags.contains(nix::net::if_::InterfaceFlags::IFF_POINTOPOINT);
        let far_end = entry.destination.as_ref().filter(|_| is_point_to_point).and_then(ip_address);
        Some(InterfaceAddress { interface: entry.interface_name, address, far_end })
    });
    Ok(known.collect())
}

/// Whether packets for an address leave through this interface without a router between: it is in a network of the interface's own
/// addresses, the far end of its link, link-local, or has a route without a next hop.
///
/// # Errors
/// The system does not list the addresses.
pub fn is_on_link(interface: &str, address: IpAddr) -> io::Result<bool> {
    if matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()) {
        return Ok(true);
    }
    let reaches = |own: &InterfaceAddress| own.address.contains(&address) || own.far_end == Some(address);
    let own = interface_addresses()?;
    Ok(own.iter().any(|own| own.interface == interface && reaches(own)) || has_direct_route(interface, address))
}

/// `linux/rtnetlink.h`: a next hop of the other family. (Only one of the C libraries has it.)
const RTA_VIA: u16 = 18;

/// Whether the kernel's route to an address has this interface and no next hop.
fn has_direct_route(interface: &str, address: IpAddr) -> bool {
    let header = rt_route::Rtmsg {
        rtm_family: Family::from_address(address).address_family(),
        rtm_dst_len: IpNet::from(address).prefix_len(),
        ..Default::default()
    };
    let mut body = Vec::new();
    rt_route::OpGetrouteDo::encode_request(&mut body, &header).push_dst(address);
    let answer =
        NetlinkSocket::open(SockProtocol::NetlinkRoute).and_then(|netlink| netlink.query(libc::RTM_GETROUTE, 0, &body));
    let (Ok(answer), Ok(index)) = (answer, index_of(interface)) else { return false };
    let attributes = answer.get(HEADER_BYTES + RTMSG_BYTES..).unwrap_or_default();
    let leaves_by = find_attr(attributes, libc::RTA_OIF).and_then(|value| value.first_chunk().copied());
    let has_next_hop = [libc::RTA_GATEWAY, RTA_VIA].into_iter().any(|kind| find_attr(attributes, kind).is_some());
    leaves_by.map(u32::from_ne_bytes) == Some(index) && !has_next_hop
}

fn ip_address(storage: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = storage.as_sockaddr_in().map(|found| IpAddr::from(found.ip()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|found| found.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use kumade_netns_testbed::in_namespaces;

    #[test]
    fn on_a_link_is_what_an_address_or_a_route_says() {
        in_namespaces("interface_address::tests::on_a_link_is_what_an_address_or_a_route_says", || {
            let namespace = Namespace::new().unwrap();
            for command in [
                "link add wan type veth peer name far",
                "link set wan up",
                "link set far up",
                "address add 192.0.2.7/24 dev wan",
                "address add 10.3.0.1 peer 10.4.0.1 dev wan",
                "route add 203.0.113.1 dev wan",
                "route add 198.51.100.0/24 via 192.0.2.1",
            ] {
                assert!(namespace.command("ip").args(command.split(' ')).status().unwrap().success(), "{command}");
            }
            let told = |address: &str| {
                let address = address.parse().unwrap();
                namespace.run(move || is_on_link("wan", address).unwrap()).unwrap()
            };
            for (address, expected) in [
                ("192.0.2.1", true),
                ("203.0.113.1", true),
                ("fe80::1", true),
                ("198.51.100.1", false),
                ("203.0.113.2", false),
                ("2001:db8::1", false),
            ] {
                assert_eq!(told(address), expected, "{address}");
            }
            let known = namespace.run(|| interface_addresses().unwrap()).unwrap();
            let own = known.iter().find(|known| known.address == "192.0.2.7/24".parse().unwrap()).unwrap();
            assert_eq!((own.interface.as_str(), own.far_end), ("wan", None));
        });
    }
}
