//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624), and that of SCTP (RFC 9260, appendix A).

use crate::headers::{Headers, ParseError, protocol};
use std::net::IpAddr;

/// The checksum of `bytes`: the ones' complement of their ones' complement sum. Zero over bytes that hold their own
/// valid checksum.
pub fn of(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The checksum of a TCP, UDP or ICMPv6 `segment` with the pseudo header of its addresses.
pub fn of_transport(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    !fold(pseudo_header(source, destination, protocol, segment.len()) + sum(segment))
}

/// `checksum` after an even stretch of the bytes it covers changed from `old` to `new` (RFC 1624, equation 3:
/// `HC' = ~(~HC + ~m + m')`). The stretch must begin at an even offset.
pub fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let complement = |bytes: &[u8]| -> u64 { words(bytes).map(|word| u64::from(!word)).sum() };
    !fold(u64::from(!checksum) + complement(old) + sum(new))
}

/// Whether the IPv4 header's and the transport's checksums are right, as far as they can be told: true for other
/// protocols, for fragments, and for UDP over IPv4 without a checksum.
pub fn is_valid(packet: &[u8]) -> Result<bool, ParseError> {
    let headers = Headers::parse(packet)?;
    if let Some(length) = ipv4_header_length(packet)
        && of(&packet[..length]) != 0
    {
        return Ok(false);
    }
    let Some(field) = field_offset(&headers) else { return Ok(true) };
    let segment = &packet[headers.transport_offset..headers.total_len];
    let absent = headers.protocol == protocol::UDP && headers.source.is_ipv4() && segment[field..field + 2] == [0, 0];
    Ok(absent || covering(&headers, segment) == 0)
}

/// Sets the IPv4 header's and the transport's checksums anew: what is needed where the sender left them to a network
/// card that the packet never meets (checksum offload).
pub fn set(packet: &mut [u8]) -> Result<(), ParseError> {
    let headers = Headers::parse(packet)?;
    if let Some(length) = ipv4_header_length(packet) {
        packet[10..12].fill(0);
        let value = of(&packet[..length]);
        packet[10..12].copy_from_slice(&value.to_be_bytes());
    }
    if let Some(field) = field_offset(&headers) {
        let segment = &mut packet[headers.transport_offset..headers.total_len];
        segment[field..field + 2].fill(0);
        let value = nonzero_for(headers.protocol, covering(&headers, segment));
        segment[field..field + 2].copy_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

/// UDP sends a checksum of zero as all ones, since zero means that there is none (RFC 768).
pub(crate) fn nonzero_for(protocol: u8, checksum: u16) -> u16 {
    if protocol == protocol::UDP && checksum == 0 { 0xffff } else { checksum }
}

/// Where the checksum is within the transport's header; `None` where this packet does not hold all that it covers.
fn field_offset(headers: &Headers) -> Option<usize> {
    if headers.is_fragment() || headers.transport.is_none() {
        return None;
    }
    offset_in(headers.protocol)
}

/// Where the checksum is within the header of a protocol.
pub(crate) fn offset_in(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        protocol::ICMP | protocol::ICMPV6 => Some(2),
        _ => None,
    }
}

fn covering(headers: &Headers, segment: &[u8]) -> u16 {
    match headers.protocol {
        protocol::ICMP => of(segment),
        protocol => of_transport(headers.source, headers.destination, protocol, segment),
    }
}

/// The CRC32c of `bytes`: the checksum of an SCTP packet in which the field for it is zero. It is written with its least
/// byte first.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| sum >> 8 ^ CRC32C[usize::from(sum as u8 ^ byte)])
}

/// What each byte does to the sum.
const CRC32C: [u32; 256] = {
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

fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u64 {
    let address = |address| match address {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    };
    address(source) + address(destination) + u64::from(protocol) + length as u64
}

fn sum(bytes: &[u8]) -> u64 {
    words(bytes).map(u64::from).sum()
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
    use crate::samples;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071_and_that_of_rfc_1624() {
        assert_eq!(of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        // RFC 1624 §4: the equation of RFC 1141 gives 0xffff here, the right one 0x0000.
        assert_eq!(updated(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]), 0x0000);
    }

    #[test]
    fn crc32c_is_that_of_rfc_3720() {
        // RFC 3720 §B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<_>>()), 0x46dd_794e);
    }

    proptest! {
        #[test]
        fn an_update_is_what_a_new_sum_would_be(
            mut bytes in prop::collection::vec(any::<u8>(), 8..80), new: [u8; 4], at in 0usize..2
        ) {
            // All zero has two checksums, 0 and 0xffff; no packet is (its version is not 0).
            bytes[7] |= 1;
            let before = of(&bytes);
            let old: [u8; 4] = bytes[at * 2..at * 2 + 4].try_into().unwrap();
            bytes[at * 2..at * 2 + 4].copy_from_slice(&new);
            prop_assert_eq!(updated(before, &old, &new), of(&bytes));
        }

        #[test]
        fn set_makes_any_packet_valid_and_a_flipped_bit_makes_it_invalid(
            (mut packet, _) in samples::any_packet(), fill: u16, bit in 0usize..8
        ) {
            prop_assert!(is_valid(&packet).unwrap());
            let right = packet.clone();
            let headers = Headers::parse(&packet).unwrap();
            let field = headers.transport_offset + offset_in(headers.protocol).unwrap();
            packet[field..field + 2].copy_from_slice(&fill.to_be_bytes());
            set(&mut packet).unwrap();
            prop_assert_eq!(&packet, &right);
            packet[headers.transport_offset] ^= 1 << bit;
            prop_assert!(!is_valid(&packet).unwrap());
        }
    }
}
