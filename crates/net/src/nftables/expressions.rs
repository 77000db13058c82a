//! The expressions of linux/netfilter/nf_tables.h that statements come to.

use super::flow::octets;
use super::table::{Field, Statement};
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
const NOTE_OPERATION: u16 = 3;
const NOTE_KEY: u16 = 4;
/// NFTA_REDIR_REG_PROTO_MIN, NFTA_REDIR_FLAGS, and NF_NAT_RANGE_PROTO_SPECIFIED of linux/netfilter/nf_nat.h.
const REDIRECT_PORT: u16 = 1;
const REDIRECT_FLAGS: u16 = 3;
const PORT_IS_GIVEN: u32 = 2;
/// The first of sixteen registers of a word each.
const WORDS: u32 = Registers::Reg3200 as u32;
const IFNAMSIZ: usize = libc::IFNAMSIZ;

/// A list of expressions that grows.
pub(super) struct Expressions<P: Pusher>(PushExprListAttrs<P>);

impl<P: Pusher> Expressions<P> {
    pub(super) fn new(list: PushExprListAttrs<P>) -> Self {
        Expressions(list)
    }

    /// Adds what a statement comes to. `map` is the number of the next anonymous map.
    pub(super) fn statement(self, statement: &Statement, map: &mut u32) -> Self {
        match statement {
            Statement::Input(interface) => self.meta(MetaKeys::Iifname).compare(&padded(interface)),
            Statement::Output(interface) => self.meta(MetaKeys::Oifname).compare(&padded(interface)),
            Statement::RoutedTo(interface) => self.destination(INTERFACE_NAME).compare(&padded(interface)),
            Statement::Mark(mark) => self.meta(MetaKeys::Mark).compare(&mark.to_ne_bytes()),
            Statement::Source(network) => self.within(*network, Field::Source),
            Statement::Destination(network) => self.within(*network, Field::Destination),
            Statement::ToOtherHost => self.destination(ADDRESS_TYPE).compare(&UNICAST.to_ne_bytes()),
            Statement::Count(counter) => self.count(counter),
            Statement::Untrack => Expressions(self.0.nested_elem().push_name(c"notrack").end_nested()),
            Statement::MarkInTurn(marks) => {
                let id = *map;
                *map += 1;
                self.number(marks.len() as u32).look_up(id).set_mark()
            }
            Statement::SetSource(network) => self.set(*network, Field::Source),
            Statement::SetDestination(network) => self.set(*network, Field::Destination),
            Statement::Protocol(protocol) => self.meta(MetaKeys::L4Proto).compare(&[*protocol]),
            Statement::IcmpType(kind) => {
                self.load_bytes(PayloadBase::TransportHeader, 0, 1, REGISTER).compare(&[*kind])
            }
            Statement::AboutSource(network) => self.within(*network, Field::AboutSource),
            Statement::AboutDestination(network) => self.within(*network, Field::AboutDestination),
            Statement::SetAboutSource(network) => self.set(*network, Field::AboutSource),
            Statement::SetAboutDestination(network) => self.set(*network, Field::AboutDestination),
            Statement::InFlows(family, list) => self.flow(*family).look_up_flow(list, None),
            Statement::TranslateFlow(family, list) => {
                self.flow(*family).look_up_flow(list, Some(WORDS)).store_addresses(*family)
            }
            Statement::RestoreErrorFlow(family, list) => {
                self.flow_of_error(*family).look_up_flow(list, Some(WORDS)).store_error_addresses(*family)
            }
            Statement::NoteFlow(family, list) => self.flow(*family).note(list),
            Statement::Redirect(port) => self.redirect(*port),
            Statement::Jump(chain) => self.verdict(VerdictCode::Jump, Some(chain)),
            Statement::Goto(chain) => self.verdict(VerdictCode::Goto, Some(chain)),
            Statement::Return => self.verdict(VerdictCode::Return, None),
            Statement::Accept => self.verdict(VerdictCode::Accept, None),
        }
    }

    fn meta(self, key: MetaKeys) -> Self {
        let meta = self.0.nested_elem().nested_data_meta().push_dreg(REGISTER).push_key(key as u32);
        Expressions(meta.end_nested().end_nested())
    }

    fn set_mark(self) -> Self {
        let meta = self.0.nested_elem().nested_data_meta().push_key(MetaKeys::Mark as u32).push_sreg(REGISTER);
        Expressions(meta.end_nested().end_nested())
    }

    fn compare(self, value: &[u8]) -> Self {
        let compare = self.0.nested_elem().nested_data_cmp().push_sreg(REGISTER).push_op(CmpOps::Eq as u32);
        Expressions(compare.nested_data().push_value(value).end_nested().end_nested().end_nested())
    }

