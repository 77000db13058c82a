use kumade_packet::{Classification, Encapsulation, Ethernet};
use kumade_packet_loop::{Buffer, BufferPool};
use std::ops::Deref;

/// A packet on its way.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Whatever precedes the network header.
    pub(crate) link_header: LinkHeader,
    /// From the network header on.
    pub(crate) packet: Buffer,
}

impl Frame {
    /// What an allocation takes besides its bytes.
    const ALLOCATION_BYTES: u64 = 16;

    /// What it takes on the heap: its buffer, which may be longer than its packet.
    pub(crate) fn heap_bytes(&self) -> u64 {
        self.packet.capacity() as u64 + Self::ALLOCATION_BYTES
    }
}

/// A frame as it arrived, and what was read of its packet's headers.
#[derive(Debug)]
pub(crate) struct ClassifiedFrame {
    pub(crate) frame: Frame,
    pub(crate) classification: Classification,
}

/// An Ethernet header with its VLAN tags, and the headers of PPPoE or MPLS; empty on a TUN device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkHeader {
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
    /// Where a PPPoE header says how long the rest is; 0 without one. Each packet that waits has this header, so that it is small.
    pppoe_length_offset: u8,
    is_mpls: bool,
}

impl LinkHeader {
    /// Of the VLAN tag that the kernel takes out.
    const TAG_BYTES: usize = 4;
    /// With all that is read, and that tag.
    pub(crate) const MAX_BYTES: usize = Ethernet::MAX_PAYLOAD_OFFSET + Self::TAG_BYTES;
    pub(crate) const NONE: LinkHeader =
        LinkHeader { bytes: [0; Self::MAX_BYTES], length: 0, pppoe_length_offset: 0, is_mpls: false };

    /// What a frame has before its payload, and the VLAN tag that the kernel took out, if there was one.
    pub(crate) fn from_frame(before: &[u8], tag: Option<[u8; 4]>, encapsulation: Encapsulation) -> Option<Self> {
        let (addresses, rest) = before.split_at_checked(ADDRESSES_BYTES)?;
        let tag: &[u8] = tag.as_ref().map_or(&[], |tag| tag);
        let mut header = Self::from_parts([addresses, tag, rest])?;
        match encapsulation {
            Encapsulation::None => {}
            Encapsulation::Pppoe { length_offset } => header.pppoe_length_offset = (length_offset + tag.len()) as u8,
            Encapsulation::Mpls => header.is_mpls = true,
        }
        Some(header)
    }

    /// These parts in this order; none where they are too long.
    fn from_parts(parts: [&[u8]; 3]) -> Option<Self> {
        let mut header = Self::NONE;
        for part in parts {
            let start = usize::from(header.length);
            header.bytes.get_mut(start..start + part.len())?.copy_from_slice(part);
            header.length += part.len() as u8;
        }
        Some(header)
    }

    /// For a reply: source and destination exchanged. None behind MPLS labels: those of the other way are not known.
    pub(crate) fn reversed(mut self) -> Option<Self> {
        if self.is_mpls {
            return None;
        }
        if usize::from(self.length) >= ADDRESSES_BYTES {
            let (destination, rest) = self.bytes.split_at_mut(ADDRESSES_BYTES / 2);
            destination.swap_with_slice(&mut rest[..ADDRESSES_BYTES / 2]);
        }
        Some(self)
    }

    /// Whether it and the other one are those of Ethernet alone, and the same.
    pub(crate) fn has_same_addresses(&self, other: &Self) -> bool {
        self.len() == Ethernet::HEADER_BYTES && self[..] == other[..]
    }

    /// For a payload of so many bytes, where the header says how many.
    fn with_payload_bytes(mut self, bytes: usize) -> Self {
        let offset = usize::from(self.pppoe_length_offset);
        if offset > 0
            && let Some(field) = self.bytes.get_mut(offset..offset + PPPOE_LENGTH_BYTES)
        {
            let counted = usize::from(self.length).saturating_sub(offset + PPPOE_LENGTH_BYTES) + bytes;
            field.copy_from_slice(&u16::try_from(counted).unwrap_or(u16::MAX).to_be_bytes());
        }
        self
    }
}

