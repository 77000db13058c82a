use super::incarnation::Incarnation;
use super::rule::RestoredRule;
use crate::message::bytes::Reader;
use crate::message::{FIRST_SESSION_KIND, Message, MessageError};
use kumade_packet::{Addresses, FlowKey};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// What two gateways say to each other about NAT sessions.
///
/// Each message is a [`Message::Session`]. Behind the first octet stand the life of its sender (4) and that of its receiver
/// (4, zero where it is not known), then:
///
/// | kind | content | octets |
/// | --- | --- | --- |
/// | 8 | [`Request`](NatContent::Request), the paper's `NAT` | session (4), IP version (1), protocol (1), ports (2, 2), addresses (4 or 16 each), number of pairs (1), pairs of addresses |
/// | 9 | [`AcceptedStream`](NatContent::Accepted), `+OK` | session (4) |
/// | 10 | [`Refused`](NatContent::Refused) | session (4), reason (1) |
/// | 11 | [`End`](NatContent::End), `FIN` | session (4) |
/// | 12 | [`Ended`](NatContent::Ended) | session (4) |
/// | 13 | [`Check`](NatContent::Check) | sessions (4 each) |
/// | 14 | [`CheckResult`](NatContent::CheckResult) | sessions (4 each) |
/// | 15 | [`Bye`](NatContent::Bye) | |
///
/// There is one spelling of each message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatMessage {
    /// The life of its sender.
    pub sender: Incarnation,
    /// The life of its receiver, as far as the sender knows it.
    pub receiver: Option<Incarnation>,
    /// What it says.
    pub content: NatContent,
}

/// What a message about NAT sessions says. Sessions have the numbers that the sending gateway gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatContent {
    /// The receiver is to give an arriving flow its addresses back.
    Request {
        /// The session's number.
        id: u32,
        /// Which flow, and how it arrives.
        rule: RestoredRule,
    },
    /// That is done.
    Accepted {
        /// The session's number.
        id: u32,
    },
    /// That is not done.
    Refused {
        /// The session's number.
        id: u32,
        /// Why not.
        reason: RefusalReason,
    },
    /// The session has ended.
    End {
        /// The session's number.
        id: u32,
    },
    /// There is no such session any more.
    Ended {
        /// The session's number.
        id: u32,
    },
    /// Some of the sessions that the sender has asked for.
    Check {
        /// Their numbers, at most [`NatContent::MAX_IDS`].
        ids: Vec<u32>,
    },
    /// An answer: of those, the ones that are not known.
    CheckResult {
        /// Their numbers, at most [`NatContent::MAX_IDS`].
        unknown: Vec<u32>,
    },
    /// The sender ends, and with it all sessions.
    Bye,
}

/// Why a gateway does not give a flow its addresses back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Its configuration does not have these addresses.
    #[error("the far gateway's configuration does not have these addresses")]
    NotPermitted,
    /// It has as many sessions as it allows.
    #[error("the far gateway has as many sessions as it allows")]
    Full,
    /// Its system refuses the rule.
    #[error("the far gateway's system refuses the rule")]
    Failed,
}

/// Numbers of kinds follow each other in the order of the table.
const REQUEST_KIND: u8 = FIRST_SESSION_KIND;
const ACCEPTED_KIND: u8 = FIRST_SESSION_KIND + 1;
const REFUSED_KIND: u8 = FIRST_SESSION_KIND + 2;
const END_KIND: u8 = FIRST_SESSION_KIND + 3;
const ENDED_KIND: u8 = FIRST_SESSION_KIND + 4;
const CHECK_KIND: u8 = FIRST_SESSION_KIND + 5;
const KNOWN_KIND: u8 = FIRST_SESSION_KIND + 6;
const BYE_KIND: u8 = FIRST_SESSION_KIND + 7;

impl NatContent {
    /// How many sessions a message names, so that it fits any path of 1280 octets.
    pub const MAX_IDS: usize = 250;
    /// How many pairs of addresses a request has: as many as there are paths.
    pub const MAX_ARRIVING_FLOWS: usize = 16;
}

