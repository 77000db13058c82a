use kumade_packet::Classification;
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

/// An Ethernet header with its VLAN tags; empty on a TUN device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkHeader {
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

impl LinkHeader {
    /// With all VLAN tags that are read, and the one that the kernel takes out.
    pub(crate) const MAX_BYTES: usize = 40;
    pub(crate) const NONE: LinkHeader = LinkHeader { bytes: [0; Self::MAX_BYTES], length: 0 };

    /// These parts in this order; none where they are too long.
    pub(crate) fn from_parts(parts: [&[u8]; 3]) -> Option<Self> {
        let mut header = Self::NONE;
        for part in parts {
            let start = usize::from(header.length);
            header.bytes.get_mut(start..start + part.len())?.copy_from_slice(part);
            header.length += part.len() as u8;
        }
        Some(header)
    }

    /// For a reply: source and destination exchanged.
    pub(crate) fn reversed(mut self) -> Self {
        if self.length >= 12 {
            let (destination, rest) = self.bytes.split_at_mut(6);
            destination.swap_with_slice(&mut rest[..6]);
        }
        self
    }
}

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
        Frame { link_header: link, packet: pool.copy_from(packet) }
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

    #[test]
    fn a_header_is_put_together_and_turned_round() {
        let addresses = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];
        let header = LinkHeader::from_parts([&addresses, &[0x81, 0, 0, 5], &[8, 0]]).unwrap();
        assert_eq!(header[12..], [0x81, 0, 0, 5, 8, 0]);
        assert_eq!(header.reversed()[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        assert!(LinkHeader::from_parts([&addresses, &addresses, &[0; 17]]).is_none());
        assert!(LinkHeader::NONE.reversed().is_empty());
    }
}
