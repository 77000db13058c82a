//! Policy routing: packets with a mark take the routes of a table of their own, by rtnetlink(7).

use crate::index::index_of;
use crate::interface::Family;
use crate::netlink::NetlinkSocket;
use crate::setup::SetupError;
use ipnet::IpNet;
use netlink_bindings::{rt_route, rt_rule};
use nix::sys::socket::SockProtocol;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::IpAddr;

/// A routing table with the rules that lead packets to it.
pub trait PolicyRoute {
    /// The number of the table, and its family.
    fn table(&self) -> (u32, Family);

    /// Adds the route, then the rules.
    ///
    /// # Errors
    /// No such interface, a route that it cannot have, something has that number, or not allowed.
    fn install(&self) -> Result<(), SetupError>;
}

/// All packets with a mark leave through one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedRoute {
    /// The mark, and also the number of the routing table and the priority of the rule that joins them. Rules are tried from
    /// the least number on; 32766 is that of the main table.
    pub number: u32,
    /// Which packets.
    pub family: Family,
    /// Where they leave.
    pub interface: String,
    /// The next hop; none on a link with a single other end, or with a whole network on it.
    pub gateway: Option<IpAddr>,
}

impl MarkedRoute {
    /// Adds the route, or changes it where the table has one: the kernel drops a route when its interface goes down.
    ///
    /// # Errors
    /// No such interface, the gateway cannot be reached through it, or not allowed.
    pub fn set_route(&self) -> Result<(), SetupError> {
        let route = self.encode_route()?;
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        request(libc::RTM_NEWROUTE, flags, &route).map_err(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL) => {
                    "the gateway must be in a network of the interface (`ip address`)"
                }
                Some(libc::ENETDOWN) => "the interface is down",
                _ => "it takes CAP_NET_ADMIN",
            };
            SetupError::new(format!("route through {} in the table {}", self.interface, self.number), error)
                .with_hint(hint)
        })
    }

    /// Whether its table has a route.
    ///
    /// # Errors
    /// The kernel does not list it.
    pub fn has_route(&self) -> Result<bool, SetupError> {
        let mut body = Vec::new();
        let header = rt_route::Rtmsg { rtm_family: self.family.address_family(), ..Default::default() };
        rt_route::OpGetrouteDump::encode_request(&mut body, &header).push_table(self.number);
        let mut is_set = false;
        let listed = NetlinkSocket::open(SockProtocol::NetlinkRoute).and_then(|netlink| {
            netlink.enable_strict_check()?;
            netlink.dump(libc::RTM_GETROUTE, &body, |_| is_set = true)
        });
        match listed {
            // There is no such table once its last route has gone.
            Err(error) if !is_not_found(&error) => {
                Err(SetupError::new(format!("list the routing table {}", self.number), error))
            }
            _ => Ok(is_set),
        }
    }

    fn encode_route(&self) -> Result<Vec<u8>, SetupError> {
        let header = rt_route::Rtmsg {
            rtm_family: self.family.address_family(),
            rtm_protocol: libc::RTPROT_STATIC,
            rtm_scope: if self.gateway.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK },
            rtm_type: libc::RTN_UNICAST,
            ..Default::default()
        };
        let mut body = Vec::new();
        let route = rt_route::OpNewrouteDo::encode_request(&mut body, &header);
        let route = route.push_table(self.number).push_oif(index_of(&self.interface)?);
        match self.gateway {
            Some(gateway) => drop(route.push_gateway(gateway)),
            None => drop(route),
        }
        Ok(body)
    }

    fn encode_rule(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let rule = rt_rule::OpNewruleDo::encode_request(&mut body, &rule_header(self.family));
        rule.push_table(self.number).push_fwmark(self.number).push_priority(self.number);
        body
    }
}

impl PolicyRoute for MarkedRoute {
    fn table(&self) -> (u32, Family) {
        (self.number, self.family)
    }

    fn install(&self) -> Result<(), SetupError> {
        self.set_route()?;
        add_rule(self.number, &self.encode_rule())
    }
}

impl Display for MarkedRoute {
    /// As ip(8) adds the rule and the route, on two lines.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let MarkedRoute { number, family, interface, gateway } = self;
        let ip = ip_command(*family);
        let via = gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
        writeln!(f, "{ip} rule add priority {number} fwmark {number:#x} table {number}")?;
        write!(f, "{ip} route add default{via} dev {interface} table {number}")
    }
}

/// All packets for a network leave through one interface, but for those to one host and those for which the main table has
/// a route to a smaller network: as those to neighbours, where the network is the default route. If the interface goes, the
/// rules do nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRoute {
    /// The number of the routing table, and the priority of the rules. Rules are tried from the least number on; 32766 is
    /// that of the main table.
    pub number: u32,
    /// Which packets.
    pub network: IpNet,
    /// Of these, not those to this host, if any: whatever the main table has for it.
    pub excluded_host: Option<IpAddr>,
    /// Where they leave; the network is on its link.
    pub interface: String,
}

impl NetworkRoute {
    fn family(&self) -> Family {
        Family::from_address(self.network.addr())
    }

