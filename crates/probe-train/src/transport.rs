use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What carries a train's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP datagrams (PathQuick3).
    Udp,
    /// Many TCP connections, one packet on each (PathRakeTCP).
    Rake,
    /// One TCP connection: the papers' counter-example.
    Single,
}

impl Transport {
    /// No train puts more packets on one of many connections: they are the initial window (RFC 6928), and leave at once.
    pub const MAX_PACKETS_PER_CONNECTION: u32 = 10;
}

impl fmt::Display for Transport {
    /// `udp`, `rake` or `single`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "udp",
            Transport::Rake => "rake",
            Transport::Single => "single",
        })
    }
}
