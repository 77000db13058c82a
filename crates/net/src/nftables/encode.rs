//! The messages of linux/netfilter/nf_tables.h that make and change a table.

use super::expressions::{Expressions, address_words};
use super::flow::{self, FlowList, FlowListKind};
use super::table::{Chain, Hook, Rule, Statement, Table};
use kumade_packet::{Addresses, FlowKey};
use netlink_bindings::nftables::{Chained, Nfgenmsg, SetFlags, TableFlags, VerdictCode};

/// Encodes a transaction that makes the table; with the sequence number of its last message that is acknowledged.
pub(super) fn encode_creation(table: &Table) -> (Vec<u8>, u32) {
    let mut batch = Transaction::begin_transaction(&table.name);
    batch.add_table();
    for counter in &table.counters {
        batch.add_counter(counter);
    }
    for list in &table.flow_lists {
        batch.add_flow_list(list);
    }
    // A chain may be jumped to before its rules are known.
    for chain in &table.chains {
        batch.add_chain(chain);
    }
    for chain in &table.chains {
        for rule in &chain.rules {
            batch.add_rule(&chain.name, rule);
        }
    }
    batch.end()
}

/// Encodes a transaction that gives a chain other rules.
pub(super) fn encode_replacement(table: &str, chain: &Chain) -> (Vec<u8>, u32) {
    let mut batch = Transaction::begin_transaction(table);
    batch.flush_chain(&chain.name);
    for rule in &chain.rules {
        batch.add_rule(&chain.name, rule);
    }
    batch.end()
}

/// Encodes a transaction that makes one table of another one of its name, by what differs: what is in both keeps its counts and
/// entries.
pub(super) fn encode_change(before: &Table, after: &Table) -> (Vec<u8>, u32) {
    let mut batch = Transaction::begin_transaction(&after.name);
    let has_chain = |table: &Table, name: &str| table.chains.iter().any(|chain| chain.name == name);
    after.counters.iter().filter(|name| !before.counters.contains(name)).for_each(|name| batch.add_counter(name));
    after.flow_lists.iter().filter(|list| !before.flow_lists.contains(list)).for_each(|list| batch.add_flow_list(list));
    after.chains.iter().filter(|chain| !has_chain(before, &chain.name)).for_each(|chain| batch.add_chain(chain));
    // Rules first, so that nothing refers to what is deleted then.
    for chain in before.chains.iter().filter(|chain| !after.chains.contains(chain)) {
        batch.flush_chain(&chain.name);
    }
    for chain in after.chains.iter().filter(|chain| !before.chains.contains(chain)) {
        chain.rules.iter().for_each(|rule| batch.add_rule(&chain.name, rule));
    }
    for chain in before.chains.iter().filter(|chain| !has_chain(after, &chain.name)) {
        batch.delete_chain(&chain.name);
    }
    before.flow_lists.iter().filter(|list| !after.flow_lists.contains(list)).for_each(|list| batch.delete_list(list));
    before.counters.iter().filter(|name| !after.counters.contains(name)).for_each(|name| batch.delete_counter(name));
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
pub(super) fn encode_flow_changes(table: &str, changes: &[FlowChange]) -> (Vec<u8>, u32) {
    let mut batch = Transaction::begin_transaction(table);
    for change in changes {
        batch.change_flow(change);
    }
    batch.end()
}

/// Encodes a transaction that deletes the table.
pub(super) fn encode_deletion(table: &str) -> (Vec<u8>, u32) {
    let mut batch = Transaction::begin_transaction(table);
    batch.request(|request, name| {
        request.op_deltable_do(&inet_header()).encode().push_name_bytes(name);
    });
    batch.end()
}

/// Messages of one transaction on one table.
struct Transaction<'a> {
    messages: Chained<'static>,
    table: &'a str,
    /// How many messages there are.
    message_count: u32,
    /// How many anonymous maps there are.
    map_count: u32,
}

type Request<'a> = netlink_bindings::nftables::Request<'a>;

const MARK_BYTES: u32 = 4;

impl<'a> Transaction<'a> {
    fn begin_transaction(table: &'a str) -> Self {
        let mut batch = Transaction { messages: Chained::new(0), table, message_count: 0, map_count: 0 };
        batch.request(|request, _| {
            request.op_batch_begin_do(&batch_header());
        });
        batch
    }

    /// The whole batch, and the number of its last message but the end, which older kernels do not acknowledge.
    fn end(mut self) -> (Vec<u8>, u32) {
        let last = self.message_count - 1;
        self.request(|request, _| {
            request.op_batch_end_do(&batch_header());
        });
        (self.messages.finalize().buf().clone(), last)
    }

