use super::bytes::Reader;
use super::data::OTHER_FORM;
use super::error::MessageError;
use crate::path::report::PathReport;
use kumade_units::{Span, Time};

/// The first octet of a message of this kind.
pub(super) const fn first_octet(kind: u8) -> u8 {
    OTHER_FORM | kind
}

/// The first octet's kind of a [`Probe`].
pub(super) const PROBE_KIND: u8 = 1;
/// The first octet's kind of a [`PathReport`].
pub(super) const REPORT_KIND: u8 = 2;
/// The first octet's kind of a [`MtuQuery`].
pub(super) const MTU_PROBE_KIND: u8 = 3;
/// The first octet's kind of the answer to it.
pub(super) const MTU_ANSWER_KIND: u8 = 4;

/// A datagram without a packet that the far end is to report at once. Padding makes it as long as a packet that the path is
/// to be able to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Octets of the whole message, padding included; at least [`Probe::MIN_SIZE`].
    pub size: u16,
}

/// As a [`Probe`], of the path's MTU ([`PathMtuDiscovery`](crate::PathMtuDiscovery)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuQuery {
    /// The answer repeats it.
    pub number: u32,
    /// Octets of the whole message, padding included; at least [`MtuQuery::MIN_SIZE`].
    pub size: u16,
}

impl Probe {
    /// Octets without padding.
    pub const MIN_SIZE: u16 = 1;

    pub(super) fn parse(reader: Reader<'_>, size: usize) -> Result<Self, MessageError> {
        parse_padding(reader, size).map(|size| Probe { size })
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        write_padded(PROBE_KIND, &[], self.size, to);
    }
}

impl MtuQuery {
    /// Octets without padding.
    pub const MIN_SIZE: u16 = 5;

    pub(super) fn parse(mut reader: Reader<'_>, size: usize) -> Result<Self, MessageError> {
        let number = reader.u32()?;
        parse_padding(reader, size).map(|size| MtuQuery { number, size })
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        write_padded(MTU_PROBE_KIND, &self.number.to_be_bytes(), self.size, to);
    }
}

/// Zeros; returns the size of the whole message.
fn parse_padding(reader: Reader<'_>, size: usize) -> Result<u16, MessageError> {
    let size = u16::try_from(size).map_err(|_| MessageError::Invalid { field: "size", value: size as u64 })?;
    match reader.0.iter().find(|octet| **octet != 0) {
        Some(octet) => Err(MessageError::Invalid { field: "padding", value: u64::from(*octet) }),
        None => Ok(size),
    }
}

fn write_padded(kind: u8, fields: &[u8], size: u16, to: &mut Vec<u8>) {
    let end = to.len() + usize::from(size).max(1 + fields.len());
    to.push(first_octet(kind));
    to.extend_from_slice(fields);
    to.resize(end, 0);
}

pub(super) fn parse_mtu_answer(mut reader: Reader<'_>) -> Result<u32, MessageError> {
    let number = reader.u32()?;
    if reader.0.is_empty() { Ok(number) } else { Err(MessageError::TooLong(reader.0.len())) }
}

pub(super) fn write_mtu_answer(number: u32, to: &mut Vec<u8>) {
    to.push(first_octet(MTU_ANSWER_KIND));
    to.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn parse_report(mut reader: Reader<'_>) -> Result<PathReport, MessageError> {
    let report = PathReport {
        highest_counter: parse_count(&mut reader, "highest counter")?,
        received_packets: parse_count(&mut reader, "number of packets")?,
        received_bytes: parse_count(&mut reader, "number of bytes")?,
        arrival: Time::from_nanos(reader.u64()? as i64),
        hold_time: Span::from_nanos(reader.u32()?.into()),
    };
    if reader.0.is_empty() { Ok(report) } else { Err(MessageError::TooLong(reader.0.len())) }
}

/// What a path has passed in all: no peer has a reason to say more, and what is added to it does not overflow.
fn parse_count(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, MessageError> {
    match reader.u64()? {
        value @ ..=PathReport::MAX_COUNT => Ok(value),
        value => Err(MessageError::Invalid { field, value }),
    }
}

pub(super) fn write_report(report: &PathReport, to: &mut Vec<u8>) {
    to.push(first_octet(REPORT_KIND));
    for field in
        [report.highest_counter, report.received_packets, report.received_bytes, report.arrival.as_nanos() as u64]
    {
        to.extend_from_slice(&field.to_be_bytes());
    }
    // At most 4.29 s; nothing is held for so long.
    let held = report.hold_time.as_nanos().clamp(0, u32::MAX.into()) as u32;
    to.extend_from_slice(&held.to_be_bytes());
}
