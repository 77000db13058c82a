use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What carries packets to a far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename = "CarrierKind")]
pub enum OuterTransport {
    /// Datagrams.
    #[default]
    Udp,
    /// TCP connections.
    Tcp,
}

impl OuterTransport {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            OuterTransport::Udp => OuterTransport::Tcp,
            OuterTransport::Tcp => OuterTransport::Udp,
        }
    }
}

impl fmt::Display for OuterTransport {
    /// `UDP` or `TCP`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OuterTransport::Udp => "UDP",
            OuterTransport::Tcp => "TCP",
        })
    }
}
