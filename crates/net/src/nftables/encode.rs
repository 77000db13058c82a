//! The messages and expressions of linux/netfilter/nf_tables.h that make up a table.

use super::table::{Chain, Field, Hook, Rule, Statement, Table};
use ipnet::IpNet;
use netlink_bindings::nftables::{
    BitwiseOps, Chained, CmpOps, FibFlags, FibResult, MetaKeys, Nfgenmsg, NumgenTypes, ObjectType, PayloadBase,
    PushExprListAttrs, Registers, SetFlags, TableFlags, VerdictCode,
};
use netlink_bindings::traits::Pusher;
use std::net::IpAddr;

/// Encodes a transaction that makes the table; with the sequence number of its last message that is acknowledged.
pub(super) fn creation(table: &Table) -> (Vec<u8>, u32) {
    let mut batch = Batch::begin(&table.name);
    batch.table();
    for counter in &table.counters {
        batch.counter(counter);
    }
    // A chain may be jumped to before its rules are known.
    for chain in &table.chains {
        batch.chain(chain);
    }
    for chain in &table.chains {
        for rule in &chain.rules {
            batch.rule(&chain.name, rule);
        }
    }
    batch.end()
}

/// Encodes a transaction that gives a chain other rules.
pub(super) fn replacement(table: &str, chain: &Chain) -> (Vec<u8>, u32) {
    let mut batch = Batch::begin(table);
    batch.flush(&chain.name);
    for rule in &chain.rules {
        batch.rule(&chain.name, rule);
    }
    batch.end()
}

/// Encodes a transaction that deletes the table.
pub(super) fn deletion(table: &str) -> (Vec<u8>, u32) {
    let mut batch = Batch::begin(table);
    batch.request(|request, name| {
        request.op_deltable_do(&header()).encode().push_name_bytes(name);
    });
    batch.end()
}

/// Messages of one transaction on one table.
struct Batch<'a> {
    messages: Chained<'static>,
    table: &'a str,
    /// How many messages there are.
    count: u32,
    /// How many anonymous maps there are.
    maps: u32,
}

type Request<'a> = netlink_bindings::nftables::Request<'a>;

const REGISTER: u32 = Registers::Reg1 as u32;
const MARK_BYTES: u32 = 4;
const IFNAMSIZ: usize = libc::IFNAMSIZ;

impl<'a> Batch<'a> {
    fn begin(table: &'a str) -> Self {
        let mut batch = Batch { messages: Chained::new(0), table, count: 0, maps: 0 };
        batch.request(|request, _| {
            request.op_batch_begin_do(&batch_header());
        });
        batch
    }

    /// The whole batch, and the number of its last message but the end, which older kernels do not acknowledge.
    fn end(mut self) -> (Vec<u8>, u32) {
        let last = self.count - 1;
        self.request(|request, _| {
            request.op_batch_end_do(&batch_header());
        });
        (self.messages.finalize().buf().clone(), last)
    }