    /// What the routes say of the destination.
    fn destination(self, result: u32) -> Self {
        let fib = self.0.nested_elem().nested_data_fib().push_dreg(REGISTER);
        let fib = fib.push_result(result).push_flags(FibFlags::Daddr as u32);
        Expressions(fib.end_nested().end_nested())
    }

    fn within(self, network: IpNet, field: Field) -> Self {
        let expressions = self.meta(MetaKeys::Nfproto).compare(&[protocol_family(network)]);
        match network.prefix_len() {
            0 => expressions,
            length => {
                let loaded = expressions.load(network, field);
                let is_one_host = length == network.max_prefix_len();
                let address = octets(network.network());
                let masked =
                    if is_one_host { loaded } else { loaded.mask(&octets(network.netmask()), &vec![0; address.len()]) };
                masked.compare(&address)
            }
        }
    }

    fn set(self, network: IpNet, field: Field) -> Self {
        let loaded = self.load(network, field);
        loaded.mask(&octets(network.hostmask()), &octets(network.network())).store(network, field)
    }

    fn load(self, network: IpNet, field: Field) -> Self {
        self.load_address(family_of(network), field, REGISTER)
    }

    fn load_address(self, family: Family, field: Field, register: u32) -> Self {
        let (base, offset) = place(family, field);
        self.load_bytes(base, offset, 4 * address_words(family), register)
    }

    fn load_bytes(self, base: PayloadBase, offset: u32, length: u32, register: u32) -> Self {
        let payload = self.0.nested_elem().nested_data_payload().push_dreg(register);
        let payload = payload.push_base(base as u32).push_offset(offset).push_len(length);
        Expressions(payload.end_nested().end_nested())
    }

    fn store(self, network: IpNet, field: Field) -> Self {
        self.store_address(family_of(network), field, REGISTER)
    }

