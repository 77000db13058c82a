//! Which of a list of ports pass.

use kumade_probe_train::PortProtocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which of a list of ports pass, from this host to the far end, which listens there, and back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortsReport {
    /// Each port by each protocol, in rising order.
    pub ports: Vec<PortReport>,
    /// Why not all have been tried; null if they have.
    pub failure: Option<String>,
}

/// What is known of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortReport {
    /// Its number.
    pub port: u16,
    /// Of which protocol.
    pub protocol: PortProtocol,
    /// What that comes to.
    pub outcome: PortOutcome,
    /// Packets that were sent there, or connections that were tried.
    pub sent: u32,
    /// Those that the far end has seen.
    pub arrived: u32,
    /// Those whose answer has come back.
    pub answered: u32,
    /// Of a refusal: how, and by whom, as far as that is known. Of a port that the far end could not open: why. Else null.
    pub detail: Option<String>,
}

/// What becomes of packets to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortOutcome {
    /// They are answered by the far end.
    Passes,
    /// Nothing has come back, and the far end has seen nothing, which chance does not explain: of packets to other ports, enough were answered.
    NoAnswer,
    /// The far end has seen them; no answer has come back, which chance does not explain.
    UpOnly,
    /// Somebody on the way refuses them, by a TCP reset or an ICMP error: the far end listens there.
    Refused,
    /// Something else than the far end answers: a proxy, or the login page of a network (captive portal).
    OtherAnswer,
    /// Another program of the far end has the port.
    InUse,
    /// The far end's configuration does not allow it.
    NotAllowed,
    /// The far end could not listen there.
    NotOpened,
    /// Nothing has come back, and chance may have had it so.
    NotSure,
    /// It was not tried any more.
    NotTried,
}

impl fmt::Display for PortOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortOutcome::Passes => "passes",
            PortOutcome::NoAnswer => "no answer",
            PortOutcome::UpOnly => "arrives, no answer back",
            PortOutcome::Refused => "refused",
            PortOutcome::OtherAnswer => "something else answers",
            PortOutcome::InUse => "in use at the far end",
            PortOutcome::NotAllowed => "not allowed by the far end",
            PortOutcome::NotOpened => "not opened at the far end",
            PortOutcome::NotSure => "not sure",
            PortOutcome::NotTried => "not tried",
        })
    }
}

impl fmt::Display for PortReport {
    /// `passes (3 of 3)`, `refused (administratively prohibited by 192.0.2.1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortReport { outcome, sent, arrived, answered, .. } = self;
        write!(f, "{outcome}")?;
        match (outcome, &self.detail) {
            (_, Some(detail)) => write!(f, " ({detail})"),
            (PortOutcome::UpOnly, _) => write!(f, " ({arrived} of {sent} arrived)"),
            (PortOutcome::Passes | PortOutcome::NoAnswer | PortOutcome::NotSure, _) => {
                write!(f, " ({answered} of {sent})")
            }
            _ => Ok(()),
        }
    }
}
