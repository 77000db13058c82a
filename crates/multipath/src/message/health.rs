use super::bytes::Reader;
use super::data::first_octet;
use super::error::MessageError;
use crate::path_id::PathId;
use units::{Span, Time};

const PROBE: u8 = 1;
const ECHO: u8 = 2;
const REPORT: u8 = 3;

/// A question to the far end, which answers it at once and on the same path. Padding makes it as long as a packet that
/// the path is to be able to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// When it was sent, by the sender's clock.
    pub sent: Time,
    /// Octets of the whole message, padding included; at least [`Probe::MIN_SIZE`].
    pub size: u16,
}

/// The answer to a [`Probe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The path that the probe came over.
    pub path: PathId,
    /// The octets of the probe's message.
    pub size: u16,
    /// When the probe was sent, by its sender's clock.
    pub probe_sent: Time,
    /// When it arrived, by the clock of who answers.
    pub received: Time,
    /// When the answer was sent, by the same clock.
    pub sent: Time,
}

/// What has arrived over one path since the session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathReport {
    /// The path.
    pub path: PathId,
    /// The highest counter that arrived, below 2⁵⁶.
    pub highest: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Those that arrived with a congestion mark (ECN-CE, RFC 3168).
    pub marked: u64,
    /// Octets of the datagrams that arrived, with their IP headers.
    pub bytes: u64,
    /// When the datagram with the highest counter arrived, by the receiver's clock.
    pub arrived: Time,
    /// How long after that the report was sent, for round trips; at most 4.29 s.
    pub held: Span,
    /// How much longer than the least delay seen the last probe was under way (RFC 5481, packet delay variation); at
    /// most 4.29 s.
    pub queueing: Span,
}

/// The reports of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reports<'a>(&'a [[u8; PathReport::SIZE]]);

impl Probe {
    /// Octets without padding.
    pub const MIN_SIZE: u16 = 9;

    pub(super) fn parse(mut reader: Reader<'_>, size: usize) -> Result<Self, MessageError> {
        let sent = read_time(&mut reader)?;
        let size = u16::try_from(size).map_err(|_| MessageError::Invalid { field: "size", value: size as u64 })?;
        match reader.0.iter().find(|octet| **octet != 0) {
            Some(octet) => Err(MessageError::Invalid { field: "padding", value: u64::from(*octet) }),
            None => Ok(Probe { sent, size }),
        }
    }

    /// Appends the message as it is sent.
    pub fn write(&self, to: &mut Vec<u8>) {
        let end = to.len() + usize::from(self.size.max(Self::MIN_SIZE));
        to.push(first_octet(PROBE));
        write_time(self.sent, to);
        to.resize(end, 0);
    }
}

impl Echo {
    pub(super) fn parse(mut reader: Reader<'_>) -> Result<Self, MessageError> {
        let number = reader.u8()?;
        let path = PathId::new(number).ok_or(MessageError::Invalid { field: "path", value: number.into() })?;
        let size = reader.u16()?;
        if size < Probe::MIN_SIZE {
            return Err(MessageError::Invalid { field: "size", value: size.into() });
        }
        let [probe_sent, received, sent] = [read_time(&mut reader)?, read_time(&mut reader)?, read_time(&mut reader)?];
        if !reader.0.is_empty() {
            return Err(MessageError::TooLong(reader.0.len()));
        }
        Ok(Echo { path, size, probe_sent, received, sent })
    }

    /// Appends the message as it is sent.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&[first_octet(ECHO), self.path.number()]);
        to.extend_from_slice(&self.size.to_be_bytes());
        for time in [self.probe_sent, self.received, self.sent] {
            write_time(time, to);
        }
    }
}

impl<'a> Reports<'a> {
    /// All have a path that there is.
    pub(super) fn parse(reader: Reader<'a>) -> Result<Self, MessageError> {
        let (reports, rest) = reader.0.as_chunks::<{ PathReport::SIZE }>();
        if !rest.is_empty() {
            return Err(MessageError::TooShort);
        }
        match reports.iter().map(|report| report[0]).find(|path| PathId::new(*path).is_none()) {
            Some(path) => Err(MessageError::Invalid { field: "path", value: path.into() }),
            None => Ok(Reports(reports)),
        }
    }
}

impl Iterator for Reports<'_> {
    type Item = PathReport;

    fn next(&mut self) -> Option<PathReport> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        PathReport::read(first)
    }
}

impl PathReport {
    const SIZE: usize = 48;

    /// Appends a message with these reports.
    pub fn write(reports: impl IntoIterator<Item = PathReport>, to: &mut Vec<u8>) {
        to.push(first_octet(REPORT));
        for report in reports {
            let path_and_highest = u64::from(report.path.number()) << 56 | report.highest & ((1 << 56) - 1);
            for field in [path_and_highest, report.received, report.marked, report.bytes] {
                to.extend_from_slice(&field.to_be_bytes());
            }
            write_time(report.arrived, to);
            for span in [report.held, report.queueing] {
                let nanos = span.as_nanos().clamp(0, u32::MAX.into()) as u32;
                to.extend_from_slice(&nanos.to_be_bytes());
            }
        }
    }

    fn read(octets: &[u8; Self::SIZE]) -> Option<Self> {
        let mut reader = Reader(octets);
        let path_and_highest = reader.u64().ok()?;
        Some(PathReport {
            path: PathId::new((path_and_highest >> 56) as u8)?,
            highest: path_and_highest & ((1 << 56) - 1),
            received: reader.u64().ok()?,
            marked: reader.u64().ok()?,
            bytes: reader.u64().ok()?,
            arrived: read_time(&mut reader).ok()?,
            held: Span::from_nanos(reader.u32().ok()?.into()),
            queueing: Span::from_nanos(reader.u32().ok()?.into()),
        })
    }
}

fn read_time(reader: &mut Reader<'_>) -> Result<Time, MessageError> {
    Ok(Time::from_nanos(reader.u64()? as i64))
}

fn write_time(time: Time, to: &mut Vec<u8>) {
    to.extend_from_slice(&time.as_nanos().to_be_bytes());
}
