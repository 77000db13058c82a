use super::message::RefusalReason;
use kumade_packet::{Addresses, FlowKey};
use kumade_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// What has become of sessions with one remote gateway since the start, and of the messages about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "SessionCounters")]
pub struct NatStatistics {
    /// Flows for which a session was begun.
    pub begun: u64,
    /// Requests that the remote gateway has confirmed.
    pub accepted: u64,
    /// Requests that it has refused.
    pub refused: u64,
    /// Sessions that ended because no packet passed.
    pub idle: u64,
    /// Requests and ends that it never answered.
    pub unanswered: u64,
    /// Sessions that it had lost, and was asked for again.
    pub asked_again: u64,
    /// Flows for which no aliases were free.
    pub no_alias: u64,
    /// Times that a flow was seen while there were as many sessions as may be.
    pub full: u64,
    /// Flows for which this gateway's system took no rule.
    pub failed: u64,
    /// Rules that this gateway has installed for the remote one.
    pub granted: u64,
    /// Requests of the remote gateway that this one has refused.
    pub denied: u64,
    /// Rules that were removed because the remote gateway no longer mentioned them.
    pub lapsed: u64,
    /// Times that the remote gateway was found to have restarted.
    pub restarts: u64,
    /// Times that it no longer answered.
    pub losses: u64,
    /// Messages that were sent again.
    pub retransmissions: u64,
    /// Messages of or to an earlier life of either gateway, and those that are not understood.
    pub ignored_messages: u64,
    /// Messages beyond the rate that is looked at.
    pub rate_limited_messages: u64,
}

/// What a gateway does with the packets of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename = "SessionRole")]
pub enum NatRole {
    /// Divides them among the paths.
    Divides,
    /// Gives those that arrive their addresses back.
    Restores,
}

impl Display for NatRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NatRole::Divides => "divides",
            NatRole::Restores => "restores",
        })
    }
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPhase {
    /// It waits until it may be asked for.
    Waiting,
    /// The far end has been asked, and has not answered.
    Asking,
    /// Both gateways have their rules.
    Active,
    /// The far end has been told that it ended, and has not answered.
    Ending,
    /// The far end has refused it, for a reason, or this gateway could not do its part; not tried again for a while.
    Refused(Option<RefusalReason>),
    /// The far end has not answered; not tried again for a while.
    Unanswered,
}

/// A session, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStatus {
    /// Whose part.
    pub role: NatRole,
    /// As hosts send it.
    pub flow: FlowKey,
    /// Its addresses on the way besides.
    pub aliases: Vec<Addresses>,
    /// How far it has come.
    pub phase: SessionPhase,
    /// When it began.
    pub since: Time,
    /// When packets of it were last found to have passed; at first, when it began.
    pub last_used: Time,
    /// When its phase ends or is looked at again, if nothing happens until then: an active session is idle then, a request
    /// is repeated, a rule is forgotten.
    pub deadline: Option<Time>,
    /// Packets that were divided or restored, as far as was told; a batch of merged packets counts as one.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages sent since the last answer.
    pub tries: u32,
}
