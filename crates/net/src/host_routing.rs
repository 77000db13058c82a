//! What of a host's routing a [fast path](crate::fast_path) has to leave to it: routing rules of others, and addresses of its own.

use crate::netlink::NetlinkSocket;
use crate::setup::SetupError;
use ipnet::IpNet;
use netlink_bindings::rt_route;
use netlink_bindings::utils::find_attr;
use nix::sys::socket::SockProtocol;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// struct fib_rule_hdr, and attributes of rules: linux/fib_rules.h.
const RULE_HEADER_BYTES: usize = 12;
const RULE_TOS: usize = 3;
const RULE_TABLE: usize = 4;
const RULE_ACTION: usize = 7;
const TO_TABLE: u8 = 1;
const RULE_PRIORITY: u16 = 6;
const RULE_MARK: u16 = 10;
const RULE_LONG_TABLE: u16 = 15;
/// FRA_TUN_ID, FRA_FWMASK, FRA_L3MDEV, FRA_UID_RANGE, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE, FRA_DSCP, FRA_FLOWLABEL, and
/// their masks: conditions that are not about addresses and interfaces.
const OTHER_CONDITIONS: [u16; 14] = [RULE_MARK, 12, 16, 19, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30];
/// struct rtmsg, with the length of the network in its second octet, and RTA_DST of linux/rtnetlink.h.
const ROUTE_HEADER_BYTES: usize = 12;
const ROUTE_DESTINATION: u16 = 1;

/// Networks without hosts beyond this one (RFC 6890, RFC 4291): this network, loopback, multicast, and behind it what is reserved, with
/// the limited broadcast; unspecified, loopback and IPv4-mapped, link-local, multicast.
fn special_networks() -> [IpNet; 6] {
    let v4 = |first: u8, length| IpNet::new_assert(Ipv4Addr::new(first, 0, 0, 0).into(), length);
    let v6 = |first: u16, length| IpNet::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), length);
    [v4(0, 8), v4(127, 8), v4(224, 3), v6(0, 16), v6(0xfe80, 10), v6(0xff00, 8)]
}

/// From and to which addresses a host forwards nothing, in order: its own ones and those for broadcasts (the routing table `local`), and
/// those that are special everywhere. In the namespace of the calling thread.
///
/// # Errors
/// The system does not list them.
pub fn unforwarded_networks() -> Result<Vec<IpNet>, SetupError> {
    let mut networks = special_networks().to_vec();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let own = local_table(family as u8);
        networks.extend(own.map_err(|error| SetupError::new("list the addresses of this host", error))?);
    }
    networks.sort_unstable();
    networks.dedup();
    Ok(networks)
}

