use crate::checksum;
use crate::flow::FlowKey;
use crate::headers::{Fragment, Headers, ParseError, protocol};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use thiserror::Error;

/// Which end of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// Why a packet kept its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RewriteError {
    /// It is no packet.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It is of the other IP version.
    #[error("cannot give the packet the address {0}: it is of the other IP version; translate each version by itself")]
    Version(IpAddr),
}

/// Gives one end of `packet` another address and, where it has ports (TCP, UDP), another port, and keeps all checksums
/// as right or wrong as they were (RFC 1624). The packet may be the beginning of one, as an ICMP error quotes it: what
/// is not there is not changed. Fragments after the first have no ports; their datagram's checksum is in the first.
pub fn rewrite(packet: &mut [u8], end: End, to: SocketAddr) -> Result<(), RewriteError> {
    let headers = Headers::parse_beginning(packet)?;
    let from = match end {
        End::Source => headers.source,
        End::Destination => headers.destination,
    };
    let mut change = Change::default();
    match (from, to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let offset = if end == End::Source { 12 } else { 16 };
            packet[offset..offset + 4].copy_from_slice(&to.octets());
            change.address(&from.octets(), &to.octets());
            update(packet, 10, &change, |checksum| checksum);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let offset = if end == End::Source { 8 } else { 24 };
            packet[offset..offset + 16].copy_from_slice(&to.octets());
            change.address(&from.octets(), &to.octets());
        }
        (_, other) => return Err(RewriteError::Version(other)),
    }
    if headers.fragment != Fragment::Later {
        let segment = &mut packet[headers.transport_offset..headers.total_len];
        rewrite_transport(segment, headers.protocol, end, to.port(), change);
    }
    Ok(())
}

/// The flow of the packet that an ICMP error quotes, as far as its ports are quoted (RFC 792 asks for 8 bytes behind the
/// IP header). `None` if `packet` is no such error or quotes nothing legible.
pub fn quoted_flow(packet: &[u8]) -> Option<FlowKey> {
    let quote = &packet[quote_range(packet)?];
    let headers = Headers::parse_beginning(quote).ok()?;
    let mut flow = FlowKey::of(&headers);
    if let (protocol::TCP | protocol::UDP, Some(ports)) = (headers.protocol, quote.get(headers.transport_offset..))
        && let [a, b, c, d, ..] = *ports
        && headers.fragment != Fragment::Later
    {
        flow.source.set_port(u16::from_be_bytes([a, b]));
        flow.destination.set_port(u16::from_be_bytes([c, d]));
    }
    Some(flow)
}

/// As [`rewrite`], for the packet that an ICMP error quotes; the error's own checksum stays right. Its own addresses do
/// not change. Does nothing to packets that quote none.
pub fn rewrite_quoted(packet: &mut [u8], end: End, to: SocketAddr) -> Result<(), RewriteError> {
    let Some(range) = quote_range(packet) else { return Ok(()) };
    // All that changes lies within a quoted IP header and the ports and checksum behind it; whatever the quote's length,
    // the bytes compared must be even in number, as is a zero beyond the end.
    let padded = |quote: &[u8]| {
        let mut bytes = quote.to_vec();
        bytes.resize(quote.len().next_multiple_of(2), 0);
        bytes
    };
    let old = padded(&packet[range.clone()]);
    rewrite(&mut packet[range.clone()], end, to)?;
    let new = padded(&packet[range.clone()]);
    let at = range.start - 6;
    let checksum = checksum::updated(u16::from_be_bytes([packet[at], packet[at + 1]]), &old, &new);
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Where an ICMP error's quote is: behind its header of 8 bytes.
fn quote_range(packet: &[u8]) -> Option<Range<usize>> {
    let headers = Headers::parse(packet).ok().filter(|headers| headers.is_icmp_error() && !headers.is_fragment())?;
    Some(headers.transport_offset + 8..headers.total_len)
}

/// The bytes before and after, all within the reach of one checksum: at most an IPv6 address and a port.
#[derive(Default)]
struct Change {
    old: [u8; 18],
    new: [u8; 18],
}

impl Change {
    fn address(&mut self, old: &[u8], new: &[u8]) {
        self.old[..old.len()].copy_from_slice(old);
        self.new[..new.len()].copy_from_slice(new);
    }

    fn port(&mut self, old: [u8; 2], new: [u8; 2]) {
        self.old[16..].copy_from_slice(&old);
        self.new[16..].copy_from_slice(&new);
    }
}

fn rewrite_transport(segment: &mut [u8], protocol: u8, end: End, port: u16, mut change: Change) {
    let at = if end == End::Source { 0 } else { 2 };
    if matches!(protocol, protocol::TCP | protocol::UDP)
        && let Some(field) = segment.get_mut(at..at + 2)
    {
        change.port([field[0], field[1]], port.to_be_bytes());
        field.copy_from_slice(&port.to_be_bytes());
    }
    // The checksum of ICMP for IPv4 does not cover the addresses.
    if protocol != protocol::ICMP
        && let Some(field) = checksum::offset_in(protocol)
        && !(protocol == protocol::UDP && segment.get(field..field + 2) == Some(&[0, 0]))
    {
        update(segment, field, &change, |checksum| checksum::nonzero_for(protocol, checksum));
    }
}

fn update(bytes: &mut [u8], at: usize, change: &Change, finish: impl Fn(u16) -> u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        let checksum = checksum::updated(u16::from_be_bytes([field[0], field[1]]), &change.old, &change.new);
        field.copy_from_slice(&finish(checksum).to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