    fn encode_route(&self) -> Result<Vec<u8>, SetupError> {
        let header = rt_route::Rtmsg {
            rtm_family: self.family().address_family(),
            rtm_dst_len: self.network.prefix_len(),
            rtm_protocol: libc::RTPROT_STATIC,
            rtm_scope: libc::RT_SCOPE_LINK,
            rtm_type: libc::RTN_UNICAST,
            ..Default::default()
        };
        let mut body = Vec::new();
        let route = rt_route::OpNewrouteDo::encode_request(&mut body, &header);
        let route = route.push_table(self.number).push_oif(index_of(&self.interface)?);
        match self.network.prefix_len() {
            0 => drop(route),
            _ => drop(route.push_dst(self.network.network())),
        }
        Ok(body)
    }

    /// The main table comes first with its routes to smaller networks.
    fn encode_main_table_rule(&self) -> Vec<u8> {
        let length = self.network.prefix_len();
        let header = rt_rule::FibRuleHdr { dst_len: length, ..rule_header(self.family()) };
        let mut body = Vec::new();
        let rule = rt_rule::OpNewruleDo::encode_request(&mut body, &header).push_priority(self.number);
        let rule = rule.push_table(libc::RT_TABLE_MAIN.into()).push_suppress_prefixlen(length.into());
        match length {
            0 => drop(rule),
            _ => drop(rule.push_dst(self.network.network())),
        }
        body
    }

    /// Then the table of its own, which has nothing but the network. By destination and not by a mark of sockets, so that
    /// strict reverse path filtering (RFC 3704), which sees no marks, takes the answers.
    fn encode_own_table_rule(&self) -> Vec<u8> {
        let mut header = rule_header(self.family());
        if let Some(except) = self.excluded_host {
            header.dst_len = IpNet::from(except).prefix_len();
            header.flags = RULE_INVERT;
        }
        let mut body = Vec::new();
        let rule = rt_rule::OpNewruleDo::encode_request(&mut body, &header);
        let rule = rule.push_priority(self.number).push_table(self.number);
        match self.excluded_host {
            Some(except) => drop(rule.push_dst(except)),
            None => drop(rule),
        }
        body
    }
}

impl PolicyRoute for NetworkRoute {
    fn table(&self) -> (u32, Family) {
        (self.number, self.family())
    }

    fn install(&self) -> Result<(), SetupError> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        request(libc::RTM_NEWROUTE, flags, &self.encode_route()?).map_err(|error| {
            let operation = format!("route {} through {} in the table {}", self.network, self.interface, self.number);
            SetupError::new(operation, error)
        })?;
        add_rule(self.number, &self.encode_main_table_rule())?;
        add_rule(self.number, &self.encode_own_table_rule())
    }
}

impl Display for NetworkRoute {
    /// As ip(8) adds the rules and the route, on three lines.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let NetworkRoute { number, network, excluded_host: except, interface } = self;
        let (ip, length) = (ip_command(self.family()), network.prefix_len());
        let to = if length == 0 { String::new() } else { format!("to {network} ") };
        writeln!(f, "{ip} rule add priority {number} {to}table main suppress_prefixlength {length}")?;
        let except = except.map(|except| format!("not to {except} ")).unwrap_or_default();
        writeln!(f, "{ip} rule add priority {number} {except}table {number}")?;
        write!(f, "{ip} route add {network} dev {interface} table {number}")
    }
}

/// Deletes the rules and the routes of one number, where there are any.
///
/// # Errors
/// Not allowed.
pub fn remove_table(number: u32, family: Family) -> Result<(), SetupError> {
    let failed = |error| SetupError::new(format!("remove the routing rules and table {number}"), error);
    for table in [number, libc::RT_TABLE_MAIN.into()] {
        let mut rule = Vec::new();
        rt_rule::OpDelruleDo::encode_request(&mut rule, &rule_header(family)).push_table(table).push_priority(number);
        delete_all(libc::RTM_DELRULE, &rule).map_err(failed)?;
    }
    let header = rt_route::Rtmsg {
        rtm_family: family.address_family(),
        rtm_scope: libc::RT_SCOPE_NOWHERE,
        ..Default::default()
    };
    let mut route = Vec::new();
    rt_route::OpDelrouteDo::encode_request(&mut route, &header).push_table(number);
    delete_all(libc::RTM_DELROUTE, &route).map_err(failed)
}

fn ip_command(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip -4",
        Family::V6 => "ip -6",
    }
}

fn add_rule(number: u32, rule: &[u8]) -> Result<(), SetupError> {
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    let added = request(libc::RTM_NEWRULE, flags, rule);
    added.map_err(|error| SetupError::new(format!("add the routing rule {number}"), error))
}

/// Until there is none left.
fn delete_all(kind: u16, body: &[u8]) -> io::Result<()> {
    loop {
        match request(kind, 0, body) {
            Ok(()) => {}
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn is_not_found(error: &io::Error) -> bool {
    // A family that is switched off has no rules.
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::EAFNOSUPPORT | libc::EOPNOTSUPP))
}

/// FIB_RULE_INVERT of linux/fib_rules.h.
const RULE_INVERT: u32 = 2;

fn rule_header(family: Family) -> rt_rule::FibRuleHdr {
    const TO_TABLE: u8 = 1;
    rt_rule::FibRuleHdr { family: family.address_family(), action: TO_TABLE, ..Default::default() }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    NetlinkSocket::open(SockProtocol::NetlinkRoute)?.request(kind, flags, body)
}
