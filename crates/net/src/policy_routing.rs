//! Policy routing: packets with a mark take the routes of a table of their own, by rtnetlink(7).

use crate::index::index_of;
use crate::interface::{self, Family};
use crate::netlink::NetlinkSocket;
use crate::setup::SetupError;
use ipnet::IpNet;
use netlink_bindings::{rt_route, rt_rule};
use nix::sys::socket::SockProtocol;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::IpAddr;

/// A route that this process adds, with what leads packets to it.
pub trait PolicyRoute {
    /// What of it stays when its process is killed.
    fn remnants(&self) -> Vec<RouteRemnant>;

    /// Adds the route, then the rules.
    ///
    /// # Errors
    /// No such interface, a route that it cannot have, something has that number, or not allowed.
    fn install(&self) -> Result<(), SetupError>;

    /// Removes the route and what leads packets to it.
    ///
    /// # Errors
    /// Not allowed.
    fn remove(&self) -> Result<(), SetupError> {
        self.remnants().iter().try_for_each(RouteRemnant::remove)
    }

    /// Puts the route in the place of another one that has the same [remnants](Self::remnants), so that packets have one or the
    /// other at any time.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    fn replace(&self) -> Result<(), SetupError> {
        self.restore().map(drop)
    }

    /// Adds the route again if it is gone: the kernel drops it when its interface goes down, and nobody puts it back. Returns
    /// whether it was gone.
    ///
    /// # Errors
    /// The interface is down, or gone.
    fn restore(&self) -> Result<bool, SetupError>;
}

/// What is to be removed once nobody uses a route any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteRemnant {
    /// A routing table, with the rules of this priority.
    Table(u32, Family),
    /// A refusal in a table.
    Refusal(NetworkRefusal),
}

impl RouteRemnant {
    /// Removes what there is of it.
    ///
    /// # Errors
    /// Not allowed.
    pub fn remove(&self) -> Result<(), SetupError> {
        match *self {
            RouteRemnant::Table(number, family) => remove_table(number, family),
            RouteRemnant::Refusal(refusal) => refusal.remove(),
        }
    }
}

/// Packets for a network are refused (the route type `unreachable`) where no other route of the table takes them: so they do
/// not leave unprotected where the kernel has dropped the route through a tunnel's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRefusal {
    /// The number of the routing table.
    pub table: u32,
    /// Which packets.
    pub network: IpNet,
    /// The metric: less than this is preferred.
    pub metric: u32,
}

impl NetworkRefusal {
    /// Below all other routes, with a metric that no refusal for another interface has.
    fn below_routes_through(interface: &str, table: u32, network: IpNet) -> Result<Self, SetupError> {
        Ok(NetworkRefusal { table, network, metric: u32::MAX - index_of(interface)? })
    }

    fn add(&self) -> Result<(), SetupError> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        request(libc::RTM_NEWROUTE, flags, &self.encode()).map_err(|error| {
            let operation =
                format!("refuse packets for {} that have no other route in the table {}", self.network, self.table);
            SetupError::new(operation, error)
        })
    }

    fn remove(&self) -> Result<(), SetupError> {
        delete_all(libc::RTM_DELROUTE, &self.encode()).map_err(|error| {
            SetupError::new(
                format!("remove the route of the type unreachable for {} in the table {}", self.network, self.table),
                error,
            )
        })
    }

    fn encode(&self) -> Vec<u8> {
        let header = rt_route::Rtmsg {
            rtm_family: Family::from_address(self.network.addr()).address_family(),
            rtm_dst_len: self.network.prefix_len(),
            rtm_protocol: libc::RTPROT_STATIC,
            rtm_scope: libc::RT_SCOPE_UNIVERSE,
            rtm_type: libc::RTN_UNREACHABLE,
            ..Default::default()
        };
        let mut body = Vec::new();
        let route = rt_route::OpNewrouteDo::encode_request(&mut body, &header);
        let route = route.push_table(self.table).push_priority(self.metric);
        match self.network.prefix_len() {
            0 => drop(route),
            _ => drop(route.push_dst(self.network.network())),
        }
        body
    }
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
    fn remnants(&self) -> Vec<RouteRemnant> {
        vec![RouteRemnant::Table(self.number, self.family)]
    }

    fn restore(&self) -> Result<bool, SetupError> {
        if self.has_route()? {
            return Ok(false);
        }
        self.set_route().map(|()| true)
    }

    fn replace(&self) -> Result<(), SetupError> {
        self.set_route()
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

/// All packets for a network leave through one interface, but for those of sockets with a mark and those for which the main
/// table has a route to a smaller network: as those to neighbours, where the network is the default route. While the interface
/// is down or gone, they are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRoute {
    /// The number of the routing table, and the priority of the rules. Rules are tried from the least number on; 32766 is
    /// that of the main table.
    pub number: u32,
    /// Which packets.
    pub network: IpNet,
    /// Of these, not those with this mark: the main table routes them. By the mark and not by the far end's address, which
    /// somebody on the path can choose where it comes from the DNS, so that other programs' traffic to a host of that
    /// address would not be protected (TunnelCrack, ServerIP).
    pub excluded_mark: u32,
    /// Where they leave; the network is on its link.
    pub interface: String,
}

