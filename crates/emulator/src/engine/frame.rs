use packet::ethertype;
use std::cell::RefCell;
use std::mem;
use std::ops::Deref;
use std::rc::Rc;

/// A packet on its way, in a buffer that goes back to its pool when the packet ends, wherever it ends.
#[derive(Debug)]
pub(crate) struct Frame {
    /// What stands before the network's header.
    pub(crate) link: LinkHeader,
    /// From the network's header on.
    pub(crate) packet: Vec<u8>,
    /// Which flow it belongs to.
    pub(crate) flow: u64,
    pool: Pool,
}

/// An Ethernet header with its tags; empty on a TUN device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkHeader {
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

/// Buffers to be used again. Short packets have short ones, so that what is kept of many is near to what they count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool(Rc<RefCell<[Vec<Vec<u8>>; Self::SIZES.len()]>>);

impl LinkHeader {
    /// With all tags that are read, and the one that the kernel takes out.
    pub(crate) const MAX_BYTES: usize = 40;
    pub(crate) const NONE: LinkHeader = LinkHeader { bytes: [0; Self::MAX_BYTES], length: 0 };

    /// One of these parts, in this order; none where they are too long.
    pub(crate) fn of(parts: [&[u8]; 3]) -> Option<Self> {
        let mut header = Self::NONE;
        for part in parts {
            let start = usize::from(header.length);
            header.bytes.get_mut(start..start + part.len())?.copy_from_slice(part);
            header.length += part.len() as u8;
        }
        Some(header)
    }

    /// For an answer: the addresses changed over.
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

impl Pool {
    /// What buffers hold. A longer one is made for its packet alone.
    const SIZES: [usize; 2] = [192, 1600];
    /// Buffers of a size kept at most.
    const MAX_BUFFERS: usize = 4096;

    /// A packet that is still empty, with room for so many bytes.
    pub(crate) fn frame(&self, link: LinkHeader, bytes: usize) -> Frame {
        let packet = match Self::SIZES.iter().position(|size| bytes <= *size) {
            Some(size) => self.0.borrow_mut()[size].pop().unwrap_or_else(|| Vec::with_capacity(Self::SIZES[size])),
            None => Vec::with_capacity(bytes),
        };
        Frame { link, packet, flow: 0, pool: self.clone() }
    }

    fn take_back(&self, mut buffer: Vec<u8>) {
        let room = buffer.capacity();
        let Some(size) = Self::SIZES.iter().rposition(|size| *size <= room) else { return };
        let spare = &mut self.0.borrow_mut()[size];
        // One that is much longer would be kept for packets that need little of it.
        if spare.len() < Self::MAX_BUFFERS && room < 2 * Self::SIZES[size] {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

impl Frame {
    /// Whether its link header says that it carries IP; a TUN device carries nothing else.
    pub(crate) fn carries_ip(&self) -> bool {
        match self.link[..] {
            [.., high, low] => matches!(u16::from_be_bytes([high, low]), ethertype::IPV4 | ethertype::IPV6),
            _ => true,
        }
    }

    /// Bytes of the network's packet; one, where there are none, since a link carries nothing that is empty.
    pub(crate) fn size(&self) -> u32 {
        self.packet.len().max(1) as u32
    }
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        let mut copy = self.pool.frame(self.link, self.packet.len());
        copy.packet.extend_from_slice(&self.packet);
        copy.flow = self.flow;
        copy
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.take_back(mem::take(&mut self.packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let pool = Pool::default();
        for (bytes, room) in [(64, 192), (192, 192), (193, 1600), (1500, 1600)] {
            let mut frame = pool.frame(LinkHeader::NONE, bytes);
            frame.packet.resize(bytes, 7);
            let place = frame.packet.as_ptr();
            drop(frame);
            let again = pool.frame(LinkHeader::NONE, bytes);
            assert_eq!((again.packet.as_ptr(), again.packet.len(), again.packet.capacity()), (place, 0, room));
        }
        // A jumbo packet's goes back to the system.
        drop(pool.frame(LinkHeader::NONE, 9000));
        assert_eq!(pool.0.borrow().each_ref().map(Vec::len), [1, 1]);
    }

    #[test]
    fn a_header_is_put_together_and_turned_round() {
        let addresses = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];
        let header = LinkHeader::of([&addresses, &[0x81, 0, 0, 5], &[8, 0]]).unwrap();
        assert_eq!(header[12..], [0x81, 0, 0, 5, 8, 0]);
        assert_eq!(header.reversed()[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        assert!(LinkHeader::of([&addresses, &addresses, &[0; 17]]).is_none());
        assert!(LinkHeader::NONE.reversed().is_empty());
    }
}
