use crate::target::{Target, TargetHost};
use thiserror::Error;

/// Bytes of a connection in one message at most.
pub(crate) const MAX_DATA_BYTES: usize = 1 << 14;
/// Bytes of a message at most.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1 + MAX_DATA_BYTES;

/// What the ends of a carried connection say to each other; each message is the text of a sealed record.
///
/// | message | bytes |
/// | --- | --- |
/// | open | 1, port 2 (big-endian), the host's address or name as text |
/// | opened | 2 |
/// | refused | 3, [`ConnectRefusal`] 1 |
/// | data | 4, up to 16 kB |
/// | end | 5 |
/// | rekey offer, rekey answer | 6, 7, each with a public key 32 |
/// | rekeyed | 8 |
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'m> {
    /// To the far end: connect there. The first message of a stream.
    Open(Target),
    /// From the far end: it is connected.
    Opened,
    /// From the far end: it is not, and the stream is over.
    Refused(ConnectRefusal),
    /// Bytes of the connection.
    Data(&'m [u8]),
    /// No more bytes follow, as TCP's FIN says. A stream without it was cut: the connection is reset.
    End,
    /// From the near end: this public key begins an exchange of new keys ([`kumade_noise_session::channel`]).
    RekeyOffer([u8; 32]),
    /// From the far end: its public key. What follows is under the new key.
    RekeyAnswer([u8; 32]),
    /// From the near end: what follows is under the new key.
    Rekeyed,
}

/// Why the far end did not connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectRefusal {
    /// The far end is not told to let it be reached.
    #[error("the far end does not allow it")]
    NotAllowed,
    /// Nothing listens there.
    #[error("it refused the connection")]
    Refused,
    /// No route leads there, or nothing answered.
    #[error("it was not reached")]
    Unreachable,
    /// There is no such name.
    #[error("the far end does not find its address")]
    UnknownHost,
    /// The peer has as many connections as it may have.
    #[error("the far end carries as many connections as it may")]
    TooManyConnections,
}

/// Bytes that are no [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a message of a carried connection is malformed")]
pub struct MalformedMessage;

const OPEN_KIND: u8 = 1;
const OPENED_KIND: u8 = 2;
const REFUSED_KIND: u8 = 3;
/// What stands before data.
pub(crate) const DATA_KIND: u8 = 4;
const END_KIND: u8 = 5;
const REKEY_OFFER_KIND: u8 = 6;
const REKEY_ANSWER_KIND: u8 = 7;
const REKEYED_KIND: u8 = 8;

const REFUSALS: [ConnectRefusal; 5] = [
    ConnectRefusal::NotAllowed,
    ConnectRefusal::Refused,
    ConnectRefusal::Unreachable,
    ConnectRefusal::UnknownHost,
    ConnectRefusal::TooManyConnections,
];

impl<'m> Message<'m> {
    /// The message that these bytes are.
    ///
    /// # Errors
    /// They are none.
    pub fn decode(bytes: &'m [u8]) -> Result<Self, MalformedMessage> {
        let (&kind, rest) = bytes.split_first().ok_or(MalformedMessage)?;
        match (kind, rest) {
            (OPEN_KIND, [high, low, host @ ..]) => {
                let host = std::str::from_utf8(host).ok().and_then(TargetHost::parse).ok_or(MalformedMessage)?;
                Ok(Message::Open(Target { host, port: u16::from_be_bytes([*high, *low]) }))
            }
            (OPENED_KIND, []) => Ok(Message::Opened),
            (REFUSED_KIND, [reason]) => {
                REFUSALS.get(usize::from(*reason)).copied().map(Message::Refused).ok_or(MalformedMessage)
            }
            (DATA_KIND, [_, ..]) if rest.len() <= MAX_DATA_BYTES => Ok(Message::Data(rest)),
            (END_KIND, []) => Ok(Message::End),
            (REKEY_OFFER_KIND, key) => key.try_into().map(Message::RekeyOffer).map_err(|_| MalformedMessage),
            (REKEY_ANSWER_KIND, key) => key.try_into().map(Message::RekeyAnswer).map_err(|_| MalformedMessage),
            (REKEYED_KIND, []) => Ok(Message::Rekeyed),
            _ => Err(MalformedMessage),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Message::Open(Target { host, port }) => {
                [&[OPEN_KIND][..], &port.to_be_bytes(), host.to_string().as_bytes()].concat()
            }
            Message::Opened => vec![OPENED_KIND],
            Message::Refused(refusal) => {
                let place = REFUSALS.iter().position(|of| of == refusal).unwrap_or_default();
                vec![REFUSED_KIND, place as u8]
            }
            Message::Data(bytes) => [&[DATA_KIND], *bytes].concat(),
            Message::End => vec![END_KIND],
            Message::RekeyOffer(key) => [&[REKEY_OFFER_KIND][..], key].concat(),
            Message::RekeyAnswer(key) => [&[REKEY_ANSWER_KIND][..], key].concat(),
            Message::Rekeyed => vec![REKEYED_KIND],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let open = |text: &str| Message::Open(text.parse().unwrap());
        let refused = REFUSALS.map(Message::Refused);
        let others = [
            open("db.example:1"),
            open("[fd77::1]:65535"),
            Message::Opened,
            Message::Data(b"x"),
            Message::End,
            Message::RekeyOffer([7; 32]),
            Message::RekeyAnswer([8; 32]),
            Message::Rekeyed,
        ];
        for message in refused.into_iter().chain(others) {
            assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
        }
        let long = [&[DATA_KIND][..], &[0; MAX_DATA_BYTES + 1]].concat();
        for bytes in [
            &[][..],
            &[0],
            &[OPEN_KIND, 0, 1],
            &[OPENED_KIND, 0],
            &[REFUSED_KIND, 5],
            &[DATA_KIND],
            &[END_KIND, 0],
            &[REKEY_OFFER_KIND; 32],
            &[REKEY_ANSWER_KIND; 34],
            &[REKEYED_KIND, 0],
            &[9],
            &long,
        ] {
            assert_eq!(Message::decode(bytes), Err(MalformedMessage));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(message) = Message::decode(&bytes) {
                let encoded = message.encode();
                prop_assert_eq!(Message::decode(&encoded), Ok(message));
            }
        }
    }
}
