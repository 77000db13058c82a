use crate::bond::outgoing::FirstSegment;
use crate::large_packets::MAX_DIVIDED_BYTES;
use crate::message::DataHeader;
use kumade_packet::offload::{LargePacket, MergePart, Segments, cut_first, merge};
use std::num::NonZeroU16;
use std::ops::{DerefMut, Range};

/// Bytes that have to be free before an IP packet that is to be sent, for all headers of its datagram.
pub const HEADROOM_BYTES: usize = kumade_noise_session::SHORT_HEADER_BYTES + DataHeader::HEADROOM_BYTES;
/// Bytes by which a datagram is longer than its IP packet, where it is one of two paths.
pub const OVERHEAD_BYTES: u32 = kumade_noise_session::SHORTEST_OVERHEAD_BYTES as u32 + DataHeader::size_for_paths(2);

// Buffers of 64 kB hold what waits as one.
const _: () = assert!(HEADROOM_BYTES + MAX_DIVIDED_BYTES + kumade_noise_session::TAG_BYTES <= 1 << 16);

/// An IP packet or a datagram, somewhere in a buffer; or a packet that stands for segments
/// ([`LargePacket`](kumade_packet::offload::LargePacket)).
///
/// `B` is a vector of bytes that may belong to a pool.
#[derive(Debug, Clone)]
pub struct PacketBuffer<B> {
    buffer: B,
    range: Range<usize>,
    form: PacketForm,
}

/// What a packet stands for beside itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PacketForm {
    segment_bytes: Option<NonZeroU16>,
    has_partial_checksum: bool,
}

impl<B: DerefMut<Target = Vec<u8>>> PacketBuffer<B> {
    /// The whole buffer, without its first `start` bytes.
    ///
    /// # Panics
    /// The buffer is shorter.
    pub fn new(buffer: B, start: usize) -> Self {
        let range = start..buffer.len();
        assert!(range.start <= range.end, "a packet begins in its buffer");
        PacketBuffer { buffer, range, form: PacketForm::default() }
    }

    /// The packet stands for segments with so many bytes of payload each, if any.
    pub fn with_segments(self, segment_bytes: Option<NonZeroU16>) -> Self {
        let form = PacketForm { segment_bytes, ..self.form };
        self.with_form(form)
    }

    /// Bytes of payload of each segment, where the packet stands for several.
    pub fn segment_bytes(&self) -> Option<NonZeroU16> {
        self.form.segment_bytes
    }

    /// Its transport checksum is partial ([`PARTIAL_CHECKSUM`](kumade_packet::offload::PARTIAL_CHECKSUM)), if this says so.
    pub fn with_partial_checksum(self, is_partial: bool) -> Self {
        let form = PacketForm { has_partial_checksum: is_partial, ..self.form };
        self.with_form(form)
    }

    /// Whether its transport checksum is partial: a packet of TCP or UDP, unless somebody hostile has sent it.
    pub fn has_partial_checksum(&self) -> bool {
        self.form.has_partial_checksum
    }

    pub(crate) fn form(&self) -> PacketForm {
        self.form
    }

    pub(crate) fn with_form(self, form: PacketForm) -> Self {
        PacketBuffer { form, ..self }
    }

    /// Bytes of the longest of the segments for which it stands, or its own.
    pub(crate) fn longest_bytes(&self) -> u32 {
        let large = self.form.segment_bytes.and_then(|bytes| LargePacket::from_packet(self.bytes(), bytes).ok());
        let longest = large.map(|large| large.payload_offset + usize::from(large.segment_bytes));
        longest.map_or(self.len(), |longest| longest.min(self.len())) as u32
    }

    /// How many segments it stands for; 1 where it is a packet of its own.
    pub(crate) fn segment_count(&self) -> u16 {
        let large = self.form.segment_bytes.and_then(|bytes| LargePacket::from_packet(self.bytes(), bytes).ok());
        let count = |large: LargePacket| (self.len() - large.payload_offset).div_ceil(large.segment_bytes.into());
        large.map_or(1, |large| count(large).max(1) as u16)
    }

    /// Takes the first of the segments for which it stands; `None` where it is a packet of its own.
    pub(crate) fn take_first(&mut self, buffers: &dyn Fn(usize) -> B) -> Option<FirstSegment<Self>> {
        let PacketForm { segment_bytes: Some(segment_bytes), has_partial_checksum } = self.form else { return None };
        let Range { start, end } = self.range;
        // The bytes before the packet that a datagram needs, and no more: once segments have been taken, there are many.
        let before = start.saturating_sub(HEADROOM_BYTES);
        let headroom = start - before;
        let mut segment = buffers(headroom + self.longest_bytes() as usize + kumade_noise_session::TAG_BYTES);
        let form = (segment_bytes, has_partial_checksum);
        let rest = cut_first(&mut self.buffer[before..end], headroom, form, &mut segment)?;
        (self.range.start, self.form.segment_bytes) = (before + rest.start, rest.segment_bytes);
        if rest.segment_bytes.is_none() {
            // What is copied for repair is to be no longer than itself.
            let mut own = buffers(HEADROOM_BYTES + self.len() + kumade_noise_session::TAG_BYTES);
            own.resize(HEADROOM_BYTES, 0);
            own.extend_from_slice(self.bytes());
            self.range = HEADROOM_BYTES..own.len();
            self.buffer = own;
        }
        let packet = PacketBuffer::new(segment, headroom).with_partial_checksum(has_partial_checksum);
        Some(FirstSegment { bytes: packet.len() as u32, left_bytes: self.len() as u32, packet })
    }

