//! Single flows, set up and ended while packets pass: what the NAT sessions of two gateways come to in the kernel.

use super::flow_rules::{divided_name, families, restored, restored_name, seen_name, translated_name};
use super::plane::DirectPlane;
use net::SetupError;
use net::nftables::{Addresses, Count, Flow, FlowChange};
use std::collections::BTreeMap;

/// A flow to a remote site that is to be divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DividedFlow {
    /// The remote site's place in the configuration.
    pub remote: usize,
    /// As local hosts send it.
    pub flow: Flow,
    /// Its addresses on paths, by the paths' places; unchanged on the others.
    pub aliases: Vec<(usize, Addresses)>,
}

/// A flow that arrives with other addresses than its hosts have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredFlow {
    /// As it arrives on each path. All are of one IP version.
    pub arriving: Vec<Flow>,
    /// The addresses that it had when it was sent.
    pub original: Addresses,
}

impl DirectPlane {
    /// Flows to a remote site with sessions that passed within the last two seconds and are not divided. At most 10 000 are
    /// remembered at a time.
    ///
    /// # Errors
    /// There is no such remote site with sessions.
    pub fn seen_flows(&self, remote: usize) -> Result<Vec<Flow>, SetupError> {
        let remote = &self.config().remotes[remote];
        let lists: Result<Vec<_>, _> =
            families(remote).map(|family| self.table().flows(&seen_name(remote, family))).collect();
        Ok(lists?.into_iter().flat_map(BTreeMap::into_keys).collect())
    }

    /// Divides a flow from now on, at one instant.
    ///
    /// # Errors
    /// It is divided already, or its addresses do not fit the remote site or the paths.
    pub fn divide_flow(&self, divided: &DividedFlow) -> Result<(), SetupError> {
        let translation = |(list, alias)| FlowChange::Add(list, divided.flow, Some(alias));
        let mut changes: Vec<_> = self.translations(divided).map(translation).collect();
        changes.push(FlowChange::Add(self.division(divided), divided.flow, None));
        self.table().change_flows(&changes)
    }

    /// Leaves a flow undivided from now on: the opposite of [`divide_flow`](Self::divide_flow).
    ///
    /// # Errors
    /// It is not divided so.
    pub fn leave_flow(&self, divided: &DividedFlow) -> Result<(), SetupError> {
        let mut changes = vec![FlowChange::Remove(self.division(divided), divided.flow)];
        changes.extend(self.translations(divided).map(|(list, _)| FlowChange::Remove(list, divided.flow)));
        self.table().change_flows(&changes)
    }

    /// The flows to a remote site that are divided, with what they have sent since.
    ///
    /// # Errors
    /// There is no such remote site with sessions.
    pub fn divided_flows(&self, remote: usize) -> Result<BTreeMap<Flow, Count>, SetupError> {
        let remote = &self.config().remotes[remote];
        let lists: Result<Vec<_>, _> =
            families(remote).map(|family| self.table().flows(&divided_name(remote, family))).collect();
        Ok(lists?.into_iter().flatten().collect())
    }

    /// Gives a flow that arrives its addresses back from now on.
    ///
    /// # Errors
    /// This is done already, or no remote site has sessions of that IP version.
    pub fn restore_flow(&self, restored: &RestoredFlow) -> Result<(), SetupError> {
        let add = |flow: &Flow| FlowChange::Add(restored_name(flow.family()), *flow, Some(restored.original));
        self.table().change_flows(&restored.arriving.iter().map(add).collect::<Vec<_>>())
    }

    /// Leaves a flow as it arrives from now on: the opposite of [`restore_flow`](Self::restore_flow).
    ///
    /// # Errors
    /// Its addresses are not given back.
    pub fn forget_flow(&self, restored: &RestoredFlow) -> Result<(), SetupError> {
        let remove = |flow: &Flow| FlowChange::Remove(restored_name(flow.family()), *flow);
        self.table().change_flows(&restored.arriving.iter().map(remove).collect::<Vec<_>>())
    }

    /// What has arrived of flows whose addresses are given back, as they arrive.
    ///
    /// # Errors
    /// The rules are gone.
    pub fn restored_flows(&self) -> Result<BTreeMap<Flow, Count>, SetupError> {
        let lists: Result<Vec<_>, _> = restored(self.config()).map(|list| self.table().flows(&list.name)).collect();
        Ok(lists?.into_iter().flatten().collect())
    }

    fn division(&self, divided: &DividedFlow) -> String {
        divided_name(&self.config().remotes[divided.remote], divided.flow.family())
    }

    fn translations(&self, divided: &DividedFlow) -> impl Iterator<Item = (String, Addresses)> {
        let family = divided.flow.family();
        let name = move |path: usize| translated_name(&self.config().paths[path], family);
        divided.aliases.iter().map(move |&(path, alias)| (name(path), alias))
    }
}
