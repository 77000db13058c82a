/// Why a middlebox has dropped or refused a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// Not a complete IP packet.
    Malformed,
    /// A rule refused it or reset its connection, or a treatment drops such packets.
    Rule,
    /// From the inside with a source that is not of the inside network.
    SpoofedSource,
    /// A protocol, an ICMP message or a first fragment without ports that a NAT44 cannot translate.
    Unsupported,
    /// From the outside, to an address and port without a mapping.
    NoMapping,
    /// From the outside, by an endpoint to which the mapping's inside has not sent.
    Filtered,
    /// An ICMP error with an invalid checksum, or about a packet without a mapping.
    IcmpError,
    /// Its inside host has as many sessions as it may.
    HostLimit,
    /// The table of sessions is full, and none may be evicted.
    TableFull,
    /// All external ports are in use, and none may be freed.
    NoPort,
    /// A later fragment whose first one did not arrive in time, or that was displaced by others.
    Fragment,
    /// An address of a prefix that has no translation (RFC 6296 §3.5).
    Untranslatable,
}

impl DropCause {
    /// All causes, in the order of their declaration.
    pub const ALL: [DropCause; 12] = [
        DropCause::Malformed,
        DropCause::Rule,
        DropCause::SpoofedSource,
        DropCause::Unsupported,
        DropCause::NoMapping,
        DropCause::Filtered,
        DropCause::IcmpError,
        DropCause::HostLimit,
        DropCause::TableFull,
        DropCause::NoPort,
        DropCause::Fragment,
        DropCause::Untranslatable,
    ];

    /// Its name in metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            DropCause::Malformed => "malformed",
            DropCause::Rule => "rule",
            DropCause::SpoofedSource => "spoofed_source",
            DropCause::Unsupported => "unsupported",
            DropCause::NoMapping => "no_mapping",
            DropCause::Filtered => "filtered",
            DropCause::IcmpError => "icmp_error",
            DropCause::HostLimit => "host_limit",
            DropCause::TableFull => "table_full",
            DropCause::NoPort => "no_port",
            DropCause::Fragment => "fragment",
            DropCause::Untranslatable => "untranslatable",
        }
    }
}

/// What a middlebox has done since it was made, and what its tables contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MiddleboxCounters {
    /// Packets forwarded, translated or not.
    pub forwarded: u64,
    /// Of these, packets sent back to the inside.
    pub hairpinned: u64,
    /// Sessions opened.
    pub sessions_created: u64,
    /// Sessions ended by their timeout.
    pub sessions_expired: u64,
    /// Sessions ended to make room for others.
    pub sessions_evicted: u64,
    /// Fragments held until the first one of their datagram arrived.
    pub fragments_held: u64,
    /// Of these, fragments released for forwarding.
    pub fragments_released: u64,
    /// Sessions at present.
    pub sessions: usize,
    /// Mappings at present.
    pub mappings: usize,
    /// Inside hosts with sessions at present.
    pub hosts: usize,
    dropped: [u64; DropCause::ALL.len()],
}

impl MiddleboxCounters {
    /// Packets dropped or refused for this cause.
    pub fn dropped(&self, cause: DropCause) -> u64 {
        self.dropped[cause as usize]
    }

    pub(crate) fn record_drop(&mut self, cause: DropCause, packets: u64) {
        self.dropped[cause as usize] += packets;
    }
}
