use crate::random::mix_bits;

/// What has a queue of its own, and between whom turns are fair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// One queue for all.
    FlowBlind,
    /// A queue for each source host.
    SourceHosts,
    /// A queue for each destination host.
    DestinationHosts,
    /// A queue for each pair of hosts.
    HostPairs,
    /// A queue for each flow, whoever has it.
    Flows,
    /// A queue for each flow; fair between source hosts, then between the flows of each.
    DualSourceHosts,
    /// A queue for each flow; fair between destination hosts, then between the flows of each.
    DualDestinationHosts,
    /// A queue for each flow; no host has more for many flows, at either end.
    TripleIsolate,
}

/// As users name them, which is as `tc` does.
pub(super) const ISOLATIONS: [(&str, Isolation); 8] = [
    ("flowblind", Isolation::FlowBlind),
    ("srchost", Isolation::SourceHosts),
    ("dsthost", Isolation::DestinationHosts),
    ("hosts", Isolation::HostPairs),
    ("flows", Isolation::Flows),
    ("dual-srchost", Isolation::DualSourceHosts),
    ("dual-dsthost", Isolation::DualDestinationHosts),
    ("triple-isolate", Isolation::TripleIsolate),
];

impl Isolation {
    /// What has a queue of its own.
    pub(super) fn queue_key(self, flow: u64, source: u64, destination: u64) -> u64 {
        match self {
            Isolation::FlowBlind => 0,
            Isolation::SourceHosts => source,
            Isolation::DestinationHosts => destination,
            Isolation::HostPairs => mix_bits(source) ^ destination,
            _ => flow,
        }
    }

    /// Whether hosts count: those of the source, and those of the destination.
    pub(super) fn fair_ends(self) -> [bool; 2] {
        match self {
            Isolation::DualSourceHosts => [true, false],
            Isolation::DualDestinationHosts => [false, true],
            Isolation::TripleIsolate => [true, true],
            _ => [false, false],
        }
    }
}
