use kumade_multipath::nat_session::{NatRole, NatStatistics};
use kumade_overlay_io::status::Traffic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The NAT sessions with the gateway of a remote site, in the direct plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteSessions {
    /// Whether both gateways have agreed on keys that are still valid.
    pub connected: bool,
    /// Whether the remote gateway answers. As long as it does not, no flow to its site is divided.
    pub reachable: bool,
    /// How many flows to the site have a session, by its phase.
    pub divided: PhaseCounts,
    /// How many flows from the site are given their addresses back here.
    pub restored: u64,
    /// What has become of sessions since the start.
    pub counters: NatStatistics,
}

/// How many sessions there are in each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseCounts {
    /// They wait until they may be asked for.
    pub waiting: u64,
    /// The remote gateway has been asked, and has not answered.
    pub asking: u64,
    /// Both gateways have their rules.
    pub active: u64,
    /// The remote gateway has been told that they ended, and has not answered.
    pub ending: u64,
    /// Refused, and not tried again for half a minute.
    pub refused: u64,
    /// Never answered, and not tried again for half a minute.
    pub unanswered: u64,
}

/// A NAT session: a flow that two gateways of the direct plane have agreed on, or one of them asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Session")]
pub struct NatSessionStatus {
    /// The remote site.
    pub remote: String,
    /// Protocol, addresses and ports, such as `udp 10.1.0.2:5000 > 10.2.0.2:80`, as the hosts see them.
    pub flow: String,
    /// The addresses that it has on the way besides, such as `198.51.100.1 > 10.2.0.2`.
    pub aliases: Vec<String>,
    /// What is done with it here.
    pub role: NatRole,
    /// How far the session has come.
    pub phase: SessionPhase,
    /// Why it was refused; null where it was not.
    pub reason: Option<String>,
    /// How long ago the session began.
    pub duration_seconds: f64,
    /// Its packets since they are divided or given their addresses back. What the kernel has merged counts as one packet;
    /// rates are not computed.
    pub traffic: Traffic,
    /// For how long no packet has come; at first, since the session began.
    pub idle_seconds: f64,
    /// The time left to its timer: an active session ends as idle then, a message is sent again, a flow that was refused
    /// may be asked for again, a rule that the remote gateway has not mentioned is removed. Null where none runs.
    pub deadline_seconds: Option<f64>,
    /// Messages sent since the last answer.
    pub tries: u32,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionPhase {
    /// It waits until it may be asked for.
    Waiting,
    /// The remote gateway has been asked, and has not answered.
    Asking,
    /// Both gateways have their rules.
    Active,
    /// The remote gateway has been told that it ended, and has not answered.
    Ending,
    /// Refused, and not tried again for half a minute.
    Refused,
    /// The remote gateway has not answered; not tried again for half a minute.
    Unanswered,
}

impl PhaseCounts {
    /// One more in this phase.
    pub fn increment(&mut self, phase: SessionPhase) {
        *match phase {
            SessionPhase::Waiting => &mut self.waiting,
            SessionPhase::Asking => &mut self.asking,
            SessionPhase::Active => &mut self.active,
            SessionPhase::Ending => &mut self.ending,
            SessionPhase::Refused => &mut self.refused,
            SessionPhase::Unanswered => &mut self.unanswered,
        } += 1;
    }

    /// The phases in their order, by the names that documents give them.
    pub fn named_counts(&self) -> [(&'static str, u64); 6] {
        let PhaseCounts { waiting, asking, active, ending, refused, unanswered } = *self;
        [
            ("waiting", waiting),
            ("asking", asking),
            ("active", active),
            ("ending", ending),
            ("refused", refused),
            ("unanswered", unanswered),
        ]
    }
}
