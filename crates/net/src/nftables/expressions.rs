//! The expressions of linux/netfilter/nf_tables.h that statements come to.

use super::flow::octets;
use super::table::{AddressField, Statement, length_mask};
use crate::interface::Family;
use ipnet::IpNet;
use netlink_bindings::nftables::{
    BitwiseOps, CmpOps, FibFlags, MetaKeys, NumgenTypes, ObjectType, PayloadBase, PushExprListAttrs, Registers,
    VerdictCode,
};
use netlink_bindings::traits::Pusher;
use netlink_bindings::utils::{finalize_nested_header, push_header, push_nested_header};
use std::ffi::CStr;

/// Of four words.
const REGISTER: u32 = Registers::Reg1 as u32;
/// NFTA_LOOKUP_SREG, NFTA_LOOKUP_DREG and NFTA_LOOKUP_SET_ID of linux/netfilter/nf_tables.h.
const LOOKUP_SOURCE: u16 = 2;
const LOOKUP_DESTINATION: u16 = 3;
const LOOKUP_SET_NUMBER: u16 = 4;
/// NFT_FIB_RESULT_OIFNAME and NFT_FIB_RESULT_ADDRTYPE, which the library counts from another number.
const INTERFACE_NAME: u32 = 2;
const ADDRESS_TYPE: u32 = 3;
/// NFTA_DYNSET_OP and NFTA_DYNSET_SREG_KEY.
const DYNSET_OPERATION: u16 = 3;
const DYNSET_KEY: u16 = 4;
/// NFTA_REDIR_REG_PROTO_MIN, NFTA_REDIR_FLAGS, and NF_NAT_RANGE_PROTO_SPECIFIED of linux/netfilter/nf_nat.h.
const REDIRECT_PORT: u16 = 1;
const REDIRECT_FLAGS: u16 = 3;
const PORT_IS_SPECIFIED: u32 = 2;
/// The first of sixteen registers of a word each.
const FIRST_WORD_REGISTER: u32 = Registers::Reg3200 as u32;
const IFNAMSIZ: usize = libc::IFNAMSIZ;

/// A list of expressions that grows.
pub(super) struct Expressions<P: Pusher>(PushExprListAttrs<P>);

impl<P: Pusher> Expressions<P> {
    pub(super) fn new(list: PushExprListAttrs<P>) -> Self {
        Expressions(list)
    }

