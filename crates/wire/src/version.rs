//! Versions of the protocol, and what each has added.

use std::fmt;

/// A version of the protocol that this crate speaks.
///
/// Each version has all that the one before it has, with the same encoding, and adds to it, in sessions of that version or later
/// ones only: messages at the end of their enumeration, or another meaning of bytes of the same place and length; or
/// it allows values that were refused. A client begins with the newest version that it speaks; a
/// server that is older names its own, and the client begins again with that. A server answers in the version of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u16);

/// What a version has added, for those whose peer lacks it.
struct ProtocolFeature {
    since: Version,
    /// Of no use in a session without a key.
    needs_key: bool,
    /// As in "it can't …".
    description: &'static str,
}

/// What every measurement uses; what only some ask for ([`Version::LOAD`]) is missed by these alone, and the report's section on the path
/// says itself what is lacking ([`Version::PATH`], [`Version::PORTS`]).
const PROTOCOL_FEATURES: [ProtocolFeature; 2] = [
    ProtocolFeature {
        since: Version::SEND_TIMES,
        needs_key: false,
        description: "say whether its own interface holds back what it sends (`tc qdisc`), and how late its kernel stamps that",
    },
    ProtocolFeature {
        since: Version::AUTHENTICATED,
        needs_key: true,
        description: "tell probe packets of this measurement from those that somebody on the path forges, also with a key",
    },
];

impl Version {
    /// The oldest that this crate speaks.
    pub const OLDEST: Version = Version(3);
    /// The newest, with which clients begin.
    pub const NEWEST: Version = Version(8);
    /// The first in which servers say where send times were taken ([`QueuedLocally`](crate::ServerMessage::QueuedLocally)), and how much
    /// earlier the packets were given to their kernel ([`Submitted`](crate::ServerMessage::Submitted)).
    pub const SEND_TIMES: Version = Version(4);
    /// The first in which, with a key, probe connections and UDP packets are authenticated ([`Credential`](crate::Credential)).
    pub const AUTHENTICATED: Version = Version(4);
    /// The first in which servers fill the path with TCP transfers ([`Load`](crate::ClientMessage::Load)).
    pub const LOAD: Version = Version(5);
    /// The first in which trains have packets of more than [`Train::MAX_ETHERNET_PACKET_BYTES`](kumade_probe_train::Train::MAX_ETHERNET_PACKET_BYTES) bytes.
    pub const JUMBO: Version = Version(6);
    /// The first in which servers say what they see of a client's packets ([`AskPathView`](crate::ClientMessage::AskPathView)), and carry
    /// marked packets ([`SendMarked`](crate::ClientMessage::SendMarked), [`ReceiveMarked`](crate::ClientMessage::ReceiveMarked)).
    pub const PATH: Version = Version(7);
    /// The first in which servers carry trains whose packets have a DSCP and ECN codepoint each
    /// ([`SendDsFields`](crate::ClientMessage::SendDsFields), [`ReceiveDsFields`](crate::ClientMessage::ReceiveDsFields)).
    pub const DS_FIELDS: Version = Version(8);
    /// The first in which servers listen at further ports for the client of the turn ([`OpenPorts`](crate::ClientMessage::OpenPorts)), and
    /// send down flows that have been idle ([`HoldFlows`](crate::ClientMessage::HoldFlows)).
    pub const PORTS: Version = Version(8);
    /// The first in which servers ask the routers on the way to a client ([`TraceHops`](crate::ClientMessage::TraceHops)).
    pub const HOP_TRACES: Version = Version(8);

    /// The version of this number; none if this crate does not speak it.
    pub fn from_number(number: u16) -> Option<Self> {
        (Self::OLDEST.0..=Self::NEWEST.0).contains(&number).then_some(Version(number))
    }

    /// Its number, as on the wire.
    pub fn number(self) -> u16 {
        self.0
    }

    /// What a server of this version can't do in a session with or without a key, each as in "it can't …".
    pub fn missing_features(self, has_key: bool) -> impl Iterator<Item = &'static str> {
        let is_lacking = move |addition: &&ProtocolFeature| addition.since > self && (has_key || !addition.needs_key);
        PROTOCOL_FEATURES.iter().filter(is_lacking).map(|addition| addition.description)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lacks_nothing_and_the_oldest_something() {
        assert_eq!(Version::NEWEST.missing_features(true).count(), 0);
        assert_eq!([false, true].map(|has_key| Version::OLDEST.missing_features(has_key).count()), [1, 2]);
        assert!(Version::OLDEST.missing_features(false).all(|what| !what.contains("key")), "there is none");
        assert_eq!(Version::OLDEST.to_string(), "3");
        assert_eq!([Version::OLDEST.0 - 1, Version::NEWEST.0 + 1].map(Version::from_number), [None; 2]);
    }
}
