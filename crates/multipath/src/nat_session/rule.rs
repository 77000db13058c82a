use kumade_packet::{Addresses, FlowKey};

/// A flow that is divided, with its addresses on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DividedRule {
    /// As hosts send it.
    pub flow: FlowKey,
    /// Its addresses on paths, by the paths' numbers; on other paths it has its own.
    pub aliases: Vec<(u8, Addresses)>,
}

/// A flow that arrives with other addresses than its hosts have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RestoredRule {
    /// As hosts sent it.
    pub flow: FlowKey,
    /// The addresses with which it arrives besides its own, in order.
    pub arriving: Vec<Addresses>,
}

impl DividedRule {
    /// What the far end has to know of it.
    pub fn restored_rule(&self) -> RestoredRule {
        let mut arriving: Vec<_> = self.aliases.iter().map(|(_, alias)| *alias).collect();
        arriving.retain(|alias| *alias != self.flow.addresses());
        arriving.sort();
        arriving.dedup();
        RestoredRule { flow: self.flow, arriving }
    }
}

impl RestoredRule {
    /// As the flow arrives with each pair of addresses.
    pub fn arriving_flows(&self) -> impl Iterator<Item = FlowKey> {
        self.arriving.iter().map(|addresses| self.flow.with_addresses(*addresses))
    }
}
