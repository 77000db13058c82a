//! What an administrator has to know of handshakes, and how little of it strangers can cause.

use crate::PublicKey;
use kumade_units::{Span, Time};
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// What an administrator has to know of handshakes. Its text says what to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeNotice {
    /// The peer has seen a later timestamp of this host than its clock shows now: the clock was set back, or the host has none that
    /// runs while it is off. Handshakes with the peer go on from there. Said once for each attempt to reach the peer.
    OwnClockBehind {
        /// Who.
        peer: PublicKey,
        /// By how much, at least.
        behind: Span,
    },
    /// The peer has not answered several initiations. Said once for each attempt to reach it, which goes on.
    Unanswered {
        /// Who.
        peer: PublicKey,
        /// This host's own key, which the peer has to know.
        own: PublicKey,
        /// Where the last initiation went.
        address: SocketAddr,
        /// For how long it was tried.
        tried: Span,
    },
    /// The peer's answer is not authentic: the pre-shared keys differ, or somebody altered it. Said once for each attempt.
    AnswerForged {
        /// Who.
        peer: PublicKey,
        /// Where the answer came from.
        address: SocketAddr,
    },
    /// A host that has this host's public key was refused, since its own is not among those of the peers.
    UnknownPeer {
        /// The key that it offered.
        offered: PublicKey,
        /// Where it came from.
        address: IpAddr,
        /// The key that is expected, where there is one peer.
        expected: Option<PublicKey>,
        /// Further refusals since the last such notice, of which none was told.
        untold: u64,
    },
    /// A host was refused that takes this one for another: it has another public key for it.
    OtherReceiver {
        /// Where it came from.
        address: IpAddr,
        /// This host's own key.
        own: PublicKey,
        /// Further refusals since the last such notice, of which none was told.
        untold: u64,
    },
}

impl fmt::Display for HandshakeNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeNotice::OwnClockBehind { peer, behind } => write!(
                f,
                "the clock of this host is {behind} behind the last handshake that the peer {peer} has had from it: \
                 the connection is made nevertheless, but set the clock (for example by NTP)"
            ),
            HandshakeNotice::Unanswered { peer, own, address, tried } => write!(
                f,
                "the peer {peer} has not answered at {address} for {tried}: check that it runs there, a release of \
                 kumade that works with this one, that firewalls pass this, and that it has this end's public key, {own}"
            ),
            HandshakeNotice::AnswerForged { peer, address } => write!(
                f,
                "the answer of the peer {peer} from {address} is not authentic: check that both ends have the same pre-shared key"
            ),
            HandshakeNotice::UnknownPeer { offered, address, expected, untold } => {
                write!(f, "refused a handshake from {address}: it offers the public key {offered}, ")?;
                match expected {
                    Some(expected) => write!(f, "and {expected} is expected")?,
                    None => f.write_str("which none of this end's peers has")?,
                }
                write_untold(f, *untold)
            }
            HandshakeNotice::OtherReceiver { address, own, untold } => {
                write!(
                    f,
                    "refused a handshake from {address}: it is for another public key than this end's, {own}, which the sender \
                     must have as its peer's"
                )?;
                write_untold(f, *untold)
            }
        }
    }
}

fn write_untold(f: &mut fmt::Formatter<'_>, untold: u64) -> fmt::Result {
    match untold {
        0 => Ok(()),
        untold => write!(f, " ({untold} more were refused before)"),
    }
}

/// Refusals of hosts that have a wrong key, of which an administrator is told.
#[derive(Debug)]
pub(crate) struct KeyRefusals {
    /// Hosts without a key of a peer, by the keys that they offered.
    unknown_peers: ToldRefusals<PublicKey>,
    /// Hosts that take this one for another.
    mistaken_senders: ToldRefusals<IpAddr>,
}

impl KeyRefusals {
    pub(crate) fn new() -> Self {
        KeyRefusals { unknown_peers: ToldRefusals::new(), mistaken_senders: ToldRefusals::new() }
    }

    /// A host has offered a key that none of the `peers` has.
    pub(crate) fn unknown_peer<'p>(
        &mut self,
        offered: PublicKey,
        address: IpAddr,
        mut peers: impl Iterator<Item = &'p PublicKey>,
        now: Time,
    ) -> Option<HandshakeNotice> {
        let untold = self.unknown_peers.record(offered, now)?;
        let expected = peers.next().copied().filter(|_| peers.next().is_none());
        Some(HandshakeNotice::UnknownPeer { offered, address, expected, untold })
    }

    /// A host has sent what is for another key than `own`.
    pub(crate) fn other_receiver(&mut self, address: IpAddr, own: PublicKey, now: Time) -> Option<HandshakeNotice> {
        let untold = self.mistaken_senders.record(address, now)?;
        Some(HandshakeNotice::OtherReceiver { address, own, untold })
    }
}

/// Which refusals were told of: each sender's once in ten minutes, and those of 16 senders at most, so that strangers fill no log.
#[derive(Debug)]
pub struct ToldRefusals<T> {
    /// The oldest first.
    told: VecDeque<(T, Time)>,
    untold: u64,
}

/// Senders of which is told in [`REPEAT_INTERVAL`]: more than there are by mistake, and less than fills a log.
const MAX_TOLD_SENDERS: usize = 16;
/// A sender that goes on is told of again after this.
const REPEAT_INTERVAL: Span = Span::from_secs(600);

impl<T> Default for ToldRefusals<T> {
    fn default() -> Self {
        ToldRefusals { told: VecDeque::new(), untold: 0 }
    }
}

impl<T: PartialEq> ToldRefusals<T> {
    /// None was told of.
    pub fn new() -> Self {
        Self::default()
    }

    /// A sender was refused. If that is to be told: with how many further refusals since the last such one.
    pub fn record(&mut self, sender: T, now: Time) -> Option<u64> {
        while self.told.front().is_some_and(|(_, told_at)| now - *told_at >= REPEAT_INTERVAL) {
            self.told.pop_front();
        }
        if self.told.len() >= MAX_TOLD_SENDERS || self.told.iter().any(|(known, _)| *known == sender) {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.told.push_back((sender, now));
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(count: i64) -> Time {
        Time::ZERO + Span::from_secs(count)
    }

    #[test]
    fn a_sender_is_told_of_once_in_ten_minutes_and_strangers_fill_neither_log_nor_memory() {
        let mut refusals = ToldRefusals::new();
        assert_eq!(refusals.record(0, secs(0)), Some(0));
        assert_eq!((refusals.record(0, secs(1)), refusals.record(0, secs(599))), (None, None));
        assert_eq!(refusals.record(0, secs(600)), Some(2));
        let told = (1..100_000).filter(|sender| refusals.record(*sender, secs(700)).is_some()).count();
        assert_eq!((told, refusals.told.len()), (MAX_TOLD_SENDERS - 1, MAX_TOLD_SENDERS));
        assert_eq!(refusals.record(7, secs(1300)), Some(100_000 - MAX_TOLD_SENDERS as u64));
    }
}
