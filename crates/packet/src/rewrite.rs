use crate::checksum::{self, ChecksumUpdate};
use crate::headers::{Fragment, Headers, Icmp, PacketEnd, Transport, protocol};
use std::net::IpAddr;
use thiserror::Error;

/// Why a packet cannot get other addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The new address is of the other IP version.
    #[error("cannot replace {old} by {new} in a packet: they are of different IP versions; translate each by itself")]
    Version {
        /// The packet's address.
        old: IpAddr,
        /// The address to be written.
        new: IpAddr,
    },
    /// The headers to be replaced are not those of the packet.
    #[error(
        "cannot rewrite a packet of {len} bytes: it is shorter than the headers read from it; pass the same packet"
    )]
    Length {
        /// Length of the packet, in bytes.
        len: usize,
    },
}

/// A packet quoted by an ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotedPacket {
    /// Offset of the quoted packet within the ICMP error, in bytes.
    pub offset: usize,
    /// Headers of the quoted packet, which may be truncated: 8 bytes behind its IP header are certain (RFC 792).
    pub headers: Headers,
}

impl QuotedPacket {
    /// The quote in a packet with these headers; `None` where it is not an unfragmented ICMP error or its quote cannot
    /// be read.
    pub fn from_error(packet: &[u8], headers: &Headers) -> Option<Self> {
        if !headers.is_icmp_error() || headers.is_fragment() {
            return None;
        }
        let offset = headers.transport_offset + ICMP_HEADER_BYTES;
        let quoted = packet.get(offset..headers.total_len)?;
        Some(QuotedPacket { offset, headers: Headers::parse_truncated(quoted).ok()? })
    }
}

const ICMP_HEADER_BYTES: usize = 8;

/// Changes addresses, ports and ICMP identifier of `packet` in place from those in `from`, as parsed from this packet, to
/// those in `to`, and updates all checksums over them (RFC 1624), so that valid ones stay valid and invalid ones
/// invalid. The packet may be truncated: what is missing is not changed. Later fragments have no ports; their datagram's
/// checksum is in the first.
///
/// # Errors
/// An address is of the other IP version, or the packet is shorter than `from` says. Nothing is changed then.
pub fn rewrite(packet: &mut [u8], from: &Headers, to: &Headers) -> Result<(), RewriteError> {
    rewrite_tracked(packet, from, to, Coverage::Segment).map(drop)
}

/// As [`rewrite`], for a packet whose sender has left the transport checksum to its network card (see
/// [`crate::offload`]): the field contains the sum of the pseudo header only, not complemented.
///
/// # Errors
/// As [`rewrite`].
pub fn rewrite_offloaded(packet: &mut [u8], from: &Headers, to: &Headers) -> Result<(), RewriteError> {
    rewrite_tracked(packet, from, to, Coverage::PseudoHeader).map(drop)
}

/// As [`rewrite`], for the packet that an ICMP error quotes; updates the checksum of the error as well.
///
/// # Errors
/// As [`rewrite`].
pub fn rewrite_quote(packet: &mut [u8], quote: &QuotedPacket, to: &Headers) -> Result<(), RewriteError> {
    let len = packet.len();
    let (error, quoted) = packet.split_at_mut_checked(quote.offset).ok_or(RewriteError::Length { len })?;
    let update = rewrite_tracked(quoted, &quote.headers, to, Coverage::Segment)?;
    let field = error.len().checked_sub(6).and_then(|at| error.get_mut(at..at + 2));
    update_field(field, update, |checksum| checksum);
    Ok(())
}

/// What the transport's checksum field covers so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coverage {
    Segment,
    PseudoHeader,
}

/// Rewrites, and returns all changes, those of checksums included.
fn rewrite_tracked(
    packet: &mut [u8],
    from: &Headers,
    to: &Headers,
    coverage: Coverage,
) -> Result<ChecksumUpdate, RewriteError> {
    let mut all = ChecksumUpdate::default();
    if from == to {
        return Ok(all);
    }
    check_rewrite(packet, from, to)?;
    let mut addresses = ChecksumUpdate::default();
    write_address(packet, from, to, PacketEnd::Source, &mut addresses);
    write_address(packet, from, to, PacketEnd::Destination, &mut addresses);
    all.merge(addresses);
    if from.source.is_ipv4() {
        all.merge(update_field(packet.get_mut(10..12), addresses, |checksum| checksum));
    }
    if from.fragment != Fragment::Later {
        let segment = &mut packet[from.transport_offset..from.total_len];
        all.merge(write_transport(segment, from, to, addresses, coverage));
    }
    Ok(all)
}

