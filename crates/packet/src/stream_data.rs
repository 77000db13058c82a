use crate::headers::protocol;

const SEQUENCE_OFFSET: usize = 4;
const ACKNOWLEDGMENT_OFFSET: usize = 8;
const DATA_OFFSET_OFFSET: usize = 12;
const FLAGS_OFFSET: usize = 13;
const MIN_HEADER_BYTES: usize = 20;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Which part of its connection's byte stream a TCP segment carries (RFC 9293 §3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSegment {
    /// Sequence number of the first octet.
    pub start: u32,
    /// The one after the last octet; equal to `start` where there are none.
    pub end: u32,
    /// What the segment acknowledges.
    pub acknowledgment: u32,
}

/// What an IP packet carries, as far as it tells which packets may be spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    /// Part of a TCP connection's byte stream.
    Stream(StreamSegment),
    /// A UDP datagram, or the first fragment of one.
    Datagram,
    /// All else.
    Other,
}

impl PayloadKind {
    /// Of a packet that ends where its bytes do.
    pub fn from_packet(packet: &[u8]) -> Self {
        match StreamSegment::from_packet(packet) {
            Some(data) => PayloadKind::Stream(data),
            None if is_udp(packet) => PayloadKind::Datagram,
            None => PayloadKind::Other,
        }
    }
}

/// IPv6 packets with extension headers are not seen to be.
fn is_udp(packet: &[u8]) -> bool {
    match packet {
        [first, _, _, _, _, _, high, low, _, kind, ..] if first >> 4 == 4 => {
            *kind == protocol::UDP && (high & 0x1f, *low) == (0, 0)
        }
        [first, _, _, _, _, _, next, ..] => first >> 4 == 6 && *next == protocol::UDP,
        _ => false,
    }
}

impl StreamSegment {
    /// Of a segment that carries data and acknowledges, and does nothing else; `None` for all else, fragments, IPv6 packets with
    /// extension headers, and what is truncated. The packet ends where its bytes do.
    pub fn from_packet(packet: &[u8]) -> Option<Self> {
        let offset = match packet {
            [first @ 0x45..=0x4f, _, _, _, _, _, high, low, _, protocol::TCP, ..] if (high & 0x3f, *low) == (0, 0) => {
                usize::from(first & 15) * 4
            }
            [first, _, _, _, _, _, protocol::TCP, ..] if first >> 4 == 6 => 40,
            _ => return None,
        };
        let segment = packet.get(offset..).filter(|segment| segment.len() >= MIN_HEADER_BYTES)?;
        let header = usize::from(segment[DATA_OFFSET_OFFSET] >> 4) * 4;
        let is_plain = segment[FLAGS_OFFSET] & !PSH == ACK && header >= MIN_HEADER_BYTES;
        let payload = segment.len().checked_sub(header).filter(|_| is_plain)?;
        let number = |at: usize| Some(u32::from_be_bytes(*segment.get(at..)?.first_chunk()?));
        let start = number(SEQUENCE_OFFSET)?;
        Some(StreamSegment {
            start,
            end: start.wrapping_add(payload as u32),
            acknowledgment: number(ACKNOWLEDGMENT_OFFSET)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(version: u8, flags: u8, payload: usize) -> Vec<u8> {
        let mut network = vec![0; if version == 4 { 20 } else { 40 }];
        network[0] = if version == 4 { 0x45 } else { 0x60 };
        network[if version == 4 { 9 } else { 6 }] = protocol::TCP;
        let mut tcp = vec![0; 32];
        tcp[SEQUENCE_OFFSET..ACKNOWLEDGMENT_OFFSET].copy_from_slice(&u32::MAX.to_be_bytes());
        tcp[ACKNOWLEDGMENT_OFFSET..DATA_OFFSET_OFFSET].copy_from_slice(&7_u32.to_be_bytes());
        (tcp[DATA_OFFSET_OFFSET], tcp[FLAGS_OFFSET]) = (8 << 4, flags);
        [network, tcp, vec![1; payload]].concat()
    }

    #[test]
    fn data_has_its_place_in_the_stream_and_what_does_more_has_none() {
        for version in [4, 6] {
            let of = |flags, payload| StreamSegment::from_packet(&segment(version, flags, payload));
            let expected = StreamSegment { start: u32::MAX, end: 99, acknowledgment: 7 };
            assert_eq!((of(ACK, 100), of(ACK | PSH, 100)), (Some(expected), Some(expected)));
            assert_eq!(of(ACK, 0), Some(StreamSegment { end: u32::MAX, ..expected }));
            for flags in [0, 0x01 | ACK, 0x02, 0x04, 0x12, 0x20 | ACK, 0x40 | ACK] {
                assert_eq!(of(flags, 100), None, "{flags}");
            }
        }
        for offset in [[0x20, 0], [0, 8], [1, 0], [1, 1]] {
            let mut fragment = segment(4, ACK, 100);
            fragment[6..8].copy_from_slice(&offset);
            assert_eq!(PayloadKind::from_packet(&fragment), PayloadKind::Other, "{offset:?}");
        }
        // What only looks like IPv6 behind its first byte, such as a fragment of IPv4.
        for first in [0x45, 0x50, 0x70] {
            let mut other_version = segment(6, ACK, 100);
            other_version[0] = first;
            assert_eq!(StreamSegment::from_packet(&other_version), None, "{first:#x}");
        }
        let mut short_header = segment(4, ACK, 100);
        short_header[0] = 0x44;
        assert_eq!(StreamSegment::from_packet(&short_header), None);
        let mut impossible = segment(4, ACK, 0);
        impossible[20 + DATA_OFFSET_OFFSET] = 15 << 4;
        assert_eq!(StreamSegment::from_packet(&impossible), None);
    }

    #[test]
    fn datagrams_are_told_from_all_else() {
        for (version, place) in [(4, 9), (6, 6)] {
            let mut packet = segment(version, ACK, 100);
            assert!(matches!(PayloadKind::from_packet(&packet), PayloadKind::Stream(_)));
            packet[place] = protocol::UDP;
            assert_eq!(PayloadKind::from_packet(&packet), PayloadKind::Datagram);
            packet[place] = protocol::ICMP;
            assert_eq!(PayloadKind::from_packet(&packet), PayloadKind::Other);
        }
        for (offset, payload) in [
            ([0x20, 0], PayloadKind::Datagram),
            ([0, 1], PayloadKind::Other),
            ([1, 0], PayloadKind::Other),
            ([1, 1], PayloadKind::Other),
        ] {
            let mut fragment = segment(4, ACK, 100);
            fragment[6..8].copy_from_slice(&offset);
            fragment[9] = protocol::UDP;
            assert_eq!(PayloadKind::from_packet(&fragment), payload, "{offset:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(first in prop::sample::select(vec![0x45_u8, 0x4f, 0x60, 0]), bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let mut packet = [&[first][..], &bytes].concat();
            for at in [6, 9] {
                if let Some(byte) = packet.get_mut(at) {
                    *byte = if at == 9 || first == 0x60 { protocol::TCP } else { 0 };
                }
            }
            if let PayloadKind::Stream(data) = PayloadKind::from_packet(&packet) {
                prop_assert!((data.end.wrapping_sub(data.start) as usize) < packet.len());
            }
        }
    }
}
