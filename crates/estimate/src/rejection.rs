//! Why single trains are left out.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a train was not used. Documents have its name, as `receiver-stalled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rejection {
    /// Too many packets or time stamps are missing.
    PacketsMissing,
    /// Packets arrived closer together than the path could have delivered them: the receiving host held them back (host
    /// scheduling delay).
    ReceiverStalled,
    /// The one-way delay jumped once, far beyond its usual variation: packets were held up on the path.
    PathStalled,
    /// The congestion window, or another limit of the sending transport, delayed packets against the plan.
    SendingDisturbed,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejection::PacketsMissing => "too many packets or time stamps were missing",
            Rejection::ReceiverStalled => {
                "the receiving host held packets back and delivered them at once (host scheduling delay)"
            }
            Rejection::PathStalled => "the one-way delay jumped: packets were held up on the path for a moment",
            Rejection::SendingDisturbed => "the transport did not send the packets at the planned times",
        })
    }
}