fn local_table(family: u8) -> io::Result<Vec<IpNet>> {
    let mut request = Vec::new();
    let header = rt_route::Rtmsg { rtm_family: family, ..Default::default() };
    rt_route::OpGetrouteDump::encode_request(&mut request, &header).push_table(libc::RT_TABLE_LOCAL.into());
    let netlink = NetlinkSocket::open(SockProtocol::NetlinkRoute)?;
    netlink.enable_strict_check()?;
    let decode = |body: &[u8]| Some(decode_destination(body)).filter(|_| body.first() == Some(&family));
    match netlink.list(libc::RTM_GETROUTE, &request, decode) {
        Ok(found) => found.into_iter().map(|network| network.ok_or(io::ErrorKind::InvalidData.into())).collect(),
        // Without IPv6, and before its first address.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

fn decode_destination(body: &[u8]) -> Option<IpNet> {
    let destination = find_attr(body.get(ROUTE_HEADER_BYTES..)?, ROUTE_DESTINATION).unwrap_or_default();
    let address: IpAddr = match i32::from(*body.first()?) {
        libc::AF_INET => destination.first_chunk::<4>().map_or(Ipv4Addr::UNSPECIFIED, |octets| (*octets).into()).into(),
        _ => destination.first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |octets| (*octets).into()).into(),
    };
    IpNet::new(address, *body.get(1)?).ok()
}

/// A routing rule that has packets take other ways than a fast path would have them, in words; none where there is none. Those by which
/// packets with a mark among `own_marks` take the table of that number are the gateway's own ones. Others may stand behind these, and then
/// be about addresses and interfaces alone. In the namespace of the calling thread.
///
/// # Errors
/// The system does not say.
pub fn find_foreign_rule(own_marks: &[u32]) -> Result<Option<String>, SetupError> {
    let listed = NetlinkSocket::open(SockProtocol::NetlinkRoute).and_then(|netlink| {
        // Of all families.
        netlink.list(libc::RTM_GETRULE, &[0; RULE_HEADER_BYTES], |body| describe_foreign_rule(body, own_marks))
    });
    let found = listed.map_err(|error| SetupError::new("list the routing rules of this host", error))?;
    Ok(found.into_iter().next())
}

fn describe_foreign_rule(body: &[u8], own_marks: &[u32]) -> Option<String> {
    let family = body.first().copied().map_or(0, i32::from);
    if ![libc::AF_INET, libc::AF_INET6].contains(&family) {
        return None;
    }
    let octet = |place: usize| body.get(place).copied().unwrap_or_default();
    let attribute = |kind: u16| find_attr(body.get(RULE_HEADER_BYTES..).unwrap_or_default(), kind);
    let word =
        |kind: u16| attribute(kind).and_then(|value| value.first_chunk()).map(|value| u32::from_ne_bytes(*value));
    let priority = word(RULE_PRIORITY).unwrap_or(0);
    let table = (octet(RULE_ACTION) == TO_TABLE).then(|| word(RULE_LONG_TABLE).unwrap_or(octet(RULE_TABLE).into()));
    let is_own = own_marks.contains(&priority) && table == Some(priority) && word(RULE_MARK) == Some(priority);
    // What has a route there is left to the kernel in any case.
    if is_own || table == Some(libc::RT_TABLE_LOCAL.into()) {
        return None;
    }
    if own_marks.iter().max().is_some_and(|last| priority <= *last) {
        return Some(format!("the routing rule {priority} before those of the gateway"));
    }
    let has_conditions = octet(RULE_TOS) != 0 || OTHER_CONDITIONS.into_iter().any(|kind| attribute(kind).is_some());
    has_conditions.then(|| format!("the routing rule {priority}, which is not about addresses and interfaces alone"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{self, Family};
    use crate::namespace::Namespace;
    use crate::policy_routing::{MarkedRoute, PolicyRoute, RoutingRule, RuleAction, RuleCondition};
    use kumade_netns_testbed::eventually;

    const OWN_MARK: u32 = 0x6b01;

    #[test]
    fn a_rule_of_others_is_found_unless_it_stands_behind_and_is_about_addresses_and_interfaces() {
        let work = || {
            interface::set_up("lo").unwrap();
            for family in [Family::V4, Family::V6] {
                let find = || find_foreign_rule(&[OWN_MARK]).unwrap();
                assert_eq!(find(), None);
                let own = MarkedRoute { number: OWN_MARK, family, interface: "lo".into(), gateway: None };
                own.install().unwrap();
                assert_eq!(find(), None);
                let lookup = RuleAction::Lookup(100);
                for (priority, condition, action, is_found) in [
                    (220, RuleCondition::Any, lookup, true),
                    (OWN_MARK, RuleCondition::Any, lookup, true),
                    (1, RuleCondition::Mark(OWN_MARK), RuleAction::Refuse, true),
                    (OWN_MARK + 1, RuleCondition::Any, lookup, false),
                    (OWN_MARK + 1, RuleCondition::Any, RuleAction::Refuse, false),
                    (OWN_MARK + 1, RuleCondition::Mark(7), lookup, true),
                    (OWN_MARK + 1, RuleCondition::Port(17, 53), lookup, true),
                ] {
                    let rule = RoutingRule { priority, family, condition, action };
                    rule.add().unwrap();
                    let found = find();
                    assert_eq!(found.is_some(), is_found, "{rule}: {found:?}");
                    crate::policy_routing::remove_rules(priority, family).unwrap();
                    own.remove().unwrap();
                    own.install().unwrap();
                }
            }
        };
        Namespace::new().unwrap().run(work).unwrap();
    }

    #[test]
    fn addresses_of_this_host_are_listed() {
        let work = || {
            interface::set_up("lo").unwrap();
            let addresses = ["10.9.1.1/24", "fd09::1/64"].map(|text| text.parse::<IpNet>().unwrap());
            addresses.iter().for_each(|address| interface::add_address("lo", *address).unwrap());
            for own in ["10.9.1.1/32", "10.9.1.255/32", "fd09::1/128", "127.0.0.0/8", "224.0.0.0/3", "fe80::/10"] {
                let own = own.parse().unwrap();
                // IPv6 addresses come into use a moment later.
                assert!(eventually(|| unforwarded_networks().unwrap().contains(&own)), "{own}");
            }
        };
        Namespace::new().unwrap().run(work).unwrap();
    }
}