    fn request(&mut self, encode: impl FnOnce(Request<'_>, &[u8])) {
        encode(self.messages.request(), self.table.as_bytes());
        self.count += 1;
    }

    fn table(&mut self) {
        self.request(|request, table| {
            let request = request.set_create().set_excl();
            request.op_newtable_do(&header()).encode().push_name_bytes(table).push_flags(TableFlags::Owner as u32);
        });
    }

    fn counter(&mut self, name: &str) {
        self.request(|request, table| {
            let mut request = request.set_create().op_newobj_do(&header());
            let object = request.encode().push_table_bytes(table).push_name_bytes(name.as_bytes());
            object.nested_data_counter().push_bytes(0).push_packets(0);
        });
    }

    fn chain(&mut self, chain: &Chain) {
        self.request(|request, table| {
            let mut request = request.set_create().op_newchain_do(&header());
            let encoded = request.encode().push_table_bytes(table).push_name_bytes(chain.name.as_bytes());
            let Some(hook) = chain.hook else { return };
            let (number, priority) = match hook {
                Hook::Prerouting(priority) => (libc::NF_INET_PRE_ROUTING, priority),
                Hook::Postrouting(priority) => (libc::NF_INET_POST_ROUTING, priority),
            };
            let encoded = encoded.nested_hook().push_num(number as u32).push_priority(priority).end_nested();
            encoded.push_policy(VerdictCode::Accept as u32).push_type(c"filter");
        });
    }

    fn flush(&mut self, chain: &str) {
        self.request(|request, table| {
            let mut request = request.op_delrule_do(&header());
            request.encode().push_table_bytes(table).push_chain_bytes(chain.as_bytes());
        });
    }

    fn rule(&mut self, chain: &str, rule: &Rule) {
        let first_map = self.maps + 1;
        for statement in &rule.0 {
            if let Statement::MarkInTurn(marks) = statement {
                self.map(marks);
            }
        }
        self.request(|request, table| {
            let mut request = request.set_create().set_append().op_newrule_do(&header());
            let encoded = request.encode().push_table_bytes(table).push_chain_bytes(chain.as_bytes());
            let mut map = first_map;
            let expressions = Expressions(encoded.nested_expressions());
            rule.0.iter().fold(expressions, |expressions, statement| expressions.statement(statement, &mut map));
        });
    }

    /// An anonymous map from the place in a list to the mark that stands there; the next rule binds it.
    fn map(&mut self, marks: &[u32]) {
        self.maps += 1;
        let id = self.maps;
        self.request(|request, table| {
            let mut request = request.set_create().op_newset_do(&header());
            let set = request.encode().push_table_bytes(table).push_name(c"__map%d");
            let flags = SetFlags::Anonymous as u32 | SetFlags::Constant as u32 | SetFlags::Map as u32;
            // The types are for listings by nft: integer and mark.
            let set = set.push_flags(flags).push_key_type(4).push_key_len(4).push_data_type(19);
            let set = set.push_data_len(MARK_BYTES).push_id(id.to_be());
            set.nested_desc().push_size(marks.len() as u32);
        });
        self.request(|request, table| {
            let mut request = request.set_create().op_newsetelem_do(&header());
            let set = request.encode().push_table_bytes(table).push_set(c"__map%d").push_set_id(id.to_be());
            let mut elements = set.nested_elements();
            for (place, mark) in marks.iter().enumerate() {
                let element = elements.nested_elem();
                let element = element.nested_key().push_value(&(place as u32).to_ne_bytes()).end_nested();
                let element = element.nested_data().push_value(&mark.to_ne_bytes()).end_nested();
                elements = element.end_nested();
            }
        });
    }
}

/// A list of expressions that grows.
struct Expressions<P: Pusher>(PushExprListAttrs<P>);

impl<P: Pusher> Expressions<P> {
    /// `map` is the number of the next anonymous map.
    fn statement(self, statement: &Statement, map: &mut u32) -> Self {
        match statement {
            Statement::Input(interface) => self.meta(MetaKeys::Iifname).compare(CmpOps::Eq, &padded(interface)),
            Statement::Mark(mark) => self.meta(MetaKeys::Mark).compare(CmpOps::Eq, &mark.to_ne_bytes()),
            Statement::Source(network) => self.within(*network, Field::Source),
            Statement::Destination(network) => self.within(*network, Field::Destination),
            Statement::ToOtherHost => self.destination_type().compare(CmpOps::Eq, &UNICAST.to_ne_bytes()),
            Statement::LongerThan(bytes) => self.meta(MetaKeys::Len).compare(CmpOps::Gt, &bytes.to_ne_bytes()),
            Statement::Count(counter) => self.count(counter),
            Statement::Untrack => Expressions(self.0.nested_elem().push_name(c"notrack").end_nested()),
            Statement::MarkInTurn(marks) => {
                let id = *map;
                *map += 1;
                self.number(marks.len() as u32).look_up(id).set_mark()
            }
            Statement::SetSource(network) => self.set(*network, Field::Source),
            Statement::SetDestination(network) => self.set(*network, Field::Destination),
            Statement::Jump(chain) => self.verdict(VerdictCode::Jump, Some(chain)),
            Statement::Goto(chain) => self.verdict(VerdictCode::Goto, Some(chain)),
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

    fn compare(self, operation: CmpOps, value: &[u8]) -> Self {
        let compare = self.0.nested_elem().nested_data_cmp().push_sreg(REGISTER).push_op(operation as u32);
        Expressions(compare.nested_data().push_value(value).end_nested().end_nested().end_nested())
    }

    fn destination_type(self) -> Self {
        let fib = self.0.nested_elem().nested_data_fib().push_dreg(REGISTER);
        let fib = fib.push_result(FibResult::Addrtype as u32).push_flags(FibFlags::Daddr as u32);
        Expressions(fib.end_nested().end_nested())
    }

    fn within(self, network: IpNet, field: Field) -> Self {
        let expressions = self.meta(MetaKeys::Nfproto).compare(CmpOps::Eq, &[protocol_family(network)]);
        match network.prefix_len() {
            0 => expressions,
            length => {
                let loaded = expressions.load(network, field);
                let is_one_host = length == network.max_prefix_len();
                let address = octets(network.network());
                let masked =
                    if is_one_host { loaded } else { loaded.mask(&octets(network.netmask()), &vec![0; address.len()]) };
                masked.compare(CmpOps::Eq, &address)
            }
        }
    }

    fn set(self, network: IpNet, field: Field) -> Self {
        let loaded = self.load(network, field);
        loaded.mask(&octets(network.hostmask()), &octets(network.network())).store(network, field)
    }

    fn load(self, network: IpNet, field: Field) -> Self {
        let (offset, length) = place(network, field);
        let payload = self.0.nested_elem().nested_data_payload().push_dreg(REGISTER);
        let payload = payload.push_base(PayloadBase::NetworkHeader as u32).push_offset(offset).push_len(length);
        Expressions(payload.end_nested().end_nested())
    }

    /// Writes an address, and mends the checksum of the IPv4 header and those that cover the addresses.
    fn store(self, network: IpNet, field: Field) -> Self {
        const HEADER_CHECKSUM: u32 = 1;
        const PSEUDO_HEADER: u32 = 1;
        let (offset, length) = place(network, field);
        let payload = self.0.nested_elem().nested_data_payload().push_sreg(REGISTER);
        let payload = payload.push_base(PayloadBase::NetworkHeader as u32).push_offset(offset).push_len(length);
        let payload = match network {
            IpNet::V4(_) => payload.push_csum_type(HEADER_CHECKSUM).push_csum_offset(10),
            IpNet::V6(_) => payload.push_csum_type(0).push_csum_offset(0),
        };
        Expressions(payload.push_csum_flags(PSEUDO_HEADER).end_nested().end_nested())
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

    fn look_up(self, map: u32) -> Self {
        let lookup = self.0.nested_elem().nested_data_lookup().push_set(c"__map%d").push_set_id(map);
        Expressions(lookup.push_sreg(REGISTER).push_dreg(REGISTER).end_nested().end_nested())
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

/// Where the address stands in the IP header, and how long it is.
fn place(network: IpNet, field: Field) -> (u32, u32) {
    match (network, field) {
        (IpNet::V4(_), Field::Source) => (12, 4),
        (IpNet::V4(_), Field::Destination) => (16, 4),
        (IpNet::V6(_), Field::Source) => (8, 16),
        (IpNet::V6(_), Field::Destination) => (24, 16),
    }
}

fn protocol_family(network: IpNet) -> u8 {
    match network {
        IpNet::V4(_) => libc::NFPROTO_IPV4 as u8,
        IpNet::V6(_) => libc::NFPROTO_IPV6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The name of an interface as the kernel compares it.
fn padded(interface: &str) -> [u8; IFNAMSIZ] {
    let mut name = [0; IFNAMSIZ];
    name.iter_mut().zip(interface.bytes().take(IFNAMSIZ - 1)).for_each(|(to, from)| *to = from);
    name
}

pub(super) fn header() -> Nfgenmsg {
    Nfgenmsg { nfgen_family: libc::NFPROTO_INET as u8, ..Default::default() }
}

fn batch_header() -> Nfgenmsg {
    let mut header = Nfgenmsg::new();
    header.set_res_id(libc::NFNL_SUBSYS_NFTABLES as u16);
    header
}