    /// Adds what a statement comes to. `map` is the number of the next anonymous map.
    pub(super) fn push_statement(self, statement: &Statement, map: &mut u32) -> Self {
        match statement {
            Statement::InputInterface(interface) => {
                self.load_meta(MetaKeys::Iifname).compare(&padded_interface_name(interface))
            }
            Statement::OutputInterface(interface) => {
                self.load_meta(MetaKeys::Oifname).compare(&padded_interface_name(interface))
            }
            Statement::RoutedToInterface(interface) => {
                self.look_up_route(INTERFACE_NAME).compare(&padded_interface_name(interface))
            }
            Statement::Mark(mark) => self.load_meta(MetaKeys::Mark).compare(&mark.to_ne_bytes()),
            Statement::Source(network) => self.match_network(*network, AddressField::Source),
            Statement::Destination(network) => self.match_network(*network, AddressField::Destination),
            Statement::ToOtherHost => self.look_up_route(ADDRESS_TYPE).compare(&RTN_UNICAST.to_ne_bytes()),
            Statement::ShorterThan(bytes) => self.load_length(*bytes).compare(&0_u32.to_ne_bytes()),
            Statement::AsLongAs(bytes) => self.load_length(*bytes).compare_by(CmpOps::Neq, &0_u32.to_ne_bytes()),
            Statement::Count(counter) => self.count_packet(counter),
            Statement::Untrack => Expressions(self.0.nested_elem().push_name(c"notrack").end_nested()),
            Statement::SetMark(mark) => self.load_immediate(&mark.to_ne_bytes()).set_mark(),
            Statement::MarkRoundRobin(marks) => {
                let id = *map;
                *map += 1;
                self.generate_number(marks.len() as u32).look_up_mark(id).set_mark()
            }
            Statement::SetSource(network) => self.set_network(*network, AddressField::Source),
            Statement::SetDestination(network) => self.set_network(*network, AddressField::Destination),
            Statement::Protocol(protocol) => self.load_meta(MetaKeys::L4Proto).compare(&[*protocol]),
            Statement::IcmpType(kind) => {
                self.load_bytes(PayloadBase::TransportHeader, 0, 1, REGISTER).compare(&[*kind])
            }
            Statement::QuotedSource(network) => self.match_network(*network, AddressField::QuotedSource),
            Statement::QuotedDestination(network) => self.match_network(*network, AddressField::QuotedDestination),
            Statement::SetQuotedSource(network) => self.set_network(*network, AddressField::QuotedSource),
            Statement::SetQuotedDestination(network) => self.set_network(*network, AddressField::QuotedDestination),
            Statement::FlowInList(family, list) => self.load_flow_key(*family).look_up_flow(list, None),
            Statement::TranslateFlow(family, list) => {
                self.load_flow_key(*family).look_up_flow(list, Some(FIRST_WORD_REGISTER)).store_addresses(*family)
            }
            Statement::RestoreErrorFlow(family, list) => self
                .load_quoted_flow_key(*family)
                .look_up_flow(list, Some(FIRST_WORD_REGISTER))
                .store_error_addresses(*family),
            Statement::AddFlow(family, list) => self.load_flow_key(*family).add_flow_to_list(list),
            Statement::Log(group) => self.log(*group),
            Statement::Redirect(port) => self.redirect(*port),
            Statement::Jump(chain) => self.verdict(VerdictCode::Jump, Some(chain)),
            Statement::Goto(chain) => self.verdict(VerdictCode::Goto, Some(chain)),
            Statement::Return => self.verdict(VerdictCode::Return, None),
            Statement::Accept => self.verdict(VerdictCode::Accept, None),
            Statement::Drop => self.verdict(VerdictCode::Drop, None),
        }
    }

    fn load_meta(self, key: MetaKeys) -> Self {
        let meta = self.0.nested_elem().nested_data_meta().push_dreg(REGISTER).push_key(key as u32);
        Expressions(meta.end_nested().end_nested())
    }

    fn set_mark(self) -> Self {
        let meta = self.0.nested_elem().nested_data_meta().push_key(MetaKeys::Mark as u32).push_sreg(REGISTER);
        Expressions(meta.end_nested().end_nested())
    }

    /// The bits of its length that are not 0 in what is as long as this.
    fn load_length(self, bytes: u32) -> Self {
        self.load_meta(MetaKeys::Len).mask_register(&length_mask(bytes).to_ne_bytes(), &[0; 4])
    }

    fn compare(self, value: &[u8]) -> Self {
        self.compare_by(CmpOps::Eq, value)
    }

    fn compare_by(self, operator: CmpOps, value: &[u8]) -> Self {
        let compare = self.0.nested_elem().nested_data_cmp().push_sreg(REGISTER).push_op(operator as u32);
        Expressions(compare.nested_data().push_value(value).end_nested().end_nested().end_nested())
    }

    /// What the routes say of the destination.
    fn look_up_route(self, result: u32) -> Self {
        let fib = self.0.nested_elem().nested_data_fib().push_dreg(REGISTER);
        let fib = fib.push_result(result).push_flags(FibFlags::Daddr as u32);
        Expressions(fib.end_nested().end_nested())
    }

    fn match_network(self, network: IpNet, field: AddressField) -> Self {
        let expressions = self.load_meta(MetaKeys::Nfproto).compare(&[protocol_family(network)]);
        match network.prefix_len() {
            0 => expressions,
            length => {
                let loaded = expressions.load_field(network, field);
                let is_one_host = length == network.max_prefix_len();
                let address = octets(network.network());
                let masked = if is_one_host {
                    loaded
                } else {
                    loaded.mask_register(&octets(network.netmask()), &vec![0; address.len()])
                };
                masked.compare(&address)
            }
        }
    }

