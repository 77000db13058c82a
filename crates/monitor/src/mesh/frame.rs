//! What an agent and a coordinator say to each other. Pure.
//!
//! JSON, so that each understands of another version what it knows: fields that it does not know are left out, a frame that it does
//! not know is [`Unknown`](AgentFrame::Unknown). What has to be known of both is in the hello.

use super::peer_path::PeerPath;
use kumade_planner::{AgentMessage, Grant, Token};
use kumade_units::{Span, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Of what this program says. The other end's may be another: 2 has paths over a version of IP.
pub(crate) const VERSION: u32 = 2;
/// Longer frames end the connection.
pub(crate) const MAX_FRAME_BYTES: usize = 1 << 20;
/// Results of probes in a batch, so that its frame is not too long.
pub(crate) const MAX_BATCH_RESULTS: usize = 4000;
/// Bytes of a run's document; `kumade.measure/1` has some ten kilobytes.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// From an agent to the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(crate) enum AgentFrame {
    /// The first one.
    Hello {
        /// [`VERSION`] of the agent.
        version: u32,
    },
    /// For the planner.
    Planner {
        /// What the agent's planner says.
        message: AgentMessage,
    },
    /// Probes to a peer go to this address from now on.
    Address {
        /// To whom.
        #[serde(flatten)]
        path: PeerPath,
        /// Where.
        address: SocketAddr,
    },
    /// No probe can be sent to a peer.
    NotSent {
        /// To whom.
        #[serde(flatten)]
        path: PeerPath,
        /// Why.
        reason: String,
    },
    /// The clock of the day of its host was set, forward or back.
    ClockStep {
        /// By how much.
        step: Span,
    },
    /// How the agent is: at first, and when that has changed.
    Condition(Condition),
    /// What was measured.
    Batch(Delivery),
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

/// From the coordinator to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(crate) enum CoordinatorFrame {
    /// The first one.
    Hello {
        /// [`VERSION`] of the coordinator.
        version: u32,
    },
    /// What the agent probes and answers from now on.
    Assignment(Assignment),
    /// A run may be measured.
    Grant(RunGrant),
    /// The other end of a run that this one answers has ended.
    Finished {
        /// Of its grant.
        token: Token,
    },
    /// A batch is in the archive.
    Acknowledged {
        /// Of the agent's process that made it.
        instance: u64,
        /// Its number.
        sequence: u64,
    },
    /// The coordinator lives.
    Alive,
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

/// What an agent does all day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The key of its STAMP reflector.
    pub(crate) stamp_key: String,
    /// Whom it probes.
    pub(crate) peers: Vec<AssignedPeer>,
}

/// An agent that another one probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AssignedPeer {
    /// Which, and over which version of IP.
    #[serde(flatten)]
    pub(crate) path: PeerPath,
    /// Name or address.
    pub(crate) host: String,
    /// UDP port of its reflector.
    pub(crate) stamp_port: u16,
    /// The key of its reflector.
    pub(crate) stamp_key: String,
    /// Mean interval between probes.
    pub(crate) interval: Span,
    /// When a reply is late.
    pub(crate) late_after: Span,
    /// When a probe is lost.
    pub(crate) lost_after: Span,
}

/// A grant, and what only its two ends know: the answering one serves nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunGrant {
    /// For the planner.
    pub(crate) grant: Grant,
    /// The pre-shared key of this run alone, as 64 hexadecimal digits.
    pub(crate) key: String,
    /// The agent that answers.
    #[serde(flatten)]
    pub(crate) path: PeerPath,
    /// Its name or address.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
}

/// How an agent is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// What it cannot do, and why.
    #[serde(default)]
    pub(crate) faults: Vec<String>,
    /// What measurements have carried at its host in the last 24 hours.
    #[serde(default)]
    pub(crate) used_bytes: u64,
    /// What they may carry; none for no limit.
    #[serde(default)]
    pub(crate) bytes_per_day: Option<u64>,
}

/// A batch on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Delivery {
    /// By the clock of the batch's times, when it was sent.
    pub(crate) stamp: Time,
    /// The batch.
    #[serde(flatten)]
    pub(crate) batch: Batch,
}

/// What was measured, as it is kept until it is acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// A random number of the agent's process.
    pub(crate) instance: u64,
    /// Its number within that.
    pub(crate) sequence: u64,
    /// The start of the host by whose clock its times are.
    #[serde(default)]
    pub(crate) boot: String,
    /// When it was made, by that clock.
    #[serde(default)]
    pub(crate) made: Time,
    /// The same by the clock of the day.
    #[serde(default)]
    pub(crate) made_utc: Time,
    /// Results of light probes.
    #[serde(default)]
    pub(crate) probes: Vec<PeerResults>,
    /// Runs that have ended.
    #[serde(default)]
    pub(crate) runs: Vec<RunResult>,
    /// When the agent did not run.
    #[serde(default)]
    pub(crate) pause: Option<Pause>,
}

