//! What middleboxes change in a TCP header, in place and with its checksum.

use crate::checksum::ChecksumUpdate;
use crate::headers::Headers;
use std::ops::Range;

/// Kinds of TCP options (IANA's registry).
pub mod tcp_option {
    /// End of option list (RFC 9293).
    pub const END_OF_OPTIONS: u8 = 0;
    /// No operation (RFC 9293).
    pub const NO_OPERATION: u8 = 1;
    /// Maximum segment size (RFC 9293).
    pub const MAXIMUM_SEGMENT_SIZE: u8 = 2;
    /// Window scale (RFC 7323).
    pub const WINDOW_SCALE: u8 = 3;
    /// Selective acknowledgments are permitted (RFC 2018).
    pub const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgment (RFC 2018).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMPS: u8 = 8;
    /// Multipath TCP (RFC 8684).
    pub const MULTIPATH: u8 = 30;
    /// Fast open cookie (RFC 7413).
    pub const FAST_OPEN: u8 = 34;
}

const HEADER_BYTES: usize = 20;
const SEQUENCE: usize = 4;
const ACKNOWLEDGMENT: usize = 8;
/// Of the data offset, in the same byte as the flag AE (RFC 9768).
const DATA_OFFSET: usize = 12;
pub(crate) const FLAGS_OFFSET: usize = 13;
pub(crate) const SYN_FLAG: u8 = 0x02;
const CHECKSUM_OFFSET: usize = 16;
const ACK_FLAG: u8 = 0x10;
/// The flags AE, CWR and ECE, in this byte and the one before (RFC 3168, RFC 9768).
const ECN_FLAGS: [u8; 2] = [0x01, 0xc0];

/// A TCP header in a packet. What is changed in it updates the checksum (RFC 1624), so that a valid one stays valid and an
/// invalid one invalid.
#[derive(Debug)]
pub struct TcpRewrite<'a> {
    /// The header with its options.
    header: &'a mut [u8],
    /// The sender has left the checksum to its network card: the field covers the pseudo header alone.
    is_offloaded: bool,
}

impl<'a> TcpRewrite<'a> {
    /// The header in a packet with these headers; `None` where there is none, or not all of it. `is_offloaded` says that the
    /// transport checksum is still to be completed (see [`crate::offload`]).
    pub fn new(packet: &'a mut [u8], headers: &Headers, is_offloaded: bool) -> Option<Self> {
        headers.tcp()?;
        Self::from_segment(packet.get_mut(headers.transport_offset..headers.total_len)?, is_offloaded)
    }

    /// The header of a segment.
    pub(crate) fn from_segment(segment: &'a mut [u8], is_offloaded: bool) -> Option<Self> {
        let bytes = usize::from(segment.get(DATA_OFFSET)? >> 4) * 4;
        let header = segment.get_mut(..bytes).filter(|header| header.len() >= HEADER_BYTES)?;
        Some(TcpRewrite { header, is_offloaded })
    }

    /// Whether the flag SYN is set.
    pub fn is_syn(&self) -> bool {
        self.header[FLAGS_OFFSET] & SYN_FLAG != 0
    }

    /// The maximum segment size that it announces.
    pub fn mss(&self) -> Option<u16> {
        let value = self.mss_value()?;
        Some(u16::from_be_bytes([self.header[value], self.header[value + 1]]))
    }

    /// Clears the flags AE, CWR and ECE.
    pub fn clear_ecn_flags(&mut self) {
        let [offset, flags] = [self.header[DATA_OFFSET] & !ECN_FLAGS[0], self.header[FLAGS_OFFSET] & !ECN_FLAGS[1]];
        self.write(DATA_OFFSET, &[offset, flags]);
    }

    /// Lowers the maximum segment size that it announces to this many bytes; whether it was larger.
    pub fn clamp_mss(&mut self, limit: u16) -> bool {
        let Some(value) = self.mss_value().filter(|_| self.mss() > Some(limit)) else { return false };
        self.write(value, &limit.to_be_bytes());
        true
    }

    /// Replaces the options whose kind this returns true for by options without operation.
    pub fn remove_options(&mut self, is_removed: impl Fn(u8) -> bool) {
        let mut from = HEADER_BYTES;
        while let Some((kind, option)) = (Options { header: self.header, at: from }).next() {
            from = option.end;
            if is_removed(kind) {
                let none = [tcp_option::NO_OPERATION; u8::MAX as usize];
                self.write(option.start, &none[..option.len()]);
            }
        }
    }

    /// Adds to the sequence number, modulo 2³².
    pub fn shift_sequence(&mut self, by: u32) {
        self.shift(SEQUENCE, by);
    }

    /// Adds to the acknowledgment number, if there is one, and to the edges of selectively acknowledged blocks (RFC 2018),
    /// modulo 2³².
    pub fn shift_acknowledgment(&mut self, by: u32) {
        if self.header[FLAGS_OFFSET] & ACK_FLAG == 0 {
            return;
        }
        self.shift(ACKNOWLEDGMENT, by);
        let sack = Options::new(self.header).find(|(kind, _)| *kind == tcp_option::SACK);
        let edges = sack.map_or(0..0, |(_, option)| option.start + 2..option.end);
        for edge in edges.clone().step_by(4).filter(|edge| edge + 4 <= edges.end) {
            self.shift(edge, by);
        }
    }

