//! Single flows, set up and ended while packets pass: what the NAT sessions of two gateways come to in the kernel.

use super::flow_rules::{
    divided_list_name, error_list_name, remote_families, restored_flow_lists, restored_list_name, translated_list_name,
    undivided_list_name,
};
use crate::config::GatewayConfig;
use kumade_multipath::nat_session::{DividedRule, RestoredRule};
use kumade_net::SetupError;
use kumade_net::fast_path::{FastFlows, FlowUse};
use kumade_net::interface::Family;
use kumade_net::nftables::{CounterValue, FlowChange, InstalledTable};
use kumade_packet::{Addresses, FlowKey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The lists of single flows in the rules of a [`DirectPlane`](super::DirectPlane). Any thread may use them.
#[derive(Debug, Clone)]
pub struct FlowLists {
    config: Arc<GatewayConfig>,
    table: Arc<InstalledTable>,
    /// The same flows in the fast path, if there is one.
    fast_flows: Option<Arc<FastFlows>>,
}

impl FlowLists {
    pub(super) fn new(
        config: Arc<GatewayConfig>,
        table: Arc<InstalledTable>,
        fast_flows: Option<Arc<FastFlows>>,
    ) -> Self {
        FlowLists { config, table, fast_flows }
    }

    /// Flows to a remote site with sessions that passed within the last two seconds and are not divided. At most 10 000 are
    /// remembered at a time.
    ///
    /// # Errors
    /// There is no such remote site with sessions.
    pub fn undivided_flows(&self, remote: usize) -> Result<Vec<FlowKey>, SetupError> {
        let remote = &self.config.remotes[remote];
        let lists: Result<Vec<_>, _> =
            remote_families(remote).map(|family| self.table.flows(&undivided_list_name(remote, family))).collect();
        Ok(lists?.into_iter().flat_map(BTreeMap::into_keys).collect())
    }

    /// Divides a flow to a remote site, by its place in the configuration, from now on, at one instant.
    ///
    /// # Errors
    /// It is divided already, or its addresses do not fit the remote site or the paths.
    pub fn divide_flow(&self, remote: usize, rule: &DividedRule) -> Result<(), SetupError> {
        let translation = |(list, alias)| FlowChange::Add(list, rule.flow, Some(alias));
        let mut changes: Vec<_> = self.aliases_unlike_flow(rule).map(translation).collect();
        let errors = error_list_name(flow_family(&rule.flow));
        let back = |leaving| FlowChange::Add(errors.clone(), leaving, Some(rule.flow.addresses()));
        changes.extend(rule.restored_rule().arriving_flows().map(back));
        changes.push(FlowChange::Add(self.divided_list_of(remote, rule), rule.flow, None));
        self.table.change_flows(&changes)?;
        self.add_to_fast_path(&rule.flow, fast_division(rule));
        Ok(())
    }

    /// A flow that there is no room for is left to packet rules. Only with all of its addresses is it complete.
    fn add_to_fast_path(&self, flow: &FlowKey, purposes: impl Iterator<Item = FlowUse>) {
        let Some(flows) = &self.fast_flows else { return };
        for purpose in purposes {
            if let Err(error) = flows.add(flow, purpose) {
                return tracing::debug!("{error}");
            }
        }
    }

    fn remove_from_fast_path(&self, flow: &FlowKey, purposes: impl Iterator<Item = FlowUse>) {
        if let Some(flows) = &self.fast_flows {
            purposes.for_each(|purpose| flows.remove(flow, purpose));
        }
    }

    /// Leaves a flow undivided from now on: the opposite of [`divide_flow`](Self::divide_flow).
    ///
    /// # Errors
    /// It is not divided so.
    pub fn stop_dividing(&self, remote: usize, rule: &DividedRule) -> Result<(), SetupError> {
        let purposes: Vec<_> = fast_division(rule).collect();
        self.remove_from_fast_path(&rule.flow, purposes.into_iter().rev());
        let mut changes = vec![FlowChange::Remove(self.divided_list_of(remote, rule), rule.flow)];
        changes.extend(self.aliases_unlike_flow(rule).map(|(list, _)| FlowChange::Remove(list, rule.flow)));
        let errors = error_list_name(flow_family(&rule.flow));
        changes
            .extend(rule.restored_rule().arriving_flows().map(|leaving| FlowChange::Remove(errors.clone(), leaving)));
        self.table.change_flows(&changes)
    }

    /// The flows to a remote site that are divided, with what they have sent since.
    ///
    /// # Errors
    /// There is no such remote site with sessions.
    pub fn divided_flows(&self, remote: usize) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError> {
        let site = &self.config.remotes[remote];
        let lists: Result<Vec<_>, _> =
            remote_families(site).map(|family| self.table.flows(&divided_list_name(site, family))).collect();
        self.add_fast_counts(lists?.into_iter().flatten().collect(), FastFlows::divided_flows)
    }

    /// Gives a flow that arrives its addresses back from now on.
    ///
    /// # Errors
    /// Another flow arrives so, or no remote site has sessions of that IP version.
    pub fn restore_addresses(&self, rule: &RestoredRule) -> Result<(), SetupError> {
        let list = restored_list_name(flow_family(&rule.flow));
        let add = |flow: FlowKey| FlowChange::Add(list.clone(), flow, Some(rule.flow.addresses()));
        self.change_unless_empty(rule.arriving_flows().map(add).collect())?;
        let own = FlowUse::Restored(rule.flow.addresses());
        rule.arriving_flows().for_each(|flow| self.add_to_fast_path(&flow, [own].into_iter()));
        Ok(())
    }

    /// Leaves a flow as it arrives from now on: the opposite of [`restore_addresses`](Self::restore_addresses).
    ///
    /// # Errors
    /// Its addresses are not given back.
    pub fn stop_restoring_addresses(&self, rule: &RestoredRule) -> Result<(), SetupError> {
        let own = FlowUse::Restored(rule.flow.addresses());
        rule.arriving_flows().for_each(|flow| self.remove_from_fast_path(&flow, [own].into_iter()));
        let list = restored_list_name(flow_family(&rule.flow));
        self.change_unless_empty(rule.arriving_flows().map(|flow| FlowChange::Remove(list.clone(), flow)).collect())
    }

    /// What has arrived of flows whose addresses are given back, as they arrive.
    ///
    /// # Errors
    /// The rules are gone.
    pub fn restored_flows(&self) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError> {
        let lists: Result<Vec<_>, _> =
            restored_flow_lists(&self.config).map(|list| self.table.flows(&list.name)).collect();
        self.add_fast_counts(lists?.into_iter().flatten().collect(), FastFlows::restored_flows)
    }

    /// Adds what took the fast path.
    fn add_fast_counts(
        &self,
        mut counts: BTreeMap<FlowKey, CounterValue>,
        read: impl Fn(&FastFlows) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError>,
    ) -> Result<BTreeMap<FlowKey, CounterValue>, SetupError> {
        if let Some(flows) = &self.fast_flows {
            for (flow, count) in read(flows)? {
                counts.entry(flow).and_modify(|sum| *sum = *sum + count);
            }
        }
        Ok(counts)
    }

    /// A flow that keeps its addresses on all paths needs no rule at the far end.
    fn change_unless_empty(&self, changes: Vec<FlowChange>) -> Result<(), SetupError> {
        if changes.is_empty() { Ok(()) } else { self.table.change_flows(&changes) }
    }

    fn divided_list_of(&self, remote: usize, rule: &DividedRule) -> String {
        divided_list_name(&self.config.remotes[remote], flow_family(&rule.flow))
    }

    fn aliases_unlike_flow(&self, rule: &DividedRule) -> impl Iterator<Item = (String, Addresses)> {
        let family = flow_family(&rule.flow);
        let name = move |path: u8| translated_list_name(&self.config.paths[usize::from(path)], family);
        let other = rule.aliases.iter().filter(|(_, alias)| *alias != rule.flow.addresses());
        other.map(move |&(path, alias)| (name(path), alias))
    }
}

fn flow_family(flow: &FlowKey) -> Family {
    Family::from_address(flow.source.ip())
}

/// A flow in the fast path: its addresses on the paths first, and that it is divided last.
fn fast_division(rule: &DividedRule) -> impl Iterator<Item = FlowUse> {
    let other = rule.aliases.iter().filter(|(_, alias)| *alias != rule.flow.addresses());
    let translated = other.clone().map(|&(path, addresses)| FlowUse::Translated { path: path.into(), addresses });
    let translating_paths =
        other.clone().fold(0, |paths, (path, _)| paths | 1_u64.checked_shl((*path).into()).unwrap_or(0));
    translated.chain([FlowUse::Divided { translating_paths }])
}
