//! What two gateways say to each other within a sealed datagram.
//!
//! Outside of it, each datagram carries the number of its path, so that nothing here repeats it, and those with a packet or a
//! [`Probe`] its counter on the path, which goes on when keys change
//! ([`seal_numbered`](kumade_noise_session::SessionTable::seal_numbered)). A report, a probe of the MTU and its answer are not counted:
//! what is too long for a path is not lost by it. What keys agree on is the version, too: the handshake of another one fails. All
//! numbers are in network byte order.
//!
//! A message with an IP packet, [`Data`], begins with 32 bits: its form (3), whether a report is to come at once (1), the bucket
//! (10), the lowest bits of the packet's number in it (18). Then follows, by the form:
//!
//! | form | what follows, in octets |
//! | --- | --- |
//! | 0 | the packet |
//! | 1, 2 | lowest bits of the counter of the predecessor on path 0 or 1 (2), the packet |
//! | 3, 4 | the same of one of which copies are sent, or that is repeated |
//! | 5 | the packet, which needs no order |
//! | 6 | flags and number of predecessors (1), of each the path and the lowest bits of the counter (1 + 2), length of segments (2), the packet |
//!
//! The flags are 0x10: copies are sent, or it is repeated; 0x20: it stands for segments, and has their length; 0x40: it needs no order.
//!
//! Others begin with 224 and their kind in one octet:
//!
//! | kind | message | after the first octet |
//! | --- | --- | --- |
//! | 1 | [`Probe`] | padding |
//! | 2 | [`PathReport`] | highest counter (8), packets (8), octets (8), time of arrival (8), time that the report was held (4) |
//! | 3 | [`Message::MtuProbe`] | number (4), padding |
//! | 4 | [`Message::MtuAnswer`] | number (4) |
//! | 5 | [`Missing`] | path (1), counter (8), of further ones how far above it (2 each) |
//! | 6 | [`Kept`] | of each the path (1), the lowest bits of the counter (4), the number of its headers (2) |
//! | 7 | [`Message::ForgetHeaders`] | the number of the headers (2) |
//! | 8 … 15 | [`Message::Session`] | [`NatMessage`](crate::nat_session::NatMessage) |
//!
//! A [`Data`] message thus takes 4 octets besides the packet, and 2 where there are two paths and one in the bucket has not been
//! reported to have passed the other. Messages are read in place, without a copy; each has one spelling, but for compressed headers
//! in the place of the packet's. A report goes back over the path that it is about, and so does the answer to a probe of the path's MTU.
//!
//! Where both ends have agreed on it, a packet's headers may be compressed: what stands in its place then, and how, is described in
//! `header_contexts.rs` beside this file.
//!
//! # What the lowest bits suffice for
//!
//! - A *counter* of a predecessor is that next to the highest counter that has come over its path. It is told only until it is
//!   reported, and no more than 2¹⁵ datagrams of all paths together are on their way unreported
//!   ([`MAX_UNREPORTED_DATAGRAMS`](crate::MAX_UNREPORTED_DATAGRAMS)): both lie within 2¹⁴ where there are two paths.
//! - A packet's *number* is the one from 221 184 below the next in its bucket to 40 959 above: what may be on its way, and 8192
//!   that wait. What is further behind would have to be kept on its path for seconds while another one carries a gigabit
//!   per second of its flow.

pub(crate) mod bytes;
mod data;
mod error;
mod health;
mod kept;
mod missing;

pub use data::{BUCKET_COUNT, Data, DataHeader, NUMBER_BITS, Predecessors};
pub use error::MessageError;
pub use health::{MtuQuery, Probe};
pub use kept::{KEPT_NUMBER_BITS, Kept, KeptEntry};
pub use missing::Missing;

use crate::path::report::PathReport;
use bytes::Reader;
use data::OTHER_FORM;
use health::{MTU_ANSWER_KIND, MTU_PROBE_KIND, PROBE_KIND, REPORT_KIND, first_octet};
use kept::{FORGET_KIND, KEPT_KIND};
use missing::MISSING_KIND;

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
    /// Datagrams that a path has lost.
    Missing(Missing<'a>),
    /// Packets whose headers have been kept.
    Kept(Kept<'a>),
    /// A packet could not be decompressed by the headers with this number, of [`KEPT_NUMBER_BITS`]: if packets are still compressed by
    /// them, all that has been said to be kept is not there any more.
    ForgetHeaders(u16),
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
const LAST_SESSION_KIND: u8 = 15;

impl<'a> Message<'a> {
    /// Reads the content of a datagram.
    ///
    /// # Errors
    /// It is no message of this version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader(bytes);
        if bytes.first().is_some_and(|first| *first < OTHER_FORM) {
            return Data::parse(reader).map(Message::Data);
        }
        match reader.u8()? & !OTHER_FORM {
            PROBE_KIND => Probe::parse(reader, bytes.len()).map(Message::Probe),
            REPORT_KIND => health::parse_report(reader).map(Message::Report),
            MTU_PROBE_KIND => MtuQuery::parse(reader, bytes.len()).map(Message::MtuProbe),
            MTU_ANSWER_KIND => health::parse_mtu_answer(reader).map(Message::MtuAnswer),
            MISSING_KIND => Missing::parse(reader).map(Message::Missing),
            KEPT_KIND => Kept::parse(reader).map(Message::Kept),
            FORGET_KIND => kept::parse_forget(reader).map(Message::ForgetHeaders),
            kind @ FIRST_SESSION_KIND..=LAST_SESSION_KIND => Ok(Message::Session { kind, body: reader.0 }),
            kind => Err(MessageError::UnknownKind(kind)),
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
            Message::Missing(missing) => missing.write(to),
            Message::Kept(kept) => kept.write(to),
            Message::ForgetHeaders(number) => kept::write_forget(*number, to),
            Message::Session { kind, body } => {
                to.push(first_octet(kind & LAST_SESSION_KIND));
                to.extend_from_slice(body);
            }
        }
    }
}

#[cfg(test)]
mod tests;
