//! Policy routing: packets with a mark take the routes of a table of their own, by rtnetlink(7).

use crate::index::index_of;
use crate::interface::Family;
use crate::netlink::Netlink;
use crate::setup::SetupError;
use netlink_bindings::{rt_route, rt_rule};
use nix::sys::socket::SockProtocol;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::IpAddr;

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
    /// Adds the route, then the rule.
    ///
    /// # Errors
    /// No such interface, the gateway cannot be reached through it, something has that number, or not allowed.
    pub fn add(&self) -> Result<(), SetupError> {
        self.set_route()?;
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let added = request(libc::RTM_NEWRULE, flags, &self.rule());
        added.map_err(|error| SetupError::new(format!("add the routing rule {}", self.number), error))
    }

    /// Adds the route, or changes it where the table has one: the kernel drops a route when its interface goes down.
    ///
    /// # Errors
    /// No such interface, the gateway cannot be reached through it, or not allowed.
    pub fn set_route(&self) -> Result<(), SetupError> {
        let route = self.route()?;
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        request(libc::RTM_NEWROUTE, flags, &route).map_err(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL) => {
                    "the gateway must be in a network of the interface (`ip address`)"
                }
                Some(libc::ENETDOWN) => "the interface is down",
                _ => "it takes CAP_NET_ADMIN",
            };
            SetupError::new(format!("route through {} in the table {}", self.interface, self.number), error).hint(hint)
        })
    }

    /// Whether its table has a route.
    ///
    /// # Errors
    /// The kernel does not list it.
    pub fn is_set(&self) -> Result<bool, SetupError> {
        let mut body = Vec::new();
        let header = rt_route::Rtmsg { rtm_family: self.family.number(), ..Default::default() };
        rt_route::OpGetrouteDump::encode_request(&mut body, &header).push_table(self.number);
        let mut is_set = false;
        let listed = Netlink::open(SockProtocol::NetlinkRoute).and_then(|netlink| {
            netlink.filter_lists()?;
            netlink.dump(libc::RTM_GETROUTE, &body, |_| is_set = true)
        });
        match listed {
            // There is no such table once its last route has gone.
            Err(error) if !is_absent(&error) => {
                Err(SetupError::new(format!("list the routing table {}", self.number), error))
            }
            _ => Ok(is_set),
        }
    }

    fn route(&self) -> Result<Vec<u8>, SetupError> {
        let header = rt_route::Rtmsg {
            rtm_family: self.family.number(),
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

    fn rule(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let rule = rt_rule::OpNewruleDo::encode_request(&mut body, &rule_header(self.family));
        rule.push_table(self.number).push_fwmark(self.number).push_priority(self.number);
        body
    }
}

impl Display for MarkedRoute {
    /// As ip(8) adds the rule and the route, on two lines.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let MarkedRoute { number, family, interface, gateway } = self;
        let ip = match family {
            Family::V4 => "ip -4",
            Family::V6 => "ip -6",
        };
        let via = gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
        writeln!(f, "{ip} rule add priority {number} fwmark {number:#x} table {number}")?;
        write!(f, "{ip} route add default{via} dev {interface} table {number}")
    }
}

/// Deletes the rule and the routes of one number, where there are any.
///
/// # Errors
/// Not allowed.
pub fn remove(number: u32, family: Family) -> Result<(), SetupError> {
    let failed = |error| SetupError::new(format!("remove the routing rule and table {number}"), error);
    let mut rule = Vec::new();
    rt_rule::OpDelruleDo::encode_request(&mut rule, &rule_header(family)).push_table(number).push_priority(number);
    delete_all(libc::RTM_DELRULE, &rule).map_err(failed)?;
    let header =
        rt_route::Rtmsg { rtm_family: family.number(), rtm_scope: libc::RT_SCOPE_NOWHERE, ..Default::default() };
    let mut route = Vec::new();
    rt_route::OpDelrouteDo::encode_request(&mut route, &header).push_table(number);
    delete_all(libc::RTM_DELROUTE, &route).map_err(failed)
}

/// Until there is none left.
fn delete_all(kind: u16, body: &[u8]) -> io::Result<()> {
    loop {
        match request(kind, 0, body) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    // A family that is switched off has no rules.
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::EAFNOSUPPORT | libc::EOPNOTSUPP))
}

fn rule_header(family: Family) -> rt_rule::FibRuleHdr {
    const TO_TABLE: u8 = 1;
    rt_rule::FibRuleHdr { family: family.number(), action: TO_TABLE, ..Default::default() }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    Netlink::open(SockProtocol::NetlinkRoute)?.request(kind, flags, body)
}
