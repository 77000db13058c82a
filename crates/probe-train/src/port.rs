use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortProtocol {
    /// UDP (RFC 768).
    Udp,
    /// TCP (RFC 9293).
    Tcp,
}

impl PortProtocol {
    /// Both.
    pub const BOTH: [PortProtocol; 2] = [PortProtocol::Udp, PortProtocol::Tcp];
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortProtocol::Udp => "UDP",
            PortProtocol::Tcp => "TCP",
        })
    }
}
