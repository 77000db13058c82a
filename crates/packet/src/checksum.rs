//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624), and that of SCTP (RFC 9260, appendix A).

use crate::headers::{Headers, ParseError, protocol};
use std::net::IpAddr;

// Protocols whose addresses can change although their headers are not read (RFC 4340 §9.1, RFC 3828 §3.1).
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;

/// The changes of bytes that a checksum covers (RFC 1624, equation 3: `HC' = ~(~HC + ~m + m')`), collected so that each
/// checksum over them is updated once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChecksumUpdate(u64);

impl ChecksumUpdate {
    /// Notes that bytes at an even offset of what the checksum covers changed from `old` to `new`. Both have the same,
    /// even length.
    pub fn record_change(&mut self, old: &[u8], new: &[u8]) {
        let complement: u64 = words(old).map(|word| u64::from(!word)).sum();
        self.0 += complement + sum(new);
    }

    /// Adds the changes of `other`.
    pub fn merge(&mut self, other: ChecksumUpdate) {
        self.0 += other.0;
    }

    /// The checksum after the changes.
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(u64::from(!checksum) + self.0)
    }
}

/// The checksum of `bytes`: the ones' complement of their ones' complement sum. Zero over bytes that contain their own
/// valid checksum.
pub fn compute(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The checksum of a TCP, UDP or ICMPv6 `segment` with the pseudo header of its addresses.
pub fn compute_transport(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    !fold(pseudo_header(source, destination, protocol, segment.len()) + sum(segment))
}

/// Whether the checksums of the IPv4 header and the transport are valid, as far as this packet shows: true for other
/// protocols, for fragments, and for UDP over IPv4 without a checksum.
///
/// # Errors
/// The bytes are not a complete IP packet.
pub fn is_valid(packet: &[u8]) -> Result<bool, ParseError> {
    let headers = Headers::parse(packet)?;
    Ok(is_header_valid(packet) && is_transport_valid(packet, &headers))
}

/// Whether the checksum of an IPv4 header is valid; true for IPv6, which has none. The packet may be truncated behind
/// its header.
pub fn is_header_valid(packet: &[u8]) -> bool {
    let Some(length) = ipv4_header_length(packet) else { return true };
    packet.get(..length).is_some_and(|header| compute(header) == 0)
}

fn is_transport_valid(packet: &[u8], headers: &Headers) -> bool {
    let Some(field) = field_offset(headers) else { return true };
    let segment = &packet[headers.transport_offset..headers.total_len];
    let absent = headers.source.is_ipv4() && is_absent(headers.protocol, &segment[field..field + 2]);
    absent || compute_with_headers(headers, segment) == 0
}

/// Computes the checksums of the IPv4 header and the transport: needed where the sender left them to a network card that
/// the packet does not pass (checksum offload).
///
/// # Errors
/// The bytes are not a complete IP packet; nothing is changed.
pub fn set(packet: &mut [u8]) -> Result<(), ParseError> {
    let headers = Headers::parse(packet)?;
    set_with_headers(packet, &headers);
    Ok(())
}

/// The same for a packet whose headers have been read; of them, lengths of payloads do not count.
pub(crate) fn set_with_headers(packet: &mut [u8], headers: &Headers) {
    set_ipv4_header(packet);
    if let Some(field) = field_offset(headers) {
        let segment = &mut packet[headers.transport_offset..headers.total_len];
        segment[field..field + 2].fill(0);
        let value = transmitted_value(headers.protocol, compute_with_headers(headers, segment));
        segment[field..field + 2].copy_from_slice(&value.to_be_bytes());
    }
}

/// Sets the checksum of an IPv4 header.
pub(crate) fn set_ipv4_header(packet: &mut [u8]) {
    if let Some(length) = ipv4_header_length(packet) {
        packet[10..12].fill(0);
        let value = compute(&packet[..length]);
        packet[10..12].copy_from_slice(&value.to_be_bytes());
    }
}

/// Whether a checksum field says that there is no checksum (RFC 768; over IPv6 only in tunnels, RFC 6935).
pub(crate) fn is_absent(protocol: u8, field: &[u8]) -> bool {
    protocol == protocol::UDP && field == [0, 0]
}

/// UDP transmits a checksum of zero as all ones, since zero means that there is none (RFC 768).
pub(crate) fn transmitted_value(protocol: u8, checksum: u16) -> u16 {
    if matches!(protocol, protocol::UDP | UDP_LITE) && checksum == 0 { 0xffff } else { checksum }
}

/// Offset of the checksum in the transport header; `None` where this packet does not contain all that it covers.
fn field_offset(headers: &Headers) -> Option<usize> {
    if headers.is_fragment() || headers.transport.is_none() {
        return None;
    }
    offset_in_header(headers.protocol)
}

/// Offset of the checksum in the header of a protocol whose checksum is the Internet checksum.
pub(crate) fn offset_in_header(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        protocol::ICMP | protocol::ICMPV6 => Some(2),
        DCCP | UDP_LITE => Some(6),
        _ => None,
    }
}