    fn request(&mut self, encode: impl FnOnce(Request<'_>, &[u8])) {
        encode(self.messages.request(), self.table.as_bytes());
        self.message_count += 1;
    }

    fn add_table(&mut self) {
        self.request(|request, table| {
            let request = request.set_create().set_excl();
            request.op_newtable_do(&inet_header()).encode().push_name_bytes(table).push_flags(TableFlags::Owner as u32);
        });
    }

    fn add_counter(&mut self, name: &str) {
        self.request(|request, table| {
            let mut request = request.set_create().op_newobj_do(&inet_header());
            let object = request.encode().push_table_bytes(table).push_name_bytes(name.as_bytes());
            object.nested_data_counter().push_bytes(0).push_packets(0);
        });
    }

    fn add_chain(&mut self, chain: &Chain) {
        self.request(|request, table| {
            let mut request = request.set_create().op_newchain_do(&inet_header());
            let encoded = request.encode().push_table_bytes(table).push_name_bytes(chain.name.as_bytes());
            let Some(hook) = chain.hook else { return };
            let (kind, number, priority) = match hook {
                Hook::Prerouting(priority) => (c"filter", libc::NF_INET_PRE_ROUTING, priority),
                Hook::Postrouting(priority) => (c"filter", libc::NF_INET_POST_ROUTING, priority),
                Hook::PreroutingNat(priority) => (c"nat", libc::NF_INET_PRE_ROUTING, priority),
                Hook::OutputNat(priority) => (c"nat", libc::NF_INET_LOCAL_OUT, priority),
            };
            let encoded = encoded.nested_hook().push_num(number as u32).push_priority(priority).end_nested();
            encoded.push_policy(VerdictCode::Accept as u32).push_type(kind);
        });
    }

    fn flush_chain(&mut self, chain: &str) {
        self.request(|request, table| {
            let mut request = request.op_delrule_do(&inet_header());
            request.encode().push_table_bytes(table).push_chain_bytes(chain.as_bytes());
        });
    }

    fn delete_chain(&mut self, chain: &str) {
        self.request(|request, table| {
            let mut request = request.op_delchain_do(&inet_header());
            request.encode().push_table_bytes(table).push_name_bytes(chain.as_bytes());
        });
    }

    fn delete_list(&mut self, list: &FlowList) {
        self.request(|request, table| {
            let mut request = request.op_delset_do(&inet_header());
            request.encode().push_table_bytes(table).push_name_bytes(list.name.as_bytes());
        });
    }

    fn delete_counter(&mut self, name: &str) {
        /// NFT_OBJECT_COUNTER of linux/netfilter/nf_tables.h.
        const COUNTER: u32 = 1;
        self.request(|request, table| {
            let mut request = request.op_delobj_do(&inet_header());
            request.encode().push_table_bytes(table).push_name_bytes(name.as_bytes()).push_type(COUNTER);
        });
    }

    fn add_rule(&mut self, chain: &str, rule: &Rule) {
        let first_map = self.map_count + 1;
        for statement in &rule.0 {
            if let Statement::MarkRoundRobin(marks) = statement {
                self.add_mark_map(marks);
            }
        }
        self.request(|request, table| {
            let mut request = request.set_create().set_append().op_newrule_do(&inet_header());
            let encoded = request.encode().push_table_bytes(table).push_chain_bytes(chain.as_bytes());
            let mut map = first_map;
            let expressions = Expressions::new(encoded.nested_expressions());
            rule.0.iter().fold(expressions, |expressions, statement| expressions.push_statement(statement, &mut map));
        });
    }

    fn add_flow_list(&mut self, list: &FlowList) {
        self.map_count += 1;
        let id = self.map_count;
        let words = address_words(list.family);
        self.request(|request, table| {
            let mut request = request.set_create().op_newset_do(&inet_header());
            let set = request.encode().push_table_bytes(table).push_name_bytes(list.name.as_bytes());
            let set = set.push_id(id.to_be()).push_key_type(0).push_key_len(4 * (2 * words + 2));
            match list.kind {
                FlowListKind::Set => drop(set.push_flags(0).nested_expr().nested_data_counter()),
                FlowListKind::Translation => {
                    let set = set.push_flags(SetFlags::Map as u32).push_data_type(0).push_data_len(4 * 2 * words);
                    drop(set.nested_expr().nested_data_counter());
                }
                FlowListKind::Dynamic { timeout_millis, max_entries } => {
                    let set = set.push_flags(SetFlags::Timeout as u32 | SetFlags::Eval as u32);
                    set.push_timeout(timeout_millis.to_be()).nested_desc().push_size(max_entries);
                }
            }
        });
    }

    fn change_flow(&mut self, change: &FlowChange) {
        match change {
            FlowChange::Add(list, flow, addresses) => self.request(|request, table| {
                let mut request = request.set_create().set_excl().op_newsetelem_do(&inet_header());
                let set = request.encode().push_table_bytes(table).push_set_bytes(list.as_bytes());
                let element = set
                    .nested_elements()
                    .nested_elem()
                    .nested_key()
                    .push_value(&flow::encode_flow_key(flow))
                    .end_nested();
                if let Some(addresses) = addresses {
                    element.nested_data().push_value(&flow::encode_addresses(*addresses));
                }
            }),
            FlowChange::Remove(list, flow) => self.request(|request, table| {
                let mut request = request.op_delsetelem_do(&inet_header());
                let set = request.encode().push_table_bytes(table).push_set_bytes(list.as_bytes());
                set.nested_elements().nested_elem().nested_key().push_value(&flow::encode_flow_key(flow));
            }),
        }
    }

    /// An anonymous map from the place in a list to the mark that stands there; the next rule binds it.
    fn add_mark_map(&mut self, marks: &[u32]) {
        self.map_count += 1;
        let id = self.map_count;
        self.request(|request, table| {
            let mut request = request.set_create().op_newset_do(&inet_header());
            let set = request.encode().push_table_bytes(table).push_name(c"__map%d");
            let flags = SetFlags::Anonymous as u32 | SetFlags::Constant as u32 | SetFlags::Map as u32;
            // The types are for listings by nft: integer and mark.
            let set = set.push_flags(flags).push_key_type(4).push_key_len(4).push_data_type(19);
            let set = set.push_data_len(MARK_BYTES).push_id(id.to_be());
            set.nested_desc().push_size(marks.len() as u32);
        });
        self.request(|request, table| {
            let mut request = request.set_create().op_newsetelem_do(&inet_header());
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

pub(super) fn inet_header() -> Nfgenmsg {
    Nfgenmsg { nfgen_family: libc::NFPROTO_INET as u8, ..Default::default() }
}

fn batch_header() -> Nfgenmsg {
    let mut header = Nfgenmsg::new();
    header.set_res_id(libc::NFNL_SUBSYS_NFTABLES as u16);
    header
}
