//! TCP as two calculations: a [`Sender`] and a [`Receiver`] that exchange [`TcpData`] and [`TcpAcknowledgement`]s.
//!
//! A [`TcpConnection`] has one of each, and carries records in both directions.
//!
//! Neither knows the network or a clock. They are told what arrives and when, and answer with what to send and when to
//! be called again; the [network](crate::network) carries it. They behave as Linux does with its defaults of 2024:
//! selective acknowledgements and time stamps, loss found by time (RACK-TLP, RFC 8985), proportional rate reduction
//! (RFC 6937), the retransmission timer of RFC 6298 with at least 200 ms of variance ([`RecoveryConfig`] has other bounds, and
//! how systems without selective acknowledgements find losses), recoveries undone that time stamps
//! (RFC 3522) or reported duplicates (RFC 2883) show to be spurious, and delayed acknowledgements.
//!
//! Everything counts in segments of one size, numbered from zero, so that the bookkeeping is rings and not maps. What
//! is left out does not move long-run shares: handshake and close, F-RTO (the time stamps find the same), the receive
//! window's advertisement, Nagle, and batching by offloads.

pub mod congestion;
mod connection;
mod delivery;
mod ranges;
mod receiver;
mod recovery;
mod recovery_config;
mod reordering;
mod scoreboard;
mod sender;
mod timers;

pub use connection::{TcpConnection, TcpSegment};
pub use ranges::SackBlock;
pub use receiver::Receiver;
pub use recovery_config::{LossDetection, RecoveryConfig};
pub use sender::{Sender, SenderConfig, SenderStatistics};

use kumade_units::Time;

/// A segment with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpData {
    /// Its number; the first is 0.
    pub number: u32,
    /// When it was sent, for the receiver to echo (RFC 7323).
    pub timestamp: Time,
    /// Whether it is a retransmission.
    pub is_retransmission: bool,
    /// Whether nothing follows it, so that its acknowledgement should not wait.
    pub is_last: bool,
    /// Whether the sender has reduced its window since the last new segment, which answers the marks echoed so far (CWR,
    /// RFC 3168, section 6.1.2).
    pub cwr: bool,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpAcknowledgement {
    /// The next segment expected: all before it have arrived.
    pub next: u32,
    /// The time stamp of the segment that it answers (RFC 7323).
    pub timestamp_echo: Time,
    /// What has arrived beyond `next`, that with the newest arrival first (SACK, RFC 2018). An empty block ends the list.
    pub sack_blocks: [SackBlock; 3],
    /// Whether the first block is instead a segment that arrived twice (DSACK, RFC 2883).
    pub is_dsack: bool,
    /// Whether a mark arrived that the sender has not answered yet (ECE, RFC 3168).
    pub ece: bool,
    /// Marked segments that have arrived so far (AccECN, RFC 9768, without its rounding); wraps around.
    pub ce_packets: u32,
}
