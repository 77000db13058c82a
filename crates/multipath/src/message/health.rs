use super::bytes::Reader;
use super::data::first_octet;
use super::error::MessageError;
use crate::path_report::Report;
use units::{Span, Time};

/// The first octet's kind of a [`Probe`].
pub(super) const PROBE: u8 = 1;
/// The first octet's kind of a [`Report`].
pub(super) const REPORT: u8 = 2;

/// A datagram without a packet that the far end is to report at once. Padding makes it as long as a packet that the path is
/// to be able to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The lowest 32 bits of its counter on its path.
    pub counter: u32,
    /// Octets of the whole message, padding included; at least [`Probe::MIN_SIZE`].
    pub size: u16,
}

impl Probe {
    /// Octets without padding.
    pub const MIN_SIZE: u16 = 5;

    pub(super) fn parse(mut reader: Reader<'_>, size: usize) -> Result<Self, MessageError> {
        let counter = reader.u32()?;
        let size = u16::try_from(size).map_err(|_| MessageError::Invalid { field: "size", value: size as u64 })?;
        match reader.0.iter().find(|octet| **octet != 0) {
            Some(octet) => Err(MessageError::Invalid { field: "padding", value: u64::from(*octet) }),
            None => Ok(Probe { counter, size }),
        }
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let end = to.len() + usize::from(self.size.max(Self::MIN_SIZE));
        to.push(first_octet(PROBE));
        to.extend_from_slice(&self.counter.to_be_bytes());
        to.resize(end, 0);
    }
}

pub(super) fn parse_report(mut reader: Reader<'_>) -> Result<Report, MessageError> {
    let report = Report {
        highest: reader.u64()?,
        packets: reader.u64()?,
        bytes: reader.u64()?,
        arrival: Time::from_nanos(reader.u64()? as i64),
        held: Span::from_nanos(reader.u32()?.into()),
    };
    if reader.0.is_empty() { Ok(report) } else { Err(MessageError::TooLong(reader.0.len())) }
}

pub(super) fn write_report(report: &Report, to: &mut Vec<u8>) {
    to.push(first_octet(REPORT));
    for field in [report.highest, report.packets, report.bytes, report.arrival.as_nanos() as u64] {
        to.extend_from_slice(&field.to_be_bytes());
    }
    // At most 4.29 s; nothing is held for so long.
    let held = report.held.as_nanos().clamp(0, u32::MAX.into()) as u32;
    to.extend_from_slice(&held.to_be_bytes());
}