impl NetworkRoute {
    fn family(&self) -> Family {
        Family::from_address(self.network.addr())
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

    /// Then the table of its own, which has nothing but the network.
    fn encode_own_table_rule(&self) -> Vec<u8> {
        let header = rt_rule::FibRuleHdr { flags: RULE_INVERT, ..rule_header(self.family()) };
        let mut body = Vec::new();
        let rule = rt_rule::OpNewruleDo::encode_request(&mut body, &header);
        rule.push_priority(self.number).push_table(self.number).push_fwmark(self.excluded_mark);
        body
    }

    fn refusal(&self) -> Result<NetworkRefusal, SetupError> {
        NetworkRefusal::below_routes_through(&self.interface, self.number, self.network)
    }
}

impl PolicyRoute for NetworkRoute {
    fn remnants(&self) -> Vec<RouteRemnant> {
        let refusal = self.refusal().ok().map(RouteRemnant::Refusal);
        [RouteRemnant::Table(self.number, self.family())].into_iter().chain(refusal).collect()
    }

    fn install(&self) -> Result<(), SetupError> {
        interface::add_route_in_table(&self.interface, self.network, self.number)?;
        self.refusal()?.add()?;
        add_rule(self.number, &self.encode_main_table_rule())?;
        add_rule(self.number, &self.encode_own_table_rule())
    }

    fn restore(&self) -> Result<bool, SetupError> {
        restore_route(&self.interface, self.network, self.number)
    }
}

/// A route of the main table to a network behind a device of this process. While the device is down or gone, packets for it
/// are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRoute {
    /// Which packets.
    pub network: IpNet,
    /// Where they leave; the network is on its link.
    pub interface: String,
    /// Whether the kernel adds the route itself, with an address of the interface.
    pub is_from_address: bool,
}

impl DeviceRoute {
    const TABLE: u32 = libc::RT_TABLE_MAIN as u32;

    fn refusal(&self) -> Result<NetworkRefusal, SetupError> {
        NetworkRefusal::below_routes_through(&self.interface, Self::TABLE, self.network)
    }
}

impl PolicyRoute for DeviceRoute {
    fn remnants(&self) -> Vec<RouteRemnant> {
        self.refusal().ok().map(RouteRemnant::Refusal).into_iter().collect()
    }

    fn install(&self) -> Result<(), SetupError> {
        if !self.is_from_address {
            interface::add_route(&self.interface, self.network)?;
        }
        self.refusal()?.add()
    }

    fn remove(&self) -> Result<(), SetupError> {
        // The kernel may have dropped it.
        let removed =
            if self.is_from_address { Ok(()) } else { interface::remove_route(&self.interface, self.network) };
        removed.or_else(|error| if is_not_found(error.io_error()) { Ok(()) } else { Err(error) })?;
        self.refusal()?.remove()
    }

    fn restore(&self) -> Result<bool, SetupError> {
        if self.is_from_address {
            return Ok(false);
        }
        restore_route(&self.interface, self.network, Self::TABLE)
    }
}

