use crate::headers::{Fragment, Headers, protocol};
use crate::tcp_rewrite::{FLAGS_OFFSET, SYN_FLAG, TcpRewrite};

/// The IP and TCP headers without options, which the maximum segment size leaves out (RFC 9293 §3.7.1).
const HEADER_BYTES_V4: u32 = 20 + 20;
const HEADER_BYTES_V6: u32 = 40 + 20;

/// Lowers the maximum segment size that a TCP segment with SYN announces to what fits packets of `mtu` bytes, and updates
/// the checksum (RFC 1624), so that the other end sends nothing longer, whether or not it learns the path's MTU. Never
/// raises it, and leaves everything else as it is: what does not announce one (RFC 9293 then has 536 or 1220 bytes), later
/// fragments, and what is no IP packet. Returns whether the packet has changed.
pub fn clamp_mss(packet: &mut [u8], mtu: u32) -> bool {
    let Some((segment, headers)) = find_syn_segment(packet) else { return false };
    let limit = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
    TcpRewrite::from_segment(&mut packet[segment..], false).is_some_and(|mut tcp| tcp.clamp_mss(limit))
}

/// Where the TCP header of a segment with SYN begins, of which the flags are there at least, and how long headers without options are. Most packets are none, which
/// their first bytes tell.
fn find_syn_segment(packet: &[u8]) -> Option<(usize, u32)> {
    let (offset, headers) = match packet {
        // Fragments after the first have no header.
        [first @ 0x45..=0x4f, _, _, _, _, _, high, low, _, protocol::TCP, ..] if (high & 0x1f, *low) == (0, 0) => {
            (usize::from(first & 15) * 4, HEADER_BYTES_V4)
        }
        [first, _, _, _, _, _, protocol::TCP, ..] if first >> 4 == 6 => (40, HEADER_BYTES_V6),
        // Extension headers (RFC 8200 §4): hop-by-hop, routing, fragment, destination options.
        [first, _, _, _, _, _, 0 | 43 | 44 | 60, ..] if first >> 4 == 6 => {
            let headers = Headers::parse(packet).ok()?;
            let is_tcp = headers.protocol == protocol::TCP && headers.fragment != Fragment::Later;
            (is_tcp.then_some(headers.transport_offset)?, HEADER_BYTES_V6)
        }
        _ => return None,
    };
    (packet.get(offset + FLAGS_OFFSET)? & SYN_FLAG != 0).then_some((offset, headers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, V4, V6};
    use crate::{Headers, checksum};
    use etherparse::PacketBuilder;
    use proptest::prelude::*;
    use std::net::{IpAddr, SocketAddr};

    /// A segment with these options, with or without SYN.
    fn segment((source, destination): (&str, &str), syn: bool, options: &[u8]) -> Vec<u8> {
        let [source, destination]: [SocketAddr; 2] = [source, destination].map(|end| end.parse().unwrap());
        let ip = match (source.ip(), destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
            _ => panic!("two versions"),
        };
        let step = ip.tcp(source.port(), destination.port(), 7, 1000).options_raw(options).unwrap();
        let step = if syn { step.syn() } else { step };
        let mut packet = Vec::new();
        step.write(&mut packet, b"fast open").unwrap();
        packet
    }

    fn announced(packet: &[u8]) -> Option<u16> {
        let (start, _) = find_syn_segment(packet)?;
        TcpRewrite::from_segment(&mut packet.to_vec()[start..], false)?.mss()
    }

    #[test]
    fn what_a_syn_announces_is_lowered_to_what_fits_and_never_raised() {
        for (ends, headers) in [(V4, 40), (V6, 60)] {
            for (mtu, announced_after) in [(1500, 1460), (1400, (1400 - headers).min(1460)), (1280, 1280 - headers)] {
                let mut packet = segment(ends, true, &[1, 2, 4, 0x05, 0xb4, 4, 2]);
                let changed = clamp_mss(&mut packet, mtu);
                let expected = (mtu - headers).min(announced_after) as u16;
                assert_eq!((announced(&packet), changed), (Some(expected), expected != 1460));
                assert_eq!(checksum::is_valid(&packet), Ok(true));
            }
        }
    }

    #[test]
    fn other_options_before_it_are_passed_over() {
        // Window scale, SACK permitted and timestamps; the maximum segment size at an odd offset, too.
        for before in [&[3, 3, 7][..], &[4, 2], &[8, 10, 0, 0, 0, 1, 0, 0, 0, 0], &[1, 3, 3, 7, 4, 2]] {
            let mut packet = segment(V4, true, &[before, &[2, 4, 0x05, 0xb4]].concat());
            assert!(clamp_mss(&mut packet, 1280), "{before:?}");
            assert_eq!((announced(&packet), checksum::is_valid(&packet)), (Some(1240), Ok(true)), "{before:?}");
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        let mss = [2, 4, 0x05, 0xb4];
        let [low, high, both] = [[0, 8], [1, 0], [1, 1]].map(|offset| {
            let mut later_fragment = segment(V4, true, &mss);
            later_fragment[6..8].copy_from_slice(&offset);
            later_fragment
        });
        // Within the IP header that it announces, there would be an option.
        let mut short_header = vec![0; 44];
        (short_header[0], short_header[9], short_header[12], short_header[13]) = (0x40, protocol::TCP, 0x60, SYN_FLAG);
        short_header[20..24].copy_from_slice(&mss);
        let mut other_version = segment(V6, true, &mss);
        other_version[0] = 0x50;
        // An authentication header (RFC 4302) covers all that is behind it.
        let mut authenticated = segment(V4, true, &mss);
        authenticated.splice(20..20, [&[protocol::TCP, 4][..], &[0; 22]].concat());
        let length = authenticated.len() as u8;
        (authenticated[3], authenticated[6], authenticated[9]) = (length, 0, 51);
        assert_eq!(Headers::parse(&authenticated).map(|headers| headers.protocol), Ok(protocol::TCP));
        let mut later_fragment_v6 = segment(V6, true, &mss);
        later_fragment_v6[6] = 44;
        later_fragment_v6.splice(40..40, [protocol::TCP, 0, 0, 8, 0, 0, 0, 7]);
        later_fragment_v6[5] += 8;
        let mut cut = segment(V4, true, &mss);
        cut.truncate(42);
        for packet in [
            segment(V4, false, &mss),
            segment(V4, true, &[]),
            segment(V6, true, &[1, 1, 0, 2, 4, 0x05, 0xb4]),
            // Behind the end of the list, what looks like an option of four bytes.
            segment(V4, true, &[0, 4, 1, 1, 2, 4, 0x05, 0xb4]),
            segment(V4, true, &[2, 0, 0, 0]),
            segment(V4, true, &[8, 200, 2, 4]),
            low,
            high,
            both,
            short_header,
            other_version,
            authenticated,
            later_fragment_v6,
            cut,
            vec![0x45],
            vec![],
        ] {
            let mut clamped = packet.clone();
            assert!(!clamp_mss(&mut clamped, 600) && clamped == packet, "{packet:?}");
        }
    }

    #[test]
    fn a_syn_behind_extension_headers_is_found() {
        let mut packet = segment(V6, true, &[2, 4, 0x05, 0xb4]);
        // Destination options without any, behind which TCP follows.
        packet[6] = 60;
        packet.splice(40..40, [protocol::TCP, 0, 1, 4, 0, 0, 0, 0]);
        let length = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        assert!(clamp_mss(&mut packet, 1280));
        assert_eq!(checksum::is_valid(&packet), Ok(true));
        assert_eq!(announced(&packet), Some(1220));
    }

    proptest! {
        #[test]
        fn the_checksum_is_what_computing_it_anew_gives(
            v6: bool,
            mss: u16,
            mtu in 0u32..70_000,
            before in prop::collection::vec(prop::sample::select(vec![1u8, 4, 8]), 0..8),
        ) {
            let mut options = Vec::new();
            for kind in before {
                match kind {
                    4 => options.extend([4, 2]),
                    8 => options.extend([8, 10, 1, 2, 3, 4, 5, 6, 7, 8]),
                    _ => options.push(1),
                }
            }
            options.truncate(36);
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
            let mut packet = segment(if v6 { V6 } else { V4 }, true, &options);
            let before = packet.clone();
            let known = announced(&packet);
            let changed = clamp_mss(&mut packet, mtu);
            prop_assert_eq!(changed, packet != before);
            let mut computed = packet.clone();
            checksum::set(&mut computed).unwrap();
            prop_assert_eq!(&packet, &computed);
            let limit = mtu.saturating_sub(if v6 { 60 } else { 40 }).min(u16::MAX.into()) as u16;
            prop_assert_eq!(announced(&packet), known.map(|known| known.min(limit)));
            prop_assert_eq!(Headers::parse(&packet), Headers::parse(&before));
        }

        #[test]
        fn a_sum_that_was_wrong_stays_wrong((packet, _) in samples::any_packet(), mtu in 0u32..2000) {
            let mut clamped = packet.clone();
            clamp_mss(&mut clamped, mtu);
            prop_assert_eq!(checksum::is_valid(&clamped), checksum::is_valid(&packet));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), first: u8, mtu: u32) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            clamp_mss(&mut bytes, mtu);
        }
    }
}
