use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NatSessionRow {
    /// What happened.
    pub case: String,
    /// Counted from 1 for each case.
    #[schemars(range(min = 1))]
    pub run: u32,
    /// The flows, in the order of their ports.
    pub flows: Vec<FlowRow>,
    /// How often the run was discarded and repeated, because host scheduling delay disturbed it.
    pub repeats: u32,
    /// Whether this last repetition was disturbed as well.
    pub disturbed: bool,
    /// 99th percentile of the delay behind schedule at which the emulated links delivered packets; null in virtual time.
    pub lateness_p99_seconds: Option<f64>,
}

/// One flow, with the sessions that it had. Times are counted from the flow's first packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowRow {
    /// As its host sends it, such as `10.1.0.2:20000 > 10.2.0.2:9`.
    pub flow: String,
    /// Packets that the host has sent.
    pub sent_packets: u64,
    /// Packets that arrived from the host's own address.
    pub received_packets: u64,
    /// Packets that arrived from another address.
    pub altered_packets: u64,
    /// Packets that did not arrive.
    pub lost_packets: u64,
    /// How much longer than its path takes the first packet was under way; null where it was lost, and in virtual time, whose
    /// gateways hold nothing back.
    pub first_packet_wait_seconds: Option<f64>,
    /// When a gateway was killed; null where none was.
    pub killed_seconds: Option<f64>,
    /// In their order.
    pub sessions: Vec<SessionRow>,
}

/// One session: from when its flow was noticed, or had to be asked for again, until the sending gateway forgets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRow {
    /// When the sending gateway began it (`NAT`).
    pub asked_seconds: f64,
    /// When the receiving gateway installed its rule; null where that was not seen.
    pub granted_seconds: Option<f64>,
    /// From when the sending gateway divided the flow (`+OK`); null where it never did.
    pub opened_seconds: Option<f64>,
    /// When the host sent the last packet before the sending gateway stopped dividing, or the run ended.
    pub last_packet_seconds: Option<f64>,
    /// When the sending gateway stopped dividing (`FIN`); null where it did not, or never began.
    pub left_seconds: Option<f64>,
    /// When the receiving gateway removed its rule; null where that was not seen.
    pub removed_seconds: Option<f64>,
    /// When the sending gateway forgot it (`+FIN`); null where it did not.
    pub forgotten_seconds: Option<f64>,
    /// How it ended.
    pub end: SessionEnd,
    /// For an idle one: the time from the last packet until the sending gateway stopped dividing, relative to the idle time.
    pub idle_ratio: Option<f64>,
    /// Requests that were sent.
    pub requests: u32,
    /// Packets that the sending gateway has divided, as its kernel counts them.
    pub divided_packets: u64,
    /// Packets that were given their addresses back, likewise.
    pub restored_packets: u64,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionEnd {
    /// No packet passed for the idle time.
    Idle,
    /// A gateway was killed, or the receiving one no longer answered.
    Lost,
    /// The receiving gateway refused it, or never answered.
    Refused,
    /// It was there when the run ended.
    Open,
}

impl NatSessionRow {
    /// The sessions of all flows.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionRow> {
        self.flows.iter().flat_map(|flow| &flow.sessions)
    }
}
