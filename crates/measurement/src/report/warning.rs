//! What limits the validity of a report's values, as data with its sentence beside it.

use kumade_units::{Rate, Span};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A circumstance that limits the validity of values. Documents have its sentence alone, as which it is read again.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
#[non_exhaustive]
pub enum Warning {
    /// Of the estimate of available bandwidth.
    #[error(transparent)]
    Estimate(#[from] kumade_estimate::Warning),
    /// The method knows no token buckets.
    #[error(
        "a token bucket shapes the path, which this method does not model: the value may hold for a short burst only; use the method `primed`"
    )]
    UnmodelledShaper,
    /// Stamps are a program's.
    #[error("no kernel time stamps at one end at least: user-space time stamps are less accurate")]
    NoKernelStamps,
    /// The same of this host alone.
    #[error("no kernel time stamps: user-space time stamps are less accurate")]
    NoKernelStampsHere,
    /// Stamps of this host are not the kernel's, and 95 % of them differ by so much from each other at most.
    #[error(
        "no kernel time stamps: those of this host scatter by {0} (95 % of them): delays are known to within as much, and as much of their variation may not be the path's"
    )]
    CoarseStamps(Span),
    /// The sender's own interface held packets back.
    #[error(
        "packets waited in the queue of the sender's own interface, which is part of the measured path: see `tc qdisc`"
    )]
    HeldBackAtSender,
    /// Connections open, and no packet of so many bytes arrives on them.
    #[error(
        "connections opened, and no packet of {0} bytes arrived on them: the MTU of a link on the path may be less, and the ICMP messages that \
         say so dropped; UDP finds out which length passes"
    )]
    BlackHole(u32),
    /// This interface of this host coalesces interrupts for so long.
    #[error(
        "packets arrived in batches: the interface {0} of this host coalesces receive interrupts for up to {1}; see `ethtool -C {0} adaptive-rx \
         off rx-usecs 0`"
    )]
    Coalescing(String, Span),
    /// UDP does not pass, for this reason.
    #[error("UDP does not pass ({0}): measured over TCP")]
    NoUdp(String),
    /// UDP failed during so many trains.
    #[error("UDP failed during {} and was reopened", train_words(*.0))]
    UdpReopened(u32),
    /// Connections broke during so many trains; so many are open in the end.
    #[error("connections broke during {trains} and were replaced: {1} connections at the end", trains = train_words(*.0))]
    ConnectionsReplaced(u32, u32),
    /// Long UDP packets do not pass.
    #[error("UDP packets of {lost} bytes do not pass, and those of {passed} do: see the MTU of the links on the path")]
    PacketsTooLarge {
        /// The largest size in bytes that passed.
        passed: u32,
        /// The smallest size in bytes that did not.
        lost: u32,
    },
    /// A proxy ends the connections.
    #[error(
        "{PROXY} ({0}): the figures hold for the leg to it, and beyond only as far as it passes packets on as they come"
    )]
    Proxy(ProxySign),
    /// So many of so many connections are in use, for this reason.
    #[error("only {0} of {1} connections are in use ({2}): each carries several packets")]
    FewConnections(u32, u32, String),
    /// The server speaks the first version, this program the second one: the server can't do this.
    #[error("the server speaks protocol version {0}, this program {1}: it can't {2}")]
    OldServer(u16, u16, String),
    /// This process measured at this host meanwhile.
    #[error("{0} measured at this host meanwhile")]
    HostInUse(String),
    /// Delays are those of TCP.
    #[error("delays were measured over TCP: they include the effects of retransmission and congestion control")]
    DelaysOverTcp,
    /// Clocks err by more than they state.
    #[error(
        "the clocks' stated maximum errors contradict the measured delays: one-way delays are bounded by the round-trip time only"
    )]
    ClocksContradicted,
    /// A clock's error is not known.
    #[error("one-way delays are bounded by the round-trip time only: at least one of the clocks is unsynchronised")]
    ClocksUnsynchronised,
    /// After so long, the offset changed by so much.
    #[error("clock step after {0}: the offset of the peer's clock changed by {1}")]
    ClockStep(Span, Span),
    /// This NTP server could not be used, for this reason.
    #[error("the NTP server {0} could not be used: {1}")]
    NtpServerUnusable(String, String),
    /// Sources of time contradict each other.
    #[error(
        "the kernel and the NTP servers disagree on the error of this host's clock: it may be what any of them says"
    )]
    ClockSourcesDisagree,
    /// Another one, in words: what a document says that was read.
    #[error("{0}")]
    Other(String),
}

