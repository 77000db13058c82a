use super::message::RefusalReason;
use kumade_packet::{Addresses, FlowKey};
use kumade_units::Time;

/// What has become of sessions with one other gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NatStatistics {
    /// Flows for which a session was begun.
    pub begun: u64,
    /// Requests that the far end has confirmed.
    pub accepted: u64,
    /// Requests that it has refused.
    pub refused: u64,
    /// Sessions that ended because no packet passed.
    pub ended_idle: u64,
    /// Requests and ends that the far end never answered.
    pub unanswered: u64,
    /// Sessions that the far end had lost, and was asked for again.
    pub asked_again: u64,
    /// Flows for which no aliases were free.
    pub no_alias: u64,
    /// Flows that were seen while there were as many sessions as may be.
    pub at_limit: u64,
    /// Flows or arriving flows for which the system took no rule.
    pub failed: u64,
    /// Rules that this gateway has installed for the far end.
    pub granted: u64,
    /// Requests of the far end that this gateway has refused.
    pub denied: u64,
    /// Rules that were forgotten because the far end no longer mentioned them.
    pub lapsed: u64,
    /// Times that the far end was found to have restarted.
    pub restarts: u64,
    /// Times that the far end no longer answered.
    pub losses: u64,
    /// Messages that were sent again.
    pub retransmissions: u64,
    /// Messages to or from an earlier life, and those that are not understood.
    pub ignored_messages: u64,
    /// Messages beyond the rate that is looked at.
    pub rate_limited: u64,
}

/// Which gateway's part a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatRole {
    /// This gateway divides the flow.
    Sending,
    /// This gateway gives it its addresses back.
    Receiving,
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