    /// The bytes of the first of the segments for which it stands, or its own.
    pub(crate) fn copy_first(&self) -> Vec<u8> {
        let segments =
            self.form.segment_bytes.and_then(|bytes| Segments::from_frame(self.bytes(), 0, bytes.get(), None).ok());
        let mut first = Vec::new();
        if !segments.is_some_and(|mut segments| segments.write_next(&mut first)) {
            first.extend_from_slice(self.bytes());
        }
        first
    }

    /// Computes its transport checksum, if that is partial.
    pub(crate) fn complete_checksum(&mut self) {
        // What stands for segments has none: whoever divides it computes theirs.
        if std::mem::take(&mut self.form.has_partial_checksum) && self.form.segment_bytes.is_none() {
            // Neither has what is no packet.
            let _ = kumade_packet::checksum::set(self.bytes_mut());
        }
    }

    /// Has it stand for `next`, too, if that follows it directly in its flow and both together have `max_bytes` at most. Returns
    /// its length then.
    pub(crate) fn merge(&mut self, next: &Self, max_bytes: usize) -> Option<u32> {
        if self.len() + next.len() > max_bytes {
            return None;
        }
        let next = MergePart {
            packet: next.bytes(),
            segment_bytes: next.form.segment_bytes,
            has_partial_checksum: next.form.has_partial_checksum,
        };
        let own = (self.form.segment_bytes, self.form.has_partial_checksum);
        self.form.segment_bytes = Some(merge(&mut self.buffer, self.range.start, own, next)?);
        self.range.end = self.buffer.len();
        u32::try_from(self.len()).ok()
    }

    /// Leaves out its first bytes.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.range.start = (self.range.start + bytes).min(self.range.end);
    }

    /// Has fewer bytes, or as many, in the place of its first ones. Returns how many fewer; `None`, and changes nothing, where there are
    /// more, which would take the place of what follows.
    pub(crate) fn replace_start(&mut self, replaced_bytes: usize, bytes: &[u8]) -> Option<u32> {
        let fewer = replaced_bytes.checked_sub(bytes.len()).filter(|_| replaced_bytes <= self.len())?;
        self.skip(fewer);
        self.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        u32::try_from(fewer).ok()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.range.clone()]
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Puts the header of a data message before the packet, and frees what a datagram has besides.
    pub(crate) fn encapsulate(
        mut self,
        header: &DataHeader,
        predecessors: impl Iterator<Item = crate::Predecessor> + Clone,
    ) -> Self {
        let start = header.write_into_headroom(predecessors, &mut self.buffer[..self.range.start])
            - kumade_noise_session::SHORT_HEADER_BYTES;
        let end = self.range.end + kumade_noise_session::TAG_BYTES;
        self.buffer.resize(end, 0);
        self.range = start..end;
        self
    }
}

impl<B: DerefMut<Target = Vec<u8>>> AsRef<[u8]> for PacketBuffer<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::checksum;
    use kumade_packet::offload::PARTIAL_CHECKSUM;

    type Buffer = Box<Vec<u8>>;

    /// A packet of UDP to be divided into segments of 300 bytes, with so many bytes of payload.
    fn large_packet(payload_bytes: usize) -> Vec<u8> {
        let length = (28 + payload_bytes) as u16;
        let mut packet: Vec<u8> = (0..length).map(|index| index as u8).collect();
        packet[..28].fill(0);
        (packet[0], packet[8], packet[9]) = (0x45, 64, 17);
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[24..26].copy_from_slice(&(length - 20).to_be_bytes());
        checksum::set(&mut packet).unwrap();
        packet
    }

    fn buffer(bytes: usize) -> Buffer {
        Box::new(Vec::with_capacity(bytes))
    }

    fn packet_buffer(packet: &[u8]) -> PacketBuffer<Buffer> {
        PacketBuffer::new(Box::new([&[0; HEADROOM_BYTES], packet].concat()), HEADROOM_BYTES)
    }

    #[test]
    fn segments_are_taken_with_room_for_headers_and_no_more_memory_than_their_own() {
        for is_partial in [false, true] {
            let whole = large_packet(1000);
            let mut left = packet_buffer(&whole).with_segments(NonZeroU16::new(300)).with_partial_checksum(is_partial);
            assert_eq!((left.segment_count(), left.longest_bytes()), (4, 328));
            let first = left.copy_first();
            let mut taken = Vec::new();
            while let Some(FirstSegment { packet, bytes, left_bytes }) = left.take_first(&buffer) {
                assert_eq!((packet.len() as u32, left.len() as u32), (bytes, left_bytes));
                taken.push(packet);
                assert_eq!(usize::from(left.segment_count()), 4 - taken.len());
            }
            taken.push(left);
            let payload: Vec<_> = taken.iter().flat_map(|segment| segment.bytes()[28..].to_vec()).collect();
            assert_eq!(payload, whole[28..]);
            assert_eq!((first.len(), &first[28..]), (328, &taken[0].bytes()[28..]));
            for mut segment in taken {
                assert_eq!((segment.range.start, segment.segment_count()), (HEADROOM_BYTES, 1));
                assert!(segment.buffer.capacity() <= HEADROOM_BYTES + 328 + kumade_noise_session::TAG_BYTES);
                assert_eq!(segment.has_partial_checksum(), is_partial);
                assert_eq!(segment.bytes()[26..28] == PARTIAL_CHECKSUM, is_partial);
                segment.complete_checksum();
                assert_eq!((segment.has_partial_checksum(), checksum::is_valid(segment.bytes())), (false, Ok(true)));
            }
        }
    }
}