/// What each warning of proxies begins with.
const PROXY: &str = "a proxy or translator ends the TCP connections on the way";

/// By what a proxy shows that ends TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProxySign {
    /// Headers take so many bytes here, and so many at the far end.
    #[error("headers take {0} bytes here and {1} at the far end")]
    Headers(u32, u32),
    /// Round trips of connections here, at the far end, and of messages.
    #[error("the connections' round trips take {0} here and {1} at the far end, messages {2}")]
    RoundTrips(Span, Span, Span),
}

/// Why a report on a filled path has no worst grade.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
#[non_exhaustive]
pub enum LoadReason {
    /// Nothing was carried after this time.
    #[error("the connections carried nothing after {0}: they broke, or the server limits the bytes of a turn")]
    Ended(Span),
    /// Too few round trips are known.
    #[error("too few messages were answered while the path was filled")]
    TooFewAnswers,
    /// The path's rate is not known.
    #[error("whether the connections filled the path is not known, as its rate is not")]
    UnknownRate,
    /// The first rate was carried, where the second one passes.
    #[error("the connections carried {0} where {1} passes: they did not fill the path")]
    NotFilled(Rate, Rate),
    /// There were no transfers, or what a document says that was read.
    #[error("{0}")]
    Other(String),
}

impl Warning {
    /// Whether it says how a value of the available bandwidth came about, so that nothing is left to warn of where there is none.
    pub(crate) fn is_of_value(&self) -> bool {
        match self {
            Warning::Estimate(warning) => warning.is_of_value(),
            Warning::UnmodelledShaper => true,
            _ => false,
        }
    }
}

fn train_words(trains: u32) -> String {
    if trains == 1 { "a train".to_owned() } else { format!("{trains} trains") }
}

impl From<String> for Warning {
    fn from(words: String) -> Self {
        Warning::Other(words)
    }
}

impl From<Warning> for String {
    fn from(warning: Warning) -> Self {
        warning.to_string()
    }
}

impl From<String> for LoadReason {
    fn from(words: String) -> Self {
        LoadReason::Other(words)
    }
}

impl From<LoadReason> for String {
    fn from(reason: LoadReason) -> Self {
        reason.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs read the sentences of `kumade.measure/1`.
    #[test]
    fn documents_have_the_sentences_and_are_read_again_as_these() {
        let warnings = [
            Warning::PacketsTooLarge { passed: 1492, lost: 1500 },
            Warning::ConnectionsReplaced(1, 60),
            Warning::Proxy(ProxySign::Headers(72, 52)),
            Warning::Estimate(kumade_estimate::Warning::BurstsDoNotLast(None)),
        ];
        let sentences = [
            "UDP packets of 1500 bytes do not pass, and those of 1492 do: see the MTU of the links on the path",
            "connections broke during a train and were replaced: 60 connections at the end",
            "a proxy or translator ends the TCP connections on the way (headers take 72 bytes here and 52 at the far end): the figures hold \
             for the leg to it, and beyond only as far as it passes packets on as they come",
            "what passes in short trains does not last: the value is what lasts",
        ];
        for (warning, sentence) in warnings.into_iter().zip(sentences) {
            let json = serde_json::to_value(&warning).unwrap();
            assert_eq!(json, sentence);
            assert_eq!(serde_json::from_value::<Warning>(json).unwrap(), Warning::Other(sentence.to_owned()));
        }
    }
}
