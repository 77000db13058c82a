use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Packets and datagrams that were not carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Refused")]
pub struct RefusedTraffic {
    /// Packets of local hosts to no network of a far end.
    pub unroutable_packets: u64,
    /// Packets from a far end whose source is in no network of it.
    pub foreign_source_packets: u64,
    /// Datagrams that are not authentic, of no session, copies, or no message.
    pub datagrams: u64,
    /// Handshake messages that were not taken.
    pub handshakes: u64,
    /// Those of them whose sender has no key of a peer, or takes this end for another.
    #[serde(default)]
    pub wrong_key_handshakes: u64,
    /// Datagrams and packets that the system did not take.
    pub output_packets: u64,
}

impl Display for RefusedTraffic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let handshakes = self.handshakes.saturating_sub(self.wrong_key_handshakes);
        let counts = [
            (self.unroutable_packets, "packets to no remote network"),
            (self.foreign_source_packets, "packets with sources of no network of their site"),
            (self.datagrams, "datagrams that are not authentic"),
            (handshakes, "handshakes"),
            (self.wrong_key_handshakes, "handshakes with a wrong key"),
            (self.output_packets, "packets by the system"),
        ];
        let said: Vec<_> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if said.is_empty() { "nothing" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}