    /// Writes an address, and mends the checksum of the header that it is in, and those that cover the addresses.
    fn store_address(self, family: Family, field: Field, register: u32) -> Self {
        const INTERNET_CHECKSUM: u32 = 1;
        const PSEUDO_HEADER: u32 = 1;
        let (base, offset) = place(family, field);
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
    fn flow(self, family: Family) -> Self {
        let words = address_words(family);
        let addresses = self.of_version(family).load_address(family, Field::Source, WORDS);
        let addresses = addresses.load_address(family, Field::Destination, WORDS + words);
        let protocol = addresses.0.nested_elem().nested_data_meta().push_dreg(WORDS + 2 * words);
        let protocol = protocol.push_key(MetaKeys::L4Proto as u32).end_nested().end_nested();
        Expressions(protocol).load_bytes(PayloadBase::TransportHeader, 0, 4, WORDS + 2 * words + 1)
    }

    /// The same for the packet that an ICMP error is about. Options or extension headers end the rule, or no list has what
    /// is read then.
    fn flow_of_error(self, family: Family) -> Self {
        const QUOTED: u32 = 8;
        let words = address_words(family);
        let (protocol, ports) = match family {
            Family::V4 => (QUOTED + 9, QUOTED + 20),
            Family::V6 => (QUOTED + 6, QUOTED + 40),
        };
        let begins = self.of_version(family).load_bytes(PayloadBase::TransportHeader, QUOTED, 1, REGISTER);
        let begins = match family {
            Family::V4 => begins.compare(&[0x45]),
            Family::V6 => begins,
        };
        begins
            .load_address(family, Field::AboutSource, WORDS)
            .load_address(family, Field::AboutDestination, WORDS + words)
            .load_bytes(PayloadBase::TransportHeader, protocol, 1, WORDS + 2 * words)
            .load_bytes(PayloadBase::TransportHeader, ports, 4, WORDS + 2 * words + 1)
    }

    fn of_version(self, family: Family) -> Self {
        let version = match family {
            Family::V4 => libc::NFPROTO_IPV4,
            Family::V6 => libc::NFPROTO_IPV6,
        };
        self.meta(MetaKeys::Nfproto).compare(&[version as u8])
    }

    /// To the packet that an ICMP error is about, and its source to the error itself as the host that it is sent to.
    fn store_error_addresses(self, family: Family) -> Self {
        let source = self.store_address(family, Field::AboutSource, WORDS);
        let about = source.store_address(family, Field::AboutDestination, WORDS + address_words(family));
        about.store_address(family, Field::Destination, WORDS)
    }

    /// Ends the rule where the flow is not in the list; else loads its addresses, if they are asked for.
    fn look_up_flow(self, list: &str, addresses: Option<u32>) -> Self {
        let addresses = addresses.map(|register| (LOOKUP_DESTINATION, register));
        let attributes: Vec<_> = [(LOOKUP_SOURCE, WORDS)].into_iter().chain(addresses).collect();
        self.of_list(c"lookup", list, &attributes)
    }

    fn store_addresses(self, family: Family) -> Self {
        let source = self.store_address(family, Field::Source, WORDS);
        source.store_address(family, Field::Destination, WORDS + address_words(family))
    }

    fn note(self, list: &str) -> Self {
        let attributes = [(NOTE_OPERATION, libc::NFT_DYNSET_OP_ADD as u32), (NOTE_KEY, WORDS)];
        self.of_list(c"dynset", list, &attributes)
    }

    fn redirect(self, port: u16) -> Self {
        let immediate = self.0.nested_elem().nested_data_immediate().push_dreg(REGISTER);
        let port = immediate.nested_data().push_value(&port.to_be_bytes()).end_nested().end_nested().end_nested();
        let attributes = [(REDIRECT_PORT, REGISTER), (REDIRECT_FLAGS, PORT_IS_GIVEN)];
        Expressions(port).of_attributes(c"redir", None, &attributes)
    }

    /// An expression on a set or map, whose name is its first attribute. The library spells the attributes of one of these in
    /// another order than the kernel.
    fn of_list(self, name: &CStr, list: &str, attributes: &[(u16, u32)]) -> Self {
        self.of_attributes(name, Some(list), attributes)
    }

    /// An expression that the library lacks.
    fn of_attributes(self, name: &CStr, list: Option<&str>, attributes: &[(u16, u32)]) -> Self {
        const DATA: u16 = 2;
        const LIST: u16 = 1;
        let mut expression = self.0.nested_elem().push_name(name);
        let buffer = expression.as_vec_mut();
        let data = push_nested_header(buffer, DATA);
        if let Some(list) = list {
            push_header(buffer, LIST, list.len() as u16 + 1);
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
    fn mask(self, mask: &[u8], bits: &[u8]) -> Self {
        let bitwise = self.0.nested_elem().nested_data_bitwise().push_sreg(REGISTER).push_dreg(REGISTER);
        let bitwise = bitwise.push_len(mask.len() as u32).push_op(BitwiseOps::MaskXor as u32);
        let bitwise = bitwise.nested_mask().push_value(mask).end_nested().nested_xor().push_value(bits).end_nested();
        Expressions(bitwise.end_nested().end_nested())
    }

    /// 0, 1 … `modulus` − 1, then 0 again.
    fn number(self, modulus: u32) -> Self {
        // The library encodes this register in the order of the host, in which no kernel reads it.
        let numgen = self.0.nested_elem().nested_data_numgen().push_dreg(REGISTER.to_be());
        let numgen = numgen.push_modulus(modulus).push_type(NumgenTypes::Incremental as u32).push_offset(0);
        Expressions(numgen.end_nested().end_nested())
    }

    /// The mark in an anonymous map.
    fn look_up(self, map: u32) -> Self {
        let attributes = [(LOOKUP_SOURCE, REGISTER), (LOOKUP_DESTINATION, REGISTER), (LOOKUP_SET_NUMBER, map)];
        self.of_list(c"lookup", "__map%d", &attributes)
    }

    fn count(self, counter: &str) -> Self {
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
const UNICAST: u32 = libc::RTN_UNICAST as u32;

/// Where the address stands: in the IP header, or in that behind the eight octets of an ICMP error.
fn place(family: Family, field: Field) -> (PayloadBase, u32) {
    const ERROR: u32 = 8;
    match (family, field) {
        (Family::V4, Field::Source) => (PayloadBase::NetworkHeader, 12),
        (Family::V4, Field::Destination) => (PayloadBase::NetworkHeader, 16),
        (Family::V6, Field::Source) => (PayloadBase::NetworkHeader, 8),
        (Family::V6, Field::Destination) => (PayloadBase::NetworkHeader, 24),
        (Family::V4, Field::AboutSource) => (PayloadBase::TransportHeader, ERROR + 12),
        (Family::V4, Field::AboutDestination) => (PayloadBase::TransportHeader, ERROR + 16),
        (Family::V6, Field::AboutSource) => (PayloadBase::TransportHeader, ERROR + 8),
        (Family::V6, Field::AboutDestination) => (PayloadBase::TransportHeader, ERROR + 24),
    }
}

/// How many registers of a word an address takes.
pub(super) fn address_words(family: Family) -> u32 {
    match family {
        Family::V4 => 1,
        Family::V6 => 4,
    }
}

fn family_of(network: IpNet) -> Family {
    match network {
        IpNet::V4(_) => Family::V4,
        IpNet::V6(_) => Family::V6,
    }
}

fn protocol_family(network: IpNet) -> u8 {
    match network {
        IpNet::V4(_) => libc::NFPROTO_IPV4 as u8,
        IpNet::V6(_) => libc::NFPROTO_IPV6 as u8,
    }
}

/// The name of an interface as the kernel compares it.
fn padded(interface: &str) -> [u8; IFNAMSIZ] {
    let mut name = [0; IFNAMSIZ];
    name.iter_mut().zip(interface.bytes().take(IFNAMSIZ - 1)).for_each(|(to, from)| *to = from);
    name
}
