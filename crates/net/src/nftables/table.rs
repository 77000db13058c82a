//! What a table contains.

use super::flow::{FlowList, FlowListKind};
use crate::interface::Family;
use ipnet::IpNet;
use std::fmt::{self, Display, Formatter};

/// A table of the family `inet`, for IPv4 and IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// At most 255 bytes: a letter, then letters, digits, `-` and `_`.
    pub name: String,
    /// Names of the counters that rules use.
    pub counters: Vec<String>,
    /// Lists of flows that rules use.
    pub flow_lists: Vec<FlowList>,
    /// A chain stands behind those that it jumps to.
    pub chains: Vec<Chain>,
}

impl Table {
    /// A name for the table of an interface: characters that it cannot have are replaced.
    pub fn name_with_interface(prefix: &str, interface: &str) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let interface: String = interface.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
        format!("{prefix}-{interface}")
    }
}

/// Rules that are tried in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// At most 255 bytes: a letter, then letters, digits, `-` and `_`.
    pub name: String,
    /// Where packets enter it; none where other chains jump to it.
    pub hook: Option<Hook>,
    /// In their order.
    pub rules: Vec<Rule>,
}

/// Where in its way through the host a packet is taken to a chain, with a priority: less comes earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// As it arrives, before it is routed.
    Prerouting(i32),
    /// As it leaves, once it is routed.
    Postrouting(i32),
    /// As the first packet of a connection arrives: where the connection may be [redirected](Statement::Redirect).
    PreroutingNat(i32),
    /// The same as it is sent by this host.
    OutputNat(i32),
}

/// Statements that are carried out in order, until one does not match the packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule(pub Vec<Statement>);

/// A condition on a packet, or a change of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// It arrived at the interface of this name.
    InputInterface(String),
    /// The packet is to leave through an interface; where its route is known.
    OutputInterface(String),
    /// The packet would leave through an interface, as the routes have it; where its route is not known yet.
    RoutedToInterface(String),
    /// It has this mark.
    Mark(u32),
    /// Its source is in the network.
    Source(IpNet),
    /// Its destination is in the network.
    Destination(IpNet),
    /// It is to be forwarded to one host: its destination is no address of this host, no broadcast or multicast address.
    ToOtherHost,
    /// It has fewer bytes than this, a power of two, from the IP header on; all bytes of a batch of packets that the kernel handles as
    /// one (GSO, GRO).
    ShorterThan(u32),
    /// It has as many bytes as this, a power of two, or more, counted likewise.
    AsLongAs(u32),
    /// Adds it to the counter of this name.
    Count(String),
    /// Connection tracking passes over it.
    Untrack,
    /// Gives it this mark.
    SetMark(u32),
    /// Marks packets with these in turn, then from the beginning again.
    MarkRoundRobin(Vec<u32>),
    /// Moves its source to the address of the same place in this network, and mends the checksums. A condition on the
    /// address, of the same IP version, stands before it.
    SetSource(IpNet),
    /// The same for its destination.
    SetDestination(IpNet),
    /// It is of this protocol, as in the IP header.
    Protocol(u8),
    /// It is an ICMP message of this type. A condition on the protocol stands before it.
    IcmpType(u8),
    /// It is an ICMP error about a packet whose source was in the network. A condition on the ICMP type stands before it.
    QuotedSource(IpNet),
    /// The same for that packet's destination.
    QuotedDestination(IpNet),
    /// Moves the source of the packet that an ICMP error is about, as [`SetSource`](Self::SetSource), and mends the error's
    /// checksum.
    SetQuotedSource(IpNet),
    /// The same for that packet's destination.
    SetQuotedDestination(IpNet),
    /// Its flow is in the list, a [`FlowListKind::Set`] or [`FlowListKind::Dynamic`] of that IP version.
    FlowInList(Family, String),
    /// Its flow is in the list, a [`FlowListKind::Translation`] of that IP version: gives it those addresses, and mends the
    /// checksums.
    TranslateFlow(Family, String),
    /// It is an ICMP error about a packet whose flow is in the list, a [`FlowListKind::Translation`] of that IP version: gives
    /// that packet those addresses, sends the error to its source, and mends the checksums. A condition on the ICMP type
    /// stands before it.
    RestoreErrorFlow(Family, String),
    /// Enters its flow into the list, a [`FlowListKind::Dynamic`] of that IP version.
    AddFlow(Family, String),
    /// Wakes who [watches](super::LogWatch) the group of this number; nothing of the packet is told.
    Log(u16),
    /// Leads the connection to this port of this host: to the interface's address where it arrives, to the loopback address
    /// where it is sent. A condition on the protocol stands before it. The connection's socket knows where it was to go
    /// ([`original_destination`](crate::tcp::original_destination)).
    Redirect(u16),
    /// Goes through another chain, then on with the next rule.
    Jump(String),
    /// Goes through another chain in place of the rest of this one.
    Goto(String),
    /// Leaves this chain: goes on where it was jumped from.
    Return,
    /// Is done with the packet in this table.
    Accept,
    /// Discards it.
    Drop,
}