    fn mss_value(&self) -> Option<usize> {
        let is_mss =
            |(kind, option): &(u8, Range<usize>)| *kind == tcp_option::MAXIMUM_SEGMENT_SIZE && option.len() == 4;
        Options::new(self.header).find(is_mss).map(|(_, option)| option.start + 2)
    }

    fn shift(&mut self, at: usize, by: u32) {
        let old = self.header.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        self.write(at, &u32::from_be_bytes(old).wrapping_add(by).to_be_bytes());
    }

    fn write(&mut self, at: usize, new: &[u8]) {
        // What the checksum covers are pairs of bytes; the header has an even number of them.
        let pairs = (at & !1)..((at + new.len() + 1) & !1);
        let mut before = [0; u8::MAX as usize + 1];
        let before = &mut before[..pairs.len()];
        before.copy_from_slice(&self.header[pairs.clone()]);
        self.header[at..at + new.len()].copy_from_slice(new);
        if self.is_offloaded {
            return;
        }
        let mut update = ChecksumUpdate::default();
        update.record_change(before, &self.header[pairs]);
        let field = &mut self.header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2];
        let sum = update.apply(u16::from_be_bytes([field[0], field[1]]));
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Whether a packet with these headers is a TCP segment with one of the flags AE, CWR and ECE.
pub fn has_ecn_flags(packet: &[u8], headers: &Headers) -> bool {
    let flags = read_header(packet, headers).map(|header| [header[DATA_OFFSET], header[FLAGS_OFFSET]]);
    flags.is_some_and(|[offset, flags]| offset & ECN_FLAGS[0] != 0 || flags & ECN_FLAGS[1] != 0)
}

/// Whether a packet with these headers is a TCP segment with an option of this kind; see [`tcp_option`].
pub fn has_tcp_option(packet: &[u8], headers: &Headers, kind: u8) -> bool {
    read_header(packet, headers).is_some_and(|header| Options::new(header).any(|(found, _)| found == kind))
}

fn read_header<'a>(packet: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    headers.tcp()?;
    let segment = packet.get(headers.transport_offset..headers.total_len)?;
    segment.get(..usize::from(segment.get(DATA_OFFSET)? >> 4) * 4).filter(|header| header.len() >= HEADER_BYTES)
}

/// The options of a header that do something, in order: their kind, and where they are. Ends where they make no sense.
struct Options<'a> {
    header: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    fn new(header: &'a [u8]) -> Self {
        Options { header, at: HEADER_BYTES }
    }
}