/// Destination and source of an Ethernet frame.
const ADDRESSES_BYTES: usize = 12;
const PPPOE_LENGTH_BYTES: usize = 2;

impl Deref for LinkHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Frame {
    /// One that is still empty, with room for a packet of so many bytes.
    pub(crate) fn with_capacity(pool: &BufferPool, link: LinkHeader, bytes: usize) -> Self {
        Frame { link_header: link, packet: pool.with_capacity(bytes) }
    }

    /// One that carries this packet.
    pub(crate) fn new(pool: &BufferPool, link: LinkHeader, packet: &[u8]) -> Self {
        Frame { link_header: link.with_payload_bytes(packet.len()), packet: pool.copy_from(packet) }
    }

    /// Has the link header say how long the packet has become.
    pub(crate) fn update_link_header(&mut self) {
        self.link_header = self.link_header.with_payload_bytes(self.packet.len());
    }
}

impl ClassifiedFrame {
    /// A frame with this packet. The padding behind it, as in a short Ethernet frame, is left out.
    pub(crate) fn new(pool: &BufferPool, link: LinkHeader, packet: &[u8], classification: Classification) -> Self {
        ClassifiedFrame { frame: Frame::new(pool, link, &packet[..classification.total_len]), classification }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [u8; ADDRESSES_BYTES] = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];

    #[test]
    fn a_header_is_put_together_and_turned_round() {
        let before = [&ADDRESSES[..], &[8, 0]].concat();
        let header = LinkHeader::from_frame(&before, Some([0x81, 0, 0, 5]), Encapsulation::None).unwrap();
        assert_eq!(header[12..], [0x81, 0, 0, 5, 8, 0]);
        assert_eq!(header.reversed().unwrap()[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        assert!(LinkHeader::from_parts([&ADDRESSES, &[], &[0; LinkHeader::MAX_BYTES - ADDRESSES_BYTES]]).is_some());
        assert!(LinkHeader::from_parts([&ADDRESSES, &[], &[0; LinkHeader::MAX_BYTES - 11]]).is_none());
        assert!(LinkHeader::NONE.reversed().unwrap().is_empty());
        // A label leads one way.
        assert!(LinkHeader::from_frame(&before, None, Encapsulation::Mpls).unwrap().reversed().is_none());
    }

    /// Large packets are divided by what stands behind 14 bytes of Ethernet; other headers differ from segment to segment, or stay as they came.
    #[test]
    fn only_the_headers_of_ethernet_alone_can_be_those_of_one_large_packet() {
        let plain = [&ADDRESSES[..], &[8, 0]].concat();
        let header = |before: &[u8], tag| LinkHeader::from_frame(before, tag, Encapsulation::None).unwrap();
        assert!(header(&plain, None).has_same_addresses(&header(&plain, None)));
        let to_another = [&[9; 12][..], &[8, 0]].concat();
        assert!(!header(&plain, None).has_same_addresses(&header(&to_another, None)));
        let tagged = header(&plain, Some([0x81, 0, 0, 5]));
        assert!(!tagged.has_same_addresses(&tagged));
    }

    /// A receiver drops what is shorter than the session's header says (RFC 2516): replies, segments, and packets without their padding have other lengths.
    #[test]
    fn a_pppoe_header_says_how_long_its_packet_is() {
        let pool = BufferPool::default();
        for (tag, protocol) in [(None, &[0, 0x21][..]), (Some([0x81, 0, 0, 5]), &[0x21])] {
            let before = [&ADDRESSES[..], &[0x88, 0x64, 0x11, 0, 0, 7, 9, 9], protocol].concat();
            let header = LinkHeader::from_frame(&before, tag, Encapsulation::Pppoe { length_offset: 18 }).unwrap();
            let mut frame = Frame::new(&pool, header, &[0; 40]);
            let length_at = 18 + tag.map_or(0, |tag| tag.len());
            let expected = |bytes: usize| ((protocol.len() + bytes) as u16).to_be_bytes();
            assert_eq!(frame.link_header[length_at..length_at + 2], expected(40));
            frame.packet.resize(500, 0);
            frame.update_link_header();
            assert_eq!(frame.link_header[length_at..], [&expected(500)[..], protocol].concat());
        }
    }
}