fn check_rewrite(packet: &[u8], from: &Headers, to: &Headers) -> Result<(), RewriteError> {
    for end in [PacketEnd::Source, PacketEnd::Destination] {
        let (old, new) = (from.address(end), to.address(end));
        if old.is_ipv4() != new.is_ipv4() {
            return Err(RewriteError::Version { old, new });
        }
    }
    let header = if from.source.is_ipv4() { 20 } else { 40 };
    if packet.len() < from.total_len.max(header) || from.transport_offset > from.total_len {
        return Err(RewriteError::Length { len: packet.len() });
    }
    Ok(())
}

fn write_address(packet: &mut [u8], from: &Headers, to: &Headers, end: PacketEnd, update: &mut ChecksumUpdate) {
    let mut write = |offset: usize, old: &[u8], new: &[u8]| {
        update.record_change(old, new);
        packet[offset..offset + new.len()].copy_from_slice(new);
    };
    match (from.address(end), to.address(end)) {
        (old, new) if old == new => {}
        (IpAddr::V4(old), IpAddr::V4(new)) => {
            write(if end == PacketEnd::Source { 12 } else { 16 }, &old.octets(), &new.octets());
        }
        (IpAddr::V6(old), IpAddr::V6(new)) => {
            write(if end == PacketEnd::Source { 8 } else { 24 }, &old.octets(), &new.octets());
        }
        _ => unreachable!("versions are checked"),
    }
}

/// Writes ports and identifier, and updates the transport's checksum.
fn write_transport(
    segment: &mut [u8],
    from: &Headers,
    to: &Headers,
    addresses: ChecksumUpdate,
    coverage: Coverage,
) -> ChecksumUpdate {
    let mut written = ChecksumUpdate::default();
    let mut write = |offset: usize, old: u16, new: u16| {
        if let Some(field) = segment.get_mut(offset..offset + 2) {
            written.record_change(&old.to_be_bytes(), &new.to_be_bytes());
            field.copy_from_slice(&new.to_be_bytes());
        }
    };
    if let (Some(old), Some(new)) = (from.ports, to.ports) {
        write(0, old.0, new.0);
        write(2, old.1, new.1);
    }
    if let (Some(old), Some(new)) = (identifier(from), identifier(to)) {
        write(4, old, new);
    }
    let mut covered = if coverage == Coverage::Segment { written } else { ChecksumUpdate::default() };
    if checksum::covers_addresses(from.protocol) {
        covered.merge(addresses);
    }
    written.merge(update_transport(segment, from.protocol, covered, coverage));
    written
}

fn update_transport(segment: &mut [u8], protocol: u8, covered: ChecksumUpdate, coverage: Coverage) -> ChecksumUpdate {
    let Some(offset) = checksum::offset_in_header(protocol) else { return ChecksumUpdate::default() };
    let field = segment.get_mut(offset..offset + 2).filter(|field| !checksum::is_absent(protocol, field));
    let Some(field) = field else { return ChecksumUpdate::default() };
    if coverage == Coverage::PseudoHeader {
        field.iter_mut().for_each(|byte| *byte = !*byte);
        let own = update_field(Some(&mut *field), covered, |checksum| checksum);
        field.iter_mut().for_each(|byte| *byte = !*byte);
        return own;
    }
    let own = update_field(Some(field), covered, |checksum| checksum::transmitted_value(protocol, checksum));
    // Of nothing but zeros, the sum is zero and its checksum 0xffff, which an update does not give (RFC 1624 §3). Only
    // an ICMP echo reply can be that. To the checksum over an ICMP error that quotes it, both are the same.
    if protocol == protocol::ICMP && segment.iter().all(|byte| *byte == 0) {
        segment[offset..offset + 2].fill(0xff);
    }
    own
}

fn identifier(headers: &Headers) -> Option<u16> {
    match headers.transport {
        Some(Transport::Icmp(Icmp { identifier, .. })) => identifier,
        _ => None,
    }
}

/// Updates a checksum field, if it is there, and returns its own change.
fn update_field(field: Option<&mut [u8]>, update: ChecksumUpdate, finish: impl Fn(u16) -> u16) -> ChecksumUpdate {
    let mut own = ChecksumUpdate::default();
    if let Some(field) = field
        && let [high, low] = *field
    {
        let new = finish(update.apply(u16::from_be_bytes([high, low]))).to_be_bytes();
        own.record_change(&[high, low], &new);
        field.copy_from_slice(&new);
    }
    own
}

#[cfg(test)]
mod tests;