impl Iterator for Options<'_> {
    type Item = (u8, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            match *self.header.get(at..)? {
                [] | [tcp_option::END_OF_OPTIONS, ..] => return None,
                [tcp_option::NO_OPERATION, ..] => self.at += 1,
                // Shorter than kind and length, it would never end.
                [kind, length @ 2..=255, ..] if at + usize::from(length) <= self.header.len() => {
                    self.at += usize::from(length);
                    return Some((kind, at..self.at));
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::samples::{self, V4, V6};
    use etherparse::{PacketBuilder, TcpHeaderSlice};
    use proptest::prelude::*;
    use std::net::{IpAddr, SocketAddr};

    /// A segment with these flags (AE, CWR, ECE, SYN) and options.
    fn segment(is_v6: bool, [ae, cwr, ece, syn]: [bool; 4], ack: Option<u32>, options: &[u8]) -> Vec<u8> {
        let (from, to) = if is_v6 { V6 } else { V4 };
        let [from, to]: [SocketAddr; 2] = [from, to].map(|end| end.parse().unwrap());
        let ip = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
            _ => unreachable!("both are of one version"),
        };
        let mut tcp = ip.tcp(from.port(), to.port(), u32::MAX - 1, 1000).options_raw(options).unwrap();
        tcp = if ae { tcp.ns() } else { tcp };
        tcp = if cwr { tcp.cwr() } else { tcp };
        tcp = if ece { tcp.ece() } else { tcp };
        tcp = if syn { tcp.syn() } else { tcp };
        tcp = if let Some(ack) = ack { tcp.ack(ack) } else { tcp };
        let mut packet = Vec::new();
        tcp.write(&mut packet, b"payload").unwrap();
        packet
    }

    /// The packet after `change`, whose checksum is checked, also where a network card completes it.
    fn changed(packet: &[u8], change: impl Fn(&mut TcpRewrite<'_>)) -> Vec<u8> {
        let headers = Headers::parse(packet).unwrap();
        let [mut whole, mut offloaded] = [packet.to_vec(), packet.to_vec()];
        change(&mut TcpRewrite::new(&mut whole, &headers, false).unwrap());
        let mut computed = whole.clone();
        checksum::set(&mut computed).unwrap();
        assert_eq!(whole, computed);
        let field = headers.transport_offset + CHECKSUM_OFFSET;
        offloaded[field..field + 2].copy_from_slice(b"ps");
        change(&mut TcpRewrite::new(&mut offloaded, &headers, true).unwrap());
        assert_eq!(&offloaded[field..field + 2], b"ps");
        checksum::set(&mut offloaded).unwrap();
        assert_eq!(offloaded, whole);
        whole
    }

    fn header(packet: &[u8]) -> TcpHeaderSlice<'_> {
        TcpHeaderSlice::from_slice(&packet[Headers::parse(packet).unwrap().transport_offset..]).unwrap()
    }

    const OPTIONS: [u8; 24] = [2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 253, 4, 0xab, 0xcd];

    #[test]
    fn flags_of_ecn_are_cleared_and_no_others() {
        for is_v6 in [false, true] {
            let packet = segment(is_v6, [true; 4], Some(7), &OPTIONS);
            let cleared = changed(&packet, |tcp| tcp.clear_ecn_flags());
            let has_flags = |packet: &[u8]| has_ecn_flags(packet, &Headers::parse(packet).unwrap());
            assert!(has_flags(&packet) && !has_flags(&cleared));
            for flag in [[true, false, false, false], [false, true, false, false], [false, false, true, false]] {
                assert!(has_flags(&segment(is_v6, flag, None, &[])), "{flag:?}");
            }
            assert_eq!(cleared, segment(is_v6, [false, false, false, true], Some(7), &OPTIONS));
        }
    }

    #[test]
    fn options_become_no_operations_and_those_behind_stay() {
        let packet = segment(false, [false, false, false, true], None, &OPTIONS);
        let without = changed(&packet, |tcp| tcp.remove_options(|kind| matches!(kind, 4 | 253)));
        let mut expected = OPTIONS;
        expected[4..6].fill(1);
        expected[20..24].fill(1);
        assert_eq!(header(&without).options(), expected);
        let headers = Headers::parse(&without).unwrap();
        let found = [2, 4, 3, 8, 253].map(|kind| has_tcp_option(&without, &headers, kind));
        assert_eq!(found, [true, false, true, true, false]);
    }

    #[test]
    fn acknowledged_blocks_follow_the_acknowledgment() {
        let edges: Vec<u8> = [10u32, 20, u32::MAX, 5].iter().flat_map(|edge| edge.to_be_bytes()).collect();
        // At an odd offset, too.
        for padding in [&[1, 1][..], &[1], &[]] {
            let options = [padding, &[5, 18], &edges[..], &[0, 0][..2 - padding.len()]].concat();
            let packet = segment(true, [false; 4], Some(3), &options);
            let shifted = changed(&packet, |tcp| tcp.shift_acknowledgment(5));
            assert_eq!(header(&shifted).acknowledgment_number(), 8);
            let at = padding.len() + 2;
            let read = |n: usize| u32::from_be_bytes(*header(&shifted).options()[at + 4 * n..].first_chunk().unwrap());
            assert_eq!([0, 1, 2, 3].map(read), [15, 25, 4, 10]);
        }
        // Without the flag, the field says nothing.
        let packet = segment(true, [false, false, false, true], None, &[]);
        assert_eq!(changed(&packet, |tcp| tcp.shift_acknowledgment(5)), packet);
    }

    proptest! {
        #[test]
        fn checksums_are_what_computing_them_anew_gives(
            is_v6: bool, flags: [bool; 4], ack: Option<u32>, by: u32, limit: u16, removed: [u8; 3],
            options in prop::collection::vec(prop::sample::select(vec![
                vec![1], vec![2, 4, 5, 0xb4], vec![3, 3, 7], vec![4, 2], vec![5, 10, 1, 2, 3, 4, 5, 6, 7, 8], vec![30, 4, 9, 9],
            ]), 0..4),
        ) {
            let packet = segment(is_v6, flags, ack, &options.concat());
            let rewritten = changed(&packet, |tcp| {
                tcp.shift_sequence(by);
                tcp.shift_acknowledgment(by);
                tcp.clear_ecn_flags();
                tcp.clamp_mss(limit);
                tcp.remove_options(|kind| removed.contains(&(kind % 8)));
            });
            let (before, after) = (header(&packet), header(&rewritten));
            prop_assert_eq!(after.sequence_number(), before.sequence_number().wrapping_add(by));
            prop_assert_eq!(after.options().len(), before.options().len());
            prop_assert_eq!((after.syn(), after.ack(), after.window_size()), (before.syn(), before.ack(), before.window_size()));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in samples::any_bytes(), kind: u8, by: u32) {
            let Ok(headers) = Headers::parse(&bytes) else { return Ok(()) };
            let valid = checksum::is_valid(&bytes);
            has_ecn_flags(&bytes, &headers);
            has_tcp_option(&bytes, &headers, kind);
            if let Some(mut tcp) = TcpRewrite::new(&mut bytes, &headers, false) {
                tcp.shift_sequence(by);
                tcp.shift_acknowledgment(by);
                tcp.clear_ecn_flags();
                tcp.clamp_mss(kind.into());
                tcp.remove_options(|other| other >= kind);
            }
            prop_assert_eq!(checksum::is_valid(&bytes), valid);
        }
    }
}
