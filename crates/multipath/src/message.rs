//! What two gateways say to each other within a sealed datagram.
//!
//! Outside of it, each datagram carries the number of its path and a counter of that path, so that nothing here repeats
//! them. All numbers are in network byte order. The first octet of each message has the version in its upper four bits
//! and the kind in the lower four:
//!
//! | kind | message | after the first octet |
//! | --- | --- | --- |
//! | 0 | [`Data`] | flags and number of predecessors (1), bucket (2), number (4), predecessors (4 each), an IP packet |
//! | 1 | [`Probe`] | time stamp (8), padding |
//! | 2 | [`Echo`] | path (1), size (2), time stamps (3 × 8) |
//! | 3 | [`Reports`] | reports (48 each) |
//! | 8 … 15 | [`Message::Session`] | what belongs to NAT sessions |
//!
//! A [`Data`] message thus takes 8 octets besides the packet and 4 for each further path that the bucket has used and not
//! been reported to have passed. Messages are read in place, without a copy, and for each there is one spelling.

mod bytes;
mod data;
mod error;
mod health;

pub use data::{BUCKETS, Data, DataHeader, Predecessors};
pub use error::{MessageError, VERSION};
pub use health::{Echo, PathReport, Probe, Reports};

use bytes::Reader;

/// A message, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// An IP packet.
    Data(Data<'a>),
    /// A question whether and how a path passes datagrams.
    Probe(Probe),
    /// The answer to a probe.
    Echo(Echo),
    /// What arrived over each path.
    Report(Reports<'a>),
    /// What belongs to NAT sessions.
    Session {
        /// The kind: 8 to 15.
        kind: u8,
        /// What follows the first octet.
        body: &'a [u8],
    },
}

/// The first kind of those that belong to NAT sessions.
pub const SESSION_KINDS: u8 = 8;

const DATA: u8 = 0;
const PROBE: u8 = 1;
const ECHO: u8 = 2;
const REPORT: u8 = 3;

impl<'a> Message<'a> {
    /// Reads the content of a datagram.
    ///
    /// # Errors
    /// It is no message of this version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader(bytes);
        let first = reader.u8()?;
        let (version, kind) = (first >> 4, first & 15);
        if version != VERSION {
            return Err(MessageError::OtherVersion(version));
        }
        match kind {
            DATA => Data::parse(reader).map(Message::Data),
            PROBE => Probe::parse(reader, bytes.len()).map(Message::Probe),
            ECHO => Echo::parse(reader).map(Message::Echo),
            REPORT => Reports::parse(reader).map(Message::Report),
            SESSION_KINDS.. => Ok(Message::Session { kind, body: reader.0 }),
            _ => Err(MessageError::UnknownKind(kind)),
        }
    }

    /// Appends the message as it is sent.
    pub fn write(&self, to: &mut Vec<u8>) {
        match self {
            Message::Data(data) => data.write(to),
            Message::Probe(probe) => probe.write(to),
            Message::Echo(echo) => echo.write(to),
            Message::Report(reports) => PathReport::write(*reports, to),
            Message::Session { kind, body } => {
                to.push(data::first_octet(kind & 15));
                to.extend_from_slice(body);
            }
        }
    }
}

#[cfg(test)]
mod tests;