impl NatMessage {
    /// Reads what a [`Message::Session`] of this kind has.
    ///
    /// # Errors
    /// It is no such message.
    pub fn parse(kind: u8, body: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader(body);
        let from = Incarnation::new(reader.u32()?).ok_or(MessageError::Invalid { field: "life", value: 0 })?;
        let to = Incarnation::new(reader.u32()?);
        let content = match kind {
            REQUEST_KIND => NatContent::Request { id: reader.u32()?, rule: parse_rule(&mut reader)? },
            ACCEPTED_KIND => NatContent::Accepted { id: reader.u32()? },
            REFUSED_KIND => NatContent::Refused { id: reader.u32()?, reason: RefusalReason::parse(reader.u8()?)? },
            END_KIND => NatContent::End { id: reader.u32()? },
            ENDED_KIND => NatContent::Ended { id: reader.u32()? },
            CHECK_KIND => NatContent::Check { ids: parse_ids(&mut reader)? },
            KNOWN_KIND => NatContent::CheckResult { unknown: parse_ids(&mut reader)? },
            BYE_KIND => NatContent::Bye,
            _ => return Err(MessageError::UnknownKind(kind)),
        };
        if reader.0.is_empty() {
            Ok(NatMessage { sender: from, receiver: to, content })
        } else {
            Err(MessageError::TooLong(reader.0.len()))
        }
    }

    /// Appends it as it is sent, from the first octet on.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut body = self.sender.get().to_be_bytes().to_vec();
        body.extend(self.receiver.map_or(0, Incarnation::get).to_be_bytes());
        let kind = self.content.write(&mut body);
        Message::Session { kind, body: &body }.write(to);
    }
}

impl NatContent {
    /// Appends what stands behind the lives. Returns the kind.
    fn write(&self, body: &mut Vec<u8>) -> u8 {
        let (kind, id) = match self {
            NatContent::Request { id, .. } => (REQUEST_KIND, Some(id)),
            NatContent::Accepted { id } => (ACCEPTED_KIND, Some(id)),
            NatContent::Refused { id, .. } => (REFUSED_KIND, Some(id)),
            NatContent::End { id } => (END_KIND, Some(id)),
            NatContent::Ended { id } => (ENDED_KIND, Some(id)),
            NatContent::Check { .. } => (CHECK_KIND, None),
            NatContent::CheckResult { .. } => (KNOWN_KIND, None),
            NatContent::Bye => (BYE_KIND, None),
        };
        body.extend(id.into_iter().flat_map(|id| id.to_be_bytes()));
        match self {
            NatContent::Request { rule, .. } => write_rule(rule, body),
            NatContent::Refused { reason, .. } => body.push(reason.to_byte()),
            NatContent::Check { ids } | NatContent::CheckResult { unknown: ids } => {
                body.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
            }
            _ => {}
        }
        kind
    }
}

impl RefusalReason {
    fn parse(byte: u8) -> Result<Self, MessageError> {
        match byte {
            1 => Ok(RefusalReason::NotPermitted),
            2 => Ok(RefusalReason::Full),
            3 => Ok(RefusalReason::Failed),
            _ => Err(MessageError::Invalid { field: "reason", value: byte.into() }),
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            RefusalReason::NotPermitted => 1,
            RefusalReason::Full => 2,
            RefusalReason::Failed => 3,
        }
    }
}

fn parse_rule(reader: &mut Reader<'_>) -> Result<RestoredRule, MessageError> {
    let version = reader.u8()?;
    let protocol = reader.u8()?;
    let (source_port, destination_port) = (reader.u16()?, reader.u16()?);
    let own = parse_addresses(reader, version)?;
    let flow = FlowKey {
        protocol,
        source: SocketAddr::new(own.source, source_port),
        destination: SocketAddr::new(own.destination, destination_port),
    };
    let count = reader.u8()?;
    let invalid = |field| MessageError::Invalid { field, value: count.into() };
    if usize::from(count) > NatContent::MAX_ARRIVING_FLOWS {
        return Err(invalid("number of addresses"));
    }
    let arriving: Vec<_> = (0..count).map(|_| parse_addresses(reader, version)).collect::<Result<_, _>>()?;
    if !arriving.is_sorted_by(|one, other| one < other) || arriving.contains(&own) {
        return Err(invalid("order of addresses"));
    }
    Ok(RestoredRule { flow, arriving })
}

fn parse_addresses(reader: &mut Reader<'_>, version: u8) -> Result<Addresses, MessageError> {
    let mut address = || -> Result<IpAddr, MessageError> {
        match version {
            4 => Ok(Ipv4Addr::from(reader.bytes::<4>()?).into()),
            6 => Ok(Ipv6Addr::from(reader.bytes::<16>()?).into()),
            _ => Err(MessageError::Invalid { field: "IP version", value: version.into() }),
        }
    };
    Ok(Addresses { source: address()?, destination: address()? })
}

