//! What two gateways say to each other within a sealed datagram.
//!
//! Outside of it, each datagram carries the number of its path, so that nothing here repeats it. What leaves on a path is
//! counted here, and goes on to be when keys change; the counters outside begin again then. All numbers are in network
//! byte order. The first octet of each message has the version in its upper four bits and the kind in the lower four:
//!
//! | kind | message | after the first octet |
//! | --- | --- | --- |
//! | 0 | [`Data`] | flags and number of predecessors (1), bucket (2), number (4), counter (4), predecessors (4 each), where it stands for segments their length (2), an IP packet |
//! | 1 | [`Probe`] | counter (4), padding |
//! | 2 | [`PathReport`] | highest counter (8), packets (8), octets (8), time of arrival (8), time that the report was held (4) |
//! | 3 | [`Message::MtuProbe`] | number (4), padding |
//! | 4 | [`Message::MtuAnswer`] | number (4) |
//! | 8 … 15 | [`Message::Session`] | [`NatMessage`](crate::nat_session::NatMessage) |
//!
//! A [`Data`] message thus takes 12 octets besides the packet and 4 for each further path that the bucket has used and not
//! been reported to have passed. Messages are read in place, without a copy, and for each there is one spelling. A report
//! goes back over the path that it is about, and so does the answer to a probe of the path's MTU. Those are not counted:
//! what is too long for a path is not lost by it.

pub(crate) mod bytes;
mod data;
mod error;
mod health;

pub use data::{BUCKET_COUNT, Data, DataHeader, Predecessors};
pub use error::{MessageError, VERSION};
pub use health::{MtuQuery, Probe};

use crate::path::report::PathReport;
use bytes::Reader;
use health::{MTU_ANSWER_KIND, MTU_PROBE_KIND, PROBE_KIND, REPORT_KIND};

/// A message, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// An IP packet.
    Data(Data<'a>),
    /// A question whether and how a path passes datagrams.
    Probe(Probe),
    /// What has arrived over the path.
    Report(PathReport),
    /// A question whether the path passes a datagram of this length.
    MtuProbe(MtuQuery),
    /// The probe of the path's MTU that has arrived: its number.
    MtuAnswer(u32),
    /// What belongs to NAT sessions.
    Session {
        /// The kind: 8 to 15.
        kind: u8,
        /// What follows the first octet.
        body: &'a [u8],
    },
}

/// The first kind of those that belong to NAT sessions.
pub const FIRST_SESSION_KIND: u8 = 8;

const DATA_KIND: u8 = 0;

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
            DATA_KIND => Data::parse(reader).map(Message::Data),
            PROBE_KIND => Probe::parse(reader, bytes.len()).map(Message::Probe),
            REPORT_KIND => health::parse_report(reader).map(Message::Report),
            MTU_PROBE_KIND => MtuQuery::parse(reader, bytes.len()).map(Message::MtuProbe),
            MTU_ANSWER_KIND => health::parse_mtu_answer(reader).map(Message::MtuAnswer),
            FIRST_SESSION_KIND.. => Ok(Message::Session { kind, body: reader.0 }),
            _ => Err(MessageError::UnknownKind(kind)),
        }
    }

    /// Appends the message as it is sent.
    pub fn write(&self, to: &mut Vec<u8>) {
        match self {
            Message::Data(data) => data.write(to),
            Message::Probe(probe) => probe.write(to),
            Message::Report(report) => health::write_report(report, to),
            Message::MtuProbe(probe) => probe.write(to),
            Message::MtuAnswer(number) => health::write_mtu_answer(*number, to),
            Message::Session { kind, body } => {
                to.push(data::first_octet(kind & 15));
                to.extend_from_slice(body);
            }
        }
    }
}

#[cfg(test)]
mod tests;
