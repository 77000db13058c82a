//! Whether a host has rules of its own for packets that it forwards, which a [fast path](crate::fast_path) would pass by.

use crate::host_routing::find_foreign_rule;
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
/// NLA_F_NESTED of linux/netlink.h.
const NESTED: u16 = 0x8000;
/// XFRM_MSG_GETSPDINFO, XFRMA_SPD_INFO: linux/xfrm.h.
const GET_POLICY_COUNTS: u16 = 0x25;
const POLICY_COUNTS: u16 = 1;
/// XFRM_MSG_GETDEFAULT, whose answer is struct xfrm_userpolicy_default (Linux 5.14): what becomes of packets that no policy is for.
const GET_DEFAULT_POLICY: u16 = 0x28;
const BLOCK: u8 = 1;
/// RTM_GETQDISC of linux/rtnetlink.h; TC_H_INGRESS of linux/pkt_sched.h, which clsact has too.
const GET_QDISC: u16 = libc::RTM_GETQDISC;
const INGRESS_PARENT: u32 = 0xffff_fff1;

/// Who else has rules, connection tracking, or policies for packets that this host forwards and that arrive at one of these interfaces,
/// by their numbers: in words; none where nobody has. `own_table` of nftables and the routing rules of `own_marks` do not count. In the
/// namespace of the calling thread.
///
/// # Errors
/// The system does not say.
pub fn find_host_rules(own_table: &str, own_marks: &[u32], interfaces: &[u32]) -> Result<Option<String>, SetupError> {
    let failed = |what: &str, error: io::Error| SetupError::new(format!("look for {what} of this host"), error);
    if let Some(table) = find_foreign_table(own_table).map_err(|error| failed("packet rules", error))? {
        return Ok(Some(format!("the table {table} of nftables")));
    }
    if let Some(tables) = find_legacy_tables() {
        return Ok(Some(tables));
    }
    if let Some(rule) = find_foreign_rule(own_marks)? {
        return Ok(Some(rule));
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
    let decode = |body: &[u8]| {
        let family = body.first().copied().map_or(0, libc::c_int::from);
        let attributes = body.get(NFGENMSG_BYTES..).unwrap_or_default();
        let name = find_attr(attributes, CHAIN_TABLE).unwrap_or_default();
        let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name)).into_owned();
        let is_own = family == libc::NFPROTO_INET && name == own_table;
        (!is_own && is_effective_for_forwarded(family, attributes)).then_some(name)
    };
    match netlink.list(GET_CHAIN, &[0; NFGENMSG_BYTES], decode) {
        Ok(found) => Ok(found.into_iter().next()),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_effective_for_forwarded(family: libc::c_int, attributes: &[u8]) -> bool {
    let number = |attributes: &[u8], kind| {
        find_attr(attributes, kind).and_then(|value| value.first_chunk()).map(|value| u32::from_be_bytes(*value))
    };
    // The kernel says so without the flag of nested attributes, so far.
    let hook = find_attr(attributes, CHAIN_HOOK).or_else(|| find_attr(attributes, CHAIN_HOOK | NESTED));
    let Some(hook) = hook.and_then(|hook| number(hook, HOOK_NUMBER)) else { return false };
    let is_passed = match family {
        libc::NFPROTO_NETDEV => hook == DEVICE_INGRESS,
        family => IP_FAMILIES.contains(&family) && !LOCAL_HOOKS.contains(&hook),
    };
    let accepts_all = number(attributes, CHAIN_RULE_COUNT) == Some(0)
        && number(attributes, CHAIN_POLICY).is_none_or(|policy| policy == libc::NF_ACCEPT as u32);
    is_passed && !accepts_all
}

/// Tables of the older iptables, which are there from their first use on.
fn find_legacy_tables() -> Option<String> {
    ["ip_tables_names", "ip6_tables_names"].into_iter().find_map(|name| describe_legacy_tables(name, read_tables(name)))
}

fn read_tables(name: &str) -> io::Result<String> {
    fs::read_to_string(format!("/proc/thread-self/net/{name}"))
}

/// Where the list is absent, so is the module. Others than root may not read it: then there may be tables.
fn describe_legacy_tables(name: &str, tables: io::Result<String>) -> Option<String> {
    match tables {
        Ok(tables) => tables.lines().next().map(|table| format!("the table {table} of iptables")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let hint = "where nothing needs the modules of its older version (iptables-legacy), unload them";
            Some(format!("perhaps tables of iptables, whose list /proc/net/{name} cannot be read ({error}); {hint}"))
        }
    }
}

fn has_ipsec_policies() -> io::Result<bool> {
    let netlink = match NetlinkSocket::open_ipsec() {
        Err(error) if is_absent(&error) => return Ok(false),
        netlink => netlink?,
    };
    // Behind four octets of flags.
    let counts = ask(&netlink, GET_POLICY_COUNTS, |answer| {
        let counts = find_attr(answer.get(4..).unwrap_or_default(), POLICY_COUNTS);
        counts.is_none_or(|counts| counts.get(..12).is_none_or(|counts| counts.iter().any(|octet| *octet != 0)))
    })?;
    let has_block = |answer: &[u8]| answer.get(..3).is_none_or(|defaults| defaults.contains(&BLOCK));
    Ok(counts || ask(&netlink, GET_DEFAULT_POLICY, has_block)?)
}

/// False where the kernel does not know what is asked.
fn ask(netlink: &NetlinkSocket, kind: u16, find: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    match netlink.query(kind, 0, &[0; 4]) {
        Ok(answer) => Ok(find(answer.get(HEADER_BYTES..).unwrap_or_default())),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A qdisc for filters of arriving packets: `ingress` or `clsact`.
fn has_ingress_filters(interfaces: &[u32]) -> io::Result<bool> {
    let netlink = NetlinkSocket::open(SockProtocol::NetlinkRoute)?;
    // struct tcmsg: family and padding, interface, handle, parent, information.
    let found = netlink.list(GET_QDISC, &[0; 20], |body| {
        let word =
            |place: usize| body.get(place..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_ne_bytes(*word));
        let is_meant = word(4).is_some_and(|interface| interfaces.contains(&interface));
        (is_meant && word(12) == Some(INGRESS_PARENT)).then_some(())
    })?;
    Ok(!found.is_empty())
}

/// A kernel without it has no rules.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP | libc::EAFNOSUPPORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_iptables_that_cannot_be_looked_for_count_as_there() {
        let describe = |tables: io::Result<&str>| describe_legacy_tables("ip_tables_names", tables.map(String::from));
        assert_eq!(describe(Err(io::ErrorKind::NotFound.into())), None);
        assert_eq!(describe(Ok("")), None);
        assert_eq!(describe(Ok("nat\nfilter\n")).unwrap(), "the table nat of iptables");
        // As the service's own user is refused the list, which is root's.
        let refused = describe(Err(io::Error::from_raw_os_error(libc::EACCES))).unwrap();
        assert!(refused.contains("/proc/net/ip_tables_names cannot be read"), "{refused}");
    }
}