/// Which address of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressField {
    Source,
    Destination,
    /// Of the packet that an ICMP error is about.
    QuotedSource,
    QuotedDestination,
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "table inet {} {{", self.name)?;
        writeln!(f, "\tflags owner")?;
        for counter in &self.counters {
            writeln!(f, "\tcounter {counter} {{}}")?;
        }
        for list in &self.flow_lists {
            show_list(f, list)?;
        }
        for chain in &self.chains {
            write!(f, "{chain}")?;
        }
        write!(f, "}}")
    }
}

impl Display for Chain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\tchain {} {{", self.name)?;
        if let Some(hook) = self.hook {
            let (kind, name, priority) = match hook {
                Hook::Prerouting(priority) => ("filter", "prerouting", priority),
                Hook::Postrouting(priority) => ("filter", "postrouting", priority),
                Hook::PreroutingNat(priority) => ("nat", "prerouting", priority),
                Hook::OutputNat(priority) => ("nat", "output", priority),
            };
            writeln!(f, "\t\ttype {kind} hook {name} priority {priority}; policy accept;")?;
        }
        for rule in &self.rules {
            writeln!(f, "\t\t{rule}")?;
        }
        writeln!(f, "\t}}")
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, statement) in self.0.iter().enumerate() {
            write!(f, "{}{statement}", if number > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::InputInterface(interface) => write!(f, "iifname \"{interface}\""),
            Statement::OutputInterface(interface) => write!(f, "oifname \"{interface}\""),
            Statement::RoutedToInterface(interface) => write!(f, "fib daddr oifname \"{interface}\""),
            Statement::Mark(mark) => write!(f, "meta mark {mark}"),
            Statement::Source(network) => show_match(f, *network, AddressField::Source),
            Statement::Destination(network) => show_match(f, *network, AddressField::Destination),
            Statement::ToOtherHost => write!(f, "fib daddr type unicast"),
            Statement::ShorterThan(bytes) => write!(f, "meta length & {} == 0", length_mask(*bytes)),
            Statement::AsLongAs(bytes) => write!(f, "meta length & {} != 0", length_mask(*bytes)),
            Statement::Count(counter) => write!(f, "counter name \"{counter}\""),
            Statement::Untrack => write!(f, "notrack"),
            Statement::SetMark(mark) => write!(f, "meta mark set {mark}"),
            Statement::MarkRoundRobin(marks) => show_round_robin(f, marks),
            Statement::SetSource(network) => show_set(f, *network, AddressField::Source),
            Statement::SetDestination(network) => show_set(f, *network, AddressField::Destination),
            Statement::Protocol(protocol) => write!(f, "meta l4proto {protocol}"),
            Statement::IcmpType(kind) => write!(f, "@th,0,8 {kind}"),
            Statement::QuotedSource(network) => show_match(f, *network, AddressField::QuotedSource),
            Statement::QuotedDestination(network) => show_match(f, *network, AddressField::QuotedDestination),
            Statement::SetQuotedSource(network) => show_set(f, *network, AddressField::QuotedSource),
            Statement::SetQuotedDestination(network) => show_set(f, *network, AddressField::QuotedDestination),
            Statement::FlowInList(family, list) => write!(f, "{} @{list}", show_flow(*family)),
            Statement::TranslateFlow(family, list) => {
                write!(f, "{0} saddr . {0} daddr set {1} map @{list}", show_family(*family), show_flow(*family))
            }
            Statement::RestoreErrorFlow(family, list) => show_error_flow(f, *family, list),
            Statement::AddFlow(family, list) => write!(f, "add @{list} {{ {} }}", show_flow(*family)),
            Statement::Log(group) => write!(f, "log group {group} snaplen 0 queue-threshold 1"),
            Statement::Redirect(port) => write!(f, "redirect to :{port}"),
            Statement::Jump(chain) => write!(f, "jump {chain}"),
            Statement::Goto(chain) => write!(f, "goto {chain}"),
            Statement::Return => write!(f, "return"),
            Statement::Accept => write!(f, "accept"),
            Statement::Drop => write!(f, "drop"),
        }
    }
}

fn show_list(f: &mut Formatter<'_>, list: &FlowList) -> fmt::Result {
    let address = if list.family == Family::V4 { "ipv4_addr" } else { "ipv6_addr" };
    let kind = if list.kind == FlowListKind::Translation { "map" } else { "set" };
    write!(f, "\t{kind} {} {{ type {address} . {address} . inet_proto . 4 octets of ports", list.name)?;
    match list.kind {
        FlowListKind::Set => writeln!(f, "; counter; }}"),
        FlowListKind::Translation => writeln!(f, " : {address} . {address}; counter; }}"),
        FlowListKind::Dynamic { timeout_millis, max_entries } => {
            writeln!(f, "; timeout {timeout_millis}ms; size {max_entries}; }}")
        }
    }
}

