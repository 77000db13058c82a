//! The rules of the firewall on an experiment's path.

use super::keywords::{FirewallAction, Protocol, Transport};
use kumade_middlebox::{FilterRule, PacketMatch, RefusalKind};
use serde::Deserialize;
use std::fmt;

/// What the firewall on the path does to some packets. What no rule names passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirewallRule {
    /// What happens to them.
    pub action: FirewallAction,
    /// Which packets.
    pub protocol: Protocol,
    /// Only while one of these transports is measured; always where empty.
    #[serde(default)]
    pub transports: Vec<Transport>,
}

impl fmt::Display for FirewallRule {
    /// In words, for reports: `rejects udp while rake is measured`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            FirewallAction::Reject => "rejects",
            FirewallAction::Drop => "drops",
        };
        write!(f, "{action} {}", self.protocol.word())?;
        let transports: Vec<_> = self.transports.iter().map(|transport| transport.word()).collect();
        if transports.is_empty() { Ok(()) } else { write!(f, " while {} is measured", transports.join(" or ")) }
    }
}

impl From<&FirewallRule> for FilterRule {
    fn from(rule: &FirewallRule) -> Self {
        let protocol = match rule.protocol {
            Protocol::Udp => kumade_packet::protocol::UDP,
            Protocol::Tcp => kumade_packet::protocol::TCP,
        };
        let refusal = match rule.action {
            FirewallAction::Reject => RefusalKind::Reject,
            FirewallAction::Drop => RefusalKind::Drop,
        };
        FilterRule::Refuse { matching: PacketMatch { protocol: Some(protocol), destination_port: None }, refusal }
    }
}