    fn set_network(self, network: IpNet, field: AddressField) -> Self {
        let loaded = self.load_field(network, field);
        loaded.mask_register(&octets(network.hostmask()), &octets(network.network())).store_field(network, field)
    }

    fn load_field(self, network: IpNet, field: AddressField) -> Self {
        self.load_address(Family::from_network(network), field, REGISTER)
    }

    fn load_address(self, family: Family, field: AddressField, register: u32) -> Self {
        let (base, offset) = address_location(family, field);
        self.load_bytes(base, offset, 4 * address_words(family), register)
    }

    fn load_bytes(self, base: PayloadBase, offset: u32, length: u32, register: u32) -> Self {
        let payload = self.0.nested_elem().nested_data_payload().push_dreg(register);
        let payload = payload.push_base(base as u32).push_offset(offset).push_len(length);
        Expressions(payload.end_nested().end_nested())
    }

    fn store_field(self, network: IpNet, field: AddressField) -> Self {
        self.store_address(Family::from_network(network), field, REGISTER)
    }

    /// Writes an address, and mends the checksum of the header that it is in, and those that cover the addresses.
    fn store_address(self, family: Family, field: AddressField, register: u32) -> Self {
        const INTERNET_CHECKSUM: u32 = 1;
        const PSEUDO_HEADER: u32 = 1;
        let (base, offset) = address_location(family, field);
        let payload = self.0.nested_elem().nested_data_payload().push_sreg(register);
        let payload = payload.push_base(base as u32).push_offset(offset).push_len(4 * address_words(family));
        let is_inside = matches!(base, PayloadBase::TransportHeader);
        let payload = match family {
            // The checksum of ICMP covers what the error is about.
            _ if is_inside => payload.push_csum_type(INTERNET_CHECKSUM).push_csum_offset(2).push_csum_flags(0),
            Family::V4 => payload.push_csum_type(INTERNET_CHECKSUM).push_csum_offset(10).push_csum_flags(PSEUDO_HEADER),
            Family::V6 => payload.push_csum_type(0).push_csum_offset(0).push_csum_flags(PSEUDO_HEADER),
        };
        Expressions(payload.end_nested().end_nested())
    }

    /// Puts the key of the packet's flow into the words of the registers. A packet of the other IP version ends the rule, and
    /// a fragment that has no ports.
    fn load_flow_key(self, family: Family) -> Self {
        let words = address_words(family);
        let addresses = self.match_ip_version(family).load_address(family, AddressField::Source, FIRST_WORD_REGISTER);
        let addresses = addresses.load_address(family, AddressField::Destination, FIRST_WORD_REGISTER + words);
        let protocol = addresses.0.nested_elem().nested_data_meta().push_dreg(FIRST_WORD_REGISTER + 2 * words);
        let protocol = protocol.push_key(MetaKeys::L4Proto as u32).end_nested().end_nested();
        Expressions(protocol).load_bytes(PayloadBase::TransportHeader, 0, 4, FIRST_WORD_REGISTER + 2 * words + 1)
    }

    /// The same for the packet that an ICMP error is about. Options or extension headers end the rule, or no list has what
    /// is read then.
    fn load_quoted_flow_key(self, family: Family) -> Self {
        const QUOTED_OFFSET: u32 = 8;
        let words = address_words(family);
        let (protocol, ports) = match family {
            Family::V4 => (QUOTED_OFFSET + 9, QUOTED_OFFSET + 20),
            Family::V6 => (QUOTED_OFFSET + 6, QUOTED_OFFSET + 40),
        };
        let begins = self.match_ip_version(family).load_bytes(PayloadBase::TransportHeader, QUOTED_OFFSET, 1, REGISTER);
        let begins = match family {
            Family::V4 => begins.compare(&[0x45]),
            Family::V6 => begins,
        };
        begins
            .load_address(family, AddressField::QuotedSource, FIRST_WORD_REGISTER)
            .load_address(family, AddressField::QuotedDestination, FIRST_WORD_REGISTER + words)
            .load_bytes(PayloadBase::TransportHeader, protocol, 1, FIRST_WORD_REGISTER + 2 * words)
            .load_bytes(PayloadBase::TransportHeader, ports, 4, FIRST_WORD_REGISTER + 2 * words + 1)
    }