/// The bits of a length that are 0 in all that are shorter than a power of two: no comparison of the kernel's is by the host's order
/// of bytes, but for equality.
pub(super) fn length_mask(bytes: u32) -> u32 {
    !(bytes.next_power_of_two() - 1)
}

fn show_family(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

fn show_flow(family: Family) -> String {
    format!("{0} saddr . {0} daddr . meta l4proto . @th,0,32", show_family(family))
}

fn show_error_flow(f: &mut Formatter<'_>, family: Family, list: &str) -> fmt::Result {
    let (addresses, flow) = match family {
        Family::V4 => ("@th,160,32 . @th,192,32 . ip daddr", "@th,160,32 . @th,192,32 . @th,136,8 . @th,224,32"),
        Family::V6 => ("@th,128,128 . @th,256,128 . ip6 daddr", "@th,128,128 . @th,256,128 . @th,112,8 . @th,384,32"),
    };
    write!(f, "{addresses} set {flow} map @{list}")
}

/// As in `ip saddr`.
fn show_field(network: IpNet, field: AddressField) -> &'static str {
    match (network, field) {
        (IpNet::V4(_), AddressField::Source) => "ip saddr",
        (IpNet::V4(_), AddressField::Destination) => "ip daddr",
        (IpNet::V6(_), AddressField::Source) => "ip6 saddr",
        (IpNet::V6(_), AddressField::Destination) => "ip6 daddr",
        (IpNet::V4(_), AddressField::QuotedSource) => "@th,160,32",
        (IpNet::V4(_), AddressField::QuotedDestination) => "@th,192,32",
        (IpNet::V6(_), AddressField::QuotedSource) => "@th,128,128",
        (IpNet::V6(_), AddressField::QuotedDestination) => "@th,256,128",
    }
}

fn show_match(f: &mut Formatter<'_>, network: IpNet, field: AddressField) -> fmt::Result {
    match network.prefix_len() {
        0 if network.addr().is_ipv4() => write!(f, "meta nfproto ipv4"),
        0 => write!(f, "meta nfproto ipv6"),
        _ => write!(f, "{} {network}", show_field(network, field)),
    }
}

fn show_set(f: &mut Formatter<'_>, network: IpNet, field: AddressField) -> fmt::Result {
    let (name, address) = (show_field(network, field), network.network());
    if network.prefix_len() == network.max_prefix_len() {
        return write!(f, "{name} set {address}");
    }
    write!(f, "{name} set {name} & {} | {address}", network.hostmask())
}

/// `meta mark set numgen inc mod 19 map { 0-15 : 27393, 16-18 : 27394 }`.
fn show_round_robin(f: &mut Formatter<'_>, marks: &[u32]) -> fmt::Result {
    write!(f, "meta mark set numgen inc mod {} map {{", marks.len())?;
    let mut first = 0;
    for run in marks.chunk_by(|one, other| one == other) {
        let (comma, last) = (if first > 0 { "," } else { "" }, first + run.len() - 1);
        match run.len() {
            1 => write!(f, "{comma} {first} : {}", run[0])?,
            _ => write!(f, "{comma} {first}-{last} : {}", run[0])?,
        }
        first += run.len();
    }
    write!(f, " }}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_as_nft_lists_it() {
        let network = |text: &str| text.parse::<IpNet>().unwrap();
        let divide = Rule(vec![Statement::MarkRoundRobin(vec![7, 7, 7, 8, 7])]);
        let translate = Rule(vec![
            Statement::Mark(7),
            Statement::Source(network("10.1.0.0/24")),
            Statement::SetSource(network("192.0.2.0/24")),
        ]);
        let one = Rule(vec![Statement::Source(network("::/0")), Statement::SetDestination(network("fd00::1/128"))]);
        let chain = |name: &str, hook, rules| Chain { name: name.into(), hook, rules };
        let table = Table {
            name: "t".into(),
            counters: vec!["all".into()],
            flow_lists: vec![],
            chains: vec![chain("a", None, vec![divide]), chain("b", Some(Hook::Postrouting(9)), vec![translate, one])],
        };
        let expected = "table inet t {\n\tflags owner\n\tcounter all {}\n\tchain a {\n\
            \t\tmeta mark set numgen inc mod 5 map { 0-2 : 7, 3 : 8, 4 : 7 }\n\t}\n\tchain b {\n\
            \t\ttype filter hook postrouting priority 9; policy accept;\n\
            \t\tmeta mark 7 ip saddr 10.1.0.0/24 ip saddr set ip saddr & 0.0.0.255 | 192.0.2.0\n\
            \t\tmeta nfproto ipv6 ip6 daddr set fd00::1\n\t}\n}";
        assert_eq!(table.to_string(), expected);
    }
}