/// Adds it where it is gone. Returns whether it was.
fn restore_route(interface: &str, network: IpNet, table: u32) -> Result<bool, SetupError> {
    match interface::add_route_in_table(interface, network, table) {
        Ok(()) => Ok(true),
        Err(error) if error.io_error().kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

impl Display for NetworkRoute {
    /// As ip(8) adds the rules and the route, on three lines.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let NetworkRoute { number, network, excluded_mark: mark, interface } = self;
        let (ip, length) = (ip_command(self.family()), network.prefix_len());
        let to = if length == 0 { String::new() } else { format!("to {network} ") };
        writeln!(f, "{ip} rule add priority {number} {to}table main suppress_prefixlength {length}")?;
        writeln!(f, "{ip} rule add priority {number} not fwmark {mark:#x} table {number}")?;
        write!(f, "{ip} route add {network} dev {interface} table {number}")
    }
}

/// A routing rule. Those of one priority are tried in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingRule {
    /// Rules are tried from the least number on; 32766 is that of the main table.
    pub priority: u32,
    /// Of which packets.
    pub family: Family,
    /// Which of them.
    pub condition: RuleCondition,
    /// What becomes of these.
    pub action: RuleAction,
}

/// Which packets a [`RoutingRule`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleCondition {
    /// All.
    Any,
    /// Those with this mark.
    Mark(u32),
    /// Those of this protocol, as in the IP header, to this port.
    Port(u8, u16),
}

/// What becomes of packets that a [`RoutingRule`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAction {
    /// The routing table of this number has their route, or the next rule.
    Lookup(u32),
    /// The same, but for default routes.
    LookupWithoutDefault(u32),
    /// They are refused: no route to the host.
    Refuse,
}

impl RoutingRule {
    /// Adds the rule, unless it is there.
    ///
    /// # Errors
    /// Not allowed, or the system has no such IP version.
    pub fn add(&self) -> Result<(), SetupError> {
        match add_rule(self.priority, &self.encode()) {
            Err(error) if error.io_error().kind() == io::ErrorKind::AlreadyExists => Ok(()),
            outcome => outcome,
        }
    }

    fn encode(&self) -> Vec<u8> {
        const REFUSE: u8 = rt_rule::FrAct::Unreachable as u8;
        let action = if self.action == RuleAction::Refuse { REFUSE } else { rule_header(self.family).action };
        let mut body = Vec::new();
        let header = rt_rule::FibRuleHdr { action, ..rule_header(self.family) };
        let rule = rt_rule::OpNewruleDo::encode_request(&mut body, &header).push_priority(self.priority);
        let rule = match self.condition {
            RuleCondition::Any => rule,
            RuleCondition::Mark(mark) => rule.push_fwmark(mark),
            RuleCondition::Port(protocol, port) => {
                let ports = rt_rule::FibRulePortRange { start: port, end: port };
                rule.push_ip_proto(protocol).push_dport_range(ports)
            }
        };
        match self.action {
            RuleAction::Lookup(table) => drop(rule.push_table(table)),
            RuleAction::LookupWithoutDefault(table) => drop(rule.push_table(table).push_suppress_prefixlen(0)),
            RuleAction::Refuse => drop(rule),
        }
        body
    }
}

impl Display for RoutingRule {
    /// As ip(8) adds it.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} rule add priority {}", ip_command(self.family), self.priority)?;
        match self.condition {
            RuleCondition::Any => {}
            RuleCondition::Mark(mark) => write!(f, " fwmark {mark:#x}")?,
            RuleCondition::Port(protocol, port) => write!(f, " ipproto {protocol} dport {port}")?,
        }
        match self.action {
            RuleAction::Lookup(table) => write!(f, " table {table}"),
            RuleAction::LookupWithoutDefault(table) => write!(f, " table {table} suppress_prefixlength 0"),
            RuleAction::Refuse => write!(f, " unreachable"),
        }
    }
}

/// Deletes all routing rules of a priority.
///
/// # Errors
/// Not allowed.
pub fn remove_rules(priority: u32, family: Family) -> Result<(), SetupError> {
    let mut rule = Vec::new();
    let any_action = rt_rule::FibRuleHdr { action: 0, ..rule_header(family) };
    rt_rule::OpDelruleDo::encode_request(&mut rule, &any_action).push_priority(priority);
    delete_all(libc::RTM_DELRULE, &rule)
        .map_err(|error| SetupError::new(format!("remove the routing rules {priority}"), error))
}

/// Deletes the rules and the default routes of one number, where there are any.
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
