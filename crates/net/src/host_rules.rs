//! Whether a host has rules of its own for packets that it forwards, which a [fast path](crate::fast_path) would pass by.

use crate::netlink::{HEADER_BYTES, NetlinkSocket};
use crate::setup::SetupError;
use netlink_bindings::utils::find_attr;
use nix::sys::socket::SockProtocol;
use std::fs;
use std::io;

/// NFT_MSG_GETCHAIN, and attributes of chains: linux/netfilter/nf_tables.h.
const GET_CHAIN: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | libc::NFT_MSG_GETCHAIN as u16;
const CHAIN_TABLE: u16 = 1;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_RULE_COUNT: u16 = 6;
const HOOK_NUMBER: u16 = 1;
/// struct nfgenmsg.
const NFGENMSG_BYTES: usize = 4;
/// Of linux/netfilter.h: what is for this host alone, and what it sends.
const LOCAL_HOOKS: [u32; 2] = [libc::NF_INET_LOCAL_IN as u32, libc::NF_INET_LOCAL_OUT as u32];
/// Families whose hooks forwarded packets pass. The hooks of devices are for arriving packets, or for those that leave, which are
/// theirs in any case.
const IP_FAMILIES: [libc::c_int; 3] = [libc::NFPROTO_INET, libc::NFPROTO_IPV4, libc::NFPROTO_IPV6];
const DEVICE_INGRESS: u32 = 0;
/// XFRM_MSG_GETSPDINFO, XFRMA_SPD_INFO: linux/xfrm.h.
const GET_POLICY_COUNTS: u16 = 0x25;
const POLICY_COUNTS: u16 = 1;
/// RTM_GETQDISC of linux/rtnetlink.h; TC_H_INGRESS of linux/pkt_sched.h, which clsact has too.
const GET_QDISC: u16 = libc::RTM_GETQDISC;
const INGRESS_PARENT: u32 = 0xffff_fff1;

/// Who else has rules, connection tracking, or policies for packets that this host forwards and that arrive at one of these interfaces,
/// by their numbers: in words; none where nobody has. `own_table` of nftables does not count. In the namespace of the calling thread.
///
/// # Errors
/// The system does not say.
pub fn find_host_rules(own_table: &str, interfaces: &[u32]) -> Result<Option<String>, SetupError> {
    let failed = |what: &str, error: io::Error| SetupError::new(format!("look for {what} of this host"), error);
    if let Some(table) = find_foreign_table(own_table).map_err(|error| failed("packet rules", error))? {
        return Ok(Some(format!("the table {table} of nftables")));
    }
    if let Some(table) = find_legacy_table() {
        return Ok(Some(format!("the table {table} of iptables")));
    }
    if has_ipsec_policies().map_err(|error| failed("IPsec policies", error))? {
        return Ok(Some("IPsec policies".into()));
    }
    let has_filters = has_ingress_filters(interfaces).map_err(|error| failed("filters", error))?;
    Ok(has_filters.then(|| "filters of tc for packets that arrive".into()))
}

/// A table with a chain that packets pass, and that may do something to them.
fn find_foreign_table(own_table: &str) -> io::Result<Option<String>> {
    let netlink = NetlinkSocket::open(SockProtocol::NetlinkNetFilter)?;
    let mut found = None;
    let read = |body: &[u8]| {
        let family = body.first().copied().map_or(0, libc::c_int::from);
        let attributes = body.get(NFGENMSG_BYTES..).unwrap_or_default();
        let name = find_attr(attributes, CHAIN_TABLE).unwrap_or_default();
        let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name)).into_owned();
        let is_own = family == libc::NFPROTO_INET && name == own_table;
        if !is_own && is_effective_for_forwarded(family, attributes) {
            found = Some(name);
        }
    };
    match netlink.dump(GET_CHAIN, &[0; NFGENMSG_BYTES], read) {
        Ok(()) => Ok(found),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_effective_for_forwarded(family: libc::c_int, attributes: &[u8]) -> bool {
    let number = |attributes: &[u8], kind| {
        find_attr(attributes, kind).and_then(|value| value.first_chunk()).map(|value| u32::from_be_bytes(*value))
    };
    let Some(hook) = find_attr(attributes, CHAIN_HOOK).and_then(|hook| number(hook, HOOK_NUMBER)) else { return false };
    let is_passed = match family {
        libc::NFPROTO_NETDEV => hook == DEVICE_INGRESS,
        family => IP_FAMILIES.contains(&family) && !LOCAL_HOOKS.contains(&hook),
    };
    let accepts_all = number(attributes, CHAIN_RULE_COUNT) == Some(0)
        && number(attributes, CHAIN_POLICY).is_none_or(|policy| policy == libc::NF_ACCEPT as u32);
    is_passed && !accepts_all
}

/// Tables of the older iptables, which are there from their first use on.
fn find_legacy_table() -> Option<String> {
    let names = ["ip_tables_names", "ip6_tables_names"];
    let texts = names.iter().filter_map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).ok());
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).next()
}

fn has_ipsec_policies() -> io::Result<bool> {
    let asked = NetlinkSocket::open_ipsec().and_then(|netlink| netlink.query(GET_POLICY_COUNTS, 0, &[0; 4]));
    match asked {
        // Behind four octets of flags.
        Ok(answer) => {
            let counts = find_attr(answer.get(HEADER_BYTES + 4..).unwrap_or_default(), POLICY_COUNTS);
            Ok(counts.is_none_or(|counts| counts.get(..12).is_none_or(|counts| counts.iter().any(|octet| *octet != 0))))
        }
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A qdisc for filters of arriving packets: `ingress` or `clsact`.
fn has_ingress_filters(interfaces: &[u32]) -> io::Result<bool> {
    let netlink = NetlinkSocket::open(SockProtocol::NetlinkRoute)?;
    let mut has_filters = false;
    // struct tcmsg: family and padding, interface, handle, parent, information.
    netlink.dump(GET_QDISC, &[0; 20], |body| {
        let word =
            |place: usize| body.get(place..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_ne_bytes(*word));
        has_filters |=
            word(4).is_some_and(|interface| interfaces.contains(&interface)) && word(12) == Some(INGRESS_PARENT);
    })?;
    Ok(has_filters)
}

/// A kernel without it has no rules.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP | libc::EAFNOSUPPORT))
}
