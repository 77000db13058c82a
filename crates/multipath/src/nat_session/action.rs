use super::message::NatMessage;
use super::rule::{DividedRule, RestoredRule};

/// What a gateway wants done, for its sessions with one other gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatAction {
    /// Send this to the far end.
    Transmit {
        /// What.
        message: NatMessage,
        /// How many times it was sent without an answer: another path may serve better.
        tries: u32,
        /// It answers the message that was received last, and goes back by its path.
        is_answer: bool,
    },
    /// Divide a flow from now on; report a failure by [`divide_failed`](super::NatPeer::divide_failed).
    Divide {
        /// The session's number.
        id: u32,
        /// Which flow, and how.
        rule: DividedRule,
    },
    /// Leave a flow undivided from now on that is divided.
    StopDividing(DividedRule),
    /// Give an arriving flow its addresses back from now on, and tell by [`rule_restored`](super::NatPeer::rule_restored) whether
    /// that is done.
    Restore {
        /// The session's number.
        id: u32,
        /// Which flow, and how.
        rule: RestoredRule,
    },
    /// Leave a flow as it arrives from now on.
    StopRestoring(RestoredRule),
    /// The far end no longer answers: new keys may be needed.
    Reconnect,
}