    fn match_ip_version(self, family: Family) -> Self {
        let version = match family {
            Family::V4 => libc::NFPROTO_IPV4,
            Family::V6 => libc::NFPROTO_IPV6,
        };
        self.load_meta(MetaKeys::Nfproto).compare(&[version as u8])
    }

    /// To the packet that an ICMP error is about, and its source to the error itself as the host that it is sent to.
    fn store_error_addresses(self, family: Family) -> Self {
        let source = self.store_address(family, AddressField::QuotedSource, FIRST_WORD_REGISTER);
        let about =
            source.store_address(family, AddressField::QuotedDestination, FIRST_WORD_REGISTER + address_words(family));
        about.store_address(family, AddressField::Destination, FIRST_WORD_REGISTER)
    }

    /// Ends the rule where the flow is not in the list; else loads its addresses, if they are asked for.
    fn look_up_flow(self, list: &str, addresses: Option<u32>) -> Self {
        let addresses = addresses.map(|register| (LOOKUP_DESTINATION, register));
        let attributes: Vec<_> = [(LOOKUP_SOURCE, FIRST_WORD_REGISTER)].into_iter().chain(addresses).collect();
        self.push_list_expression(c"lookup", list, &attributes)
    }

    fn store_addresses(self, family: Family) -> Self {
        let source = self.store_address(family, AddressField::Source, FIRST_WORD_REGISTER);
        source.store_address(family, AddressField::Destination, FIRST_WORD_REGISTER + address_words(family))
    }

    fn add_flow_to_list(self, list: &str) -> Self {
        let attributes = [(DYNSET_OPERATION, libc::NFT_DYNSET_OP_ADD as u32), (DYNSET_KEY, FIRST_WORD_REGISTER)];
        self.push_list_expression(c"dynset", list, &attributes)
    }

    fn load_immediate(self, value: &[u8]) -> Self {
        let immediate = self.0.nested_elem().nested_data_immediate().push_dreg(REGISTER);
        Expressions(immediate.nested_data().push_value(value).end_nested().end_nested().end_nested())
    }

    /// At once, and with nothing of the packet.
    fn log(self, group: u16) -> Self {
        let log = self.0.nested_elem().nested_data_log().push_group(group).push_snaplen(0).push_qthreshold(1);
        Expressions(log.end_nested().end_nested())
    }

    fn redirect(self, port: u16) -> Self {
        let attributes = [(REDIRECT_PORT, REGISTER), (REDIRECT_FLAGS, PORT_IS_SPECIFIED)];
        self.load_immediate(&port.to_be_bytes()).push_expression(c"redir", None, &attributes)
    }

    /// An expression on a set or map, whose name is its first attribute. The library spells the attributes of one of these in
    /// another order than the kernel.
    fn push_list_expression(self, name: &CStr, list: &str, attributes: &[(u16, u32)]) -> Self {
        self.push_expression(name, Some(list), attributes)
    }

    /// An expression that the library lacks.
    fn push_expression(self, name: &CStr, list: Option<&str>, attributes: &[(u16, u32)]) -> Self {
        const DATA_ATTRIBUTE: u16 = 2;
        const LIST_ATTRIBUTE: u16 = 1;
        let mut expression = self.0.nested_elem().push_name(name);
        let buffer = expression.as_vec_mut();
        let data = push_nested_header(buffer, DATA_ATTRIBUTE);
        if let Some(list) = list {
            push_header(buffer, LIST_ATTRIBUTE, list.len() as u16 + 1);
            buffer.extend(list.bytes().chain([0]));
        }
        for (attribute, value) in attributes {
            push_header(buffer, *attribute, 4);
            buffer.extend(value.to_be_bytes());
        }
        finalize_nested_header(buffer, data);
        Expressions(expression.end_nested())
    }

