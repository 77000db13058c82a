use crate::headers::protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A UDP packet or TCP segment that an ICMP error quotes from its IP header on: as it came to the router which sent that (RFC 792, RFC 1812 4.3.2.3,
/// RFC 4443).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpQuote<'b> {
    /// IP's number of UDP or TCP.
    pub protocol: u8,
    /// The octet of DSCP and ECN.
    pub ds_field: u8,
    /// Where it was to go.
    pub destination: IpAddr,
    /// To which port.
    pub destination_port: u16,
    /// From which port.
    pub source_port: u16,
    /// Octets 4 to 7 of its header: of TCP the sequence number, of UDP length and checksum.
    pub second_word: [u8; 4],
    /// What is quoted behind the first eight octets of its header, which may be nothing: of UDP, the payload.
    pub payload: &'b [u8],
}

/// Destination unreachable and time exceeded.
const ICMP_ERRORS: [u8; 2] = [3, 11];
/// The same.
const ICMPV6_ERRORS: [u8; 2] = [1, 3];
/// Of ICMP, before what is quoted.
const ICMP_HEADER_BYTES: usize = 8;
/// What RFC 792 has quoted at least: all of UDP's header, ports and sequence number of TCP's.
const MIN_QUOTED_BYTES: usize = 8;

impl<'b> IcmpQuote<'b> {
    /// Reads an ICMP or ICMPv6 message from its own header on; none unless it says that a packet of UDP or TCP could not be delivered, or that its time
    /// was over. IPv6 extension headers in a quote are not followed.
    pub fn from_icmp(message: &'b [u8], is_v6: bool) -> Option<Self> {
        let errors = if is_v6 { ICMPV6_ERRORS } else { ICMP_ERRORS };
        if !errors.contains(message.first()?) {
            return None;
        }
        let quote = message.get(ICMP_HEADER_BYTES..)?;
        let (ds_field, protocol, destination, header_bytes) = if is_v6 { read_v6(quote)? } else { read_v4(quote)? };
        let (header, payload) = quote.get(header_bytes..)?.split_first_chunk::<MIN_QUOTED_BYTES>()?;
        let [a, b, c, d, second_word @ ..] = *header;
        matches!(protocol, protocol::UDP | protocol::TCP).then(|| IcmpQuote {
            protocol,
            ds_field,
            destination,
            source_port: u16::from_be_bytes([a, b]),
            destination_port: u16::from_be_bytes([c, d]),
            second_word,
            payload,
        })
    }
}

/// DSCP and ECN, protocol, destination, length of the header.
type QuotedHeader = (u8, u8, IpAddr, usize);

fn read_v4(quote: &[u8]) -> Option<QuotedHeader> {
    let header: &[u8; 20] = quote.first_chunk()?;
    let [.., a, b, c, d] = *header;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let is_valid = header[0] >> 4 == 4 && header_bytes >= header.len();
    is_valid.then_some((header[1], header[9], Ipv4Addr::new(a, b, c, d).into(), header_bytes))
}

fn read_v6(quote: &[u8]) -> Option<QuotedHeader> {
    let header: &[u8; 40] = quote.first_chunk()?;
    let destination: &[u8; 16] = header.last_chunk()?;
    let ds_field = header[0] << 4 | header[1] >> 4;
    (header[0] >> 4 == 6).then_some((ds_field, header[6], Ipv6Addr::from(*destination).into(), header.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An ICMP message of this type that quotes this of a packet to port 7272.
    fn message(is_v6: bool, icmp_type: u8, protocol: u8, ds_field: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![icmp_type, 0, 0, 0, 0, 0, 0, 0];
        match is_v6 {
            true => {
                bytes.extend([0x60 | ds_field >> 4, ds_field << 4, 0, 0, 0, 32, protocol, 1]);
                bytes.extend([[0x20; 16], [0xfd; 16]].concat());
            }
            false => {
                // With an option of four bytes.
                bytes.extend([0x46, ds_field, 0, 56, 0, 0, 0, 0, 1, protocol, 0, 0]);
                bytes.extend([10, 0, 0, 1, 192, 0, 2, 9, 1, 1, 1, 1]);
            }
        }
        bytes.extend([0x9c, 0xb0, 0x1c, 0x68, 0, 32, 0, 0]);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_quote_shows_the_packet_as_it_was() {
        for (is_v6, protocol) in
            [false, true].into_iter().flat_map(|is_v6| [(is_v6, protocol::UDP), (is_v6, protocol::TCP)])
        {
            let icmp_types = if is_v6 { ICMPV6_ERRORS } else { ICMP_ERRORS };
            for (icmp_type, ds_field) in
                icmp_types.into_iter().flat_map(|kind| [(kind, 0), (kind, 0b1011_1010), (kind, 0xff)])
            {
                let bytes = message(is_v6, icmp_type, protocol, ds_field, &[7; 24]);
                let destination = if is_v6 { IpAddr::from([0xfd; 16]) } else { IpAddr::from([192, 0, 2, 9]) };
                let (source_port, destination_port, payload) = (40112, 7272, &[7; 24][..]);
                let second_word = [0, 32, 0, 0];
                let expected =
                    IcmpQuote { protocol, ds_field, destination, destination_port, source_port, second_word, payload };
                assert_eq!(IcmpQuote::from_icmp(&bytes, is_v6), Some(expected));
                // What RFC 792 demands at least: eight octets behind the IP header.
                let short = IcmpQuote::from_icmp(&bytes[..bytes.len() - 24], is_v6);
                assert_eq!(short, Some(IcmpQuote { payload: &[], ..expected }));
                assert_eq!(IcmpQuote::from_icmp(&bytes[..bytes.len() - 25], is_v6), None);
            }
            // Echo requests quote nothing.
            let [echo, other] = if is_v6 { [128, 3] } else { [8, 1] };
            assert_eq!(IcmpQuote::from_icmp(&message(is_v6, echo, protocol, 0, &[]), is_v6), None);
            assert_eq!(IcmpQuote::from_icmp(&message(!is_v6, other, protocol, 0, &[]), is_v6), None);
        }
        let of_icmp = message(false, ICMP_ERRORS[0], protocol::ICMP, 0, &[]);
        assert_eq!(IcmpQuote::from_icmp(&of_icmp, false), None, "neither UDP nor TCP");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..120), is_v6: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = 3;
            }
            IcmpQuote::from_icmp(&bytes, is_v6);
        }
    }
}
