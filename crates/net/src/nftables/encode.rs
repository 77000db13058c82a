//! The messages of linux/netfilter/nf_tables.h that make and change a table.

use super::expressions::{Expressions, address_words};
use super::flow::{self, FlowList, FlowListKind};
use super::table::{Chain, Hook, Rule, Statement, Table};
use kumade_packet::{Addresses, FlowKey};
use netlink_bindings::nftables::{Chained, Nfgenmsg, SetFlags, TableFlags, VerdictCode};

/// Encodes a transaction that makes the table; with the sequence number of its last message that is acknowledged.
pub(super) fn creation(table: &Table) -> (Vec<u8>, u32) {
    let mut batch = Batch::begin(&table.name);
    batch.table();
    for counter in &table.counters {
        batch.counter(counter);
    }
    for list in &table.flows {
        batch.flow_list(list);
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

/// A change of the entries of a list of flows, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowChange {
    /// Enters a flow, with its addresses where the list is a translation.
    Add(String, FlowKey, Option<Addresses>),
    /// Takes one out that is in it.
    Remove(String, FlowKey),
}

/// Encodes a transaction that changes lists of flows.
pub(super) fn flow_changes(table: &str, changes: &[FlowChange]) -> (Vec<u8>, u32) {
    let mut batch = Batch::begin(table);
    for change in changes {
        batch.flow(change);
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

const MARK_BYTES: u32 = 4;

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
            let (kind, number, priority) = match hook {
                Hook::Prerouting(priority) => (c"filter", libc::NF_INET_PRE_ROUTING, priority),
                Hook::Postrouting(priority) => (c"filter", libc::NF_INET_POST_ROUTING, priority),
                Hook::PreroutingOfConnections(priority) => (c"nat", libc::NF_INET_PRE_ROUTING, priority),
                Hook::OutputOfConnections(priority) => (c"nat", libc::NF_INET_LOCAL_OUT, priority),
            };
            let encoded = encoded.nested_hook().push_num(number as u32).push_priority(priority).end_nested();
            encoded.push_policy(VerdictCode::Accept as u32).push_type(kind);
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
            let expressions = Expressions::new(encoded.nested_expressions());
            rule.0.iter().fold(expressions, |expressions, statement| expressions.statement(statement, &mut map));
        });
    }

    fn flow_list(&mut self, list: &FlowList) {
        self.maps += 1;
        let id = self.maps;
        let words = address_words(list.family);
        self.request(|request, table| {
            let mut request = request.set_create().op_newset_do(&header());
            let set = request.encode().push_table_bytes(table).push_name_bytes(list.name.as_bytes());
            let set = set.push_id(id.to_be()).push_key_type(0).push_key_len(4 * (2 * words + 2));
            match list.kind {
                FlowListKind::Set => drop(set.push_flags(0).nested_expr().nested_data_counter()),
                FlowListKind::Translation => {
                    let set = set.push_flags(SetFlags::Map as u32).push_data_type(0).push_data_len(4 * 2 * words);
                    drop(set.nested_expr().nested_data_counter());
                }
                FlowListKind::Seen { timeout_millis, max_entries } => {
                    let set = set.push_flags(SetFlags::Timeout as u32 | SetFlags::Eval as u32);
                    set.push_timeout(timeout_millis.to_be()).nested_desc().push_size(max_entries);
                }
            }
        });
    }

    fn flow(&mut self, change: &FlowChange) {
        match change {
            FlowChange::Add(list, flow, addresses) => self.request(|request, table| {
                let mut request = request.set_create().set_excl().op_newsetelem_do(&header());
                let set = request.encode().push_table_bytes(table).push_set_bytes(list.as_bytes());
                let element =
                    set.nested_elements().nested_elem().nested_key().push_value(&flow::key(flow)).end_nested();
                if let Some(addresses) = addresses {
                    element.nested_data().push_value(&flow::value(*addresses));
                }
            }),
            FlowChange::Remove(list, flow) => self.request(|request, table| {
                let mut request = request.op_delsetelem_do(&header());
                let set = request.encode().push_table_bytes(table).push_set_bytes(list.as_bytes());
                set.nested_elements().nested_elem().nested_key().push_value(&flow::key(flow));
            }),
        }
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

pub(super) fn header() -> Nfgenmsg {
    Nfgenmsg { nfgen_family: libc::NFPROTO_INET as u8, ..Default::default() }
}

fn batch_header() -> Nfgenmsg {
    let mut header = Nfgenmsg::new();
    header.set_res_id(libc::NFNL_SUBSYS_NFTABLES as u16);
    header
}