    /// `register = (register & mask) ^ bits`.
    fn mask_register(self, mask: &[u8], bits: &[u8]) -> Self {
        let bitwise = self.0.nested_elem().nested_data_bitwise().push_sreg(REGISTER).push_dreg(REGISTER);
        let bitwise = bitwise.push_len(mask.len() as u32).push_op(BitwiseOps::MaskXor as u32);
        let bitwise = bitwise.nested_mask().push_value(mask).end_nested().nested_xor().push_value(bits).end_nested();
        Expressions(bitwise.end_nested().end_nested())
    }

    /// 0, 1 … `modulus` − 1, then 0 again.
    fn generate_number(self, modulus: u32) -> Self {
        // The library encodes this register in the order of the host, in which no kernel reads it.
        let numgen = self.0.nested_elem().nested_data_numgen().push_dreg(REGISTER.to_be());
        let numgen = numgen.push_modulus(modulus).push_type(NumgenTypes::Incremental as u32).push_offset(0);
        Expressions(numgen.end_nested().end_nested())
    }

    /// The mark in an anonymous map.
    fn look_up_mark(self, map: u32) -> Self {
        let attributes = [(LOOKUP_SOURCE, REGISTER), (LOOKUP_DESTINATION, REGISTER), (LOOKUP_SET_NUMBER, map)];
        self.push_list_expression(c"lookup", "__map%d", &attributes)
    }

    fn count_packet(self, counter: &str) -> Self {
        let reference = self.0.nested_elem().nested_data_objref().push_imm_type(ObjectType::Counter as u32);
        Expressions(reference.push_imm_name_bytes(counter.as_bytes()).end_nested().end_nested())
    }

    fn verdict(self, code: VerdictCode, chain: Option<&str>) -> Self {
        let immediate = self.0.nested_elem().nested_data_immediate().push_dreg(Registers::RegVerdict as u32);
        let verdict = immediate.nested_data().nested_verdict().push_code(code as u32);
        let verdict = match chain {
            Some(chain) => verdict.push_chain_bytes(chain.as_bytes()),
            None => verdict,
        };
        Expressions(verdict.end_nested().end_nested().end_nested().end_nested())
    }
}

/// RTN_UNICAST of linux/rtnetlink.h.
const RTN_UNICAST: u32 = libc::RTN_UNICAST as u32;

/// Where the address stands: in the IP header, or in that behind the eight octets of an ICMP error.
fn address_location(family: Family, field: AddressField) -> (PayloadBase, u32) {
    const ICMP_ERROR_HEADER_BYTES: u32 = 8;
    match (family, field) {
        (Family::V4, AddressField::Source) => (PayloadBase::NetworkHeader, 12),
        (Family::V4, AddressField::Destination) => (PayloadBase::NetworkHeader, 16),
        (Family::V6, AddressField::Source) => (PayloadBase::NetworkHeader, 8),
        (Family::V6, AddressField::Destination) => (PayloadBase::NetworkHeader, 24),
        (Family::V4, AddressField::QuotedSource) => (PayloadBase::TransportHeader, ICMP_ERROR_HEADER_BYTES + 12),
        (Family::V4, AddressField::QuotedDestination) => (PayloadBase::TransportHeader, ICMP_ERROR_HEADER_BYTES + 16),
        (Family::V6, AddressField::QuotedSource) => (PayloadBase::TransportHeader, ICMP_ERROR_HEADER_BYTES + 8),
        (Family::V6, AddressField::QuotedDestination) => (PayloadBase::TransportHeader, ICMP_ERROR_HEADER_BYTES + 24),
    }
}

/// How many registers of a word an address takes.
pub(super) fn address_words(family: Family) -> u32 {
    match family {
        Family::V4 => 1,
        Family::V6 => 4,
    }
}

fn protocol_family(network: IpNet) -> u8 {
    match network {
        IpNet::V4(_) => libc::NFPROTO_IPV4 as u8,
        IpNet::V6(_) => libc::NFPROTO_IPV6 as u8,
    }
}

/// The name of an interface as the kernel compares it.
fn padded_interface_name(interface: &str) -> [u8; IFNAMSIZ] {
    let mut name = [0; IFNAMSIZ];
    name.iter_mut().zip(interface.bytes().take(IFNAMSIZ - 1)).for_each(|(to, from)| *to = from);
    name
}