/// A time in which an agent probed nobody: from and to, by the batch's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    /// Since when.
    pub(crate) from: Time,
    /// Until when.
    pub(crate) to: Time,
}

/// Results of probes to one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerResults {
    /// Which.
    #[serde(flatten)]
    pub(crate) path: PeerPath,
    /// Further replies to probes that had been answered.
    pub(crate) duplicates: u64,
    /// What became of probes.
    pub(crate) results: Vec<WireResult>,
}

/// What became of a light probe: when it was sent by the batch's clock; the round trip, none if it was lost; the one-way delays, where both
/// clocks are known, with the error of these; whether it was late; where it was lost, if it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireResult(
    pub(crate) Time,
    pub(crate) Option<Span>,
    pub(crate) Option<(Span, Span, Span)>,
    pub(crate) bool,
    #[serde(default)] pub(crate) WireLoss,
);

/// In which direction a probe was lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireLoss {
    /// To the peer.
    #[serde(rename = "up")]
    Up,
    /// Back from it.
    #[serde(rename = "down")]
    Down,
    /// The peer's numbers do not tell.
    #[serde(rename = "")]
    Unknown,
    /// The peer has no numbers.
    #[default]
    #[serde(rename = "trip", other)]
    RoundTrip,
}

/// A run that this agent began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunResult {
    /// The agent that answered.
    #[serde(flatten)]
    pub(crate) path: PeerPath,
    /// When it began, by the batch's clock.
    pub(crate) began: Time,
    /// When it ended.
    pub(crate) ended: Time,
    /// `kumade.measure/1`.
    pub(crate) document: String,
}

impl Batch {
    /// What its clock shows now; `boottime` and `utc` are what the host's clocks show.
    pub(crate) fn stamp(&self, boot: &str, boottime: Time, utc: Time) -> Time {
        // The clock has begun anew with the host: what is left is the clock of the day.
        if self.boot == boot { boottime } else { self.made + (utc - self.made_utc).max(Span::ZERO) }
    }

    /// Results of probes in it.
    pub(crate) fn result_count(&self) -> usize {
        self.probes.iter().map(|peer| peer.results.len()).sum()
    }
}

/// The bytes of a frame.
pub(crate) fn encode(frame: &impl Serialize) -> Vec<u8> {
    // These types always can be written.
    serde_json::to_vec(frame).unwrap_or_default()
}

/// A frame from its bytes.
///
/// # Errors
/// They are none: the connection is over.
pub(crate) fn decode<F: DeserializeOwned>(bytes: &[u8]) -> Result<F, serde_json::Error> {
    serde_json::from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::interface::Family;

    #[test]
    fn a_batch_comes_out_as_it_went_in() {
        let sent = Time::from_nanos(1_234_567_890_123);
        let one_way = Some((Span::from_micros(5), Span::from_micros(-3), Span::from_micros(9)));
        let results = vec![
            WireResult(sent, Some(Span::from_millis(2)), one_way, true, WireLoss::Unknown),
            WireResult(sent, None, None, false, WireLoss::Up),
        ];
        let probes = vec![PeerResults { path: PeerPath::new(7, None), duplicates: 1, results }];
        let run =
            RunResult { path: PeerPath::new(7, Some(Family::V6)), began: sent, ended: sent, document: "{}".to_owned() };
        let batch = Batch { instance: u64::MAX, sequence: 3, probes, runs: vec![run], ..Batch::default() };
        let bytes = encode(&AgentFrame::Batch(Delivery { stamp: sent, batch: batch.clone() }));
        match decode(&bytes).unwrap() {
            AgentFrame::Batch(delivery) => assert_eq!((delivery.stamp, delivery.batch), (sent, batch)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_age_of_a_batch_outlasts_a_restart_of_the_host() {
        let after = |seconds| Time::ZERO + Span::from_secs(seconds);
        let batch = Batch { boot: "a".to_owned(), made: after(5000), made_utc: after(90_000), ..Batch::default() };
        assert_eq!(batch.stamp("a", after(5060), after(12)), after(5060), "whatever the clock of the day is set to");
        assert_eq!(batch.stamp("b", after(30), after(90_400)), after(5400));
        assert_eq!(batch.stamp("b", after(30), after(80_000)), after(5000), "it was not made in the future");
    }

    #[test]
    fn what_a_later_version_says_besides_is_left_out() {
        let hello: AgentFrame = decode(br#"{"frame": "hello", "version": 9, "colour": "red"}"#).unwrap();
        assert!(matches!(hello, AgentFrame::Hello { version: 9 }));
        let unknown: CoordinatorFrame = decode(br#"{"frame": "dance", "steps": [1, 2]}"#).unwrap();
        assert!(matches!(unknown, CoordinatorFrame::Unknown));
        assert!(decode::<AgentFrame>(b"{\"frame\": 1}").is_err() && decode::<AgentFrame>(b"GET /").is_err());
    }
}