/// Whether the checksum of a protocol covers the pseudo header, and with it the addresses.
pub(crate) fn covers_addresses(protocol: u8) -> bool {
    protocol != protocol::ICMP && offset_in_header(protocol).is_some()
}

fn compute_with_headers(headers: &Headers, segment: &[u8]) -> u16 {
    match headers.protocol {
        protocol::ICMP => compute(segment),
        protocol => compute_transport(headers.source, headers.destination, protocol, segment),
    }
}

/// The CRC32c of `bytes`: the checksum of an SCTP packet whose checksum field is zero. It is transmitted least
/// significant byte first.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| sum >> 8 ^ CRC32C_TABLE[usize::from(sum as u8 ^ byte)])
}

/// The remainder of each byte.
const CRC32C_TABLE: [u32; 256] = {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

fn ipv4_header_length(packet: &[u8]) -> Option<usize> {
    let first = packet.first()?;
    (first >> 4 == 4).then_some(usize::from(first & 15) * 4)
}

/// The sum of the pseudo header of a segment, as a sender leaves it in the checksum field for its network card.
#[cfg(test)]
pub(crate) fn of_pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u16 {
    fold(pseudo_header(source, destination, protocol, length))
}

fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u64 {
    let address = |address| match address {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    };
    address(source) + address(destination) + u64::from(protocol) + length as u64
}

/// Four bytes at a time: folding makes the same of them, and compilers vectorise it.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let words: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    words + u64::from(u32::from_be_bytes(last))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, Sample, SampleKind, V4};
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071_and_that_of_rfc_1624() {
        assert_eq!(compute(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        // RFC 1624 §4: the equation of RFC 1141 gives 0xffff here, the right one 0x0000.
        let mut update = ChecksumUpdate::default();
        update.record_change(&[0x55, 0x55], &[0x32, 0x85]);
        assert_eq!(update.apply(0xdd2f), 0x0000);
    }

    #[test]
    fn crc32c_is_that_of_rfc_3720() {
        // RFC 3720 §B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<_>>()), 0x46dd_794e);
    }

    #[test]
    fn the_sum_of_an_ipv4_header_is_verified() {
        let mut packet = Sample::new(V4, SampleKind::Udp, b"payload").packet();
        assert!(is_header_valid(&packet) && is_header_valid(&packet[..20]));
        assert!(!is_header_valid(&packet[..19]), "cut within it");
        // The time to live, which no other sum covers.
        packet[8] -= 1;
        assert_eq!((is_header_valid(&packet), is_valid(&packet)), (false, Ok(false)));
        set_ipv4_header(&mut packet);
        assert_eq!((is_header_valid(&packet), is_valid(&packet)), (true, Ok(true)));
    }

    #[test]
    fn a_fragment_does_not_show_whether_its_datagram_is_valid() {
        let mut packet = Sample::new(V4, SampleKind::Udp, b"the beginning of it").packet();
        packet[6] = 0x20;
        packet[26] ^= 1;
        let sum = [packet[26], packet[27]];
        set(&mut packet).unwrap();
        assert_eq!([packet[26], packet[27]], sum);
        assert_eq!(is_valid(&packet), Ok(true));
        // The same as a whole datagram.
        packet[6] = 0;
        set_ipv4_header(&mut packet);
        assert_eq!(is_valid(&packet), Ok(false));
    }

    proptest! {
        #[test]
        fn an_update_is_what_a_new_sum_would_be(
            mut bytes in prop::collection::vec(any::<u8>(), 8..80), new: [u8; 4], at in 0usize..2
        ) {
            // All zero has two checksums, 0 and 0xffff; no packet is (its version is not 0).
            bytes[7] |= 1;
            let before = compute(&bytes);
            let old: [u8; 4] = bytes[at * 2..at * 2 + 4].try_into().unwrap();
            bytes[at * 2..at * 2 + 4].copy_from_slice(&new);
            let mut update = ChecksumUpdate::default();
            update.record_change(&old, &new);
            prop_assert_eq!(update.apply(before), compute(&bytes));
        }

        #[test]
        fn set_makes_any_packet_valid_and_a_flipped_bit_makes_it_invalid(
            (mut packet, _) in samples::any_packet(), fill: u16, bit in 0usize..8
        ) {
            prop_assert!(is_valid(&packet).unwrap());
            let right = packet.clone();
            let headers = Headers::parse(&packet).unwrap();
            let field = headers.transport_offset + offset_in_header(headers.protocol).unwrap();
            packet[field..field + 2].copy_from_slice(&fill.to_be_bytes());
            set(&mut packet).unwrap();
            prop_assert_eq!(&packet, &right);
            packet[headers.transport_offset] ^= 1 << bit;
            prop_assert!(!is_valid(&packet).unwrap());
        }
    }
}