fn write_rule(rule: &RestoredRule, body: &mut Vec<u8>) {
    let FlowKey { protocol, source, destination } = rule.flow;
    body.extend([if source.is_ipv4() { 4 } else { 6 }, protocol]);
    body.extend([source.port(), destination.port()].iter().flat_map(|port| port.to_be_bytes()));
    write_addresses(rule.flow.addresses(), body);
    // There are at most 16.
    body.push(rule.arriving.len() as u8);
    rule.arriving.iter().for_each(|addresses| write_addresses(*addresses, body));
}

fn write_addresses(addresses: Addresses, body: &mut Vec<u8>) {
    for address in [addresses.source, addresses.destination] {
        match address {
            IpAddr::V4(address) => body.extend(address.octets()),
            IpAddr::V6(address) => body.extend(address.octets()),
        }
    }
}

fn parse_ids(reader: &mut Reader<'_>) -> Result<Vec<u32>, MessageError> {
    let (words, rest) = reader.0.as_chunks();
    if words.len() > NatContent::MAX_IDS {
        return Err(MessageError::Invalid { field: "number of sessions", value: words.len() as u64 });
    }
    let ids = words.iter().map(|word| u32::from_be_bytes(*word)).collect();
    reader.0 = rest;
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<NatMessage, MessageError> {
        match Message::parse(bytes)? {
            Message::Session { kind, body } => NatMessage::parse(kind, body),
            _ => panic!("another message"),
        }
    }

    fn message(content: NatContent) -> NatMessage {
        NatMessage { sender: Incarnation::new(7).unwrap(), receiver: Incarnation::new(9), content }
    }

    #[test]
    fn a_request_stands_on_the_wire_as_documented() {
        let flow = FlowKey {
            protocol: 17,
            source: "10.1.0.2:5000".parse().unwrap(),
            destination: "10.2.0.2:6000".parse().unwrap(),
        };
        let alias = Addresses { source: "192.0.2.1".parse().unwrap(), destination: "10.2.0.2".parse().unwrap() };
        let rule = RestoredRule { flow, arriving: vec![alias] };
        let request = message(NatContent::Request { id: 3, rule });
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        let expected = [
            &[0xe8, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 3][..],
            &[4, 17, 0x13, 0x88, 0x17, 0x70, 10, 1, 0, 2, 10, 2, 0, 2],
            &[1, 192, 0, 2, 1, 10, 2, 0, 2],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(parse(&bytes), Ok(request));
        // The same pair twice, and the flow's own.
        let twice = [&bytes[..27], &[2], &bytes[28..], &bytes[28..]].concat();
        let own = [&bytes[..28], &bytes[19..27]].concat();
        for bytes in [twice, own] {
            assert!(matches!(parse(&bytes), Err(MessageError::Invalid { field: "order of addresses", .. })));
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_reason() {
        let head = [0xe9, 0, 0, 0, 7, 0, 0, 0, 0];
        let invalid = |field, value| Err(MessageError::Invalid { field, value });
        let with = |kind: u8, rest: &[u8]| parse(&[&[kind], &head[1..], rest].concat());
        assert_eq!(parse(&[0xe9, 0, 0, 0, 0, 0, 0, 0, 0]), invalid("life", 0));
        assert_eq!(with(0xe9, &[0; 3]), Err(MessageError::TooShort));
        assert_eq!(with(0xe9, &[0; 5]), Err(MessageError::TooLong(1)));
        assert_eq!(with(0xea, &[0, 0, 0, 1, 4]), invalid("reason", 4));
        assert_eq!(with(0xe8, &[0, 0, 0, 1, 5, 0, 0, 0, 0, 0]), invalid("IP version", 5));
        assert_eq!(with(0xed, &[0; 4 * 251]), invalid("number of sessions", 251));
        assert_eq!(with(0xee, &[0; 6]), Err(MessageError::TooLong(2)));
        assert_eq!(with(0xef, &[]).map(|message| message.content), Ok(NatContent::Bye));
    }

    proptest! {
        #[test]
        fn a_message_has_one_spelling(
            kind in 8u8..16,
            version in prop_oneof![Just(4u8), Just(6), any::<u8>()],
            fixed in prop::collection::vec(any::<u8>(), 12),
            rest in prop::collection::vec(prop_oneof![4 => 0u8..4, 1 => any::<u8>()], 0..120),
        ) {
            let bytes = [&[0xe0 | kind][..], &fixed, &[version], &rest].concat();
            if let Ok(message) = parse(&bytes) {
                let mut again = Vec::new();
                message.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
