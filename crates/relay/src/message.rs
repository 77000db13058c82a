use crate::target::{Host, Target};
use thiserror::Error;

/// Bytes of a connection in one message at most.
pub(crate) const MAX_DATA: usize = 1 << 14;
/// Bytes of a message at most.
pub(crate) const MAX_MESSAGE: usize = 1 + MAX_DATA;

/// What the ends of a carried connection say to each other; each message is the text of a sealed record.
///
/// | message | bytes |
/// | --- | --- |
/// | open | 1, port 2 (big-endian), the host's address or name as text |
/// | opened | 2 |
/// | refused | 3, [`Refusal`] 1 |
/// | data | 4, up to 16 kB |
/// | end | 5 |
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'m> {
    /// To the far end: connect there. The first message of a stream.
    Open(Target),
    /// From the far end: it is connected.
    Opened,
    /// From the far end: it is not, and the stream is over.
    Refused(Refusal),
    /// Bytes of the connection.
    Data(&'m [u8]),
    /// No more bytes follow, as TCP's FIN says. A stream without it was cut: the connection is reset.
    End,
}

/// Why the far end did not connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
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
    TooMany,
}

/// Bytes that are no [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a message of a carried connection is malformed")]
pub struct Malformed;

const OPEN: u8 = 1;
const OPENED: u8 = 2;
const REFUSED: u8 = 3;
/// What stands before data.
pub(crate) const DATA: u8 = 4;
const END: u8 = 5;

const REFUSALS: [Refusal; 5] =
    [Refusal::NotAllowed, Refusal::Refused, Refusal::Unreachable, Refusal::UnknownHost, Refusal::TooMany];

impl<'m> Message<'m> {
    /// The message that these bytes are.
    ///
    /// # Errors
    /// They are none.
    pub fn decode(bytes: &'m [u8]) -> Result<Self, Malformed> {
        let (&kind, rest) = bytes.split_first().ok_or(Malformed)?;
        match (kind, rest) {
            (OPEN, [high, low, host @ ..]) => {
                let host = std::str::from_utf8(host).ok().and_then(Host::parse).ok_or(Malformed)?;
                Ok(Message::Open(Target { host, port: u16::from_be_bytes([*high, *low]) }))
            }
            (OPENED, []) => Ok(Message::Opened),
            (REFUSED, [reason]) => REFUSALS.get(usize::from(*reason)).copied().map(Message::Refused).ok_or(Malformed),
            (DATA, [_, ..]) if rest.len() <= MAX_DATA => Ok(Message::Data(rest)),
            (END, []) => Ok(Message::End),
            _ => Err(Malformed),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Message::Open(Target { host, port }) => {
                [&[OPEN][..], &port.to_be_bytes(), host.to_string().as_bytes()].concat()
            }
            Message::Opened => vec![OPENED],
            Message::Refused(refusal) => {
                let place = REFUSALS.iter().position(|of| of == refusal).unwrap_or_default();
                vec![REFUSED, place as u8]
            }
            Message::Data(bytes) => [&[DATA], *bytes].concat(),
            Message::End => vec![END],
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
        let others =
            [open("db.example:1"), open("[fd77::1]:65535"), Message::Opened, Message::Data(b"x"), Message::End];
        for message in refused.into_iter().chain(others) {
            assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
        }
        let long = [&[DATA][..], &[0; MAX_DATA + 1]].concat();
        for bytes in [&[][..], &[0], &[OPEN, 0, 1], &[OPENED, 0], &[REFUSED, 5], &[DATA], &[END, 0], &[6], &long] {
            assert_eq!(Message::decode(bytes), Err(Malformed));
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
