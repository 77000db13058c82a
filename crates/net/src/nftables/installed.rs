pub use super::encode::FlowChange;
use super::encode::{
    encode_change, encode_creation, encode_deletion, encode_flow_changes, encode_replacement, inet_header,
};
use super::flow::decode_flow_key;
use super::table::{Chain, Table};
use crate::netlink::NetlinkSocket;
use crate::setup::SetupError;
use kumade_packet::FlowKey;
use netlink_bindings::nftables::{
    ExprOps, IterableSetelemAttrs, ObjData, OpGetobjDump, OpGetsetelemDump, SetelemAttrs,
};
use netlink_bindings::traits::NetlinkRequest;
use nix::sys::socket::SockProtocol;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A table in the kernel, of the namespace of the thread that installed it. It is removed when this is dropped, or its
/// process ends in any way. Any thread may use it.
#[derive(Debug)]
pub struct InstalledTable {
    name: String,
    /// Its owner.
    netlink: Mutex<NetlinkSocket>,
}

/// What a counter has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValue {
    /// Packets; a batch of merged packets counts as one.
    pub packets: u64,
    /// Their bytes, from the IP headers on.
    pub bytes: u64,
}

impl std::ops::Add for CounterValue {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        CounterValue { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// Of messages of nf_tables, as linux/netfilter/nfnetlink.h puts types together.
const GET_OBJECT: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | libc::NFT_MSG_GETOBJ as u16;

const GET_ELEMENTS: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | libc::NFT_MSG_GETSETELEM as u16;

impl InstalledTable {
    /// Makes the table and all that is in it, at one instant.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN; another process has a table of this name; or the kernel lacks what the rules need.
    pub fn install(table: &Table) -> Result<Self, SetupError> {
        let failed = |error: io::Error| {
            let hint = hint(&error);
            SetupError::new(format!("install the table `{}` of nf_tables", table.name), error).with_hint(hint)
        };
        let netlink = NetlinkSocket::open(SockProtocol::NetlinkNetFilter).map_err(failed)?;
        let (batch, last) = encode_creation(table);
        netlink.transact(&batch, last).map_err(failed)?;
        Ok(InstalledTable { name: table.name.clone(), netlink: Mutex::new(netlink) })
    }

    /// One request at a time: answers come in the order of requests.
    fn lock_netlink(&self) -> MutexGuard<'_, NetlinkSocket> {
        self.netlink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives one of its chains other rules, at one instant.
    ///
    /// # Errors
    /// There is no such chain, or the kernel refuses the rules; then nothing is changed.
    pub fn replace_rules(&self, chain: &Chain) -> Result<(), SetupError> {
        let (batch, last) = encode_replacement(&self.name, chain);
        let operation = || format!("change the chain `{}` of the table `{}`", chain.name, self.name);
        self.lock_netlink().transact(&batch, last).map_err(|error| SetupError::new(operation(), error))
    }

    /// Makes another table of it, of the same name, at one instant. `before` is what it is now: as it was installed, with the rules
    /// that were [replaced](Self::replace_rules) since. Chains, counters and lists that are in both keep their counts and entries.
    ///
    /// # Errors
    /// `before` is not what it is, or the kernel refuses the rules; then nothing is changed.
    pub fn change(&self, before: &Table, after: &Table) -> Result<(), SetupError> {
        if before == after {
            return Ok(());
        }
        let (batch, last) = encode_change(before, after);
        self.lock_netlink()
            .transact(&batch, last)
            .map_err(|error| SetupError::new(format!("change the table `{}`", self.name), error))
    }

    /// Changes its lists of flows, all at one instant.
    ///
    /// # Errors
    /// There is no such list, a flow to be entered is in it, or one to be taken out is not; then nothing is changed.
    pub fn change_flows(&self, changes: &[FlowChange]) -> Result<(), SetupError> {
        let (batch, last) = encode_flow_changes(&self.name, changes);
        let operation = || format!("change lists of flows of the table `{}`", self.name);
        self.lock_netlink().transact(&batch, last).map_err(|error| SetupError::new(operation(), error))
    }

    /// The flows in a list. Where it counts, with what was seen of each since it was entered.
    ///
    /// # Errors
    /// There is no such list.
    pub fn flows(&self, list: &str) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError> {
        let mut body = Vec::new();
        let request = OpGetsetelemDump::encode_request(&mut body, &inet_header());
        request.push_table_bytes(self.name.as_bytes()).push_set_bytes(list.as_bytes());
        let mut flows = BTreeMap::new();
        self.lock_netlink()
            .dump(GET_ELEMENTS, &body, |body| {
                let (_, list) = OpGetsetelemDump::decode_reply(body);
                flows.extend(list.get_elements().iter().flat_map(|list| list.get_elem()).filter_map(decode_flow));
            })
            .map_err(|error| SetupError::new(format!("read the list {list} of the table `{}`", self.name), error))?;
        Ok(flows)
    }

    /// What its counters have seen since it was installed, by their names.
    ///
    /// # Errors
    /// The table is gone.
    pub fn counter_values(&self) -> Result<BTreeMap<String, CounterValue>, SetupError> {
        let mut body = Vec::new();
        OpGetobjDump::encode_request(&mut body, &inet_header()).push_table_bytes(self.name.as_bytes());
        let mut counts = BTreeMap::new();
        self.lock_netlink()
            .dump(GET_OBJECT, &body, |body| counts.extend(decode_counter(body)))
            .map_err(|error| SetupError::new(format!("read the counters of the table `{}`", self.name), error))?;
        Ok(counts)
    }
}

impl Drop for InstalledTable {
    fn drop(&mut self) {
        let (batch, last) = encode_deletion(&self.name);
        if let Err(error) = self.lock_netlink().transact(&batch, last) {
            // The kernel does so in any case once the socket is closed.
            tracing::debug!("cannot delete the table `{}`: {error}", self.name);
        }
    }
}

fn decode_counter(body: &[u8]) -> Option<(String, CounterValue)> {
    let (_, object) = OpGetobjDump::decode_reply(body);
    let ObjData::Counter(counter) = object.get_data().ok()? else { return None };
    let name = object.get_name().ok()?.to_str().ok()?.to_owned();
    Some((name, CounterValue { packets: counter.get_packets().ok()?, bytes: counter.get_bytes().ok()? }))
}

fn decode_flow(element: IterableSetelemAttrs<'_>) -> Option<(FlowKey, CounterValue)> {
    let flow = decode_flow_key(element.get_key().ok()?.get_value().ok()?)?;
    let expressions = element.filter_map(|attribute| match attribute {
        Ok(SetelemAttrs::Expr(expression)) => expression.get_data().ok(),
        _ => None,
    });
    let counts = expressions.filter_map(|expression| match expression {
        ExprOps::Counter(counter) => {
            Some(CounterValue { packets: counter.get_packets().ok()?, bytes: counter.get_bytes().ok()? })
        }
        _ => None,
    });
    Some((flow, counts.last().unwrap_or_default()))
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        // The kernel answers the same to both.
        Some(libc::EPERM) => {
            "it takes root, or CAP_NET_ADMIN in this network namespace; and no other process may have the table"
        }
        Some(libc::EEXIST) => "there is one of that name: `nft delete table` removes it",
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOENT | libc::EPROTONOSUPPORT) => {
            "it takes Linux 5.12 with nf_tables (inet, numgen, fib, log): load the modules nf_tables, nft_numgen, nft_fib_inet and, for sessions, nft_log and nfnetlink_log"
        }
        _ => "nf_tables must be in the kernel",
    }
}
